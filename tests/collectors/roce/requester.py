"""A requester for tests: builds RoCE requests, also invalid ones, and parses responses."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from collectors.roce.endpoint import Peer, Target, Transport, gid
from collectors.roce.packets import (
    AETH,
    BTH,
    GRH,
    PSN_MASK,
    RETH,
    UC,
    AtomicAckETH,
    AtomicETH,
    ImmDt,
    Op,
    icrc,
)

UDP_SOURCE = 49152


@dataclass(frozen=True)
class Session:
    """A queue pair as the requester sees it; `version` is v1, v2 or v2_ipv6."""

    version: str
    mac: str
    peer: Peer
    peer_mac: str
    target: Target

    @cached_property
    def network(self) -> Packet:
        """Return the layers of a request below its BTH."""
        addresses = {"src": self.peer.address, "dst": self.target.address}
        if self.version == "v2":
            return IP(**addresses, flags="DF", id=0) / UDP(sport=UDP_SOURCE, chksum=0)
        if self.version == "v2_ipv6":
            return IPv6(**addresses) / UDP(sport=UDP_SOURCE, chksum=0)
        source, destination = (
            int.from_bytes(gid(each), "big") for each in (self.peer.address, self.target.address)
        )
        return GRH(sgid=source, dgid=destination)

    def frame(self, content: Packet) -> bytes:
        """Return the frame of a request. `content` consists of the frame's layers from BTH on."""
        ethernet = Ether(src=self.peer_mac, dst=self.mac)
        content[BTH].icrc = 0  # otherwise scapy would build everything twice
        built = bytes(ethernet / self.network.copy() / content)
        return built[:-4] + icrc(built[14:-4])


@dataclass(frozen=True)
class Answer:
    """Response to a requester; PSNs are relative to the first PSN of the session."""

    psn: int
    syndrome: int = 0x1F
    msn: int | None = None  # None: any MSN is accepted
    before: int | None = None  # previous value of an atomic operation

    @staticmethod
    def read(session: Session, frame: bytes) -> "Answer":
        """Parse the response in a frame; assert that it is valid."""
        packet = Ether(frame)
        assert (packet.dst, packet.src) == (session.peer_mac, session.mac)
        assert frame[-4:] == icrc(frame[14:-4])
        bth = packet[BTH]
        assert bth.dqpn == session.peer.qpn
        assert (bth.pkey, bth.version, bth.padcount, bth.ackreq) == (0xFFFF, 0, 0, 0)
        _check_network(session, packet, len(frame))
        before = packet[AtomicAckETH].before if AtomicAckETH in packet else None
        assert bth.opcode == (Op.ACKNOWLEDGE if before is None else Op.ATOMIC_ACKNOWLEDGE)
        psn = (bth.psn - session.target.psn) & PSN_MASK
        return Answer(psn, packet[AETH].syndrome, packet[AETH].msn, before)


def _check_network(session: Session, packet: Packet, length: int) -> None:
    if session.version == "v1":
        grh = packet[GRH]
        assert grh.sgid.to_bytes(16, "big") == gid(session.target.address)
        assert grh.dgid.to_bytes(16, "big") == gid(session.peer.address)
        assert (grh.ipver, grh.nexthdr, grh.paylen) == (6, 0x1B, length - 14 - 40)
        return
    ip = packet[IP if session.version == "v2" else IPv6]
    assert (ip.src, ip.dst) == (session.target.address, session.peer.address)
    assert packet[UDP].dport == 4791
    assert packet[UDP].sport >= 0xC000
    if session.version == "v2":
        assert (ip.len, packet[UDP].len) == (length - 14, length - 34)
        assert ip.flags == "DF"
        given = ip.chksum
        del ip.chksum
        assert IP(bytes(ip)).chksum == given


Request = Callable[[Session], bytes]
"""Builds the frame of a request."""


def request(op: int, psn: int, *headers: Packet, data: bytes = b"", pad: int | None = None,
            ack: bool = True, **bth: Any) -> Request:  # fmt: skip
    """Return the layers of a request from BTH on; `psn` is relative to the session's first PSN."""
    padding = -len(data) & 3 if pad is None else pad

    def build(session: Session) -> bytes:
        uc = UC if session.target.transport is Transport.UC else 0
        fields = {"opcode": op | uc, "dqpn": session.target.qpn, "migreq": 1, "ackreq": ack,
                  "psn": (session.target.psn + psn) & PSN_MASK, "padcount": padding}  # fmt: skip
        content = BTH(**{**fields, **bth})
        for header in headers:
            content /= _placed(header, session.target)
        return session.frame(content / Raw(data + bytes(padding)))

    return build


def _placed(header: Packet, target: Target) -> Packet:
    """Return the header with an address instead of its offset, and an R_Key instead of its key."""
    placed = header.copy()
    if isinstance(header, (RETH, AtomicETH)):
        placed.va = (header.va + target.base) & (1 << 64) - 1
        placed.rkey = header.rkey ^ target.rkey
    return placed


def write(psn: int, data: bytes, at: int = 0, *, op: int = Op.WRITE_ONLY, length: int | None = None,
          key: int = 0, immediate: int | None = None, **more: Any) -> Request:  # fmt: skip
    """Return a WRITE FIRST or ONLY.

    `at` is an offset in the region. The bits of `key` are inverted in the R_Key.
    """
    reth = RETH(va=at & (1 << 64) - 1, rkey=key, length=len(data) if length is None else length)
    if immediate is None:
        return request(op, psn, reth, data=data, **more)
    return request(Op.WRITE_ONLY_IMMEDIATE, psn, reth, ImmDt(data=immediate), data=data, **more)


def go_on(psn: int, data: bytes, op: int = Op.WRITE_MIDDLE, *, immediate: int | None = None,
          **more: Any) -> Request:  # fmt: skip
    """Return a WRITE MIDDLE or LAST."""
    if immediate is None:
        return request(op, psn, data=data, **more)
    return request(Op.WRITE_LAST_IMMEDIATE, psn, ImmDt(data=immediate), data=data, **more)


def add(psn: int, at: int, addend: int, *, key: int = 0, **more: Any) -> Request:
    """Return a FETCH_ADD request."""
    return request(Op.FETCH_ADD, psn, AtomicETH(va=at, rkey=key, swap=addend), **more)


def swap(psn: int, at: int, compare: int, value: int, *, key: int = 0, **more: Any) -> Request:
    """Return a COMPARE_SWAP request."""
    header = AtomicETH(va=at, rkey=key, swap=value, compare=compare)
    return request(Op.COMPARE_SWAP, psn, header, **more)


def changed(
    build: Request, change: Callable[[bytearray, int], None], *, fix_icrc: bool = False
) -> Request:
    """Return a request whose bytes are changed: `change` gets the frame and the offset of BTH.

    The iCRC does not change, or is computed again with `fix_icrc`.
    """

    def built(session: Session) -> bytes:
        frame = bytearray(build(session))
        change(frame, 14 + {"v1": 40, "v2": 28, "v2_ipv6": 48}[session.version])
        if fix_icrc:
            frame[-4:] = icrc(bytes(frame[14:-4]))
        return bytes(frame)

    return built


def packed(value: int) -> bytes:
    """Return a 64-bit number in the byte order of the machine, as in atomic operations."""
    return struct.pack("<Q", value & (1 << 64) - 1)
