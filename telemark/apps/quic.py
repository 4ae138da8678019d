"""QUIC-like endpoints: hosts that send short headers with explicit measurement bits.

The packets have the format of RFC 9000, but there is no handshake, no encryption and no congestion
control. A connection begins with its first short header. An endpoint sends packets at given times.
Endpoints acknowledge packets as in RFC 9000 section 13.2, and detect losses as in RFC 9002 section
6.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from telemark.apps.application import Application, Host
from telemark.apps.explicit_bits import HEADER_MASK, SHORT_HEADER, ExplicitBits, Scheme
from telemark.traffic.received import Datagrams

CONNECTION_ID = b"telemark"
NUMBER_BYTES = 4
NUMBER_LENGTH = NUMBER_BYTES - 1  # as the first byte encodes it
HEADER_BYTES = 1 + len(CONNECTION_ID) + NUMBER_BYTES
PADDING, PING, ACK = 0, 1, 2  # frame types of RFC 9000 section 19
PAYLOAD_BYTES = 100  # minimum; shorter payloads are padded
MAX_RANGES = 32  # acknowledged ranges in a packet
ACK_EVERY = 2  # an acknowledgement is due after this many packets that elicit one
MAX_ACK_DELAY_NS = 25_000_000
PACKET_THRESHOLD = 3  # RFC 9002 section 6.1.1
GRANULARITY_NS = 1_000_000
INITIAL_RTT_NS = 333_000_000
VARINT_BYTES = (1, 2, 4, 8)


@dataclass(frozen=True)
class QuicRecord:
    """Packets of an endpoint. `first_bytes` and `sent_ns` have an element per packet number."""

    first_bytes: NDArray[np.uint8]
    sent_ns: NDArray[np.int64]
    received: NDArray[np.int64]  # packet numbers in the order of arrival, without duplicates
    received_ns: NDArray[np.int64]  # time of each of these arrivals
    lost: NDArray[np.int64]  # numbers of packets detected as lost, in order of detection
    largest_acked: int  # -1 if the peer has acknowledged nothing
    unreported: int  # losses that no packet with L has reported
    invalid: int  # number of received datagrams that are not packets of the connection


@dataclass
class _Sent:
    """A packet that is neither acknowledged nor lost."""

    time_ns: int
    elicits: bool  # elicits an acknowledgement


class QuicEndpoint(Application):
    """Endpoint of one connection.

    The endpoint sends data packets at the ascending times `due_ns`. At a client, these times count
    from the start of the application; at a server, from the first packet that arrives. So start the
    server first. `peer` is the IPv4 address and the UDP port of the other endpoint.
    """

    def __init__(
        self, scheme: Scheme, due_ns: NDArray[np.integer], port: int, peer: tuple[str, int], *,
        is_client: bool,
    ) -> None:  # fmt: skip
        self.bits = ExplicitBits(scheme, is_client=is_client)
        self._due_ns = [*map(int, due_ns)]
        self._is_client = is_client
        self._start_ns = 0
        self._port = port
        self._peer = peer
        self._data_sent = 0
        self._first_bytes = bytearray()
        self._sent_ns: list[int] = []
        self._in_flight: dict[int, _Sent] = {}
        self._largest_acked = -1
        self._lost: list[int] = []
        self._received: list[int] = []
        self._received_ns: list[int] = []
        self._ranges: list[list[int]] = []  # received numbers [first, last], ascending
        self._unacknowledged = 0  # received packets that elicit one, since the last acknowledgement
        self._invalid = 0
        self._srtt_ns = self._latest_rtt_ns = self._variation_ns = 0.0
        self._probes = 0  # probes since the last acknowledgement
        self._ack_due_ns: int | None = None
        self._loss_due_ns: float | None = None
        self._alarm_ns: float | None = None  # time of the next call of _alarm

    def start(self, host: Host) -> None:
        """See Application."""
        self._host = host
        self._udp = host.udp(self._port, self._receive)
        if self._is_client:
            self._begin()

    def result(self) -> QuicRecord:
        """See Application."""
        return QuicRecord(
            np.frombuffer(bytes(self._first_bytes), np.uint8),
            np.array(self._sent_ns, np.int64),
            np.array(self._received, np.int64),
            np.array(self._received_ns, np.int64),
            np.array(self._lost, np.int64),
            self._largest_acked,
            self.bits.loss.unreported,
            self._invalid,
        )

    # --- sending ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._start_ns = self._host.now_ns()
        self._schedule_data()

    def _schedule_data(self) -> None:
        if self._data_sent < len(self._due_ns):
            self._host.call_at(self._start_ns + self._due_ns[self._data_sent], self._send_data)

    def _send_data(self) -> None:
        self._send(elicits=True)
        self._data_sent += 1
        self._schedule_data()

    def _send(self, *, elicits: bool) -> None:
        now_ns = self._host.now_ns()
        number = len(self._sent_ns)
        first_byte = SHORT_HEADER | self.bits.send(now_ns) | NUMBER_LENGTH
        header = bytes([first_byte]) + CONNECTION_ID + number.to_bytes(NUMBER_BYTES, "big")
        frames = (encode_ack(self._ranges) if self._ranges else b"") + bytes([PING] * elicits)
        self._first_bytes.append(first_byte)
        self._sent_ns.append(now_ns)
        self._in_flight[number] = _Sent(now_ns, elicits)
        self._unacknowledged, self._ack_due_ns = 0, None
        self._udp.send(header + frames.ljust(PAYLOAD_BYTES, b"\0"), *self._peer)
        self._set_alarm()

    # --- receiving --------------------------------------------------------------------------------

    def _receive(self, datagrams: Datagrams) -> None:
        for datagram in datagrams:
            peer = (datagram.address, datagram.port)
            if peer != self._peer or not self._receive_packet(datagram.payload):
                self._invalid += 1
        self._set_alarm()

    def _receive_packet(self, packet: bytes) -> bool:
        """Process a packet. Return False if it is no valid packet of the connection."""
        if (
            len(packet) <= HEADER_BYTES
            or packet[0] & HEADER_MASK != SHORT_HEADER
            or packet[0] & NUMBER_LENGTH != NUMBER_LENGTH
            or packet[1 : 1 + len(CONNECTION_ID)] != CONNECTION_ID
        ):
            return False
        try:
            acked, elicits = decode_frames(packet[HEADER_BYTES:])
        except ValueError:
            return False
        if acked and acked[0][1] >= len(self._sent_ns):  # a packet that was never sent
            return False
        number = int.from_bytes(packet[1 + len(CONNECTION_ID) : HEADER_BYTES], "big")
        now_ns = self._host.now_ns()
        is_newest = not self._ranges or number > self._ranges[-1][1]
        if not insert(self._ranges, number):
            return True  # a duplicate
        if not self._received and not self._is_client:
            self._begin()
        self._received.append(number)
        self._received_ns.append(now_ns)
        self.bits.receive(packet[0], now_ns, is_newest=is_newest)
        if acked:
            self._acknowledge(acked, now_ns)
        if elicits:
            self._unacknowledged += 1
            if self._unacknowledged >= ACK_EVERY:
                self._send(elicits=False)
            elif self._ack_due_ns is None:
                self._ack_due_ns = now_ns + MAX_ACK_DELAY_NS
        return True

    # --- loss detection ---------------------------------------------------------------------------

    def _acknowledge(self, acked: list[tuple[int, int]], now_ns: int) -> None:
        """Process acknowledged ranges, in descending order."""
        largest = acked[0][1]
        newly = []
        for number in self._in_flight:  # in ascending order
            if number > largest:
                break
            if any(low <= number <= high for low, high in acked):
                newly.append(number)
        if newly:
            if newly[-1] == largest and any(self._in_flight[number].elicits for number in newly):
                self._update_rtt(now_ns - self._in_flight[largest].time_ns)
            for number in newly:
                del self._in_flight[number]
            self._probes = 0
        self._largest_acked = max(self._largest_acked, largest)
        self._detect_losses(now_ns)

    def _update_rtt(self, sample_ns: int) -> None:
        """Update the RTT estimate (RFC 9002 section 5.3)."""
        self._latest_rtt_ns = sample_ns
        if not self._srtt_ns:
            self._srtt_ns, self._variation_ns = float(sample_ns), sample_ns / 2
            return
        self._variation_ns += (abs(self._srtt_ns - sample_ns) - self._variation_ns) / 4
        self._srtt_ns += (sample_ns - self._srtt_ns) / 8

    def _detect_losses(self, now_ns: int) -> None:
        """Declare packets lost (RFC 9002 section 6.1)."""
        rtt_ns = max(self._srtt_ns, self._latest_rtt_ns) or INITIAL_RTT_NS
        delay_ns = max(9 / 8 * rtt_ns, GRANULARITY_NS)
        self._loss_due_ns = None
        lost = []
        for number, sent in self._in_flight.items():  # in ascending order
            if number > self._largest_acked:
                break
            due_ns = sent.time_ns + delay_ns
            if number <= self._largest_acked - PACKET_THRESHOLD or due_ns <= now_ns:
                lost.append(number)
            elif self._loss_due_ns is None:
                self._loss_due_ns = due_ns
        for number in lost:
            del self._in_flight[number]
        self._lost += lost
        self.bits.loss.unreported += len(lost)

    @property
    def _probe_due_ns(self) -> float | None:
        """Time of the next probe (RFC 9002 section 6.2)."""
        eliciting = (sent.time_ns for sent in reversed(self._in_flight.values()) if sent.elicits)
        last_ns = next(eliciting, None)
        if last_ns is None:
            return None
        rtt_ns = self._srtt_ns or INITIAL_RTT_NS
        variation_ns = max(4 * (self._variation_ns or rtt_ns / 2), GRANULARITY_NS)
        return last_ns + (rtt_ns + variation_ns + MAX_ACK_DELAY_NS) * 2**self._probes

    # --- timers -----------------------------------------------------------------------------------

    def _set_alarm(self) -> None:
        """Call _alarm at the next deadline, if no earlier call is due."""
        deadlines = (self._ack_due_ns, self._loss_due_ns, self._probe_due_ns)
        known = [deadline for deadline in deadlines if deadline is not None]
        if known and (self._alarm_ns is None or min(known) < self._alarm_ns):
            self._alarm_ns = min(known)
            self._host.call_at(self._alarm_ns, partial(self._alarm, self._alarm_ns))

    def _alarm(self, due_ns: float) -> None:
        if due_ns != self._alarm_ns:  # replaced by an earlier alarm
            return
        self._alarm_ns = None
        now_ns = self._host.now_ns()
        if self._loss_due_ns is not None and self._loss_due_ns <= now_ns:
            self._detect_losses(now_ns)
        if self._ack_due_ns is not None and self._ack_due_ns <= now_ns:
            self._send(elicits=False)
        probe_due_ns = self._probe_due_ns
        if probe_due_ns is not None and probe_due_ns <= now_ns:
            self._probes += 1
            self._send(elicits=True)
        self._set_alarm()


def insert(ranges: list[list[int]], number: int) -> bool:
    """Add a packet number to ascending ranges [first, last]. Return False if it is in a range."""
    at = bisect.bisect_right(ranges, [number, number])  # ranges from `at` on begin later
    if at and number <= ranges[at - 1][1]:
        return False
    if at < len(ranges) and number == ranges[at][0]:
        return False
    joins_before = at > 0 and ranges[at - 1][1] == number - 1
    joins_after = at < len(ranges) and ranges[at][0] == number + 1
    if joins_before and joins_after:
        ranges[at - 1][1] = ranges.pop(at)[1]
    elif joins_before:
        ranges[at - 1][1] = number
    elif joins_after:
        ranges[at][0] = number
    else:
        ranges.insert(at, [number, number])
    return True


def encode_ack(ranges: Sequence[Sequence[int]]) -> bytes:
    """Return an ACK frame (RFC 9000 section 19.3) for the last MAX_RANGES of ascending ranges."""
    (first, largest), *rest = ranges[: -MAX_RANGES - 1 : -1]
    values = [largest, 0, len(rest), largest - first]  # the second value is the delay
    for low, high in rest:
        values += [first - high - 2, high - low]
        first = low
    return bytes([ACK]) + b"".join(map(encode_varint, values))


def decode_frames(payload: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Return the acknowledged ranges, in descending order, and whether there is a PING frame.

    Only PADDING, PING and ACK frames are possible. Raises ValueError for anything else.
    """
    acked: list[tuple[int, int]] = []
    elicits = False
    at = 0
    while at < len(payload):
        frame_type, at = payload[at], at + 1
        if frame_type == PING:
            elicits = True
        elif frame_type == ACK:
            acked, at = _decode_ack(payload, at)
        elif frame_type == PADDING:
            at = len(payload) - len(payload[at:].lstrip(b"\0"))
        else:
            raise ValueError(f"frame type {frame_type}")
    return acked, elicits


def _decode_ack(payload: bytes, at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the ranges of an ACK frame, and the position after it."""
    largest, at = decode_varint(payload, at)
    _, at = decode_varint(payload, at)
    more, at = decode_varint(payload, at)
    length, at = decode_varint(payload, at)
    ranges = [(largest - length, largest)]
    for _ in range(more):  # ends at the end of the payload
        gap, at = decode_varint(payload, at)
        length, at = decode_varint(payload, at)
        high = ranges[-1][0] - gap - 2
        ranges.append((high - length, high))
    if ranges[-1][0] < 0:
        raise ValueError("negative packet number")
    return ranges, at


def encode_varint(value: int) -> bytes:
    """Return a variable-length integer (RFC 9000 section 16)."""
    for prefix, length in enumerate(VARINT_BYTES):
        if value < 1 << 8 * length - 2:
            return (value | prefix << 8 * length - 2).to_bytes(length, "big")
    raise ValueError(f"{value}: more than 62 bits")


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer, and the position after it. Raises ValueError."""
    if at >= len(data):
        raise ValueError("truncated integer")
    length = VARINT_BYTES[data[at] >> 6]
    if at + length > len(data):
        raise ValueError("truncated integer")
    value = int.from_bytes(data[at : at + length], "big")
    return value & (1 << 8 * length - 2) - 1, at + length
