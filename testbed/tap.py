"""The kernel's own timestamps of frames on an interface: a witness that no switch is party to."""

import asyncio
import socket
import struct
import time
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from testbed.traffic import HEADERS_BYTES, PAYLOAD, Flow

ETH_P_ALL = 3
SO_TIMESTAMPNS = 35  # <asm-generic/socket.h>; Python's socket module does not name it
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 64 << 20
TIMESPEC = struct.Struct("@qq")
PORT_AT = HEADERS_BYTES - 6  # of the UDP destination port, without IPv4 options


class Tap:
    """Records when the kernel saw each datagram of some flows on an interface of this namespace.

    Use with `async with`. Times are of CLOCK_MONOTONIC, as the switches': the kernel stamps by the
    wall clock, whose offset is found at the end, to less than a microsecond.
    """

    def __init__(self, interface: str, flows: list[Flow]) -> None:
        self._interface = interface
        self._ports = {flow.port.to_bytes(2, "big"): flow.id for flow in flows}
        self._counts = {flow.id: flow.count for flow in flows}
        self._seen: list[tuple[int, int, bytes]] = []
        self._wall_ahead_ns = 0

    async def __aenter__(self) -> "Tap":
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.bind((self._interface, ETH_P_ALL))
        asyncio.get_running_loop().add_reader(self._socket, self._drain)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        asyncio.get_running_loop().remove_reader(self._socket)
        self._drain()
        self._socket.close()
        self._wall_ahead_ns = wall_clock_ahead_ns()

    def times_ns(self) -> dict[int, NDArray[np.int64]]:
        """For each flow, by its id: the time of each sequence number, -1 where it was not seen."""
        times = {flow: np.full(count, -1, np.int64) for flow, count in self._counts.items()}
        for flow, time_ns, payload in self._seen:
            fields = np.frombuffer(payload, PAYLOAD)[0]
            if fields["flow"] == flow:
                times[flow][fields["sequence"]] = time_ns - self._wall_ahead_ns
        return times

    def _drain(self) -> None:
        while True:
            try:
                frame, control, _, _ = self._socket.recvmsg(128, 64)
            except BlockingIOError:
                return
            flow = self._ports.get(frame[PORT_AT : PORT_AT + 2])
            payload = frame[HEADERS_BYTES : HEADERS_BYTES + PAYLOAD.itemsize]
            if flow is not None and len(payload) == PAYLOAD.itemsize:
                seconds, nanoseconds = TIMESPEC.unpack(control[0][2][: TIMESPEC.size])
                self._seen.append((flow, seconds * 10**9 + nanoseconds, payload))


def wall_clock_ahead_ns() -> int:
    """How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: by the quickest of some readings."""
    readings = []
    for _ in range(9):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        took_ns = time.monotonic_ns() - before_ns
        readings.append((took_ns, wall_ns - before_ns - took_ns // 2))
    return min(readings)[1]
