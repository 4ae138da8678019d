"""Alternate marking in a host.

ampm.bpf.c marks and counts the packets of one device.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ebpf.edge.ends import Ends
from ebpf.edge.watch_list import Key, WatchList
from ebpf.loader import load

SOURCE = Path(__file__).parent / "ampm.bpf.c"


class MarkingEdge:
    """Edge program that marks packets that leave a device, and counts packets in both directions.

    It runs until close(), or until this process ends. `namespace` is the network namespace of the
    device, as `/proc/PID/ns/net`; None means the namespace of this thread. Its clock is
    CLOCK_MONOTONIC. Raises LoadError.
    """

    def __init__(self, device: str, namespace: str | None = None, *, order: int = 0) -> None:
        with ExitStack() as opening:
            loaded = opening.enter_context(load(SOURCE))
            self.programs = loaded.programs
            self._records = loaded.maps["records"]
            self._shared = loaded.maps[".bss"].mapped()[0]
            self._list = WatchList(loaded)
            programs = loaded.programs["ampm_leaving"], loaded.programs["ampm_arriving"]
            opening.callback(Ends(*programs, device, namespace, order).close)
            self._open = opening.pop_all()

    def __enter__(self) -> MarkingEdge:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach the programs from the device."""
        self._open.close()

    def set_schedule(self, offset_us: int, block_shift: int, sampling_shift: int) -> None:
        """Set the length of blocks to 2^block_shift us (5 or more) of the common clock.

        The common clock is CLOCK_MONOTONIC + `offset_us`; hashed marking samples one packet in
        2^sampling_shift (0..29).
        """
        setting = self._shared["setting"]
        setting["offset_us"] = offset_us % (1 << 64)
        setting["block_shift"] = block_shift
        setting["sampling_mask"] = (1 << sampling_shift) - 1

    def watch(self, flows: Mapping[Key, Mapping[str, int]]) -> None:
        """Watch exactly these flows.

        The fields `flow` (its number), `priority`, `methods`, `dscp` and `is_first` are as in
        ampm.bpf.c. Raises LoadError.
        """
        self._list.put(flows)

    def read(self, flow: int) -> Any:
        """Return the `struct flow_records` of a flow; no packet changes it during the read."""
        return self._records.locked(flow)

    def kinds(self) -> dict[str, int]:
        """Return a map from kind (watch_list.py) to the number of packets in both directions."""
        return self._list.kinds()
