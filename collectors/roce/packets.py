"""RoCE packets in scapy: v1 and v2, with iCRC.

These layers replace scapy's own layers, which are wrong in part.

Sources: InfiniBand Architecture Specification 1 (IBTA), 5.2 and 9.2 to 9.4; annexes A16 (RoCE) and
A17 (RoCEv2). Build and parse a packet layer by layer:

    Ether() / IP(src=..., dst=..., flags="DF") / UDP(sport=49152) / BTH(opcode=Op.WRITE_ONLY, ...)
        / RETH(va=..., rkey=..., length=5) / Raw(b"12345") / Padding(3 bytes)

Lengths and the iCRC at the end are computed, unless they are given (icrc=None).
"""

import enum
import zlib
from typing import Any

from scapy.contrib import roce
from scapy.fields import (
    BitField,
    ByteField,
    LenField,
    XBitField,
    XIntField,
    XLongField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, bind_layers, split_layers

PORT = 4791  # UDP port of RoCEv2 (A17.2)
ETHERTYPE = 0x8915  # Ethertype of RoCEv1 (A16.2)
NEXT_HEADER = 0x1B  # Next Header of a GRH that is followed by a BTH (8.3.3)
UC = 0x20  # offset from RC opcodes to UC opcodes
UD = 0x60  # offset from RC opcodes to UD opcodes
PSN_MASK = 0xFFFFFF
UNLIMITED = 0x1F  # AETH syndrome of an ACK that does not limit credits

_DUMMY_LRH = b"\xff" * 8
_IPV4, _IPV6, _UDP, _BTH = 20, 40, 8, 12  # header sizes in bytes


class Op(enum.IntEnum):
    """Opcodes of reliable connections (9.2.1, table 35)."""

    SEND_ONLY = 0x04
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMMEDIATE = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMMEDIATE = 0x0B
    READ_REQUEST = 0x0C
    ACKNOWLEDGE = 0x11
    ATOMIC_ACKNOWLEDGE = 0x12
    COMPARE_SWAP = 0x13
    FETCH_ADD = 0x14


class Nak(enum.IntEnum):
    """AETH syndromes of NAKs (9.7.5.1.4). The low 5 bits of RNR are a timer."""

    RNR = 0x20
    SEQUENCE = 0x60
    INVALID_REQUEST = 0x61
    REMOTE_ACCESS = 0x62
    REMOTE_OPERATION = 0x63


def icrc(packet: bytes) -> bytes:
    """Return the iCRC of a packet in wire order.

    `packet` begins with the IP header or the GRH, and lacks the last four bytes (the iCRC). In the
    iCRC, fields that change in transit count as ones (7.8.1, A16.5.1, A17.3.3). Raises ValueError
    if the packet cannot be RoCE.
    """
    masked = bytearray(packet)
    if masked[0] == 0x45:
        bth = _IPV4 + _UDP
        ones = [1, 8, 10, 11, 26, 27]  # offsets: TOS, TTL, IP checksum, UDP checksum
    elif masked[0] >> 4 == 6:
        masked[0] |= 0x0F
        ones = [1, 2, 3, 7]  # offsets: traffic class, flow label, hop limit
        if masked[6] == NEXT_HEADER:
            bth = _IPV6
        else:
            bth = _IPV6 + _UDP
            ones += [46, 47]
    else:
        raise ValueError(f"first byte {masked[0]:#x}: expected IPv4 without options, IPv6 or GRH")
    if len(masked) < bth + _BTH:
        raise ValueError(f"{len(masked)} bytes: no room for a BTH")
    for at in (*ones, bth + 4):  # the last byte has FECN, BECN and reserved bits of the BTH
        masked[at] = 0xFF
    return zlib.crc32(_DUMMY_LRH + masked).to_bytes(4, "little")


class BTH(roce.BTH):
    """Base Transport Header (9.2). The field `icrc` follows the payload."""

    payload_guess: list[Any] = []  # not inherited, because _bind() adds entries for this class

    def compute_icrc(self, p: bytes) -> bytes:
        """Compute the iCRC.

        scapy calls this method with BTH and payload, including four bytes for the iCRC.
        """
        lower: Any = self.underlayer
        above = lower.underlayer if isinstance(lower, UDP) else lower
        if not isinstance(above, (IP, IPv6, GRH)):
            raise ValueError("no iCRC: BTH is neither in UDP over IP nor behind a GRH")
        packet: Any = above.copy()
        (packet[UDP] if isinstance(lower, UDP) else packet).payload = Raw(p)
        return icrc(bytes(packet)[:-4])


class GRH(Packet):
    """Global Route Header (8.3) of RoCEv1."""

    name = "GRH"
    fields_desc = [
        BitField("ipver", 6, 4),
        BitField("tclass", 0, 8),
        BitField("flowlabel", 0, 20),
        LenField("paylen", None),
        ByteField("nexthdr", NEXT_HEADER),
        ByteField("hoplmt", 64),
        XBitField("sgid", 0, 128),
        XBitField("dgid", 0, 128),
    ]


class RETH(Packet):
    """RDMA Extended Transport Header (9.3.3)."""

    name = "RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), BitField("length", 0, 32)]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Choose ImmDt if the opcode has an immediate value."""
        has_immediate = isinstance(self.underlayer, BTH) and (
            self.underlayer.opcode & 0x1F == Op.WRITE_ONLY_IMMEDIATE
        )
        return ImmDt if has_immediate else Raw


class ImmDt(Packet):
    """Immediate Data (9.3.6) in network byte order. The responder does not interpret it."""

    name = "ImmDt"
    fields_desc = [XIntField("data", 0)]


class DETH(Packet):
    """Datagram Extended Transport Header (9.3.2). It precedes connection management."""

    name = "DETH"
    fields_desc = [XIntField("qkey", 0), ByteField("reserved", 0), XBitField("sqpn", 0, 24)]


class AtomicETH(Packet):
    """Atomic Extended Transport Header (9.3.4). For FETCH_ADD, `swap` is the number to add."""

    name = "AtomicETH"
    fields_desc = [
        XLongField("va", 0), XIntField("rkey", 0), XLongField("swap", 0), XLongField("compare", 0),
    ]  # fmt: skip


class AETH(roce.AETH):
    """ACK Extended Transport Header (9.3.5)."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Choose AtomicAckETH if this is the response to an atomic operation."""
        is_atomic = isinstance(self.underlayer, BTH) and (
            self.underlayer.opcode == Op.ATOMIC_ACKNOWLEDGE
        )
        return AtomicAckETH if is_atomic else Raw


class AtomicAckETH(Packet):
    """Atomic ACK Extended Transport Header (9.3.5.2): the value before the operation."""

    name = "AtomicAckETH"
    fields_desc = [XLongField("before", 0)]


def _bind() -> None:
    split_layers(UDP, roce.BTH, dport=PORT)
    split_layers(Ether, roce.GRH, type=ETHERTYPE)
    bind_layers(UDP, BTH, dport=PORT)
    bind_layers(Ether, GRH, type=ETHERTYPE)
    bind_layers(GRH, BTH, nexthdr=NEXT_HEADER)
    for op in (Op.WRITE_FIRST, Op.WRITE_ONLY, Op.WRITE_ONLY_IMMEDIATE):
        bind_layers(BTH, RETH, opcode=op)
        bind_layers(BTH, RETH, opcode=op | UC)
    bind_layers(BTH, RETH, opcode=Op.READ_REQUEST)
    for opcode in (Op.WRITE_LAST_IMMEDIATE, Op.WRITE_LAST_IMMEDIATE | UC):
        bind_layers(BTH, ImmDt, opcode=opcode)
    for op in (Op.COMPARE_SWAP, Op.FETCH_ADD):
        bind_layers(BTH, AtomicETH, opcode=op)
    bind_layers(BTH, DETH, opcode=UD | Op.SEND_ONLY)
    for op in (Op.ACKNOWLEDGE, Op.ATOMIC_ACKNOWLEDGE):
        bind_layers(BTH, AETH, opcode=op)
    bind_layers(BTH, roce.CNPPadding, opcode=roce.CNP_OPCODE)


_bind()
