"""Hashes of DTA, as in p4src/dta/hashes.p4: MurmurHash3, with another seed for each use.

CRCs are unsuitable for two reasons. First, two CRCs of one key with different initial values differ
by a constant. So two keys that have the same slot for one copy have the same slot for every copy.
Second, a slot and a checksum from the same CRC are not independent. The argument `keys` is an array
of uint32 with shape (n, 4): n keys, whose most significant word is first.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint32]

MAX_COPIES = 8
HOPS = 5  # maximum length of a path
COPY_SEEDS = np.array([0x9E3779B1 * (n + 1) % (1 << 32) for n in range(MAX_COPIES)], np.uint32)
CHECKSUM_SEED, VALUE_SEED, HOP_SEED = 0x7FEB352D, 0x846CA68B, 0x2C1B3C6D
ROW_SEED = 0xD3A2646C  # seed of the hash that selects the row in a translator's postcard cache
SESSION_SEED = 0x165667B1
WRITTEN = 0x80000000  # this bit is set in every checksum, so zeros in memory never match a checksum
BLANK = 0x5BD1E995  # code of a hop that sent no report

_C1, _C2, _C3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_C4, _C5 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def murmur3(words: Words, seed: ArrayLike) -> Words:
    """Return MurmurHash3_x86_32 (Austin Appleby) of words.

    `words` has shape (n, w), and the result has shape (n,).

    Each word is one little-endian block. `seed` may be an array that broadcasts against (n,). So
    seeds of shape (s, 1) give hashes of shape (s, n).
    """
    mixed = _rotate_left(words * _C1, 15) * _C2
    state = np.zeros(len(words), np.uint32) ^ np.asarray(seed, np.uint32)
    for at in range(words.shape[-1]):
        state = _rotate_left(state ^ mixed[:, at], 13) * np.uint32(5) + _C3
    state = state ^ np.uint32(4 * words.shape[-1])
    state = (state ^ state >> np.uint32(16)) * _C4
    state = (state ^ state >> np.uint32(13)) * _C5
    return state ^ state >> np.uint32(16)


def key_words(keys: Iterable[int]) -> Words:
    """Convert keys of up to 128 bits to an array of shape (n, 4).

    Raises OverflowError for longer keys.
    """
    octets = b"".join(key.to_bytes(16, "big") for key in keys)
    return np.frombuffer(octets, ">u4").astype(np.uint32).reshape(-1, 4)


def slots(keys: Words, copies: int, count: int) -> NDArray[np.int64]:
    """Return the slot for each copy of each key; shape (copies, n).

    `count` is the number of slots; it is a power of two.
    """
    hashed = murmur3(keys, COPY_SEEDS[:copies, np.newaxis])
    return (hashed & np.uint32(count - 1)).astype(np.int64)


def checksums(keys: Words, bits: int) -> Words:
    """Return the checksum word of each key: the first word of a slot of this key; shape (n,).

    The checksum has `bits` bits (8 to 31). In addition, the bit WRITTEN is set.
    """
    return murmur3(keys, CHECKSUM_SEED) & np.uint32((1 << bits) - 1) | np.uint32(WRITTEN)


def sessions(keys: Words, count: int) -> NDArray[np.int64]:
    """Return the index of the session of each key, 0 to `count` - 1; shape (n,)."""
    return (murmur3(keys, SESSION_SEED).astype(np.int64) * count) >> 32


def hop_checksums(keys: Words) -> Words:
    """Return the checksum of each hop and key; shape (5, n).

    In memory, the code of the hop's value is combined with this checksum by xor.
    """
    return murmur3(keys, (HOP_SEED + np.arange(HOPS, dtype=np.uint32))[:, np.newaxis])


def rows(keys: Words, count: int) -> NDArray[np.int64]:
    """Return the row of each key in a translator's cache; shape (n,).

    `count` is the number of rows; it is a power of two.
    """
    return (murmur3(keys, ROW_SEED) & np.uint32(count - 1)).astype(np.int64)


def value_codes(values: Words) -> Words:
    """Return the code of each value; shape (n,)."""
    words = np.zeros((len(values), 4), np.uint32)
    words[:, 3] = values
    return murmur3(words, VALUE_SEED)


def _rotate_left(words: Words, bits: int) -> Words:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
