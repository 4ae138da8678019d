"""Random IOAM options, packets and reports."""

import random
from collections.abc import Sequence
from typing import Any

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from collectors.ioam.options import (
    UNDEFINED,
    DirectExport,
    EdgeToEdge,
    NodeData,
    Option,
    OptionType,
    Report,
    Trace,
    TraceType,
    node_words,
    options_header,
)

DEFINED = tuple(bit for bit in TraceType if bit not in (TraceType.RESERVED, TraceType.OPAQUE))
SIZES = {
    TraceType.HOP_NODE: {"hop_limit": 8, "node": 24},
    TraceType.INTERFACES: {"ingress": 16, "egress": 16},
    TraceType.SECONDS: {"seconds": 32},
    TraceType.FRACTION: {"fraction": 32},
    TraceType.TRANSIT_DELAY: {"transit_delay": 32},
    TraceType.NAMESPACE_DATA: {"namespace_data": 32},
    TraceType.QUEUE_DEPTH: {"queue_depth": 32},
    TraceType.CHECKSUM: {"checksum": 32},
    TraceType.HOP_NODE_WIDE: {"hop_limit_wide": 8, "node_wide": 56},
    TraceType.INTERFACES_WIDE: {"ingress_wide": 32, "egress_wide": 32},
    TraceType.NAMESPACE_DATA_WIDE: {"namespace_data_wide": 64},
    TraceType.BUFFER_OCCUPANCY: {"buffer_occupancy": 32},
}


def trace_type(rng: random.Random) -> int:
    """Return a random trace type with at least one field."""
    bits = [bit for bit in (*DEFINED, *UNDEFINED, TraceType.OPAQUE) if rng.random() < 0.3]
    return sum(bits) or TraceType.HOP_NODE


def node_data(rng: random.Random, kind: int) -> NodeData:
    """Return random values for the fields of a trace type. Some are not available (all ones)."""
    values: dict[str, Any] = {}
    for bit in DEFINED:
        if kind & bit:
            is_missing = rng.random() < 0.1
            for name, size in SIZES[bit].items():
                values[name] = (1 << size) - 1 if is_missing else rng.getrandbits(size)
    undefined = tuple(0xFFFFFFFF for bit in UNDEFINED if kind & bit)
    if kind & TraceType.OPAQUE:
        opaque = rng.randbytes(4 * rng.randrange(3))
        values |= {"schema": rng.getrandbits(24), "opaque": opaque}
    return NodeData(**values, undefined=undefined)


def trace(rng: random.Random) -> Trace:
    """Return a trace option that fits into an IPv6 option."""
    kind = trace_type(rng)
    nodes: list[NodeData] = []
    words = 0
    for _ in range(rng.randrange(6)):
        node = node_data(rng, kind)
        words += len(node.encode(kind)) // 4
        if words > 55:
            break
        nodes.append(node)
    return Trace(
        kind, rng.getrandbits(16), rng.choice((0, 8, 4, 2)), rng.randrange(5), tuple(nodes),
        rng.random() < 0.3,
    )  # fmt: skip


def edge_to_edge(rng: random.Random) -> EdgeToEdge:
    fields = {"sequence64": 64, "sequence32": 32, "seconds": 32, "fraction": 32}
    values = {name: rng.getrandbits(size) for name, size in fields.items() if rng.random() < 0.5}
    return EdgeToEdge(rng.getrandbits(16), **values)


def direct_export(rng: random.Random) -> DirectExport:
    values = {name: rng.getrandbits(32) for name in ("flow", "sequence") if rng.random() < 0.7}
    return DirectExport(trace_type(rng), rng.getrandbits(16), 0, **values)


def option(rng: random.Random) -> Option:
    return rng.choice((trace, edge_to_edge, direct_export))(rng)


def packet(options: Sequence[Option], *, hop_limit: int = 64, payload: bytes = bytes(16)) -> bytes:
    """Return an IPv6 packet with a hop-by-hop options header and UDP."""
    inner = bytes(UDP(sport=1234, dport=80, len=8 + len(payload), chksum=1)) + payload
    header = options_header(options, 17)
    ip = IPv6(src="fd00::1", dst="fd00::2", nh=0, plen=len(header) + len(inner), hlim=hop_limit)
    return bytes(ip) + header + inner


def kind_of(given: Option) -> OptionType:
    if isinstance(given, Trace):
        return OptionType.INCREMENTAL if given.is_incremental else OptionType.PREALLOCATED
    return OptionType.E2E if isinstance(given, EdgeToEdge) else OptionType.DEX


def report(rng: random.Random, node: int, sequence: int = 0) -> tuple[Report, Option]:
    """Return a report about a random option, and the option."""
    given = option(rng)
    kind = trace_type(rng) if rng.random() < 0.7 else 0
    if node_words(kind) > 50:
        kind = 0
    others = [each for each in (edge_to_edge(rng),) if not isinstance(given, EdgeToEdge)]
    made = Report(
        node, sequence, rng.getrandbits(6), given.namespace, kind_of(given), kind,
        node_data(rng, kind) if kind else NodeData(), packet([*others, given], hop_limit=9),
    )  # fmt: skip
    return made, given
