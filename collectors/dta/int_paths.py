"""Paths that an INT sink reports by Key-Write.

A path is in seven data words (p4src/dta/int_paths.p4).

answers = Store(region.records).query(keys, copies=2)
paths = decode(answers.data[answers.found])
paths.nodes[0, : paths.hops[0]]  # from the source to the sink
"""

import enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectors.dta.hashes import Words

NODES = 6  # a path has at most this many reported nodes: the sink, and five nodes before it
WORDS = 1 + NODES
ABSENT = 0xFFFFFFFF


class Flag(enum.IntFlag):
    """Flags of a path."""

    MTU_EXCEEDED = 1  # M bit of INT: some switches did not add metadata, because of the MTU
    # E bit of INT: some switches did not add metadata, because Remaining Hop Count was 0
    HOPS_EXCEEDED = 2
    CONGESTED = 4  # the sink's queue reached the congestion threshold


class Paths(NamedTuple):
    """Paths of n flows."""

    # shape (n,): number of switches on the path, including those that are not in `nodes`
    hops: NDArray[np.int64]
    flags: NDArray[np.int64]  # shape (n,): see Flag
    # shape (n, 6): the last nodes of the path, from the source to the sink; unused columns are -1
    nodes: NDArray[np.int64]


def encode(nodes: ArrayLike, flags: int = 0) -> Words:
    """Encode a path as data words, shape (7,).

    `nodes` has shape (hops,) and begins at the source.
    """
    path = np.asarray(nodes, np.uint32)
    path_words = np.full(WORDS, ABSENT, np.uint32)
    path_words[0] = len(path) << 24 | flags << 16
    newest = path[::-1][:NODES]
    path_words[1 : 1 + len(newest)] = newest
    return path_words


def decode(data: NDArray[Any]) -> Paths:
    """Decode data words of Key-Writes, shape (n, 7)."""
    words = np.asarray(data, np.int64)
    hops = words[:, 0] >> 24
    reported = np.minimum(hops, NODES)
    # In memory, the word of the sink is first. In `places`, the order is from the source to the
    # sink.
    places = reported[:, np.newaxis] - np.arange(NODES)
    nodes = np.take_along_axis(words, np.maximum(places, 1), axis=1)
    return Paths(hops, words[:, 0] >> 16 & 7, np.where(places >= 1, nodes, -1))
