"""Connection management (CM): creates queue pairs for peers that use librdmacm.

IBTA, chapter 12, and annex A11 (RDMA IP CM service). A peer sends REQ to queue pair 1, the manager
responds with REP, and the peer sends RTU. DREQ ends a connection, and the other side responds with
DREP. Both sides may reject a message with REJ. The private data of REP contain the peer's target:
base (8 bytes), R_Key (4) and length (8), in network byte order. If a peer gets no response to a
message, it sends the message again.
"""

import enum
import secrets
import struct
from dataclasses import dataclass
from ipaddress import IPv6Address

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from collectors.roce.endpoint import Domain, Peer, Target, Transport
from collectors.roce.native import REPLAYS
from collectors.roce.packets import BTH, DETH, GRH, PSN_MASK, UD, Op
from collectors.roce.softnic import SoftNic
from collectors.roce.verbs_peer import MEMORY
from telemark.errors import TestbedError

QKEY = 0x80010000  # Q_Key of queue pair 1 (10.2.5)
SERVICE_OF_TCP_PORTS = 0x0000000001060000  # prefix of service IDs; the rest is the TCP port (A11.2)
SOURCE_PORT = 0xC001
CONNECTIONS = 1024  # maximum number of connections that the manager remembers
# retry forever (12.7.38), because completions may wait until the reader is ready
RNR_RETRIES = 7 << 5
_MAD = struct.Struct("!BBBBHHQHHI")  # MAD header (13.4.3), from base version to attribute modifier
_CLASS, _CLASS_VERSION, _SEND = 7, 2, 3
_BODY = 232


class Attribute(enum.IntEnum):
    """Attribute ids of CM messages (12.6)."""

    REQ = 0x10
    REJ = 0x12
    REP = 0x13
    RTU = 0x14
    DREQ = 0x15
    DREP = 0x16


class RejectReason(enum.IntEnum):
    """Reasons in REJ messages (12.6.7.2)."""

    NO_QUEUE_PAIR = 1
    INVALID_SERVICE = 8
    INVALID_TRANSPORT = 9
    INVALID_MTU = 26


@dataclass(frozen=True)
class _Connection:
    asked: Packet  # frame in which the REQ arrived
    own_id: int
    qpn: int
    request: bytes  # body of the REQ
    reply: bytes  # body of the REP


class ConnectionManager:
    """Responds to connection requests at a port. All peers write to the region of one domain."""

    def __init__(self, nic: SoftNic, domain: Domain, port: int) -> None:
        self._nic = nic
        self._domain = domain
        self._service = SERVICE_OF_TCP_PORTS + port
        # each key is a pair: the address and the ID of a peer
        self._connections: dict[tuple[str, int], _Connection] = {}
        self._next_id = secrets.randbits(32)
        self._psn = 0  # packet sequence number in queue pair 1

    def answers(self, frames: list[bytes]) -> list[bytes]:
        """Return the responses to frames that were sent to queue pair 1 (SoftNic.management())."""
        found = []
        for frame in frames:
            packet = Ether(frame)
            if DETH not in packet:  # because of the UDP source port, scapy parsed another protocol
                continue
            message = bytes(packet[DETH].payload)
            if packet[DETH].qkey != QKEY or len(message) != _MAD.size + _BODY:
                continue
            head = _MAD.unpack(message[: _MAD.size])
            if (head[1], head[2], head[3] & 0x7F) != (_CLASS, _CLASS_VERSION, _SEND):
                continue
            answer = self._answer(head[7], message[_MAD.size :], packet)
            if answer is not None:
                found.append(self._frame(packet, head[6], *answer))
        return found

    def end(self) -> list[bytes]:
        """Close all connections. Return the DREQ frames for the peers."""
        found = []
        for source, their_id in [*self._connections]:
            connection = self._connections[source, their_id]
            body = struct.pack("!II", connection.own_id, their_id) + connection.request[32:35]
            dreq = Attribute.DREQ, body.ljust(_BODY, b"\0")
            found.append(self._frame(connection.asked, connection.own_id, *dreq))
            self._forget(source, their_id)
        return found

    def _answer(
        self, attribute: int, body: bytes, packet: Packet
    ) -> tuple[Attribute, bytes] | None:
        source = _source(packet)
        (their_id,) = struct.unpack_from("!I", body)
        if attribute == Attribute.REQ:
            return self._connect(body, their_id, packet)
        if attribute == Attribute.DREQ:
            return self._disconnect(body, their_id, source)
        if attribute == Attribute.REJ:
            self._handle_reject(body, their_id, source)
        return None

    def _handle_reject(self, body: bytes, their_id: int, source: str) -> None:
        """Handle a REJ.

        If it contains our ID, it is a response to our REP. Otherwise, the peer reports a timeout.
        """
        connection = self._connections.get((source, their_id))
        if connection is not None and _own_id(body) in (0, connection.own_id):
            self._forget(source, their_id)

    def _disconnect(
        self, body: bytes, their_id: int, source: str
    ) -> tuple[Attribute, bytes] | None:
        """Handle a DREQ.

        A DREQ is stale unless it contains both IDs and our queue pair (12.6.10).
        """
        connection = self._connections.get((source, their_id))
        if connection is not None:
            if _id_and_queue_pair(body) != (connection.own_id, connection.qpn):
                return None
            self._forget(source, their_id)
        # Respond even if the connection is unknown: the peer sends DREQ again if DREP was lost.
        return Attribute.DREP, (body[4:8] + body[:4]).ljust(_BODY, b"\0")

    def _forget(self, source: str, their_id: int) -> None:
        self._nic.disconnect(self._connections.pop((source, their_id)).qpn)

    def _connect(self, body: bytes, their_id: int, packet: Packet) -> tuple[Attribute, bytes]:
        source = _source(packet)
        known = self._connections.get((source, their_id))
        # REP was lost, so the peer has sent REQ again
        if known is not None and known.request == body:
            return Attribute.REP, known.reply
        self._forget_stale(source, their_id, body[32:35])
        service, transport = struct.unpack_from("!Q", body, 8)[0], body[43] >> 1 & 3
        if service != self._service:
            return _reject(their_id, RejectReason.INVALID_SERVICE)
        if transport > 1:
            return _reject(their_id, RejectReason.INVALID_TRANSPORT)
        if 128 << (body[50] >> 4) != self._nic.path_mtu:
            return _reject(their_id, RejectReason.INVALID_MTU)
        # The PSN in our REP is the first PSN that the peer will use (12.7.31).
        peer = Peer(source, qpn=int.from_bytes(body[32:35], "big"), psn=secrets.randbits(24))
        kind = Transport.UC if transport else Transport.RC
        try:
            if len(self._connections) >= CONNECTIONS:
                raise TestbedError("{CONNECTIONS} connections are open; close some")
            target = self._nic.connect(self._domain, peer, transport=kind)
        except TestbedError:
            return _reject(their_id, RejectReason.NO_QUEUE_PAIR)
        self._next_id = (self._next_id + 1) % (1 << 32)
        reply = _rep(self._next_id, their_id, target)
        connection = _Connection(packet, self._next_id, target.qpn, body, reply)
        self._connections[source, their_id] = connection
        return Attribute.REP, connection.reply

    def _forget_stale(self, source: str, their_id: int, qpn: bytes) -> None:
        """Forget old connections whose ID or queue pair the peer uses again (12.9.8.3)."""
        stale = [
            key
            for key, each in self._connections.items()
            if key == (source, their_id) or (key[0], each.request[32:35]) == (source, qpn)
        ]
        for key in stale:
            self._forget(*key)

    def _frame(self, to: Packet, transaction: int, attribute: Attribute, body: bytes) -> bytes:
        self._psn = (self._psn + 1) & PSN_MASK
        mad = _MAD.pack(1, _CLASS, _CLASS_VERSION, _SEND, 0, 0, transaction, attribute, 0, 0)
        transport = BTH(opcode=UD | Op.SEND_ONLY, migreq=1, dqpn=1, psn=self._psn)
        datagram = transport / DETH(qkey=QKEY, sqpn=1) / Raw(mad + body)
        return bytes(Ether(src=to.dst, dst=to.src) / _network_back(to) / datagram)


def _own_id(body: bytes) -> int:
    """Return our ID from a message that the peer sends after REQ."""
    return int.from_bytes(body[4:8], "big")


def _id_and_queue_pair(body: bytes) -> tuple[int, int]:
    """Return our ID and our queue pair from a DREQ."""
    return _own_id(body), int.from_bytes(body[8:11], "big")


def _source(packet: Packet) -> str:
    if GRH in packet:
        return _text(packet[GRH].sgid)
    return str(packet[IP if IP in packet else IPv6].src)


def _text(number: int) -> str:
    return str(IPv6Address(number))


def _network_back(to: Packet) -> Packet:
    if GRH in to:
        return GRH(sgid=to[GRH].dgid, dgid=to[GRH].sgid)
    if IP in to:
        return IP(src=to[IP].dst, dst=to[IP].src, flags="DF") / UDP(sport=SOURCE_PORT, chksum=0)
    return IPv6(src=to[IPv6].dst, dst=to[IPv6].src) / UDP(sport=SOURCE_PORT, chksum=0)


def _rep(own_id: int, their_id: int, target: Target) -> bytes:
    body = bytearray(_BODY)
    struct.pack_into("!II", body, 0, own_id, their_id)
    struct.pack_into("!II", body, 12, target.qpn << 8, 0)
    struct.pack_into("!IBBBB", body, 20, target.psn << 8, REPLAYS, 0, 0, RNR_RETRIES)
    MEMORY.pack_into(body, 36, target.base, target.rkey, target.length)
    return bytes(body)


def _reject(their_id: int, why: RejectReason) -> tuple[Attribute, bytes]:
    body = bytearray(_BODY)
    # 0 means that REQ is the rejected message
    struct.pack_into("!IIBBH", body, 0, 0, their_id, 0, 0, why)
    return Attribute.REJ, bytes(body)
