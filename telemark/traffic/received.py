"""What came to an application: arrays for those who count, or one by one."""

import socket
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Records of ARRIVAL (minip4/simulator/shared.py), and all their bytes, one after the other.
Taken = tuple[NDArray[np.void], bytes]


class Datagram(NamedTuple):
    """A UDP datagram that came: when (ns of the common clock), from where, what, and how marked."""

    time_ns: int
    address: str
    port: int
    payload: bytes
    dscp: int
    ecn: int  # 3: it met congestion (RFC 3168)


class Frame(NamedTuple):
    """An Ethernet frame that came: when (ns of the common clock), and its bytes."""

    time_ns: int
    frame: bytes


class Arrivals:
    """What came to a port, in the order of arrival."""

    def __init__(self, taken: Taken) -> None:
        self._records, self._data = taken

    def __len__(self) -> int:
        return len(self._records)

    @property
    def taken(self) -> Taken:
        """What they are made of, for those who have C look at it."""
        return self._records, self._data

    @property
    def time_ns(self) -> NDArray[np.uint64]:
        """When each came at the host: ns of the common clock; shape (n,)."""
        return self._records["time_ns"].astype(np.uint64)

    @property
    def length(self) -> NDArray[np.uint32]:
        """Bytes of each; shape (n,)."""
        return self._records["length"].astype(np.uint32)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """The bytes: a row for each, cut or filled with zeros to `width`; shape (n, width)."""
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
        """Where the bytes of each begin and end."""
        ends = np.cumsum(self._records["length"], dtype=np.int64).tolist()
        return zip([0, *ends[:-1]], ends, strict=False)  # of nothing there is no first either


class Datagrams(Arrivals):
    """UDP datagrams that came to a port: their payloads."""

    @property
    def address(self) -> NDArray[np.uint32]:
        """The IPv4 address that each came from, as a number; shape (n,)."""
        return self._records["address"].astype(np.uint32)

    @property
    def port(self) -> NDArray[np.uint16]:
        """The UDP port that each came from; shape (n,)."""
        return self._records["port"].astype(np.uint16)

    @property
    def _tos(self) -> NDArray[np.uint8]:
        return self._records["tos"].astype(np.uint8)

    @property
    def dscp(self) -> NDArray[np.uint8]:
        """The DSCP that each came with; shape (n,)."""
        return self._tos >> np.uint8(2)

    @property
    def ecn(self) -> NDArray[np.uint8]:
        """The ECN field that each came with, 3: it met congestion (RFC 3168); shape (n,)."""
        return self._tos & np.uint8(3)

    def __iter__(self) -> Iterator[Datagram]:
        for record, (start, end) in zip(self._records, self._places(), strict=True):
            address = socket.inet_ntoa(int(record["address"]).to_bytes(4, "big"))
            payload = self._data[start:end]
            tos = int(record["tos"])
            yield Datagram(
                int(record["time_ns"]), address, int(record["port"]), payload, tos >> 2, tos & 3
            )


class Frames(Arrivals):
    """Ethernet frames that came."""

    def __iter__(self) -> Iterator[Frame]:
        times_ns = self._records["time_ns"].tolist()
        for time_ns, (start, end) in zip(times_ns, self._places(), strict=True):
            yield Frame(time_ns, self._data[start:end])
