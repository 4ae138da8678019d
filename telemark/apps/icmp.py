"""Ping and traceroute: applications that send ICMP echo requests (RFC 792).

Hosts answer echo requests themselves: the kernel in real time, the simulated host in virtual time.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemark.apps.application import Application, Host, check_range
from telemark.apps.headers import internet_checksum
from telemark.errors import TestbedError
from telemark.topology.links import IPV4_BYTES, LARGEST_MTU
from telemark.traffic.received import Datagram, Datagrams

ECHO_REPLY, ECHO_REQUEST, TIME_EXCEEDED = 0, 8, 11
HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
ECHO = np.dtype([
    ("sequence", "<u2"), ("sent_ns", "<i8"), ("received_ns", "<i8"), ("ttl", "u1")
])  # fmt: skip


@dataclass(frozen=True)
class PingRecord:
    """Echo requests and replies."""

    sent_ns: NDArray[np.int64]  # send time of each request; the index is its sequence number
    replies: NDArray[np.void]  # ECHO records, the first reply to each request, in order of arrival
    packet_bytes: int  # length of the IPv4 packets

    @property
    def round_trip_ns(self) -> NDArray[np.int64]:
        """Round-trip delays of the answered requests, in the order of the replies."""
        delays: NDArray[np.int64] = self.replies["received_ns"] - self.replies["sent_ns"]
        return delays

    @property
    def lost(self) -> int:
        """Number of unanswered requests."""
        return len(self.sent_ns) - len(self.replies)


class Ping(Application):
    """Sends `count` echo requests, one per `interval_us`, and records the replies.

    The first request leaves at `start_ns` of the common clock, or one interval after the start of
    the application. In real time, applications of a host that send echo requests need different
    identifiers. Raises TestbedError for invalid parameters.
    """

    def __init__(
        self, destination: str, *, count: int, interval_us: float, start_ns: int | None = None,
        identifier: int = 1, payload_bytes: int = 56,
    ) -> None:  # fmt: skip
        if not (1 <= count <= 2**16 and interval_us > 0):
            raise TestbedError(
                f"ping: count {count}, interval_us {interval_us:g}: expected 1 to 65536 requests, "
                "and an interval above 0"
            )
        check_range("ping: identifier", identifier, 0, 0xFFFF)
        check_range("ping: payload_bytes", payload_bytes, 0, LARGEST_MTU)
        self._destination = destination
        self._count = count
        self._interval_ns = interval_us * 1000
        self._start_ns = start_ns
        self._identifier = identifier
        self._payload = bytes(payload_bytes)
        self._sent_ns: list[int] = []
        self._replies: dict[int, tuple[int, int, int, int]] = {}  # the keys are sequence numbers

    def start(self, host: Host) -> None:
        """Schedule the first request."""
        self._host = host
        self._port = host.icmp(self._take)
        if self._start_ns is None:
            self._start_ns = host.now_ns() + round(self._interval_ns)
        host.call_at(self._start_ns, self._send)

    def result(self) -> PingRecord:
        """Return all requests and replies."""
        return PingRecord(
            np.array(self._sent_ns, np.int64),
            np.array(list(self._replies.values()), ECHO),
            IPV4_BYTES + HEADER.size + len(self._payload),
        )

    def _send(self) -> None:
        sequence = len(self._sent_ns)
        self._sent_ns.append(self._host.now_ns())
        self._port.send(echo_request(self._identifier, sequence, self._payload), self._destination)
        if sequence + 1 < self._count:
            assert self._start_ns is not None
            self._host.call_at(self._start_ns + (sequence + 1) * self._interval_ns, self._send)

    def _take(self, messages: Datagrams) -> None:
        for message in messages:
            found = answered_request(message)
            if found is None or message.payload[0] != ECHO_REPLY:
                continue
            if message.address != self._destination:
                continue
            identifier, sequence = found
            if identifier == self._identifier and sequence < len(self._sent_ns):
                times = self._sent_ns[sequence], message.time_ns
                self._replies.setdefault(sequence, (sequence, *times, message.ttl))


@dataclass(frozen=True)
class Hop:
    """Answers to the probes with one TTL."""

    ttl: int
    addresses: Sequence[str]  # of nodes that answered, without duplicates
    round_trip_ns: Sequence[int]  # one delay per answered probe
    is_destination: bool


class Traceroute(Application):
    """Sends echo requests with TTLs 1, 2, ... until the destination answers.

    The application sends `probes` requests per TTL, one per `interval_us`. The next TTL follows
    `timeout_us` after the last request. The result is a sequence of Hop. Routers answer if they
    send ICMP messages "time exceeded" (Linux does). The P4 programs of Telemark drop packets whose
    TTL expires, so hops at P4 switches have no addresses.
    """

    def __init__(
        self, destination: str, *, probes: int = 3, interval_us: float = 1000,
        timeout_us: float = 100_000, max_hops: int = 30, identifier: int = 2,
    ) -> None:  # fmt: skip
        if not (1 <= max_hops <= 255 and 1 <= probes <= 255):
            raise TestbedError(
                f"traceroute: max_hops {max_hops}, probes {probes}: expected 1 to 255"
            )
        check_range("traceroute: identifier", identifier, 0, 0xFFFF)
        self._destination = destination
        self._probes = probes
        self._interval_ns = interval_us * 1000
        self._timeout_ns = timeout_us * 1000
        self._max_hops = max_hops
        self._identifier = identifier
        self._sent_ns: list[int] = []  # the index is the sequence number
        self._answers: dict[int, tuple[str, int, bool]] = {}  # the keys are sequence numbers

    def start(self, host: Host) -> None:
        """Schedule the first probe."""
        self._host = host
        self._port = host.icmp(self._take)
        host.call_at(host.now_ns() + round(self._interval_ns), self._send)

    def result(self) -> list[Hop]:
        """Return the hops that were probed."""
        return [
            self._hop(first // self._probes) for first in range(0, len(self._sent_ns), self._probes)
        ]

    def _hop(self, number: int) -> Hop:
        first = number * self._probes
        answers = [
            self._answers[sequence]
            for sequence in range(first, first + self._probes)
            if sequence in self._answers
        ]
        return Hop(
            number + 1,
            list(dict.fromkeys(address for address, _, _ in answers)),
            [delay_ns for _, delay_ns, _ in answers],
            any(is_destination for _, _, is_destination in answers),
        )

    def _send(self) -> None:
        sequence = len(self._sent_ns)
        if sequence % self._probes == 0 and sequence:
            hops = sequence // self._probes
            if hops == self._max_hops or self._hop(hops - 1).is_destination:
                return
        self._sent_ns.append(self._host.now_ns())
        ttl = sequence // self._probes + 1
        self._port.send(echo_request(self._identifier, sequence, b""), self._destination, ttl=ttl)
        is_last = (sequence + 1) % self._probes == 0
        wait_ns = self._timeout_ns if is_last else self._interval_ns
        self._host.call_at(self._sent_ns[-1] + wait_ns, self._send)

    def _take(self, messages: Datagrams) -> None:
        for message in messages:
            found = answered_request(message)
            if found is None or found[0] != self._identifier or found[1] >= len(self._sent_ns):
                continue
            delay_ns = message.time_ns - self._sent_ns[found[1]]
            is_destination = message.payload[0] == ECHO_REPLY
            if is_destination and message.address != self._destination:
                continue
            self._answers.setdefault(found[1], (message.address, delay_ns, is_destination))


def echo_request(identifier: int, sequence: int, payload: bytes) -> bytes:
    """Return an echo request."""
    message = HEADER.pack(ECHO_REQUEST, 0, 0, identifier, sequence) + payload
    checksum = internet_checksum(message)
    return HEADER.pack(ECHO_REQUEST, 0, checksum, identifier, sequence) + payload


def answered_request(message: Datagram) -> tuple[int, int] | None:
    """Return identifier and sequence number of the echo request that a message answers.

    Returns None for messages that are neither an echo reply nor "time exceeded" for a request.
    """
    data = message.payload
    if len(data) < HEADER.size:
        return None
    kind, _, _, identifier, sequence = HEADER.unpack_from(data)
    if kind == ECHO_REPLY:
        return identifier, sequence
    if kind != TIME_EXCEEDED or len(data) <= HEADER.size:
        return None
    # the IPv4 header of the request and at least 8 bytes of its payload follow
    request = data[HEADER.size + 4 * (data[HEADER.size] & 15) :]
    if len(request) < HEADER.size or request[0] != ECHO_REQUEST:
        return None
    return HEADER.unpack_from(request)[3:]
