"""Connection management (CM): queue pairs set up as peers of librdmacm expect.

IBTA, chapter 12, and annex A11 (RDMA IP CM service). A peer sends REQ to queue pair 1, we answer
REP, and it RTU; DREQ ends it, and we answer DREP. What we refuse is told by REJ, and so is by a
peer what it makes of our REP. In REP's private data the peer finds where to write: base (8 bytes),
R_Key (4) and length (8), in network byte order. A peer that gets no answer sends its message again.
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

from collectors.roce.cm_peer import MEMORY
from collectors.roce.endpoint import Domain, Peer, Target, Transport
from collectors.roce.packets import BTH, DETH, GRH, PSN_MASK, UD, Op
from collectors.roce.shared import REPLAYS
from collectors.roce.softnic import SoftNic
from telemark.errors import TestbedError

QKEY = 0x80010000  # of queue pair 1 (10.2.5)
SERVICE_OF_TCP_PORTS = 0x0000000001060000  # and the port (A11.2)
SOURCE_PORT = 0xC001
CONNECTIONS = 1024  # that are remembered
RNR_RETRIES = 7 << 5  # without end (12.7.38): completions that wait are the reader's to take
_MAD = struct.Struct("!BBBBHHQHHI")  # 13.4.3: base version to attribute modifier
_CLASS, _CLASS_VERSION, _SEND = 7, 2, 3
_BODY = 232


class Attribute(enum.IntEnum):
    """Messages (12.6)."""

    REQ = 0x10
    REJ = 0x12
    REP = 0x13
    RTU = 0x14
    DREQ = 0x15
    DREP = 0x16


class RejectReason(enum.IntEnum):
    """Reasons of REJ (12.6.7.2)."""

    NO_QUEUE_PAIR = 1
    INVALID_SERVICE = 8
    INVALID_TRANSPORT = 9
    INVALID_MTU = 26


@dataclass(frozen=True)
class _Connection:
    asked: Packet  # the frame of REQ
    own_id: int
    qpn: int
    request: bytes  # REQ's body
    reply: bytes  # REP's


class ConnectionManager:
    """Gives targets in a domain to peers that ask for a port."""

    def __init__(self, nic: SoftNic, domain: Domain, port: int) -> None:
        self._nic = nic
        self._domain = domain
        self._service = SERVICE_OF_TCP_PORTS + port
        self._connections: dict[tuple[str, int], _Connection] = {}  # by address, and their id
        self._next_id = secrets.randbits(32)
        self._psn = 0  # of queue pair 1

    def answers(self, frames: list[bytes]) -> list[bytes]:
        """What is to be sent in answer to frames to queue pair 1 (SoftNic.management())."""
        found = []
        for frame in frames:
            packet = Ether(frame)
            if DETH not in packet:  # scapy took the datagram's source port for another protocol's
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
        """Close all connections; what is to be sent, so that peers know."""
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
            self._be_rejected(body, their_id, source)
        return None

    def _be_rejected(self, body: bytes, their_id: int, source: str) -> None:
        """It could not use our REP; or it waited too long for one, and never learnt our id."""
        connection = self._connections.get((source, their_id))
        if connection is not None and _own_id(body) in (0, connection.own_id):
            self._forget(source, their_id)

    def _disconnect(
        self, body: bytes, their_id: int, source: str
    ) -> tuple[Attribute, bytes] | None:
        """It names both ends' ids and our queue pair, or is of another connection (12.6.10)."""
        connection = self._connections.get((source, their_id))
        if connection is not None:
            if _ends(body) != (connection.own_id, connection.qpn):
                return None
            self._forget(source, their_id)
        # Else DREP was lost, and DREQ comes again.
        return Attribute.DREP, (body[4:8] + body[:4]).ljust(_BODY, b"\0")

    def _forget(self, source: str, their_id: int) -> None:
        self._nic.disconnect(self._connections.pop((source, their_id)).qpn)

    def _connect(self, body: bytes, their_id: int, packet: Packet) -> tuple[Attribute, bytes]:
        source = _source(packet)
        known = self._connections.get((source, their_id))
        if known is not None and known.request == body:  # REP was lost, and REQ comes again
            return Attribute.REP, known.reply
        self._forget_stale(source, their_id, body[32:35])
        service, transport = struct.unpack_from("!Q", body, 8)[0], body[43] >> 1 & 3
        if service != self._service:
            return _reject(their_id, RejectReason.INVALID_SERVICE)
        if transport > 1:
            return _reject(their_id, RejectReason.INVALID_TRANSPORT)
        if 128 << (body[50] >> 4) != self._nic.path_mtu:
            return _reject(their_id, RejectReason.INVALID_MTU)
        # What we answer is the PSN that the peer begins with (12.7.31).
        peer = Peer(source, qpn=int.from_bytes(body[32:35], "big"), psn=secrets.randbits(24))
        kind = Transport.UC if transport else Transport.RC
        try:
            if len(self._connections) >= CONNECTIONS:
                raise TestbedError("connections are as many as may be")
            target = self._nic.connect(self._domain, peer, transport=kind)
        except TestbedError:
            return _reject(their_id, RejectReason.NO_QUEUE_PAIR)
        self._next_id = (self._next_id + 1) % (1 << 32)
        reply = _rep(self._next_id, their_id, target)
        connection = _Connection(packet, self._next_id, target.qpn, body, reply)
        self._connections[source, their_id] = connection
        return Attribute.REP, connection.reply

    def _forget_stale(self, source: str, their_id: int, qpn: bytes) -> None:
        """A peer that uses an id or a queue pair anew has lost its connection (12.9.8.3)."""
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
    """Our id, as messages behind REQ name it."""
    return int.from_bytes(body[4:8], "big")


def _ends(body: bytes) -> tuple[int, int]:
    """Our id and queue pair, as DREQ names them."""
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
    struct.pack_into("!IIBBH", body, 0, 0, their_id, 0, 0, why)  # "rejected: REQ" is 0
    return Attribute.REJ, bytes(body)
