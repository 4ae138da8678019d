"""Paths that an INT sink tells by Key-Write: seven words of data (p4src/dta/int_paths.p4).

answers = Store(region.records).query(keys, copies=2)
paths = decode(answers.data[answers.found])
paths.nodes[0, : paths.hops[0]]  # from the source to the sink
"""

import enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.hashes import Words

NODES = 6  # of a path that are told: the sink, and the five before it
WORDS = 1 + NODES
ABSENT = 0xFFFFFFFF


class Flag(enum.IntFlag):
    """Of a path."""

    MTU_EXCEEDED = 1  # M of INT: switches had no room to say that they are on it
    HOPS_EXCEEDED = 2  # E
    CONGESTED = 4  # the sink's queue was as full as is reported


class Paths(NamedTuple):
    """Of n flows."""

    hops: NDArray[np.int64]  # (n,): switches, also those that are not told
    flags: NDArray[np.int64]  # (n,), of Flag
    nodes: NDArray[np.int64]  # (n, 6): the last ones, in the order of the path; -1 behind its end


def encode(nodes: ArrayLike, flags: int = 0) -> Words:
    """What is told of a path (hops,), from its source to its sink: (7,)."""
    path = np.asarray(nodes, np.uint32)
    told = np.full(WORDS, ABSENT, np.uint32)
    told[0] = len(path) << 24 | flags << 16
    newest = path[::-1][:NODES]
    told[1 : 1 + len(newest)] = newest
    return told


def decode(data: NDArray[Any]) -> Paths:
    """Paths of Key-Writes' data (n, 7)."""
    words = np.asarray(data, np.int64)
    hops = words[:, 0] >> 24
    told = np.minimum(hops, NODES)
    # In memory the sink is first.
    places = told[:, np.newaxis] - np.arange(NODES)  # of the words, from the source on
    nodes = np.take_along_axis(words, np.maximum(places, 1), axis=1)
    return Paths(hops, words[:, 0] >> 16 & 7, np.where(places >= 1, nodes, -1))
