"""Paths that an INT sink reports by Key-Write: seven words of data (p4src/dta/int_paths.p4).

answers = Store(region.records).query(keys, copies=2)
paths = decode(answers.data[answers.found])
paths.nodes[0, : paths.hops[0]]  # from the source to the sink
"""

import enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.hashes import Words

NODES = 6  # reported nodes of a path: the sink, and the five before it
WORDS = 1 + NODES
ABSENT = 0xFFFFFFFF


class Flag(enum.IntFlag):
    """Flags of a path."""

    MTU_EXCEEDED = 1  # M bit of INT: the MTU left no room for some switches
    HOPS_EXCEEDED = 2  # E bit of INT
    CONGESTED = 4  # the sink's queue reached the congestion threshold


class Paths(NamedTuple):
    """Paths of n flows."""

    hops: NDArray[np.int64]  # (n,): switches on the path, including unreported ones
    flags: NDArray[np.int64]  # (n,): see Flag
    nodes: NDArray[np.int64]  # (n, 6): the last nodes, in path order; -1 after the end


def encode(nodes: ArrayLike, flags: int = 0) -> Words:
    """Return the reported words of a path (hops,), given from source to sink: (7,)."""
    path = np.asarray(nodes, np.uint32)
    told = np.full(WORDS, ABSENT, np.uint32)
    told[0] = len(path) << 24 | flags << 16
    newest = path[::-1][:NODES]
    told[1 : 1 + len(newest)] = newest
    return told


def decode(data: NDArray[Any]) -> Paths:
    """Decode the data (n, 7) of Key-Writes."""
    words = np.asarray(data, np.int64)
    hops = words[:, 0] >> 24
    told = np.minimum(hops, NODES)
    # In memory the sink comes first.
    places = told[:, np.newaxis] - np.arange(NODES)  # index of the words, from the source on
    nodes = np.take_along_axis(words, np.maximum(places, 1), axis=1)
    return Paths(hops, words[:, 0] >> 16 & 7, np.where(places >= 1, nodes, -1))
