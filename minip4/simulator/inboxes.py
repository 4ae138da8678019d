"""Inboxes: packets that applications on hosts of a virtual network receive and send."""

import ctypes
from collections.abc import Iterator
from ctypes import byref
from ipaddress import IPv4Address

import numpy as np
from numpy.typing import NDArray

from minip4.engine.errors import EngineError, InvalidArgument
from minip4.simulator.handle import Caller
from minip4.simulator.shared import ARRIVAL, NONE


class Inboxes(Caller):
    """The inboxes of a Virtual network, numbered in the order of opening.

    run() reports when an inbox is no longer empty.
    """

    def open_udp(self, host: int, port: int) -> int:
        """Open an inbox for the datagrams to a UDP port of a host."""
        return self._opened(self._library.virtual_open_udp(self._handle, host, port))

    def open_icmp(self, host: int) -> int:
        """Open an inbox for the ICMP messages to a host, except echo requests."""
        return self._opened(self._library.virtual_open_icmp(self._handle, host))

    def open_frames(self, host: int) -> int:
        """Open an inbox for all frames to a host. The host then does not respond itself."""
        return self._opened(self._library.virtual_open_frames(self._handle, host))

    def filled(self) -> Iterator[int]:
        """Yield each inbox that became nonempty since the last call."""
        while (inbox := self._library.virtual_inbox_next(self._handle)) != NONE:
            yield inbox

    def take(self, inbox: int) -> tuple[NDArray[np.void], bytes]:
        """Empty an inbox and return its records (ARRIVAL) and their concatenated bytes."""
        records, data = ctypes.c_void_p(), ctypes.c_void_p()
        count = self._library.virtual_inbox_take(self._handle, inbox, byref(records), byref(data))
        if not count:
            return np.empty(0, ARRIVAL), b""
        assert records.value is not None
        kept = np.frombuffer(ctypes.string_at(records.value, count * ARRIVAL.itemsize), ARRIVAL)
        return kept, ctypes.string_at(data.value or 0, int(kept["length"].sum()))

    def send_frame(self, host: int, frame: bytes) -> None:
        """Send a frame from a host now."""
        if not self._library.virtual_send_frame(self._handle, host, frame, len(frame)):
            raise EngineError("the frame is too long, or there is no memory left")

    def send_datagram(
        self, host: int, port: int, to: tuple[str, str, int], payload: bytes, tos: int = 0, *,
        ttl: int = 64,
    ) -> None:  # fmt: skip
        """Send a UDP datagram from a port of a host now, to a MAC address, IPv4 address and port.

        `tos` is DSCP << 2 | ECN.
        """
        mac, address, to_port = to
        to_mac = bytes.fromhex(mac.replace(":", ""))
        to_address = int.from_bytes(IPv4Address(address).packed, "little")  # byte order in memory
        if not self._library.virtual_send_datagram(
            self._handle,
            host,
            to_mac,
            to_address,
            port,
            to_port,
            tos,
            ttl,
            payload,
            len(payload),
        ):
            raise EngineError("the datagram is too long, or there is no memory left")

    def _opened(self, number: int) -> int:
        if number == NONE:
            raise InvalidArgument("it is in use, or there is no memory left")
        return number
