"""IOAM options in IPv6 (RFC 9197, 9326, 9486), and the report of an IOAM node.

A packet carries options in a hop-by-hop or destination options header:

    header = options_header([Trace(0xF00000, namespace=123, remaining=24)], next_header=17)
    parse_options(header)      # (next header, [Trace(...)], length of the header in bytes)
    Report.decode(payload)     # report of a node, from a UDP datagram

A node exports a Telemetry Report 2.0 whose report type is IOAM. The specification reserves the type
and leaves the format open. Telemark defines the format (in 4-byte words):

    group header, 2 words                             as in Telemetry Report 2.0
    report header, 1 word                             as in 2.0: RepType 2, InType 5, MD Length, ...
    Namespace-ID (16) | Reserved (8) | Option-Type (8)
    IOAM-Trace-Type (24) | Reserved (8)               fields of the node data in this report
    node data of the reporting node                   as in a trace option
    IPv6 packet with its options, maybe truncated     as the node received it

Report Length counts the words after the report header, and MD Length counts the words of the node
data. The packet contains the trace, edge-to-edge or DEX option that caused the report. If a report
has no node data of the reporting node, its trace type is 0.
"""

import enum
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from ipaddress import IPv6Address
from typing import Final

OPTION_UNCHANGED, OPTION_CHANGEABLE = 0x11, 0x31  # IPv6 option types (RFC 9486)
REPORT_TYPE = 2  # RepType of Telemetry Report 2.0
PAD1, PADN = 0, 1
IPV6_BYTES, NO_NEXT_HEADER = 40, 59


class OptionError(ValueError):
    """Malformed IOAM option or report."""


class OptionType(enum.IntEnum):
    """IOAM-Option-Type."""

    PREALLOCATED = 0
    INCREMENTAL = 1
    POT = 2
    E2E = 3
    DEX = 4


class TraceType(enum.IntFlag):
    """IOAM-Trace-Type. Bit 0 in the RFC is the most significant of 24 bits."""

    HOP_NODE = 1 << 23
    INTERFACES = 1 << 22
    SECONDS = 1 << 21
    FRACTION = 1 << 20
    TRANSIT_DELAY = 1 << 19
    NAMESPACE_DATA = 1 << 18
    QUEUE_DEPTH = 1 << 17
    CHECKSUM = 1 << 16
    HOP_NODE_WIDE = 1 << 15
    INTERFACES_WIDE = 1 << 14
    NAMESPACE_DATA_WIDE = 1 << 13
    BUFFER_OCCUPANCY = 1 << 12
    OPAQUE = 1 << 1
    RESERVED = 1


WIDE: Final = (
    TraceType.HOP_NODE_WIDE | TraceType.INTERFACES_WIDE | TraceType.NAMESPACE_DATA_WIDE
)  # fields of eight bytes
UNDEFINED: Final = tuple(1 << (23 - bit) for bit in range(12, 22))  # fields of four bytes


class TraceFlag(enum.IntFlag):
    """Flags of a trace option (RFC 9197, 9322)."""

    OVERFLOW = 8
    LOOPBACK = 4
    ACTIVE = 2


class E2EType(enum.IntFlag):
    """IOAM-E2E-Type. Bit 0 in the RFC is the most significant of 16 bits."""

    SEQUENCE64 = 0x8000
    SEQUENCE32 = 0x4000
    SECONDS = 0x2000
    FRACTION = 0x1000


class DexFlag(enum.IntFlag):
    """Extension-Flags of a DEX option."""

    FLOW = 0x80
    SEQUENCE = 0x40


@dataclass(frozen=True)
class NodeData:
    """Data fields of one node. None means that the trace type lacks the field.

    A field of all ones is not available at the node: see is_available().
    """

    hop_limit: int | None = None
    node: int | None = None  # 24 bits
    ingress: int | None = None
    egress: int | None = None
    seconds: int | None = None  # time at which the node received the packet
    fraction: int | None = None
    transit_delay: int | None = None  # ns; bit 31 is set if the delay was too long
    namespace_data: int | None = None
    queue_depth: int | None = None
    checksum: int | None = None
    hop_limit_wide: int | None = None
    node_wide: int | None = None  # 56 bits
    ingress_wide: int | None = None
    egress_wide: int | None = None
    namespace_data_wide: int | None = None
    buffer_occupancy: int | None = None
    undefined: tuple[int, ...] = ()  # one word per undefined bit
    schema: int | None = None  # schema of the opaque state snapshot, 24 bits
    opaque: bytes = b""  # a multiple of four bytes

    def is_available(self, name: str) -> bool:
        """Return whether a field has a value: the trace type has it, and it is not all ones."""
        value = getattr(self, name)
        return value is not None and value != (1 << _BITS[name]) - 1

    def encode(self, trace_type: int) -> bytes:
        """Return the fields of a trace type. A field that is None becomes all ones."""
        data = b""
        undefined = iter(self.undefined)
        for bit in _bits(trace_type & ~(TraceType.OPAQUE | TraceType.RESERVED)):
            if bit in UNDEFINED:
                data += struct.pack(">I", next(undefined, 0xFFFFFFFF))
                continue
            word = 0
            for name in _FIELDS[bit]:
                value = getattr(self, name)
                size = _BITS[name]
                word = word << size | ((1 << size) - 1 if value is None else value)
            data += word.to_bytes(8 if bit & WIDE else 4, "big")
        if trace_type & TraceType.OPAQUE:
            schema = 0xFFFFFF if self.schema is None else self.schema
            data += struct.pack(">I", len(self.opaque) // 4 << 24 | schema) + self.opaque
        return data

    @classmethod
    def decode(cls, trace_type: int, data: bytes) -> tuple["NodeData", int]:
        """Return the node data at the start of `data`, and its length in bytes."""
        found: dict[str, int] = {}
        undefined = []
        at = 0
        for bit in _bits(trace_type & ~(TraceType.OPAQUE | TraceType.RESERVED)):
            size = 8 if bit & WIDE else 4
            if len(data) < at + size:
                raise OptionError("node data: shorter than the trace type")
            word = int.from_bytes(data[at : at + size], "big")
            at += size
            if bit in UNDEFINED:
                undefined.append(word)
                continue
            for name in reversed(_FIELDS[bit]):
                found[name] = word & ((1 << _BITS[name]) - 1)
                word >>= _BITS[name]
        opaque = b""
        if trace_type & TraceType.OPAQUE:
            if len(data) < at + 4:
                raise OptionError("opaque state snapshot: no header")
            words, found["schema"] = data[at], int.from_bytes(data[at + 1 : at + 4], "big")
            opaque = data[at + 4 : at + 4 + 4 * words]
            if len(opaque) != 4 * words:
                raise OptionError("opaque state snapshot: longer than the option")
            at += 4 + 4 * words
        return cls(**found, undefined=tuple(undefined), opaque=opaque), at


_FIELDS: Final[dict[int, tuple[str, ...]]] = {
    TraceType.HOP_NODE: ("hop_limit", "node"),
    TraceType.INTERFACES: ("ingress", "egress"),
    TraceType.SECONDS: ("seconds",),
    TraceType.FRACTION: ("fraction",),
    TraceType.TRANSIT_DELAY: ("transit_delay",),
    TraceType.NAMESPACE_DATA: ("namespace_data",),
    TraceType.QUEUE_DEPTH: ("queue_depth",),
    TraceType.CHECKSUM: ("checksum",),
    TraceType.HOP_NODE_WIDE: ("hop_limit_wide", "node_wide"),
    TraceType.INTERFACES_WIDE: ("ingress_wide", "egress_wide"),
    TraceType.NAMESPACE_DATA_WIDE: ("namespace_data_wide",),
    TraceType.BUFFER_OCCUPANCY: ("buffer_occupancy",),
}
_BITS: Final = {each.name: 32 for each in fields(NodeData)} | {
    "hop_limit": 8, "node": 24, "ingress": 16, "egress": 16, "hop_limit_wide": 8,
    "node_wide": 56, "namespace_data_wide": 64, "schema": 24,
}  # fmt: skip


@dataclass(frozen=True)
class Trace:
    """Pre-allocated or incremental trace option.

    `remaining` is the number of words that are left for further nodes: free space in a
    pre-allocated option, and permitted growth of an incremental one.
    """

    trace_type: int  # a combination of TraceType
    namespace: int = 0
    flags: int = 0  # a combination of TraceFlag
    remaining: int = 0
    nodes: tuple[NodeData, ...] = ()  # in order of the path: the encapsulating node is first
    is_incremental: bool = False
    free: bytes = field(default=b"", compare=False)  # free space as received; zeros if empty

    def encode(self) -> bytes:
        """Return the IPv6 option."""
        word = node_words(self.trace_type) << 11 | self.flags << 7 | self.remaining
        data = struct.pack(">HHI", self.namespace, word, self.trace_type << 8)
        if not self.is_incremental:
            data += self.free or bytes(4 * self.remaining)
        for node in reversed(self.nodes):
            data += node.encode(self.trace_type)
        kind = OptionType.INCREMENTAL if self.is_incremental else OptionType.PREALLOCATED
        return _option(OPTION_CHANGEABLE, kind, data)

    @classmethod
    def decode(cls, kind: OptionType, data: bytes) -> "Trace":
        """Return the option from the bytes after IOAM-Option-Type. Raises OptionError."""
        if len(data) < 8:
            raise OptionError("trace option: shorter than its header")
        namespace, word, last = struct.unpack_from(">HHI", data)
        trace_type, remaining = last >> 8, word & 0x7F
        if word >> 11 != node_words(trace_type):
            raise OptionError(
                f"trace option: NodeLen is {word >> 11}, but the trace type has "
                f"{node_words(trace_type)} words"
            )
        free = 0 if kind == OptionType.INCREMENTAL else 4 * remaining
        if len(data) < 8 + free:
            raise OptionError("trace option: RemainingLen is longer than the option")
        nodes = []
        rest = data[8 + free :]
        while rest:
            node, size = NodeData.decode(trace_type, rest)
            if not size:
                raise OptionError("trace option: data, but the trace type has no field")
            nodes.append(node)
            rest = rest[size:]
        return cls(
            trace_type, namespace, word >> 7 & 0xF, remaining, tuple(reversed(nodes)),
            kind == OptionType.INCREMENTAL, data[8 : 8 + free],
        )  # fmt: skip


@dataclass(frozen=True)
class EdgeToEdge:
    """Edge-to-edge option. None means that the option lacks the field."""

    namespace: int = 0
    sequence64: int | None = None
    sequence32: int | None = None
    seconds: int | None = None
    fraction: int | None = None

    def encode(self) -> bytes:
        """Return the IPv6 option."""
        e2e_type, data = 0, b""
        for bit, name, size in _E2E:
            value = getattr(self, name)
            if value is not None:
                e2e_type |= bit
                data += value.to_bytes(size, "big")
        head = struct.pack(">HH", self.namespace, e2e_type)
        return _option(OPTION_UNCHANGED, OptionType.E2E, head + data)

    @classmethod
    def decode(cls, data: bytes) -> "EdgeToEdge":
        """Return the option from the bytes after IOAM-Option-Type. Raises OptionError.

        Fields of undefined bits follow the known fields, and are ignored.
        """
        if len(data) < 4:
            raise OptionError("edge-to-edge option: shorter than its header")
        namespace, e2e_type = struct.unpack_from(">HH", data)
        found, at = {}, 4
        for bit, name, size in _E2E:
            if e2e_type & bit:
                if len(data) < at + size:
                    raise OptionError("edge-to-edge option: shorter than its type")
                found[name] = int.from_bytes(data[at : at + size], "big")
                at += size
        return cls(namespace, **found)


_E2E: Final = (
    (E2EType.SEQUENCE64, "sequence64", 8),
    (E2EType.SEQUENCE32, "sequence32", 4),
    (E2EType.SECONDS, "seconds", 4),
    (E2EType.FRACTION, "fraction", 4),
)


@dataclass(frozen=True)
class DirectExport:
    """Direct export (DEX) option. None means that the option lacks the field."""

    trace_type: int  # fields that the nodes export
    namespace: int = 0
    flags: int = 0
    flow: int | None = None
    sequence: int | None = None

    def encode(self) -> bytes:
        """Return the IPv6 option."""
        extension, data = 0, b""
        for bit, value in ((DexFlag.FLOW, self.flow), (DexFlag.SEQUENCE, self.sequence)):
            if value is not None:
                extension |= bit
                data += struct.pack(">I", value)
        head = struct.pack(">HBBI", self.namespace, self.flags, extension, self.trace_type << 8)
        return _option(OPTION_UNCHANGED, OptionType.DEX, head + data)

    @classmethod
    def decode(cls, data: bytes) -> "DirectExport":
        """Return the option from the bytes after IOAM-Option-Type. Raises OptionError.

        Fields of undefined extension flags follow the known fields, and are ignored.
        """
        if len(data) < 8:
            raise OptionError("DEX option: shorter than its header")
        namespace, flags, extension, last = struct.unpack_from(">HBBI", data)
        found, at = {}, 8
        for bit, name in ((DexFlag.FLOW, "flow"), (DexFlag.SEQUENCE, "sequence")):
            if extension & bit:
                if len(data) < at + 4:
                    raise OptionError("DEX option: shorter than its flags")
                found[name] = int.from_bytes(data[at : at + 4], "big")
                at += 4
        return cls(last >> 8, namespace, flags, **found)


Option = Trace | EdgeToEdge | DirectExport


def node_words(trace_type: int) -> int:
    """Return NodeLen: the words of node data, without the opaque state snapshot."""
    counted = trace_type & ~(TraceType.OPAQUE | TraceType.RESERVED)
    return counted.bit_count() + (counted & WIDE).bit_count()


def options_header(options: Sequence[Option], next_header: int) -> bytes:
    """Return a hop-by-hop or destination options header with these options."""
    header = bytes([next_header, 0])
    for option in options:
        header += _padding(-len(header) % 4) + option.encode()
    header += _padding(-len(header) % 8)
    return header[:1] + bytes([len(header) // 8 - 1]) + header[2:]


def parse_options(header: bytes) -> tuple[int, list[Option], int]:
    """Return the next header, the IOAM options, and the length of an options header in bytes.

    Skips other options, and IOAM options of other types. Raises OptionError.
    """
    if len(header) < 8:
        raise OptionError("options header: shorter than 8 bytes")
    length = 8 * (header[1] + 1)
    if len(header) < length:
        raise OptionError("options header: longer than the packet")
    options: list[Option] = []
    at = 2
    while at < length:
        if header[at] == PAD1:
            at += 1
            continue
        if at + 2 > length or at + 2 + header[at + 1] > length:
            raise OptionError("option: longer than its header")
        data = header[at + 2 : at + 2 + header[at + 1]]
        if header[at] in (OPTION_UNCHANGED, OPTION_CHANGEABLE):
            if len(data) < 2:
                raise OptionError("IOAM option: shorter than 2 bytes")
            option = _decode_option(data[1], data[2:])
            if option is not None:
                options.append(option)
        at += 2 + len(data)
    return header[0], options, length


def _decode_option(kind: int, data: bytes) -> Option | None:
    if kind in (OptionType.PREALLOCATED, OptionType.INCREMENTAL):
        return Trace.decode(OptionType(kind), data)
    if kind == OptionType.E2E:
        return EdgeToEdge.decode(data)
    return DirectExport.decode(data) if kind == OptionType.DEX else None


def _option(ipv6_type: int, kind: OptionType, data: bytes) -> bytes:
    if len(data) > 253:
        raise OptionError(f"IOAM option: {len(data)} bytes of data; use at most 253")
    return bytes([ipv6_type, len(data) + 2, 0, kind]) + data


def _padding(size: int) -> bytes:
    return bytes(size) if size < 2 else bytes([PADN, size - 2]) + bytes(size - 2)


def _bits(mask: int) -> list[int]:
    """Return the bits of a trace type, bit 0 of the RFC first."""
    return [1 << bit for bit in range(23, -1, -1) if mask >> bit & 1]


@dataclass(frozen=True)
class Report:
    """Report of an IOAM node. The module's docstring has its format. A datagram has one report."""

    node: int  # 32 bits
    sequence: int = 0  # 22 bits; counts per node and hardware subsystem

    hw_id: int = 0
    namespace: int = 0
    option_type: OptionType = OptionType.DEX
    trace_type: int = 0
    data: NodeData = NodeData()
    packet: bytes = b""  # starts with the IPv6 header
    is_drop: bool = False

    def encode(self) -> bytes:
        """Return the UDP payload. Pads the packet to words, as Report Length requires."""
        data = self.data.encode(self.trace_type)
        packet = self.packet + bytes(-len(self.packet) % 4)
        words = 2 + len(data) // 4 + len(packet) // 4
        flags = 0xA0 if self.is_drop else 0x20  # bits D (dropped) and F (flow)
        return (
            struct.pack(">II", 2 << 28 | self.hw_id << 22 | self.sequence, self.node)
            + bytes([REPORT_TYPE << 4 | 5, min(words, 255), len(data) // 4, flags])
            + struct.pack(">HBBI", self.namespace, 0, self.option_type, self.trace_type << 8)
            + data + packet
        )  # fmt: skip

    @classmethod
    def decode(cls, payload: bytes) -> "Report":
        """Return the report in a UDP payload. Raises OptionError."""
        head = payload[8:20]
        if len(head) < 12 or head[0] >> 4 != REPORT_TYPE or head[7] not in [*OptionType]:
            raise OptionError("report: shorter than its header, or of another type")
        first, node = struct.unpack_from(">II", payload)
        trace_type = int.from_bytes(head[8:11], "big")
        data, size = NodeData.decode(trace_type, payload[20:])
        return cls(
            node, first & 0x3FFFFF, first >> 22 & 0x3F, int.from_bytes(head[4:6], "big"),
            OptionType(head[7]), trace_type, data, payload[20 + size :], bool(head[3] & 0x80),
        )  # fmt: skip

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """Options of the packet, as the node received them. Raises OptionError."""
        return tuple(parse_options(self.packet[IPV6_BYTES:])[1])

    @property
    def nodes(self) -> Iterator[tuple[int, NodeData]]:
        """Number and data of each node: the nodes of traces, and the reporting node.

        Nodes of traces without a number are left out. Raises OptionError.
        """
        for option in self.options:
            if isinstance(option, Trace):
                yield from ((node.node, node) for node in option.nodes if node.node is not None)
        yield self.node, self.data

    @property
    def flow_label(self) -> int:
        """Flow label of the packet."""
        return int.from_bytes(self.packet[:4], "big") & 0xFFFFF

    @property
    def copied_by(self) -> str | None:
        """Address of the node that sent this copy back to the reporting node (loopback flag).

        A copy contains nothing but options, and its first node data are those of the reporting node
        (RFC 9322, 4.4). None if the packet is no copy.
        """
        next_header, _, length = parse_options(self.packet[IPV6_BYTES:])
        traces = [option for option in self.options if isinstance(option, Trace)]
        is_empty = next_header == NO_NEXT_HEADER and length == len(self.packet) - IPV6_BYTES
        if not is_empty or not traces or not traces[0].nodes or (
            traces[0].nodes[0].node != self.node
        ):  # fmt: skip
            return None
        return str(IPv6Address(self.packet[8:24]))
