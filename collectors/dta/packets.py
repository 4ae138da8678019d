"""DTA packets in scapy.

Telemark's header has a version; the headers of the prototype have none.

Build a packet layer by layer; the base header determines the UDP destination port:

    UDP() / DTA(reporter=3, sequence=7) / KeyWrite(redundancy=2, key=5, data=[9])
    UDP() / TrackedDTA(seqnum=7) / ShortKeyWrite(redundancy=2, key=5, data=[9])
    UDP(dport=NACK_PORT) / DTA(reporter=3, sequence=7) / Nack(count=2)

Both variants of the prototype use the same port, and a packet does not show its variant. scapy
assumes the published variant, which tracks losses. For the other variant, use PlainDTA(payload).
"""

import enum
from collections.abc import Callable, Container, Mapping
from typing import Any, ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    FieldListField,
    IntField,
    LongField,
    ShortField,
    XBitField,
    XIntField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers, bind_top_down

from collectors.dta.hashes import HOPS, MAX_COPIES
from collectors.dta.key_write import DATA_WORDS
from collectors.dta.sketch_merge import ROWS

PROTOTYPE_PORT, PORT, NACK_PORT = 40040, 40042, 40044  # UDP
VERSION = 1
REDUNDANCIES = range(1, MAX_COPIES + 1)


class Op(enum.IntEnum):
    """Opcodes of DTA; the prototype has only the first four."""

    KEY_WRITE = 0x01
    APPEND = 0x02
    KEY_INCREMENT = 0x03
    POSTCARDING = 0x04
    SKETCH_MERGE = 0x05
    NACK = 0x80


_OPS = {op.value: op.name for op in Op}


def _words(name: str, default: Any, count: Callable[[Any], int] | None = None) -> FieldListField:
    """Return a field that consists of 32-bit words.

    `count` computes the number of words. Without `count`, the field contains all remaining words.
    """
    return FieldListField(name, default, XIntField("", 0), count_from=count)


class _Report(Packet):
    """Base class of the packets that follow a base header."""

    # allowed values of fields, by name; a field that is not in the map may have any value
    allowed: ClassVar[Mapping[str, Container[int]]] = {}

    @classmethod
    def sizes(cls) -> tuple[int, ...]:
        """Return the allowed sizes of the packet, in bytes."""
        return (len(cls()),)


class DTA(Packet):
    """Telemark's base header.

    `sequence` is the number of the report. Each pair of a reporter and a translator counts from 0.
    """

    name = "DTA"
    fields_desc = [
        BitField("version", VERSION, 4),
        BitField("immediate", 0, 1),
        BitField("retransmittable", 0, 1),
        BitField("reserved", 0, 2),
        ByteEnumField("opcode", None, _OPS),
        ShortField("reporter", 0),
        IntField("sequence", 0),
    ]


class PlainDTA(Packet):
    """Base header of the prototype, if it is compiled without loss tracking."""

    name = "DTA (prototype, plain)"
    fields_desc = [
        ByteEnumField("opcode", None, _OPS),
        BitField("immediate", 0, 1),
        BitField("reserved", 0, 7),
    ]


class TrackedDTA(Packet):
    """Base header of the prototype, if it is compiled with loss tracking."""

    name = "DTA (prototype, tracked)"
    fields_desc = [
        ByteEnumField("opcode", None, _OPS),
        ByteField("seqnum", 0),
        BitField("immediate", 0, 1),
        BitField("retransmittable", 0, 1),
        BitField("reserved", 0, 6),
    ]


class KeyWrite(_Report):
    """Key-Write of `data` (one, three or seven words) to `redundancy` slots of the key."""

    name = "Key-Write"
    allowed = {"redundancy": REDUNDANCIES, "words": DATA_WORDS}
    fields_desc = [
        ByteField("redundancy", 1),
        ByteField("words", None),
        ShortField("reserved", 0),
        XBitField("key", 0, 128),
        _words("data", [0], lambda report: report.words),
    ]

    @classmethod
    def sizes(cls) -> tuple[int, ...]:
        return tuple(20 + 4 * words for words in DATA_WORDS)

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        """Set `words` to the number of data words, unless the caller has set it."""
        if self.words is None:
            p = p[:1] + bytes([len(self.data)]) + p[2:]
        return p + pay


class ShortKeyWrite(_Report):
    """Key-Write of the prototype. The prototype's P4 program fixes the number of data words."""

    name = "Key-Write (prototype)"
    allowed = {"redundancy": REDUNDANCIES}
    fields_desc = [
        ByteField("redundancy", 1),
        XIntField("key", 0),
        _words("data", [0]),
    ]

    @classmethod
    def sizes(cls) -> tuple[int, ...]:
        return tuple(5 + 4 * words for words in DATA_WORDS)


class Append(_Report):
    """Append of one word to a list. It is the same in all three formats."""

    name = "Append"
    fields_desc = [IntField("list", 0), XIntField("data", 0)]


class KeyIncrement(_Report):
    """Key-Increment: adds to `redundancy` counters of the key, modulo 2^64."""

    name = "Key-Increment"
    allowed = {"redundancy": REDUNDANCIES}
    fields_desc = [
        ByteField("redundancy", 1),
        BitField("reserved", 0, 24),
        XBitField("key", 0, 128),
        LongField("addend", 0),
    ]


class ShortKeyIncrement(_Report):
    """Key-Increment of the prototype."""

    name = "Key-Increment (prototype)"
    allowed = {"redundancy": REDUNDANCIES}
    fields_desc = [ByteField("redundancy", 1), XIntField("key", 0), LongField("addend", 0)]


class Postcard(_Report):
    """Postcard: the value of hop `hop` on the path of the key. Hops count from 0.

    `hops` is the length of the path, if it is known.
    """

    name = "Postcarding"
    allowed = {"redundancy": REDUNDANCIES, "hop": range(HOPS), "hops": range(HOPS + 1)}
    fields_desc = [
        ByteField("redundancy", 1),
        ByteField("hop", 0),
        ByteField("hops", 0),
        ByteField("reserved", 0),
        XBitField("key", 0, 128),
        XIntField("value", 0),
    ]


class ShortPostcard(_Report):
    """Postcard of the prototype. Here, hops count from 1."""

    name = "Postcarding (prototype)"
    allowed = {"hop": range(1, HOPS + 1)}
    fields_desc = [XIntField("key", 0), ByteField("hop", 1), XIntField("value", 0)]


class SketchMerge(_Report):
    """Sketch-Merge: one column of a sketch. Rows that are not given are 0."""

    name = "Sketch-Merge"
    fields_desc = [
        ShortField("sketch", 0),
        ShortField("column", 0),
        _words("counters", ROWS * [0], lambda _: ROWS),
    ]


class Nack(_Report):
    """NACK to a reporter: `count` reports are missing.

    The base header's `sequence` is the number of the first missing report.
    """

    name = "NACK"
    fields_desc = [IntField("count", 1)]


class ShortNack(_Report):
    """NACK of the prototype, without base header.

    `seqnum` is the number of the last report that arrived in order.
    """

    name = "NACK (prototype)"
    fields_desc = [
        ByteField("seqnum", 0),
        BitEnumField("nack", 1, 1, {0: "ACK", 1: "NACK"}),
        BitField("reserved", 0, 7),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_: Any, **__: Any) -> type[Packet]:
        """Choose Telemark's format if the payload is longer than a ShortNack.

        Telemark's format and that of the prototype use the same port.
        """
        return DTA if _pkt is not None and len(_pkt) > 2 else cls


OURS: dict[int, type[_Report]] = {
    Op.KEY_WRITE: KeyWrite, Op.APPEND: Append, Op.KEY_INCREMENT: KeyIncrement,
    Op.POSTCARDING: Postcard, Op.SKETCH_MERGE: SketchMerge, Op.NACK: Nack,
}  # fmt: skip
PROTOTYPES: dict[int, type[_Report]] = {
    Op.KEY_WRITE: ShortKeyWrite, Op.APPEND: Append, Op.KEY_INCREMENT: ShortKeyIncrement,
    Op.POSTCARDING: ShortPostcard,
}  # fmt: skip


def decode(payload: bytes, base: type[Packet] = DTA) -> Packet:
    """Decode a UDP payload.

    The payload is one report or NACK with the base header `base`.

    Raises ValueError if the version or the opcode is unknown, a value is out of range, or the
    length is wrong. The parser of a translator drops such payloads.
    """
    headers = len(base())
    if len(payload) < headers:
        raise ValueError(f"{len(payload)} bytes: expected a DTA header, which has {headers}")
    packet = base(payload)
    known = OURS if base is DTA else PROTOTYPES
    if base is DTA and packet.version != VERSION:
        raise ValueError(f"version {packet.version}: expected {VERSION}")
    if packet.opcode not in known:
        expected = ", ".join(f"{op:#04x}" for op in known)
        raise ValueError(f"opcode {packet.opcode:#04x}: expected one of {expected}")
    kind, size = known[packet.opcode], len(payload) - headers
    if size not in kind.sizes():
        raise ValueError(f"{kind.__name__}: {size} bytes, expected one of {kind.sizes()}")
    report = packet[kind]
    for field, allowed in kind.allowed.items():
        if (value := getattr(report, field)) not in allowed:
            raise ValueError(f"{kind.__name__}: {field} {value}, expected {allowed}")
    if kind is KeyWrite and size != 20 + 4 * report.words:
        raise ValueError(f"{kind.__name__}: {report.words} words, but {size - 20} bytes of data")
    return packet


def _bind() -> None:
    bind_layers(UDP, DTA, dport=PORT)
    bind_layers(UDP, TrackedDTA, dport=PROTOTYPE_PORT)
    bind_top_down(UDP, PlainDTA, dport=PROTOTYPE_PORT)
    bind_layers(UDP, ShortNack, dport=NACK_PORT)
    for base, reports in ((DTA, OURS), (PlainDTA, PROTOTYPES), (TrackedDTA, PROTOTYPES)):
        for op, report in reports.items():
            bind_layers(base, report, opcode=op)


_bind()
