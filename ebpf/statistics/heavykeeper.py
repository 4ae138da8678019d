"""HeavyKeeper: the largest flows in fixed memory.

Yang et al., USENIX ATC 2018, section 3.

Small flows do not stay in a bucket. A large flow decrements the count in a bucket to 0 and takes
the bucket. It then keeps the bucket, because the probability of a decrement is DECAY^-count. A
count starts at 1 when the flow takes the bucket, and grows only with packets of the flow, so it
never exceeds the flow's packet count. The paper stores keys of the largest flows in a heap, and
fingerprints in buckets. Here, each bucket contains the key and a 64-bit hash of its flow; the
kernel compares only the hash. User space sorts the flows instead of using a heap.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.flows import WORDS, Flows, pack_keys

ROWS = 2  # include/flows.h
BUCKET_BYTES = 56
DECAY = 1.08
DECAYS = 256  # larger counts never decay, because the probability is below 3e-9


def columns_in(memory_bytes: int) -> int:
    """Return the number of columns of buckets that fit in this memory, given in bytes."""
    return memory_bytes // (ROWS * BUCKET_BYTES)


def decay_table() -> NDArray[np.uint32]:
    """Return the probability of a decay for each count below DECAYS, times 2^32."""
    chances = 2.0**32 * DECAY ** -np.arange(DECAYS)
    return np.minimum(chances, 2**32 - 1).astype(np.uint32)


def heavy_flows(buckets: NDArray[Any]) -> Flows:
    """Return all flows in buckets, `struct flow` of shape (CPUs, ROWS * columns).

    The count of a flow is the maximum over its rows; counts of several CPUs are added.
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
    """Return all flows in exact counters, `struct group` of shape (CPUs, groups)."""
    counts = groups["counts"]
    used = counts > 0
    return Flows.summed(words_of(groups["keys"][used]), counts[used])


def words_of(keys: NDArray[Any]) -> NDArray[np.uint64]:
    """Return an array of n `struct key` records as words, of shape (n, 5)."""
    return np.frombuffer(keys.tobytes(), np.uint64).reshape(-1, WORDS)
