"""STAMP Session-Reflector: an application that returns test packets with its timestamps."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    encode_error,
    pack,
    unpack,
)
from telemark.apps.stamp.tlvs import IN_SOFTWARE, FollowUp, Observed, reflect_tlvs
from telemark.traffic.received import Datagram

MAX_SESSIONS = 1024  # if there are more, the least recently used one is forgotten
NO_PREVIOUS = FollowUp(0, 0, 0)
# number of latest replies that are recognized if another reflector returns them
REMEMBERED_REPLIES = 1024


@dataclass(frozen=True)
class ReflectorReport:
    """Result of a reflector: number of packets reflected, and of packets discarded per reason."""

    reflected: int
    discarded: Mapping[str, int]


@dataclass
class Session:
    """State of a session in stateful mode."""

    packets: int = 0  # number of test packets received, and of replies sent
    previous: FollowUp = NO_PREVIOUS


class StampReflector(Application):
    """Session-Reflector at a UDP port.

    A stateful reflector numbers the packets of each session, so that the sender can locate a loss
    on the way to the reflector or back. The key, if any, must be that of the sender
    (authenticated mode). Replies are exactly as long as the packets that they answer. With `ipv6`,
    the reflector has this IPv6 address; see telemark.apps.ipv6.
    """

    def __init__(
        self, *, port: int = PORT, stateful: bool = True, key: bytes | None = None,
        timestamps: TimestampFormat = TimestampFormat.NTP, error_ns: float = 1.0,
        ipv6: Ipv6Host | None = None,
    ) -> None:  # fmt: skip
        check_parameters(key, error_ns)
        self._listening_port = port
        self._stateful = stateful
        self._key = key
        self._format = timestamps
        self._ipv6 = ipv6
        self._error_estimate = encode_error(ErrorEstimate(False, timestamps, error_ns))
        self._sessions: OrderedDict[tuple[str, int, int], Session] = OrderedDict()
        self._last_timestamps: dict[int, None] = {}  # of the latest replies, oldest first
        self._reflected = 0
        self._discarded: Counter[str] = Counter()

    def start(self, host: Host) -> None:
        """Open the port."""
        self._host = host
        self._port: UdpPort | Ipv6Port
        if self._ipv6 is None:
            self._port = host.udp(self._listening_port, self._take)
            self._address, self._neighbours = host.address, host.neighbours
        else:
            self._port = Ipv6Port(host, self._ipv6, self._listening_port, self._take)
            self._address, self._neighbours = self._ipv6.address, self._ipv6.macs

    def result(self) -> ReflectorReport:
        """Return the counts."""
        return ReflectorReport(self._reflected, dict(self._discarded))

    def _take(self, datagrams: Iterable[Datagram]) -> None:
        for datagram in datagrams:
            try:
                self._reflect(datagram)
            except PacketError as error:
                self._discarded[str(error)] += 1
            else:
                self._reflected += 1

    def _reflect(self, datagram: Datagram) -> None:
        """Send the reply. Raises PacketError for packets to discard."""
        if datagram.address not in self._neighbours or not datagram.port:
            raise PacketError("no host has its source address and port")
        check_packet(datagram.payload, self._key)
        self._check_loop(datagram.payload)
        packet = unpack(SenderPacket, datagram.payload, self._key)
        session = self._session(datagram, packet.ssid) if self._stateful else Session()
        sequence = session.packets & 0xFFFFFFFF if self._stateful else packet.sequence
        session.packets += self._stateful
        observed = Observed(
            source=(datagram.address, datagram.port),
            destination=(self._address, self._listening_port), dscp=datagram.dscp,
            ecn=datagram.ecn, packets=session.packets, previous=session.previous,
        )  # fmt: skip
        tlvs, dscp = reflect_tlvs(
            datagram.payload[base_size(self._key) :], packet.sequence, sequence, self._key, observed
        )
        timestamp = self._format.encode(self._host.now_ns())
        self._remember(timestamp)
        reply = ReflectorPacket(
            sequence, timestamp, self._error_estimate, packet.ssid,
            self._format.encode(datagram.time_ns), packet.sequence, packet.timestamp,
            packet.error_estimate, datagram.ttl,
        )  # fmt: skip
        payload = pack(reply, self._key) + tlvs
        self._port.send(payload, datagram.address, datagram.port, dscp=dscp, ttl=TTL)
        sent = self._format.encode(self._host.now_ns())
        session.previous = FollowUp(sequence, sent, IN_SOFTWARE)

    def _check_loop(self, payload: bytes) -> None:
        """Raise PacketError for a reply of another reflector to a reply of this reflector.

        Such packets exist if the source address and port of a test packet are forged. They would
        circulate without end.
        """
        as_reply = unpack(ReflectorPacket, payload, self._key)
        if as_reply.sender_timestamp in self._last_timestamps:
            raise PacketError("loop of reflectors")

    def _remember(self, timestamp: int) -> None:
        self._last_timestamps[timestamp] = None
        if len(self._last_timestamps) > REMEMBERED_REPLIES:
            del self._last_timestamps[next(iter(self._last_timestamps))]

    def _session(self, datagram: Datagram, ssid: int) -> Session:
        key = datagram.address, datagram.port, ssid
        session = self._sessions.setdefault(key, Session())
        self._sessions.move_to_end(key)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session
