"""DTA Postcarding: reports of all switches on a packet's path.

Each path has one chunk of memory.

    region = Region(CHUNK, slots, Path("paths"))
    store = Postcards(region.records, values=switch_ids, copies=2)
    paths = store.query(key_words([flow, ...]))
    paths.values[paths.is_complete]

The word of hop h with value v is g(v) xor c(key, h). Here, g(v) is a code of the value, and c is a
checksum of the key and the hop. A hop without a report has the code BLANK. A reader unmasks all
words with the checksums of a key. The chunk belongs to the key if each result is BLANK or the code
of a known value. A chunk of another key almost never passes this test.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.hashes import BLANK, HOPS, Words, hop_checksums, slots, value_codes
from telemark.errors import TestbedError

CHUNK = np.dtype([("hops", ">u4", (HOPS,)), ("zeros", ">u4", (3,))])
"""Memory layout of a path: 32 bytes, zero-padded so that a bit shift converts a slot to an
address."""


@dataclass(frozen=True)
class Paths:
    """Query results: the paths of n keys."""

    values: Words  # shape (n, 5): values of the hops; 0 means unknown
    is_known: NDArray[np.bool_]  # shape (n, 5): whether the value of the hop is known

    @property
    def is_found(self) -> NDArray[np.bool_]:
        """For each key: whether at least one hop of its path is known; shape (n,)."""
        return self.is_known.sum(axis=1) > 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """For each key: the number of hops up to the last known hop; shape (n,)."""
        last: NDArray[np.int64] = HOPS - np.argmax(self.is_known[:, ::-1], axis=1)
        return np.where(self.is_found, last, 0)

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """For each key: whether all hops up to the last known hop are known; shape (n,)."""
        return self.is_found & (self.is_known.sum(axis=1) == self.lengths)


class Postcards:
    """Hash table of chunks, in which each key has `copies` slots.

    The hash table also has a list of the values that hops may have.
    """

    def __init__(self, chunks: NDArray[Any], values: ArrayLike, copies: int) -> None:
        """`chunks` are CHUNK records; their number is a power of two.

        `values` are all values that may be reported.

        Raises TestbedError.
        """
        if len(chunks).bit_count() != 1:
            raise TestbedError(f"{len(chunks)} slots of postcards: expected a power of two")
        known = np.unique(np.asarray(values, np.uint32))
        codes = value_codes(known)
        if BLANK in codes:
            value = known[codes == BLANK][0]
            raise TestbedError(
                f"value {value:#x}: its code is reserved for hops without a report; use another "
                f"value"
            )
        order = np.argsort(np.append(codes, np.uint32(BLANK)))
        self._codes = np.append(codes, np.uint32(BLANK))[order]  # ascending
        # value of each code, in the order of codes
        self._values = np.append(known, np.uint32(0))[order]
        self._chunks, self._copies = chunks, copies

    def query(self, keys: Words) -> Paths:
        """Return for each key the path that most copies have.

        If two paths tie, the key has no path.
        """
        places = slots(keys, self._copies, len(self._chunks))
        codes = self._chunks["hops"][places].astype(np.uint32) ^ hop_checksums(keys).T
        index = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        is_code = (self._codes[index] == codes).all(axis=2)  # (copies, n)
        values = self._values[index]  # (copies, n, 5)
        is_known = (codes != BLANK) & is_code[:, :, np.newaxis]
        accepted = is_known.any(axis=2)
        return _majority(np.where(is_known, values, 0), is_known, accepted)


def _majority(
    values: NDArray[np.uint32], is_known: NDArray[np.bool_], accepted: NDArray[np.bool_]
) -> Paths:
    """Return for each key the path that most accepted copies have."""
    alike = ((values[:, None] == values) & (is_known[:, None] == is_known)).all(axis=3)
    # For each copy: the number of accepted copies with the same path; shape (copies, n). It is 0 if
    # the copy itself is not accepted.
    votes = (alike & accepted).sum(axis=1)
    best = votes.argmax(axis=0)
    keys = np.arange(len(best))
    rivals = (votes == votes[best, keys]) & ~alike[best, :, keys].T
    is_decided = accepted[best, keys] & ~rivals.any(axis=0)
    known = is_known[best, keys] & is_decided[:, np.newaxis]
    return Paths(np.where(known, values[best, keys], 0).astype(np.uint32), known)


def false_path(values: int) -> float:
    """Return the probability that a chunk of random words is accepted as a path of a key.

    A chunk of another key is accepted with the same probability.
    """
    return ((values + 1) / 2.0**32) ** HOPS


def alone_probability(flows: int, rows: int) -> float:
    """Return the probability that a flow shares its cache row with no other flow.

    There are `flows` flows and `rows` rows. If two flows have the same row, a postcard of one flow
    evicts the incomplete path of the other flow.
    """
    return (1 - 1 / rows) ** (flows - 1)


def alone_flows_deviation(flows: int, rows: int) -> float:
    """Return the standard deviation of the number of flows that are alone in their cache rows.

    Flows are not independent. With r rows and f flows, two given flows are both alone with
    probability E[XY] = (1 - 1/r) (1 - 2/r)^(f - 2).
    """
    mean = flows * alone_probability(flows, rows)
    pairs = flows * (flows - 1) * (1 - 1 / rows) * (1 - 2 / rows) ** (flows - 2)
    return float(np.sqrt(max(mean + pairs - mean**2, 0.0)))
