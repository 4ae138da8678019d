"""Datagrams and frames that an application received, as arrays or one by one."""

import socket
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Records of ARRIVAL (minip4/simulator/shared.py), and the bytes of all packets, concatenated.
Taken = tuple[NDArray[np.void], bytes]


class Datagram(NamedTuple):
    """Received UDP datagram: time (ns of the common clock), source, payload, DSCP, ECN, TTL."""

    time_ns: int
    address: str
    port: int
    payload: bytes
    dscp: int
    ecn: int  # 3 means congestion experienced (RFC 3168)
    ttl: int


class Frame(NamedTuple):
    """Received Ethernet frame: time (ns of the common clock), and bytes."""

    time_ns: int
    frame: bytes


class Arrivals:
    """Packets received at a port, in order of arrival."""

    def __init__(self, taken: Taken) -> None:
        self._records, self._data = taken

    def __len__(self) -> int:
        return len(self._records)

    @property
    def taken(self) -> Taken:
        """Records and bytes of the packets, for processing in C."""
        return self._records, self._data

    @property
    def time_ns(self) -> NDArray[np.uint64]:
        """Arrival times, ns of the common clock; shape (n,)."""
        return self._records["time_ns"].astype(np.uint64)

    @property
    def length(self) -> NDArray[np.uint32]:
        """Lengths in bytes; shape (n,)."""
        return self._records["length"].astype(np.uint32)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """Return the bytes of the packets.

        Each row is truncated or zero-padded to `width`; shape (n, width).
        """
        data = np.frombuffer(self._data, np.uint8)
        lengths = self._records["length"]
        if len(self) and lengths[0] >= width and (lengths == lengths[0]).all():
            return data.reshape(len(self), -1)[:, :width]
        rows = np.zeros((len(self), width), np.uint8)
        for row, (start, end) in zip(rows, self._places(), strict=True):
            kept = data[start : min(end, start + width)]
            row[: len(kept)] = kept
        return rows

    def _places(self) -> Iterator[tuple[int, int]]:
        """Return the start and end of each packet in the data."""
        ends = np.cumsum(self._records["length"], dtype=np.int64).tolist()
        return zip([0, *ends[:-1]], ends, strict=False)  # this yields nothing if `ends` is empty


class Datagrams(Arrivals):
    """UDP datagrams received at a port; their bytes are the UDP payloads."""

    @property
    def address(self) -> NDArray[np.uint32]:
        """IPv4 source addresses as numbers; shape (n,)."""
        return self._records["address"].astype(np.uint32)

    @property
    def port(self) -> NDArray[np.uint16]:
        """UDP source ports; shape (n,)."""
        return self._records["port"].astype(np.uint16)

    @property
    def _tos(self) -> NDArray[np.uint8]:
        return self._records["tos"].astype(np.uint8)

    @property
    def dscp(self) -> NDArray[np.uint8]:
        """DSCP values; shape (n,)."""
        return self._tos >> np.uint8(2)

    @property
    def ecn(self) -> NDArray[np.uint8]:
        """ECN values, shape (n,); 3 means congestion experienced (RFC 3168)."""
        return self._tos & np.uint8(3)

    @property
    def ttl(self) -> NDArray[np.uint8]:
        """TTL values; shape (n,)."""
        return self._records["ttl"].astype(np.uint8)

    def __iter__(self) -> Iterator[Datagram]:
        for record, (start, end) in zip(self._records, self._places(), strict=True):
            address = socket.inet_ntoa(int(record["address"]).to_bytes(4, "big"))
            payload = self._data[start:end]
            tos = int(record["tos"])
            yield Datagram(
                int(record["time_ns"]), address, int(record["port"]), payload, tos >> 2, tos & 3,
                int(record["ttl"]),
            )  # fmt: skip


class Frames(Arrivals):
    """Received Ethernet frames."""

    def __iter__(self) -> Iterator[Frame]:
        times_ns = self._records["time_ns"].tolist()
        for time_ns, (start, end) in zip(times_ns, self._places(), strict=True):
            yield Frame(time_ns, self._data[start:end])
