"""Packet streams for statistics, with Zipf sizes or from a capture."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scapy.error import Scapy_Exception
from scapy.utils import RawPcapReader

from ebpf.statistics.flows import pack_keys
from ebpf.statistics.offer import MAX_BYTES, MIN_BYTES, ROW, UDP, make_keys
from telemark.errors import TestbedError

EXPONENT = 1.1
LENGTHS = (64, 128, 594, 1514)  # bytes per frame


@dataclass(frozen=True)
class Stream:
    """Flow number and length of each packet, and fields of each flow (array of ROW)."""

    numbers: NDArray[np.int64]
    flows: NDArray[Any]
    lengths: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[Any]:
        """Fields of all packets, an array of ROW."""
        rows = self.flows[self.numbers]
        rows["length"] = self.lengths
        return rows

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of packets of each flow."""
        return np.bincount(self.numbers, minlength=len(self.flows)).astype(np.int64)

    def by_key(self, counts: NDArray[np.int64]) -> dict[bytes, int]:
        """Return the nonzero elements of `counts` (one per flow) by flow key."""
        there = counts > 0
        keys = map(bytes, pack_keys(make_keys(self.flows[there])))
        return dict(zip(keys, counts[there].tolist(), strict=True))


def random_flows(number: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return UDP flows between random addresses and ports, an array of ROW."""
    flows = np.zeros(number, ROW)
    for name in ("source", "destination"):
        flows[name] = rng.integers(1 << 32, size=number)
    for name in ("source_port", "destination_port"):
        flows[name] = rng.integers(1, 1 << 16, size=number)
    flows["protocol"] = UDP
    return flows


def zipf(
    packets: int, flows: int, rng: np.random.Generator, exponent: float = EXPONENT
) -> Stream:  # fmt: skip
    """Return random packets; flow n has a probability proportional to 1 / n^exponent."""
    chances = np.cumsum(np.arange(1, flows + 1) ** -exponent)
    numbers = np.searchsorted(chances, rng.random(packets) * chances[-1])
    return Stream(numbers, random_flows(flows, rng), rng.choice(LENGTHS, packets))


def read_stream(path: Path, limit: int) -> Stream:
    """Return the first TCP and UDP packets over IPv4 of a pcap file. Raises TestbedError."""
    frames = []
    try:
        with RawPcapReader(str(path)) as reader:
            for frame, _ in reader:
                if is_usable(frame):
                    frames.append(frame)
                if len(frames) == limit:
                    break
    except (OSError, Scapy_Exception) as error:
        raise TestbedError(f"--pcap {path}: {error}") from None
    if not frames:
        raise TestbedError(
            f"--pcap {path}: the capture contains no TCP or UDP over IPv4 over Ethernet"
        )
    rows = np.array([make_row(frame) for frame in frames], ROW)
    lengths = np.clip([len(frame) for frame in frames], MIN_BYTES, MAX_BYTES)
    flows, numbers = np.unique(rows, return_inverse=True)
    return Stream(numbers.ravel().astype(np.int64), flows, lengths.astype(np.int64))


def is_usable(frame: bytes) -> bool:
    """Return whether a frame is IPv4 over Ethernet with TCP or UDP ports.

    Fragments other than the first have no ports.
    """
    return (
        len(frame) >= 38 and frame[12:14] == b"\x08\x00" and frame[14] == 0x45
        and frame[23] in (6, 17) and not int.from_bytes(frame[20:22], "big") & 0x1FFF
    )  # fmt: skip


def make_row(frame: bytes) -> tuple[int, ...]:
    """Return the fields of ROW; fields that vary within a flow are 0."""
    return (*struct.unpack_from(">IIHH", frame, 26), 0, frame[23], 0)
