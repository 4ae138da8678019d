"""IOAM options in IPv6: known bytes, random options, hostile bytes, and Wireshark's dissector."""

import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_ioam
import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from collectors.ioam.options import (
    UNDEFINED,
    DirectExport,
    EdgeToEdge,
    NodeData,
    OptionError,
    Report,
    Trace,
    TraceFlag,
    TraceType,
    node_words,
    options_header,
    parse_options,
)

KNOWN = {
    # bytes from the figures of the RFCs: next header 17, PadN, then the option in words of 4 bytes
    "a trace with free space for one node": (
        Trace(TraceType.HOP_NODE | TraceType.INTERFACES, 123, 0, 2, (NodeData(64, 42, 7, 8),)),
        "11030100 311a0000 007b1002 c0000000 00000000 00000000 4000002a 00070008",
    ),
    "an incremental trace with the newest node first": (
        Trace(TraceType.HOP_NODE, 1, TraceFlag.OVERFLOW, 3, (NodeData(64, 5), NodeData(63, 6)),
              is_incremental=True),
        "11020100 31120001 00010c03 80000000 3f000006 40000005",
    ),
    "edge to edge": (
        EdgeToEdge(2, sequence32=9, seconds=1, fraction=2),
        "11020100 11120003 00027000 00000009 00000001 00000002",
    ),
    "direct export": (
        DirectExport(TraceType.SECONDS, 3, flow=0xABCD, sequence=6),
        "11020100 11120004 000300c0 20000000 0000abcd 00000006",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_bytes_of_an_option(name: str) -> None:
    option, data = KNOWN[name]
    assert options_header([option], 17).hex(" ", 4) == data
    assert parse_options(bytes.fromhex(data)) == (17, [option], len(bytes.fromhex(data)))


def test_parsing_returns_what_was_encoded() -> None:
    rng = random.Random(1)
    for _ in range(500):
        options = [made_ioam.option(rng) for _ in range(rng.randrange(4))]
        header = options_header(options, 6)
        assert len(header) % 8 == 0
        assert parse_options(header + b"rest") == (6, options, len(header))


def test_options_are_aligned_to_four_bytes() -> None:
    rng = random.Random(2)
    for _ in range(100):
        options = [made_ioam.option(rng) for _ in range(3)]
        header = options_header(options, 6)
        for option in options:
            assert header.index(option.encode()) % 4 == 0


def test_all_ones_are_not_available() -> None:
    data = bytes.fromhex("3fffffff 00000005")
    node, _ = NodeData.decode(TraceType.HOP_NODE | TraceType.SECONDS, data)
    assert [node.is_available(name) for name in ("hop_limit", "node", "seconds", "fraction")] == [
        True, False, True, False,
    ]  # fmt: skip


def test_other_options_are_skipped() -> None:
    header = bytes.fromhex("1103 0502 0000 c200 00 3e03 010203 110a0002 0000000000000000 00")
    header += bytes(32 - len(header))
    assert parse_options(header) == (17, [], 32)


MALFORMED = {
    "shorter than 8 bytes": "1100 0100",
    "longer than the packet": "1101 010400000000",
    "an option longer than the header": "1100 3104 00000000",
    "an IOAM option of one byte": "1100 310100 010100",
    "a trace without its header": "1100 01003102 0000",
    "NodeLen 2 with one field": "1101 0100 310a0000 00011000 80000000",
    "RemainingLen longer than the option": "1101 0100 310a0000 00010801 80000000",
    "half a node": "1102 0100 310e0000 00011000 c0000000 00000001 00000000",
    "data without a field": "1102 0100 310e0000 00010000 00000000 00000001 01020000",
    "an edge-to-edge option without its sequence number": "1101 0100 11060003 00014000 01020000",
    "a DEX option without its flow": "1101 0100 110a0004 00010080 80000000",
    "an opaque snapshot longer than the option":
        "1102 0100 310e0000 00010000 00000200 02000000 01020000",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_header_is_an_option_error(name: str) -> None:
    with pytest.raises(OptionError):
        parse_options(bytes.fromhex(MALFORMED[name]))


@pytest.mark.parametrize("seed", range(3))
def test_hostile_headers_raise_only_option_errors(seed: int) -> None:
    rng = random.Random(10 + seed)
    outcomes = set()
    for _ in range(2000):
        header = bytearray(options_header([made_ioam.option(rng) for _ in range(2)], 17))
        for _ in range(rng.randrange(1, 5)):
            header[rng.randrange(len(header))] = rng.choice((0, 1, 0x7F, 0xFF, rng.getrandbits(8)))
        if rng.random() < 0.3:
            del header[rng.randrange(len(header)) :]
        try:
            _, options, length = parse_options(bytes(header))
        except OptionError:
            outcomes.add("refused")
            continue
        outcomes.add("parsed")
        assert length <= len(header)
        assert len(options) <= length // 4
    assert outcomes == {"refused", "parsed"}


def test_an_option_too_long_for_ipv6_is_refused() -> None:
    nodes = (NodeData(1, 2),) * 62
    with pytest.raises(OptionError, match="at most 253"):
        Trace(TraceType.HOP_NODE, nodes=nodes).encode()


# Fields of Wireshark, and their names here. Each field has one value per node.
WIRESHARK = {
    "hlim": ("hop_limit", "hop_limit_wide"), "id": ("node",), "iif": ("ingress",),
    "eif": ("egress",), "tss": ("seconds",), "tsf": ("fraction",), "trdelay": ("transit_delay",),
    "nsdata": ("namespace_data",), "qdepth": ("queue_depth",), "csum": ("checksum",),
    "id_wide": ("node_wide",), "iif_wide": ("ingress_wide",), "eif_wide": ("egress_wide",),
    "nsdata_wide": ("namespace_data_wide",), "bufoccup": ("buffer_occupancy",),
    "oss.scid": ("schema",),
}  # fmt: skip


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_agrees_in_all_fields(tmp_path: Path) -> None:
    """Wireshark 4.0 dissects pre-allocated and incremental trace options.

    Wireshark expects free space in both kinds. An incremental option has none (RFC 9197, 4.4), so
    the test uses incremental options without remaining length.
    """
    rng = random.Random(5)
    made = [made_ioam.trace(rng) for _ in range(80)]
    traces = [replace(each, remaining=0) if each.is_incremental else each for each in made]
    path = tmp_path / "ioam.pcap"
    ether = bytes(Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02", type=0x86DD))
    wrpcap(str(path), [Ether(ether + made_ioam.packet([trace])) for trace in traces])
    pdml = subprocess.run(["tshark", "-r", str(path), "-T", "pdml"], capture_output=True,
                          check=True).stdout  # fmt: skip
    nodes = 0
    for trace, tree in zip(traces, ElementTree.fromstring(pdml), strict=True):
        found: dict[str, list[str]] = {}
        for each in tree.iter("field"):
            name = each.get("name", "").removeprefix("ipv6.opt.ioam.")
            found.setdefault(name, []).append(each.get("show", ""))
            if name == "trace.node.oss.data" and each.get("value"):
                found.setdefault("opaque", []).append(each.get("value", ""))
        assert found["opt_type"] == [str(int(trace.is_incremental))]
        assert found["trace.ns"] == [str(trace.namespace)]
        assert found["trace.nodelen"] == [str(node_words(trace.trace_type))]
        assert found["trace.remlen"] == [str(trace.remaining)]
        assert int(found["trace.flags"][0], 16) == trace.flags
        assert int(found["trace.type"][0], 16) == trace.trace_type
        for name, ours in WIRESHARK.items():
            values = [getattr(node, field) for node in reversed(trace.nodes) for field in ours]
            expected = [value for value in values if value is not None]
            assert [int(text, 0) for text in found.get(f"trace.node.{name}", [])] == expected, name
        undefined = sum(trace.trace_type & bit != 0 for bit in UNDEFINED) * len(trace.nodes)
        assert len(found.get("trace.node.undefined", [])) == undefined
        opaque = [node.opaque.hex() for node in reversed(trace.nodes) if node.opaque]
        assert found.get("opaque", []) == opaque
        nodes += len(trace.nodes)
    assert nodes > 100


def test_decoding_returns_the_report_that_was_encoded() -> None:
    rng = random.Random(3)
    for number in range(300):
        made, option = made_ioam.report(rng, 7, number)
        found = Report.decode(made.encode())
        assert found.encode() == made.encode()
        assert (found.node, found.sequence, found.hw_id) == (7, number, made.hw_id)
        assert (found.option_type, found.trace_type) == (made.option_type, made.trace_type)
        assert found.options[-1] == option
        assert found.copied_by is None
    with pytest.raises(OptionError):
        _ = replace(made, packet=made.packet[:50]).options


@pytest.mark.parametrize(
    ("change", "copied_by"),
    [
        ({}, "fd00:e::9"),
        ({"node": 2}, None),  # another node began the loopback
        ({"next_header": 17}, None),
        ({"payload": bytes(4)}, None),
        ({"options": []}, None),
        ({"options": [Trace(TraceType.HOP_NODE)]}, None),
    ],
    ids=["copy", "other node", "UDP", "payload", "no option", "no data"],
)
def test_copies_have_nothing_but_options_and_data_of_the_reporter(
    change: dict[str, Any], copied_by: str | None
) -> None:
    nodes = tuple(NodeData(hop_limit=64, node=node) for node in (1, 2))
    given = {"options": [Trace(TraceType.HOP_NODE, nodes=nodes)], "next_header": 59, "payload": b"",
             "node": 1, **change}  # fmt: skip
    header = options_header(given["options"], given["next_header"])
    packet = bytes(IPv6(src="fd00:e::9", dst="fd00:e::1", nh=0)) + header + given["payload"]
    assert Report(given["node"], packet=packet).copied_by == copied_by
