"""Sends streams of packets through a program by BPF_PROG_TEST_RUN, with many packets per call."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.loader import LoadError, Program, ProgramObject, load, run
from ebpf.statistics.flows import KEY
from ebpf.statistics.hashes import Words

SOURCE = Path(__file__).parent / "offer.bpf.c"
ROW = np.dtype([
    ("source", ">u4"), ("destination", ">u4"), ("source_port", ">u2"),
    ("destination_port", ">u2"), ("length", "u2"), ("protocol", "u1"), ("flags", "u1"),
])  # fmt: skip
# minimum length of an Ethernet frame; maximum length of a frame that fits into a memory page
MIN_BYTES, MAX_BYTES = 60, 3400
UDP, TCP = 17, 6
XDP_PASS = 2


def make_keys(rows: NDArray[Any]) -> Words:
    """Return the keys of the packets in rows, with all fields; shape (n, 5)."""
    keys = np.zeros(len(rows), KEY)
    for side in ("source", "destination"):
        mapped = np.zeros((len(rows), 16), np.uint8)
        mapped[:, 10:12] = 0xFF
        mapped[:, 12:] = np.ascontiguousarray(rows[side]).view(np.uint8).reshape(-1, 4)
        keys[side] = mapped.view("V16").ravel()
    for name in ("source_port", "destination_port", "protocol"):
        keys[name] = rows[name]
    return keys.view(np.uint64).reshape(len(rows), -1)


class Offer:
    """A stream of packets (an array of ROW records). It can be offered to programs repeatedly."""

    def __init__(self, loaded: ProgramObject, rows: NDArray[Any]) -> None:
        self._loaded = loaded
        self._frame = bytes(int(rows["length"].max()))
        mapped = loaded.maps["rows"].mapped()
        mapped[:] = rows.astype(mapped.dtype)

    def through(self, program: Program | None, packets: int, start: int = 0) -> float:
        """Offer packets to an XDP program, from row `start` on.

        Return the CPU time per packet in ns.

        None means the empty program. Raises LoadError.
        """
        self._loaded.maps[".bss"].mapped()["next"] = start
        self._loaded.maps["next_program"][0] = (program or self._loaded.programs["empty"]).fd
        before = time.thread_time_ns()
        result = run(self._loaded.programs["offer"], self._frame, repeat=packets)
        took = time.thread_time_ns() - before
        if result.verdict != XDP_PASS:
            raise LoadError(
                f"a packet of the stream had the verdict {result.verdict}, not XDP_PASS"
            )
        return took / packets


@contextmanager
def pin_to_core(core: int | None = None) -> Iterator[None]:
    """Run this thread, and threads that it starts, on one core. The default is the last core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before) if core is None else core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def load_stream(rows: NDArray[Any]) -> Iterator[Offer]:
    """Load rows of ROW, whose lengths are from MIN_BYTES to MAX_BYTES. Raises LoadError."""
    with load(SOURCE, {"count": len(rows)}, {"rows": len(rows)}) as loaded:
        yield Offer(loaded, rows)
