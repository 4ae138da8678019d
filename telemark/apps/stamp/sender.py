"""STAMP Session-Sender: an application that sends test packets and records the replies."""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemark.apps.application import Application, Host, UdpPort
from telemark.apps.ipv6 import Ipv6Host, Ipv6Port
from telemark.apps.stamp.packets import (
    PORT,
    TTL,
    ErrorEstimate,
    PacketError,
    ReflectorPacket,
    SenderPacket,
    TimestampFormat,
    base_size,
    check_packet,
    check_parameters,
    decode_error,
    decode_timestamp,
    encode_error,
    pack,
    unpack,
)
from telemark.apps.stamp.tlvs import (
    INTEGRITY_FAILED,
    Tlv,
    TlvType,
    is_intact,
    pack_tlvs,
    seal,
    split_tlvs,
)
from telemark.errors import TestbedError
from telemark.traffic.received import Datagram

SOURCE_PORT = 49862  # default UDP port of a Session-Sender
REPLY = np.dtype([
    ("sequence", "<u4"),  # of the test packet
    ("reflector_sequence", "<u4"),
    ("sent_ns", "<i8"),  # T1: test packet sent
    ("reflector_received_ns", "<i8"),  # T2: test packet received
    ("reflector_sent_ns", "<i8"),  # T3: reply sent
    ("received_ns", "<i8"),  # T4: reply received
    ("ttl", "u1"),  # TTL of the test packet at the reflector
    ("reply_ttl", "u1"),  # TTL of the reply at the sender
    ("reply_dscp", "u1"),
])  # fmt: skip


@dataclass(frozen=True)
class SessionRecord:
    """Packets of a session. statistics.measure_path() computes loss and delay from this record."""

    sent_ns: NDArray[np.int64]  # send time of each test packet; the index is its sequence number
    replies: NDArray[np.void]  # REPLY records in order of arrival, including duplicates
    # TLVs of each reply; empty if the session has none, or if their integrity check failed
    tlvs: Sequence[Sequence[Tlv]]
    packet_bytes: int  # length of the UDP payload of each packet
    stateful_reflector: bool
    # maximum error of one-way delays (ns), as the sender and the reflector estimate it
    error_ns: float
    discarded: Mapping[str, int]  # number of received packets that were no replies, per reason


class StampSender(Application):
    """Session-Sender that sends `count` test packets, one per `interval_us`.

    The first packet leaves at `start_ns` of the common clock, or one interval after the start of
    the application. With a key, packets are authenticated. `stateful_reflector` must state whether
    the reflector is stateful. Hosts of a network share one clock, so one-way delays are valid. The
    clock is not synchronized to UTC, so the S bit of error estimates is 0. `tlvs` are added to each
    test packet; see telemark.apps.stamp.tlvs. With `ipv6`, the sender has this IPv6 address; see
    telemark.apps.ipv6. Raises TestbedError for invalid parameters.
    """

    def __init__(
        self, destination: str, *, count: int, interval_us: float, port: int = PORT,
        source_port: int = SOURCE_PORT, ssid: int = 1, start_ns: int | None = None, dscp: int = 0,
        stateful_reflector: bool = True, key: bytes | None = None, tlvs: Sequence[Tlv] = (),
        timestamps: TimestampFormat = TimestampFormat.NTP, error_ns: float = 1.0,
        ipv6: Ipv6Host | None = None,
    ) -> None:  # fmt: skip
        check_parameters(key, error_ns)
        if not (1 <= count <= 2**32 and interval_us > 0):
            raise TestbedError(
                f"STAMP sender: count {count}, interval_us {interval_us:g}: expected 1 to 2**32 "
                "packets, and an interval above 0"
            )
        if not 1 <= ssid <= 0xFFFF:
            raise TestbedError(f"STAMP sender: ssid {ssid}: expected 1 to 65535")
        self._destination, self._destination_port = destination, port
        self._source_port = source_port
        self._count = count
        self._interval_ns = interval_us * 1000
        self._ssid = ssid
        self._start_ns = start_ns
        self._dscp = dscp
        self._stateful_reflector = stateful_reflector
        self._key = key
        self._tlvs = tuple(tlvs)
        self._format = timestamps
        self._ipv6 = ipv6
        self._error = ErrorEstimate(False, timestamps, error_ns)
        self._reflector_error_ns = 0.0
        self._timestamps: list[int] = []  # the index is the sequence number
        self._sent_ns: list[int] = []
        self._packet_bytes = 0
        self._replies: list[tuple[int, ...]] = []
        self._reply_tlvs: list[list[Tlv]] = []
        self._discarded: Counter[str] = Counter()

    def start(self, host: Host) -> None:
        """Open the port and schedule the first packet."""
        self._host = host
        self._port: UdpPort | Ipv6Port
        if self._ipv6 is None:
            self._port = host.udp(self._source_port, self._take)
        else:
            self._port = Ipv6Port(host, self._ipv6, self._source_port, self._take)
        if self._start_ns is None:
            self._start_ns = host.now_ns() + round(self._interval_ns)
        host.call_at(self._start_ns, self._send)

    def result(self) -> SessionRecord:
        """Return the record of the session."""
        return SessionRecord(
            sent_ns=np.array(self._sent_ns, np.int64),
            replies=np.array(self._replies, REPLY),
            tlvs=self._reply_tlvs,
            packet_bytes=self._packet_bytes,
            stateful_reflector=self._stateful_reflector,
            error_ns=self._error.error_ns + self._reflector_error_ns,
            discarded=dict(self._discarded),
        )

    def _send(self) -> None:
        sequence = len(self._sent_ns)
        now_ns = self._host.now_ns()
        timestamp = self._format.encode(now_ns)
        packet = SenderPacket(sequence, timestamp, encode_error(self._error), self._ssid)
        counted = [self._count_packet(tlv, sequence + 1) for tlv in self._tlvs]
        payload = pack(packet, self._key) + pack_tlvs(seal(counted, sequence, self._key))
        self._port.send(
            payload, self._destination, self._destination_port, dscp=self._dscp, ttl=TTL
        )
        self._sent_ns.append(now_ns)
        self._timestamps.append(timestamp)
        self._packet_bytes = len(payload)
        if sequence + 1 < self._count:
            assert self._start_ns is not None
            self._host.call_at(self._start_ns + (sequence + 1) * self._interval_ns, self._send)

    @staticmethod
    def _count_packet(tlv: Tlv, transmitted: int) -> Tlv:
        """Insert the number of test packets into a Direct Measurement TLV; return others as is."""
        if tlv.type != TlvType.DIRECT_MEASUREMENT:
            return tlv
        return tlv._replace(value=struct.pack("!I8x", transmitted & 0xFFFFFFFF))

    def _read_tlvs(self, payload: bytes, sequence: int) -> list[Tlv]:
        tlvs, _ = split_tlvs(payload[base_size(self._key) :])
        failed = any(tlv.flags & INTEGRITY_FAILED for tlv in tlvs)
        return [] if failed or not is_intact(tlvs, sequence, self._key) else tlvs

    def _take(self, datagrams: Iterable[Datagram]) -> None:
        for datagram in datagrams:
            try:
                self._take_reply(datagram)
            except PacketError as error:
                self._discarded[str(error)] += 1

    def _take_reply(self, datagram: Datagram) -> None:
        """Store a reply. Raises PacketError for other packets."""
        if (datagram.address, datagram.port) != (self._destination, self._destination_port):
            raise PacketError("not from the reflector")
        check_packet(datagram.payload, self._key)
        reply = unpack(ReflectorPacket, datagram.payload, self._key)
        if reply.ssid not in (self._ssid, 0):  # 0: the reflector implements RFC 8762 only
            raise PacketError("other session")
        sequence = reply.sender_sequence
        if (
            sequence >= len(self._timestamps)
            or reply.sender_timestamp != self._timestamps[sequence]
        ):
            raise PacketError("no such test packet")
        self._reply_tlvs.append(self._read_tlvs(datagram.payload, reply.sequence))
        estimate = reply.error_estimate
        self._reflector_error_ns = max(self._reflector_error_ns, decode_error(estimate).error_ns)
        self._replies.append((
            sequence, reply.sequence, self._sent_ns[sequence],
            decode_timestamp(reply.receive_timestamp, estimate),
            decode_timestamp(reply.timestamp, estimate), datagram.time_ns, reply.sender_ttl,
            datagram.ttl, datagram.dscp,
        ))  # fmt: skip
