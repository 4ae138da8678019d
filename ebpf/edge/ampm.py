"""Alternate marking on a host.

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
    """Edge program of a device: marks departing packets, and counts packets in both directions.

    The program runs until close(), or until this process ends. `namespace` is the network namespace
    of the device, as `/proc/PID/ns/net`. None means the namespace of this thread. The clock of the
    edge program is CLOCK_MONOTONIC. Raises LoadError.
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
        """Set the block length to 2^block_shift us (block_shift: 5 or more) of the common clock.

        The common clock is CLOCK_MONOTONIC + `offset_us`. Hashed marking samples one of
        2^sampling_shift packets (0..29).
        """
        setting = self._shared["setting"]
        setting["offset_us"] = offset_us % (1 << 64)
        setting["block_shift"] = block_shift
        setting["sampling_mask"] = (1 << sampling_shift) - 1

    def watch(self, flows: Mapping[Key, Mapping[str, int]]) -> None:
        """Watch these flows, and no others.

        The fields have the meaning of ampm.bpf.c: `flow` (number of the flow), `priority`,
        `methods`, `dscp` and `is_first`. Raises LoadError.
        """
        self._list.put(flows)

    def read(self, flow: int) -> Any:
        """Return the `struct flow_records` of a flow. While it is read, no packet changes it."""
        return self._records.locked(flow)

    def kinds(self) -> dict[str, int]:
        """Return the number of packets of each kind (watch_list.py).

        Packets of both directions are counted together.
        """
        return self._list.kinds()
