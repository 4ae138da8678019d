"""Postcarding: what each switch of a packet's path reported, as one chunk of memory a path.

    region = Region(CHUNK, slots, Path("paths"))
    store = Postcards(region.records, values=switch_ids, copies=2)
    paths = store.query(key_words([flow, ...]))
    paths.values[paths.is_complete]

The word of hop h is g(v) xor c(key, h): the code of its value under a checksum of the key and the
hop. Hops that reported nothing have the code BLANK. A chunk holds the path of a key if all of its
words, with the key's checksums taken off, are codes of known values or BLANK: another key's chunk
almost never does. Nothing else says whose chunk it is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.hashes import BLANK, HOPS, Words, hop_checksums, slots, value_codes
from telemark.errors import TestbedError

CHUNK = np.dtype([("hops", ">u4", (HOPS,)), ("zeros", ">u4", (3,))])
"""32 bytes of a path; the zeros make its address a shift of its slot."""


@dataclass(frozen=True)
class Paths:
    """What is known of the paths of n keys."""

    values: Words  # (n, 5), 0 where nothing is known
    is_known: NDArray[np.bool_]  # (n, 5): this hop's value

    @property
    def is_found(self) -> NDArray[np.bool_]:
        """Whether anything is known of a key: (n,)."""
        return self.is_known.sum(axis=1) > 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Hops up to the last one that is known: (n,)."""
        last: NDArray[np.int64] = HOPS - np.argmax(self.is_known[:, ::-1], axis=1)
        return np.where(self.is_found, last, 0)

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """Whether no hop before the last known one is missing: (n,)."""
        return self.is_found & (self.is_known.sum(axis=1) == self.lengths)


class Postcards:
    """Chunks of `copies` slots a key, and which values hops may have."""

    def __init__(self, chunks: NDArray[Any], values: ArrayLike, copies: int) -> None:
        """`chunks`: CHUNK records, (a power of two,). `values` are all that may be reported.

        Raises TestbedError.
        """
        if len(chunks).bit_count() != 1:
            raise TestbedError(f"{len(chunks)} slots of postcards: expected a power of two")
        known = np.unique(np.asarray(values, np.uint32))
        codes = value_codes(known)
        if BLANK in codes:
            value = known[codes == BLANK][0]
            raise TestbedError(f"value {value:#x} has the code of an absent hop: take another one")
        order = np.argsort(np.append(codes, np.uint32(BLANK)))
        self._codes = np.append(codes, np.uint32(BLANK))[order]  # ascending
        self._values = np.append(known, np.uint32(0))[order]  # of each of them
        self._chunks, self._copies = chunks, copies

    def query(self, keys: Words) -> Paths:
        """The path that most of a key's copies agree on; none where as many say another one."""
        places = slots(keys, self._copies, len(self._chunks))
        codes = self._chunks["hops"][places].astype(np.uint32) ^ hop_checksums(keys).T
        index = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        is_code = (self._codes[index] == codes).all(axis=2)  # (copies, n)
        values = self._values[index]  # (copies, n, 5)
        is_known = (codes != BLANK) & is_code[:, :, np.newaxis]
        accepted = is_known.any(axis=2)
        return _agreed(np.where(is_known, values, 0), is_known, accepted)


def _agreed(
    values: NDArray[np.uint32], is_known: NDArray[np.bool_], accepted: NDArray[np.bool_]
) -> Paths:
    """Of several copies (copies, n, 5) those that most of the accepted ones (copies, n) are."""
    alike = ((values[:, None] == values) & (is_known[:, None] == is_known)).all(axis=3)
    votes = (alike & accepted).sum(axis=1)  # (copies, n), 0 of those that are not accepted
    best = votes.argmax(axis=0)
    keys = np.arange(len(best))
    rivals = (votes == votes[best, keys]) & ~alike[best, :, keys].T
    is_decided = accepted[best, keys] & ~rivals.any(axis=0)
    known = is_known[best, keys] & is_decided[:, np.newaxis]
    return Paths(np.where(known, values[best, keys], 0).astype(np.uint32), known)


def false_path(values: int) -> float:
    """How likely a chunk of another key, or of random bits, is taken for a path of this one."""
    return ((values + 1) / 2.0**32) ** HOPS


def alone(flows: int, rows: int) -> float:
    """How likely no other of `flows` concurrent flows has the same of `rows` rows of the cache.

    What evicts a row before it is complete is a postcard of another flow of that row.
    """
    return (1 - 1 / rows) ** (flows - 1)


def alone_deviation(flows: int, rows: int) -> float:
    """The standard deviation of how many of `flows` flows are alone in their rows.

    They are not independent: whether two are alone is E[XY] = (1 - 1/r) (1 - 2/r)^(f - 2).
    """
    mean = flows * alone(flows, rows)
    pairs = flows * (flows - 1) * (1 - 1 / rows) * (1 - 2 / rows) ** (flows - 2)
    return float(np.sqrt(max(mean + pairs - mean**2, 0.0)))
