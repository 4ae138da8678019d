"""Random Telemetry Reports and their content, written from the specifications with scapy.

The decoder in C and the dissector in Lua are compared with this independent implementation.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from scapy.fields import BitField, ByteField, IntField, ShortField, XBitField, XShortField
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

INT_PORT, INT_DSCP, INT_DSCP_BIT = 0x1717, 0x20, 0x20
HEADER, METADATA_WORDS_AT_MOST = 4, 60
ONES = 0xFF


class Group(Packet):
    """Group header of Telemetry Report 2.0 (section 3.2)."""

    fields_desc = [BitField("version", 2, 4), BitField("hw_id", 0, 6), BitField("sequence", 0, 22),
                   IntField("node", 0)]  # fmt: skip


class Individual(Packet):
    """Header of an individual report in Telemetry Report 2.0 (section 3.3)."""

    fields_desc = [
        BitField("report_type", 1, 4), BitField("inner_type", 0, 4), ByteField("length", 0),
        ByteField("md_length", 0), BitField("flags", 0, 4), BitField("reserved", 0, 4),
    ]  # fmt: skip


class Main(Packet):
    """Main contents of RepType 1 in Telemetry Report 2.0 (section 3.3.1), before the metadata."""

    fields_desc = [XShortField("bits", 0), ShortField("domain", 0), XShortField("ds_bits", 0),
                   XShortField("ds_status", 0)]  # fmt: skip


class Tlv(Packet):
    """Header of a TLV in Telemetry Report 2.0 (section 3.3.2)."""

    fields_desc = [BitField("type", 0, 4), BitField("reserved", 0, 4), ByteField("length", 0),
                   ShortField("template", 0)]  # fmt: skip


class Shim(Packet):
    """INT 2.1, shim header for TCP/UDP."""

    fields_desc = [BitField("type", 1, 4), BitField("npt", 0, 2), BitField("reserved", 0, 2),
                   ByteField("length", 0), XShortField("next", 0)]  # fmt: skip


class Md(Packet):
    """INT-MD metadata header."""

    fields_desc = [
        BitField("version", 2, 4), BitField("d", 0, 1), BitField("e", 0, 1), BitField("m", 0, 1),
        BitField("reserved", 0, 12), BitField("hop_words", 0, 5), ByteField("remaining", 0),
        XShortField("bits", 0), ShortField("domain", 0), XShortField("ds_bits", 0),
        XShortField("ds_flags", 0),
    ]  # fmt: skip


class Mx(Packet):
    """INT-MX header."""

    fields_desc = [
        BitField("version", 2, 4), BitField("d", 0, 1), BitField("reserved", 0, 27),
        XShortField("bits", 0), ShortField("domain", 0), XShortField("ds_bits", 0),
        XShortField("ds_flags", 0),
    ]  # fmt: skip


class Report10(Packet):
    """Telemetry Report 1.0: its header without the optional metadata."""

    fields_desc = [
        BitField("version", 1, 4), BitField("length", 4, 4), BitField("next", 0, 3),
        XBitField("bits", 0, 6), BitField("reserved", 0, 6), BitField("d", 0, 1),
        BitField("q", 0, 1), BitField("f", 0, 1), BitField("hw_id", 0, 6), IntField("node", 0),
        IntField("sequence", 0), IntField("ingress_ns", 0),
    ]  # fmt: skip


class Shim10(Packet):
    """INT 1.0, shim header for TCP/UDP. Its length includes the shim header itself."""

    fields_desc = [ByteField("type", 1), ByteField("reserved", 0), ByteField("length", 0),
                   BitField("dscp", 0, 6), BitField("r", 0, 2)]  # fmt: skip


class HopByHop10(Packet):
    """INT 1.0, hop-by-hop metadata header."""

    fields_desc = [
        BitField("version", 1, 4), BitField("rep", 0, 2), BitField("c", 0, 1), BitField("e", 0, 1),
        BitField("m", 0, 1), BitField("reserved", 0, 10), BitField("hop_words", 0, 5),
        ByteField("remaining", 0), XShortField("bits", 0), ShortField("reserved_2", 0),
    ]  # fmt: skip


BASELINE: list[list[tuple[str, int]]] = [
    # For each instruction bit, from bit 0 on: its fields, and their widths in bits.
    [("node", 32)],
    [("ingress", 16), ("egress", 16)],
    [("latency_ns", 32)],
    [("queue", 8), ("occupancy", 24)],
    [("ingress_ns", 64)],
    [("egress_ns", 64)],
    [("ingress2", 32), ("egress2", 32)],
    [("utilisation", 32)],
    [("buffer", 8), ("buffer_occupancy", 24)],
    *([[("", 32)]] * 6),  # reserved
]
BASELINE_10 = [
    *BASELINE[:4], [("ingress_ns", 32)], [("egress_ns", 32)], *BASELINE[6:8], *([[("", 32)]] * 7),
]  # fmt: skip


@dataclass
class Made:
    """A report's bytes and content."""

    payload: bytes
    says: dict[str, Any]
    hops: list[dict[str, Any]] = field(default_factory=list)  # source first


def bits_of(mask: int) -> list[int]:
    """Return the numbers of the bits set in an instruction bitmap. Bit 0 is the highest bit."""
    return [bit for bit in range(16) if mask >> (15 - bit) & 1]


def metadata(
    rng: random.Random, mask: int, baseline: Sequence[Sequence[tuple[str, int]]] = BASELINE
) -> tuple[bytes, dict[str, int]]:
    """Return random values for baseline bits 0 to 14. All ones means not available."""
    data, values = b"", {}
    for bit in bits_of(mask & 0xFFFE):
        width = sum(bits for _, bits in baseline[bit]) // 8
        if rng.random() < 0.1:
            data += bytes([ONES] * width)
            continue
        word = b""
        for name, bits in baseline[bit]:
            value = rng.getrandbits(min(bits, 48))
            word_bits = bits if bits % 8 == 0 else 0
            word += value.to_bytes(word_bits // 8, "big")
            if name:
                values[name] = value
        data += word
    return data, values


def sparse(rng: random.Random) -> int:
    """Return a random bitmap of baseline metadata. It rarely has reserved bits."""
    mask = rng.getrandbits(16) & rng.getrandbits(16) & 0xFF80
    return mask | (rng.getrandbits(16) & 0x007E if rng.random() < 0.1 else 0)


def stack(rng: random.Random) -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """Return an INT-MD header and stack as bytes, their content, and the hops (source first)."""
    mask = sparse(rng) | (rng.random() < 0.3)
    ds_words = rng.randrange(3) if rng.random() < 0.3 else 0
    own_words = 0  # metadata that only the source inserts
    hops, data = [], b""
    hop_words = len(metadata(rng, mask)[0]) // 4 + ds_words + (mask & 1)
    if ds_words and hop_words > 1:
        own_words = rng.randrange(hop_words)
    for _ in range(rng.randrange(7) if hop_words else 0):
        hop, values = metadata(rng, mask)
        ds = rng.randbytes(4 * ds_words)
        values["ds"] = ds
        if mask & 1:
            complement = rng.getrandbits(31)
            values["complement"] = complement
            ds += complement.to_bytes(4, "big")
        hops.append(values)
        data = hop + ds + data  # newest on top
    own = rng.randbytes(4 * own_words)
    says = {"int_type": 1, "int_version": 2, "int_bits": mask, "hop_words": hop_words,
            "remaining_hops": rng.getrandbits(8), "int_flags": rng.getrandbits(3),
            "int_domain": rng.getrandbits(16), "int_ds_flags": rng.getrandbits(16),
            "int_ds_bits": rng.getrandbits(16) | 1 if ds_words else 0, "int_ds": own}  # fmt: skip
    d, e, m = (says["int_flags"] >> shift & 1 for shift in (2, 1, 0))
    header = Md(d=d, e=e, m=m, reserved=rng.getrandbits(12), hop_words=hop_words,
                remaining=says["remaining_hops"], bits=mask, domain=says["int_domain"],
                ds_bits=says["int_ds_bits"], ds_flags=says["int_ds_flags"])  # fmt: skip
    return bytes(header) + data + own, says, hops


def instructions(rng: random.Random) -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """Return an INT-MX header, with or without metadata of the source."""
    own = rng.randbytes(4 * rng.randrange(4)) if rng.random() < 0.5 else b""
    says = {"int_type": 3, "int_version": 2, "int_bits": sparse(rng),
            "int_flags": rng.getrandbits(1) << 2, "int_domain": rng.getrandbits(16),
            "int_ds_bits": rng.getrandbits(16) | 1 if own else 0,
            "int_ds_flags": rng.getrandbits(16), "int_ds": own}  # fmt: skip
    header = Mx(d=says["int_flags"] >> 2, reserved=rng.getrandbits(27), bits=says["int_bits"],
                domain=says["int_domain"], ds_bits=says["int_ds_bits"],
                ds_flags=says["int_ds_flags"])  # fmt: skip
    return bytes(header) + own, says, []


def with_int(
    rng: random.Random, l4: Packet, says: dict[str, Any]
) -> tuple[bytes, int, list[dict[str, Any]]]:
    """Return the bytes from the L4 header on, which include INT; the IP protocol; and the hops."""
    int_bytes, more, hops = (stack if rng.random() < 0.7 else instructions)(rng)
    says.update(more)
    payload = rng.randbytes(rng.choice((0, 5, 16, 40)))
    shim = Shim(type=more["int_type"], length=len(int_bytes) // 4)
    by = rng.choice(("dscp", "port", "new")) if isinstance(l4, UDP) else rng.choice(("dscp", "new"))
    if by == "dscp":
        says["dscp"] = INT_DSCP | rng.getrandbits(5)
        says["original_dscp"] = rng.getrandbits(6)
        shim.next = says["original_dscp"] << 2
        return bytes(l4) + bytes(shim) + int_bytes + payload, says["protocol"], hops
    says["dscp"] = rng.getrandbits(5)
    if by == "port":
        shim.npt, shim.next = 1, l4.dport
        l4.dport = INT_PORT
        return bytes(l4) + bytes(shim) + int_bytes + payload, 17, hops
    shim.npt, shim.next = 2, says["protocol"]
    outer = UDP(sport=rng.getrandbits(16), dport=INT_PORT, chksum=0)
    return bytes(outer) + bytes(shim) + int_bytes + bytes(l4) + payload, 17, hops


def old_stack(rng: random.Random) -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """Return an INT 1.0 header and stack as bytes, their content, and the hops (source first)."""
    mask = sparse(rng) | (rng.random() < 0.3)
    hop_words = len(metadata(rng, mask, BASELINE_10)[0]) // 4 + (mask & 1)
    hops, data = [], b""
    for _ in range(rng.randrange(7) if hop_words else 0):
        hop, values = metadata(rng, mask, BASELINE_10)
        hops.append({**values, "ds": b""})
        if mask & 1:
            hops[-1]["complement"] = rng.getrandbits(31)
            hop += hops[-1]["complement"].to_bytes(4, "big")
        data = hop + data  # newest on top
    says = {"int_type": 1, "int_version": 1, "int_bits": mask, "hop_words": hop_words,
            "remaining_hops": rng.getrandbits(8), "int_flags": rng.getrandbits(2)}  # fmt: skip
    header = HopByHop10(
        rep=rng.getrandbits(2), c=rng.getrandbits(1), e=says["int_flags"] >> 1,
        m=says["int_flags"] & 1, reserved=rng.getrandbits(10), hop_words=hop_words,
        remaining=says["remaining_hops"], bits=mask, reserved_2=rng.getrandbits(16),
    )  # fmt: skip
    return bytes(header) + data, says, hops


def with_old_int(
    rng: random.Random, l4: Packet, says: dict[str, Any]
) -> tuple[bytes, int, list[dict[str, Any]]]:
    """Like with_int(), for INT 1.0."""
    int_bytes, more, hops = old_stack(rng)
    says.update(more, dscp=INT_DSCP | rng.getrandbits(5), original_dscp=rng.getrandbits(6))
    shim = Shim10(reserved=rng.getrandbits(8), length=1 + len(int_bytes) // 4,
                  dscp=says["original_dscp"], r=rng.getrandbits(2))  # fmt: skip
    payload = rng.randbytes(rng.choice((0, 5, 16, 40)))
    return bytes(l4) + bytes(shim) + int_bytes + payload, says["protocol"], hops


def packet(
    rng: random.Random, has_int: bool, put_int: Any = with_int
) -> tuple[int, bytes, dict[str, Any], list[Any]]:
    """Return a report's inner packet: InType, bytes, content, and hops."""
    ports = {"sport": rng.randrange(1, 5000), "dport": rng.randrange(1, 5000)}
    says: dict[str, Any] = {"source_port": ports["sport"], "destination_port": ports["dport"]}
    if rng.random() < 0.5:
        says["protocol"], l4 = 17, UDP(**ports, len=99, chksum=7)
    else:
        options = [("NOP", None)] * (4 * rng.randrange(4))
        says["protocol"] = 6
        l4 = TCP(**ports, seq=rng.getrandbits(32), ack=1, options=options, chksum=7)
    hops: list[Any] = []
    if has_int:
        above, protocol, hops = put_int(rng, l4, says)
    else:
        says["dscp"] = rng.getrandbits(5)
        above, protocol = bytes(l4) + rng.randbytes(rng.choice((0, 8, 32))), says["protocol"]
    says["ttl"] = rng.randrange(1, 256)
    is_ipv4 = rng.random() < 0.6
    says["ip_version"] = 4 if is_ipv4 else 6
    says["source"], says["destination"] = (
        (IPv4Address if is_ipv4 else IPv6Address)(rng.getrandbits(32 if is_ipv4 else 128))
        for _ in range(2)
    )
    addresses = {"src": str(says["source"]), "dst": str(says["destination"])}
    if is_ipv4:
        ip = IP(**addresses, tos=says["dscp"] << 2, ttl=says["ttl"], proto=protocol,
                id=rng.getrandbits(16), chksum=1)  # fmt: skip
    else:
        ip = IPv6(**addresses, tc=says["dscp"] << 2, hlim=says["ttl"], nh=protocol)
    data = bytes(ip / Raw(above))
    if rng.random() < 0.3:
        link = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
        tags = Dot1Q(vlan=7) if rng.random() < 0.5 else None
        head = bytes(link / tags / ip) if tags else bytes(link / ip)
        data = head[: len(head) - len(bytes(ip))] + data
        return 3, data, says, hops
    return (4 if is_ipv4 else 5), data, says, hops


def individual(rng: random.Random, node: int) -> Made:
    """Return an individual report with its content."""
    flags = rng.getrandbits(4)
    inner_type, inner, says, hops = 0, b"", {}, []
    if rng.random() < 0.9:
        inner_type, inner, says, hops = packet(rng, has_int=bool(flags & 2) and rng.random() < 0.8)
        inner += bytes(-len(inner) % 4)
    elif rng.random() < 0.5:
        inner_type, inner = 2, rng.randbytes(8)
    if inner_type >= 3 and len(inner) // 4 < 250 and rng.random() < 0.2:
        inner = bytes(Tlv(type=0, length=2, template=9)) + rng.randbytes(8) + bytes(
            Tlv(type=inner_type - 2, length=len(inner) // 4)) + inner  # fmt: skip
        inner_type = 1
    says.update(flags=flags, inner_type=inner_type, report_type=int(rng.random() < 0.8))
    main, md_words = b"", 0
    if says["report_type"]:
        main, local = main_contents(rng, says)
        md_words = len(main) // 4 - 2
        if not hops or says["bits"] & 0x7FFE:
            hops = [*hops, {"node": node, **local}]
    words = (len(main) + len(inner)) // 4
    head = Individual(report_type=says["report_type"], inner_type=inner_type, length=words,
                      md_length=md_words, flags=flags, reserved=rng.getrandbits(4))  # fmt: skip
    return Made(bytes(head) + main + inner, says, hops)


def main_contents(rng: random.Random, says: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of the main contents, and the fields of the reporting node's own hop.

    The bytes are the fixed part, baseline metadata, drop reason and domain specific metadata.
    """
    bits = sparse(rng) & 0x7FFE | (rng.random() < 0.3)
    data, local = metadata(rng, bits)
    if bits & 1:
        says["queue"], says["reason"] = rng.getrandbits(8), rng.getrandbits(8)
        data += bytes([says["queue"], says["reason"], 0, 0])
    ds = rng.randbytes(4 * rng.randrange(1, 4)) if rng.random() < 0.2 else b""
    says.update(bits=bits, domain=rng.getrandbits(16), ds_status=rng.getrandbits(16),
                ds_bits=1 << rng.randrange(16) if ds else 0, ds=ds)  # fmt: skip
    local["ds"] = ds
    fixed = Main(bits=bits, domain=says["domain"], ds_bits=says["ds_bits"],
                 ds_status=says["ds_status"])  # fmt: skip
    return bytes(fixed) + data + ds, local


def datagram(
    rng: random.Random, node: int, sequence: int, reports: int
) -> tuple[bytes, dict[str, int], list[Made]]:
    """Return a datagram of several reports: its payload, its group's fields, and the reports."""
    says = {"version": 2, "hw_id": rng.getrandbits(6), "sequence": sequence, "node": node}
    made = [individual(rng, node) for _ in range(reports)]
    return bytes(Group(**says)) + b"".join(each.payload for each in made), says, made


def old_datagram(rng: random.Random, node: int, sequence: int) -> tuple[bytes, Made]:
    """Return a datagram of Telemetry Report 1.0, with INT 1.0 or no INT in its packet."""
    bits = rng.getrandbits(6)
    order: Sequence[tuple[str, ...]] = (
        ("ingress", "egress"), ("latency_ns",), ("queue", "occupancy"), ("egress_ns",),
        ("drop_queue", "reason", ""), ("utilisation",),
    )  # fmt: skip
    widths = {"ingress": 2, "egress": 2, "queue": 1, "occupancy": 3, "drop_queue": 1, "reason": 1,
              "": 2}  # fmt: skip
    data, hop, says = b"", {"node": node, "ingress_ns": rng.getrandbits(31), "ds": b""}, {}
    for number, names in enumerate(order):
        if not bits >> (5 - number) & 1:
            continue
        for name in names:
            value = rng.getrandbits(8 * widths.get(name, 4) - 1) if name else 0
            data += value.to_bytes(widths.get(name, 4), "big")
            if number == 4:
                says.update({{"drop_queue": "queue"}.get(name, name): value} if name else {})
            else:
                hop[name] = value
    d, q, f = (rng.getrandbits(1) for _ in range(3))
    has_int = f == 1 and rng.random() < 0.8
    inner_type, inner, packet_says, hops = packet(rng, has_int, with_old_int)
    says = {**packet_says, **says, "flags": d << 3 | q << 2 | f << 1, "inner_type": inner_type}
    head = Report10(length=4 + len(data) // 4, next=inner_type - 3, bits=bits, d=d, q=q, f=f,
                    hw_id=5, node=node, sequence=sequence, ingress_ns=hop["ingress_ns"],
                    reserved=rng.getrandbits(6))  # fmt: skip
    return bytes(head) + data + inner, Made(b"", says, [*hops, hop])
