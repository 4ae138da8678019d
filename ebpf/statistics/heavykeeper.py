"""HeavyKeeper: finds the largest flows in a fixed amount of memory.

Yang et al., USENIX ATC 2018, section 3.

Small flows do not stay in a bucket. A large flow decrements the count of a bucket to 0, and takes
the bucket. It then keeps the bucket, because other flows decrement a large count with the small
probability DECAY^-count. The count starts at 1 when a flow takes the bucket, and grows only with
packets of this flow. So it never exceeds the packet count of the flow. The paper stores the keys of
the largest flows in a heap, and fingerprints in buckets. Here, each bucket contains the key and a
64-bit hash of its flow, and the kernel compares only the hash. User space sorts the flows; there is
no heap.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.flows import WORDS, Flows, pack_keys

ROWS = 2  # include/flows.h
BUCKET_BYTES = 56
DECAY = 1.08
DECAYS = 256  # from this count on, no count is decremented: the probability is below 3e-9


def columns_in(memory_bytes: int) -> int:
    """Return how many columns of buckets fit into this number of bytes."""
    return memory_bytes // (ROWS * BUCKET_BYTES)


def decay_table() -> NDArray[np.uint32]:
    """Return the probability of a decrement, times 2^32, for each count below DECAYS."""
    chances = 2.0**32 * DECAY ** -np.arange(DECAYS)
    return np.minimum(chances, 2**32 - 1).astype(np.uint32)


def heavy_flows(buckets: NDArray[Any]) -> Flows:
    """Return all flows in buckets.

    The argument contains `struct flow`, with shape (CPUs, ROWS * columns).

    The count of a flow is the maximum over its rows. Counts on several CPUs are added up.
    """
    whole = Flows.summed(np.zeros((0, WORDS), np.uint64), [])
    for of_one in buckets:
        used = of_one[of_one["count"] > 0]
        order = np.argsort(used["count"])[::-1]  # the largest count of each key comes first
        keys = words_of(used["key"][order])
        _, first = np.unique(pack_keys(keys), return_index=True)
        whole += Flows.summed(keys[first], used["count"][order][first])
    return whole


def counted_flows(groups: NDArray[Any]) -> Flows:
    """Return all flows in exact counters.

    The argument contains `struct group`, with shape (CPUs, groups).
    """
    counts = groups["counts"]
    used = counts > 0
    return Flows.summed(words_of(groups["keys"][used]), counts[used])


def words_of(keys: NDArray[Any]) -> NDArray[np.uint64]:
    """Return n `struct key` records as an array of words, of shape (n, 5)."""
    return np.frombuffer(keys.tobytes(), np.uint64).reshape(-1, WORDS)
