"""Maglev's consistent hashing: a lookup table in which each real has the same number of slots.

Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer" (NSDI 2016), 3.4: each
real has a permutation of all slots as preference list; in turns, each takes its first free slot.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PLACES = 65537  # the paper's smaller table: a prime, so that each skip leads to every place


def table(names: Sequence[str], places: int = PLACES) -> NDArray[np.int64]:
    """Return the index of the real of each slot.

    The preference list of real i starts at its offset, in steps of its skip, both derived from its
    name: so most slots keep their real when another one is added or removed. `places` is a prime
    above len(names).
    """
    offsets, skips = zip(*(_order(name, places) for name in names), strict=True)
    owners = [-1] * places
    at, left = list(offsets), places
    while True:
        for real, skip in enumerate(skips):
            place = at[real]
            while owners[place] >= 0:
                place = (place + skip) % places
            owners[place], at[real] = real, place
            left -= 1
            if not left:
                return np.array(owners)


def _order(name: str, places: int) -> tuple[int, int]:
    digest = hashlib.sha256(name.encode()).digest()
    offset, skip = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
    return offset % places, skip % (places - 1) + 1
