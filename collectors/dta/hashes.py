"""The hashes of DTA, as p4src/dta/hashes.p4 has them: MurmurHash3, with a seed for each use.

CRCs will not do. The CRCs of one key from different starts differ by a constant, so that keys which
meet in one slot meet in all; and a slot and a checksum cut from one CRC agree far too often.

A key is four words of 32 bits, the most significant first: an array (n, 4) of uint32.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint32]

MAX_COPIES = 8
HOPS = 5  # of a path, at most
COPY_SEEDS = np.array([0x9E3779B1 * (n + 1) % (1 << 32) for n in range(MAX_COPIES)], np.uint32)
CHECKSUM_SEED, VALUE_SEED, HOP_SEED = 0x7FEB352D, 0x846CA68B, 0x2C1B3C6D
ROW_SEED = 0xD3A2646C  # of a translator's cache of postcards
SESSION_SEED = 0x165667B1
WRITTEN = 0x80000000  # in a checksum: zeroed memory has none
BLANK = 0x5BD1E995  # the code of a hop that a path does not have

_C1, _C2, _C3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_C4, _C5 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def murmur3(words: Words, seed: ArrayLike) -> Words:
    """MurmurHash3_x86_32 (Austin Appleby) of words (n, w), each as a little-endian block: (n,).

    `seed` may be an array that broadcasts against (n,): with seeds of (s, 1) it is (s, n).
    """
    mixed = _rotated(words * _C1, 15) * _C2
    state = np.zeros(len(words), np.uint32) ^ np.asarray(seed, np.uint32)
    for at in range(words.shape[-1]):
        state = _rotated(state ^ mixed[:, at], 13) * np.uint32(5) + _C3
    state = state ^ np.uint32(4 * words.shape[-1])
    state = (state ^ state >> np.uint32(16)) * _C4
    state = (state ^ state >> np.uint32(13)) * _C5
    return state ^ state >> np.uint32(16)


def key_words(keys: Iterable[int]) -> Words:
    """Keys of up to 128 bits as arrays: (n, 4). Raises OverflowError for what has more."""
    octets = b"".join(key.to_bytes(16, "big") for key in keys)
    return np.frombuffer(octets, ">u4").astype(np.uint32).reshape(-1, 4)


def slots(keys: Words, copies: int, count: int) -> NDArray[np.int64]:
    """The slot of each copy of each key among `count`, a power of two: (copies, n)."""
    hashed = murmur3(keys, COPY_SEEDS[:copies, np.newaxis])
    return (hashed & np.uint32(count - 1)).astype(np.int64)


def checksums(keys: Words, bits: int) -> Words:
    """What the slot of a key begins with, of a checksum of 8 to 31 bits: (n,)."""
    return murmur3(keys, CHECKSUM_SEED) & np.uint32((1 << bits) - 1) | np.uint32(WRITTEN)


def sessions(keys: Words, count: int) -> NDArray[np.int64]:
    """Which of `count` sessions has each key, where they are spread over several: (n,)."""
    return (murmur3(keys, SESSION_SEED).astype(np.int64) * count) >> 32


def hop_checksums(keys: Words) -> Words:
    """What the codes of a path's values are covered with, hop by hop: (5, n)."""
    return murmur3(keys, (HOP_SEED + np.arange(HOPS, dtype=np.uint32))[:, np.newaxis])


def rows(keys: Words, count: int) -> NDArray[np.int64]:
    """The row of each key in a translator's cache of `count` rows, a power of two: (n,)."""
    return (murmur3(keys, ROW_SEED) & np.uint32(count - 1)).astype(np.int64)


def value_codes(values: Words) -> Words:
    """The code of each value of a hop: (n,)."""
    words = np.zeros((len(values), 4), np.uint32)
    words[:, 3] = values
    return murmur3(words, VALUE_SEED)


def _rotated(words: Words, bits: int) -> Words:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
