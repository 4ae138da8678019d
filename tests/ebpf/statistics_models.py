"""Models of the kernel's statistics: the records that it has after packets of distinct flows."""

import socket

import numpy as np
from numpy.typing import NDArray

from ebpf.statistics.distinct import PRECISION, RANKS, REGISTERS, Registers
from ebpf.statistics.flows import KEY
from ebpf.statistics.hashes import Words
from ebpf.statistics.minwise import BUCKETS, Minima
from ebpf.statistics.norms import COLUMN_BITS, COLUMNS, ROWS, Sketch
from ebpf.statistics.quantiles import LINEAR


def make_sketch(hashes: Words, counts: NDArray[np.int64]) -> Sketch:
    """Return the kernel's sketch of flows with these distinct hashes and packet counts, (n,)."""
    counters = np.zeros((ROWS, COLUMNS), np.int64)
    for row, sums in enumerate(counters):
        bits = (hashes >> np.uint64(row * (COLUMN_BITS + 1))).astype(np.int64)
        signs = np.where(bits >> COLUMN_BITS & 1, 1, -1)
        np.add.at(sums, bits & (COLUMNS - 1), signs * counts)
    return Sketch(counters)


def find_minima(hashes: Words, counts: NDArray[np.int64]) -> Minima:
    """Return the kernel's minima of flows with these distinct hashes and packet counts, (n,)."""
    order = np.argsort(hashes)[::-1]  # in each bucket, the smallest hash is written last
    places = (hashes & np.uint64(BUCKETS - 1)).astype(np.intp)[order]
    least, packets = np.zeros(BUCKETS, np.uint64), np.zeros(BUCKETS, np.int64)
    least[places], packets[places] = hashes[order], counts[order]
    return Minima(least, packets)


def find_registers(hashes: Words) -> Registers:
    """Return the kernel's registers for flows with these hashes, (n,)."""
    rest = (hashes >> np.uint64(PRECISION)).astype(np.float64)  # below 2^52, so the float is exact
    ranks = np.where(rest > 0, RANKS - np.frexp(rest)[1] + 1, RANKS + 1).astype(np.uint8)
    registers = np.zeros(REGISTERS, np.uint8)
    np.maximum.at(registers, (hashes & np.uint64(REGISTERS - 1)).astype(np.intp), ranks)
    return Registers(registers)


def find_classes(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the histogram class of each value; the values are below 2^LENGTH_BITS."""
    powers = np.maximum(np.frexp(values)[1] - 1 - LINEAR, 0)
    found: NDArray[np.int64] = (powers << LINEAR) + (values >> powers)
    return found


def make_key(
    source: str = "", destination: str = "", source_port: int = 0, destination_port: int = 0,
    protocol: int = 0,
) -> NDArray[np.uint64]:  # fmt: skip
    """Return the key (5,) of a flow with these fields. Other fields are 0."""
    key = np.zeros(1, KEY)
    key["source"], key["destination"] = pack_address(source), pack_address(destination)
    key["source_port"], key["destination_port"] = source_port, destination_port
    key["protocol"] = protocol
    return key.view(np.uint64)


def pack_address(text: str) -> np.void:
    """Return the 16 bytes of an address.

    An IPv4 address becomes an IPv4-mapped IPv6 address (::ffff:a.b.c.d).
    """
    if not text:
        return np.void(bytes(16))
    if ":" in text:
        return np.void(socket.inet_pton(socket.AF_INET6, text))
    return np.void(bytes(10) + b"\xff\xff" + socket.inet_aton(text))
