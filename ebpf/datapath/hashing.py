"""The hash function of hash.h, for arrays of flows."""

import numpy as np
from numpy.typing import NDArray


def murmur3(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the 32-bit MurmurHash3 of each row. The array has the shape (n, words)."""
    hashes = np.zeros(len(words), np.uint32)
    with np.errstate(over="ignore"):
        for column in words.T.astype(np.uint32):
            hashes ^= _rotate(column * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
            hashes = _rotate(hashes, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashes ^= np.uint32(4 * words.shape[1])
        hashes = (hashes ^ hashes >> 16) * np.uint32(0x85EBCA6B)
        hashes = (hashes ^ hashes >> 13) * np.uint32(0xC2B2AE35)
        return hashes ^ hashes >> 16


def _rotate(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
