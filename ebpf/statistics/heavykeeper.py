"""HeavyKeeper: the largest flows, in fixed memory (Yang et al., USENIX ATC 2018, section 3).

Small flows do not stay in a bucket; a large flow decays the count of a bucket to 0, takes it and
keeps it, since the probability of a decay falls as DECAY^-count. A count starts at 1 with the first
packet of the flow in the bucket and grows only with its packets, so it never exceeds the true
count. (The paper keeps the keys of a heap of flows and fingerprints of others; here each bucket has
its flow's key, which the kernel compares by a 64-bit hash. User space sorts instead of a heap.)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.flows import WORDS, Flows, pack_keys

ROWS = 2  # include/flows.h
BUCKET_BYTES = 56
DECAY = 1.08
DECAYS = 256  # larger counts never decay: the probability is below 3e-9


def columns_in(memory_bytes: int) -> int:
    """Return the number of columns of buckets that fit in this memory."""
    return memory_bytes // (ROWS * BUCKET_BYTES)


def decay_table() -> NDArray[np.uint32]:
    """Return the probability, times 2^32, that a count decays, by the count, (DECAYS,)."""
    chances = 2.0**32 * DECAY ** -np.arange(DECAYS)
    return np.minimum(chances, 2**32 - 1).astype(np.uint32)


def heavy_flows(buckets: NDArray[Any]) -> Flows:
    """Return all flows in buckets, (processors, ROWS * columns) of struct flow.

    A flow's count is the maximum over its rows; counts of processors add up.
    """
    whole = Flows.summed(np.zeros((0, WORDS), np.uint64), [])
    for of_one in buckets:
        used = of_one[of_one["count"] > 0]
        order = np.argsort(used["count"])[::-1]  # the largest count of a key comes first
        keys = words_of(used["key"][order])
        _, first = np.unique(pack_keys(keys), return_index=True)
        whole += Flows.summed(keys[first], used["count"][order][first])
    return whole


def counted_flows(groups: NDArray[Any]) -> Flows:
    """Return all flows in exact counters, (processors, groups) of struct group."""
    counts = groups["counts"]
    used = counts > 0
    return Flows.summed(words_of(groups["keys"][used]), counts[used])


def words_of(keys: NDArray[Any]) -> NDArray[np.uint64]:
    """Return records of struct key, (n,), as words, (n, 5)."""
    return np.frombuffer(keys.tobytes(), np.uint64).reshape(-1, WORDS)
