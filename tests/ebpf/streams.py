"""Packet streams for tests of statistics. The flows of a stream have different sizes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.hashes import mix
from ebpf.statistics.offer import ROW, UDP


@dataclass(frozen=True)
class Stream:
    """Packets of a stream: `flows` (n,) are their flow numbers, and `rows` (n,) their fields."""

    flows: NDArray[np.int64]
    rows: NDArray[Any]


def stream_of(packets: int, flows: int, seed: int) -> Stream:
    """Return a stream.

    The sizes of its flows follow Zipf's law, and its packets have several lengths.
    """
    rng = np.random.default_rng(seed)
    weights = np.arange(1, flows + 1) ** -1.1
    numbers = rng.choice(flows, size=packets, p=weights / weights.sum())
    each = np.zeros(flows, ROW)
    for name in ("source", "destination"):
        each[name] = rng.integers(1 << 32, size=flows)
    for name in ("source_port", "destination_port"):
        each[name] = rng.integers(1, 1 << 16, size=flows)
    each["protocol"] = UDP
    rows = each[numbers]
    rows["length"] = rng.integers(60, 1515, size=packets)
    return Stream(numbers, rows)


def thrown_after(state: int, number: int) -> NDArray[np.uint64]:
    """Return the pseudo-random numbers (SplitMix64) that the kernel program draws after `state`."""
    steps = np.arange(1, number + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mix(np.uint64(state) + steps)
