"""The hash of flow keys, as in include/key.h."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

FACTORS = 5  # number of factors: one per word of a key
_FOLD, _SHIFT = np.uint64(29), np.uint64(33)
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def draw_factors(seed: int) -> Words:
    """Draw the five factors for a multilinear hash.

    The factors are odd, so that all bits of each word have an effect.
    """
    rng = np.random.default_rng([seed, FACTORS])
    drawn: Words = rng.integers(1 << 63, size=FACTORS, dtype=np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


def mix(words: Words) -> Words:
    """Apply the finaliser of 64-bit MurmurHash3. Different words have different results."""
    words = (words ^ words >> _SHIFT) * _FIRST
    words = (words ^ words >> _SHIFT) * _SECOND
    return words ^ words >> _SHIFT


def hash_keys(keys: Words, by: Words) -> Words:
    """Return the hashes of n keys.

    `keys` has shape (n, 5), and there are five factors.
    """
    summed: Words = ((keys ^ keys >> _FOLD) * by).sum(axis=1, dtype=np.uint64)
    return mix(summed)
