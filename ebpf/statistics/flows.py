"""Flows: keys of 40 bytes (`struct key` of include/key.h), and their packet counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from ipaddress import IPv6Address
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

WORDS = 5  # number of 64-bit words in a key
KEY = np.dtype([
    ("source", "V16"), ("destination", "V16"), ("source_port", ">u2"),
    ("destination_port", ">u2"), ("protocol", "u1"), ("zero", "u1", 3),
])  # fmt: skip


class Fields(IntFlag):
    """Fields of a packet that its key contains. All other fields of the key are 0."""

    SOURCE = 1
    DESTINATION = 2
    SOURCE_PORT = 4
    DESTINATION_PORT = 8
    PROTOCOL = 16
    ALL = 31


@dataclass(frozen=True)
class Flows:
    """Distinct keys, uint64 of shape (n, 5), and their packet counts, int64 of shape (n,)."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @classmethod
    def summed(cls, keys: NDArray[np.uint64], counts: ArrayLike) -> Flows:
        """Add up the counts of equal keys."""
        numbers = np.asarray(counts, np.int64)
        if not len(keys):
            return cls(np.zeros((0, WORDS), np.uint64), np.zeros(0, np.int64))
        each, places = np.unique(pack_keys(keys), return_inverse=True)
        totals = np.zeros(len(each), np.int64)
        np.add.at(totals, places.ravel(), numbers)
        return cls(each.view(np.uint64).reshape(-1, WORDS), totals)

    def __add__(self, other: Flows) -> Flows:
        keys = np.concatenate([self.keys, other.keys])
        return Flows.summed(keys, np.concatenate([self.counts, other.counts]))

    def __len__(self) -> int:
        return len(self.counts)

    def top(self, number: int) -> Flows:
        """Return the flows with the most packets, in descending order.

        Flows with equal counts are ordered by key.
        """
        order = np.lexsort((*self.keys.T, -self.counts))[:number]
        return Flows(self.keys[order], self.counts[order])

    def as_dict(self) -> dict[bytes, int]:
        """Return a map from key (bytes) to packet count."""
        return dict(zip(map(bytes, pack_keys(self.keys)), self.counts.tolist(), strict=True))


def pack_keys(keys: NDArray[np.uint64]) -> NDArray[np.void]:
    """Return keys of shape (n, 5) as an array of n 40-byte strings."""
    return np.ascontiguousarray(keys).view(f"V{8 * WORDS}").ravel()


def unpack_keys(keys: NDArray[np.uint64]) -> NDArray[Any]:
    """Return keys of shape (n, 5) as an array of n KEY records."""
    return np.ascontiguousarray(keys).view(KEY).ravel()


def format_address(packed_address: bytes) -> str:
    """Format an address of 16 bytes. A mapped IPv4 address is shown in dotted decimal."""
    address = IPv6Address(packed_address)
    return str(address.ipv4_mapped or address)
