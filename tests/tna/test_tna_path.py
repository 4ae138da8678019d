"""The path of a packet through a TNA switch: metadata, copies, drops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tna_programs import compiled, data, engine, write

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument
from minip4.errors import Minip4Error


def test_unicast(tmp_path: Path) -> None:
    switch = engine(tmp_path, ingress="hdr.d.b = (bit<16>)ig.ingress_port;",
                    egress="hdr.d.c = (bit<32>)eg.egress_port;")  # fmt: skip
    assert switch.process(300, data() + b"rest", 0) == [(2, data(b=300, c=2) + b"rest")]


def test_bridged_metadata(tmp_path: Path) -> None:
    states = """state more { pkt.extract(hdr.bridge); pkt.extract(hdr.d); transition accept; }"""
    switch = engine(
        tmp_path,
        ingress="hdr.bridge.setValid(); hdr.bridge.value = hdr.d.b; hdr.d.b = 0;",
        egress_states=states,
        egress="hdr.d.c = (bit<32>)hdr.bridge.value; hdr.bridge.setInvalid();",
    )
    assert switch.process(1, data(b=77), 0) == [(2, data(c=77))]


def test_length_of_egress_has_the_bridged_metadata(tmp_path: Path) -> None:
    states = """state more { pkt.extract(hdr.bridge); pkt.extract(hdr.d); transition accept; }"""
    switch = engine(tmp_path, ingress="hdr.bridge.setValid();", egress_states=states,
                    egress="hdr.d.b = eg.pkt_length; hdr.bridge.setInvalid();")  # fmt: skip
    assert switch.process(1, data() + bytes(50), 0) == [(2, data(b=3 + 8 + 50) + bytes(50))]


@pytest.mark.parametrize(
    "ingress",
    ["dprsr.drop_ctl = 1;", "invalidate(tm.ucast_egress_port);", "tm.ucast_egress_port = 511;"],
)
def test_drop_in_ingress(tmp_path: Path, ingress: str) -> None:
    switch = engine(tmp_path, ingress=ingress)
    assert switch.process(1, data(), 0) == []
    assert switch.counters()["ingress_drops"] == 1


def test_drop_in_egress(tmp_path: Path) -> None:
    switch = engine(tmp_path, egress="dprsr.drop_ctl = 1;")
    assert switch.process(1, data(), 0) == []
    assert switch.counters()["egress_drops"] == 1


def test_parser_error_drops(tmp_path: Path) -> None:
    switch = engine(tmp_path)
    assert switch.process(1, data()[:5], 0) == []


def test_reject_drops(tmp_path: Path) -> None:
    states = """state more { pkt.extract(hdr.d);
                transition select(hdr.d.op) { 1: accept; default: reject; } }"""
    switch = engine(tmp_path, states=states)
    assert switch.process(1, data(1), 0) == [(2, data(1))]
    assert switch.process(1, data(2), 0) == []


def test_parser_error_that_the_program_reads(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        ingress="if (prsr.parser_err == PARSER_ERROR_PARTIAL_HDR) { hdr.d.setValid(); "
        "hdr.d.b = 9; }",
    )
    assert switch.process(1, b"", 0) == [(2, data(b=9))]


def test_missing_case_drops(tmp_path: Path) -> None:
    """Even if the program reads the parser error."""
    switch = engine(
        tmp_path,
        states="state more { pkt.extract(hdr.d); transition select(hdr.d.op) { 1: accept; } }",
        ingress="hdr.d.b = prsr.parser_err;",
    )
    assert switch.process(1, data(1), 0) == [(2, data(1))]
    assert switch.process(1, data(2), 0) == []


def test_bypass_of_egress(tmp_path: Path) -> None:
    switch = engine(tmp_path, ingress="tm.bypass_egress = 1;", egress="hdr.d.b = 5;")
    assert switch.process(1, data(), 0) == [(2, data())]


def test_multicast_and_unicast(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        ingress="tm.mcast_grp_a = 7; tm.mcast_grp_b = 8; if (hdr.d.op == 1) { "
        "invalidate(tm.ucast_egress_port); }",
        egress="hdr.d.b = eg.egress_rid;",
    )
    switch.multicast_set(7, [(3, 10), (4, 11)])
    switch.multicast_set(8, [(5, 12)])
    a, b, c = (3, data(b=10)), (4, data(b=11)), (5, data(b=12))
    assert sorted(switch.process(1, data(), 0)) == [(2, data()), a, b, c]
    copies = [(port, data(1, b=rid)) for port, rid in ((3, 10), (4, 11), (5, 12))]
    assert sorted(switch.process(1, data(1), 0)) == copies
    switch.multicast_set(7, [])
    switch.multicast_set(8, [])
    assert switch.process(1, data(1), 0) == []


def test_a_host_at_port_68_replaces_the_packet_generator(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        parser_locals="pktgen_timer_header_t timer;",
        states="state more { pkt.extract(timer); pkt.extract(hdr.d); hdr.d.b = timer.packet_id; "
        "transition accept; }",
        ingress="hdr.d.a = (bit<8>)ig.ingress_port;",
    )
    timer = bytes([5, 0, 0, 1, 0, 7])  # application, padding, batch, packet
    assert switch.process(68, timer + data(), 0) == [(2, data(a=68, b=7))]


def test_copy_to_cpu(tmp_path: Path) -> None:
    switch = engine(tmp_path, ingress="tm.copy_to_cpu = 1; dprsr.drop_ctl = hdr.d.op[2:0];")
    assert sorted(switch.process(1, data(0), 0)) == [(2, data(0)), (64, data(0))]
    assert switch.process(1, data(1), 0) == [(64, data(1))]
    assert switch.process(1, data(2), 0) == [(2, data(2))]


def test_copy_to_another_cpu_port(tmp_path: Path) -> None:
    switch = engine(
        tmp_path, ingress="tm.copy_to_cpu = 1;", egress="hdr.d.b = (bit<16>)eg.egress_port;"
    )
    switch.set_cpu_port(320)
    assert sorted(switch.process(1, data(), 0)) == [(2, data(b=2)), (320, data(b=320))]


MIRROR = "Mirror(1) mirror;"
OF_INGRESS = "if (dprsr.mirror_type == 1) { mirror.emit<bridge_t>(md.session, {5, md.n}); }"
BY_KIND = """
    state more { transition select(pkt.lookahead<bit<8>>()) { 5: mirrored; default: plain; } }
    state mirrored { pkt.extract(hdr.bridge); transition plain; }
    state plain { pkt.extract(hdr.d); transition accept; }
"""


def test_mirror_of_ingress(tmp_path: Path) -> None:
    """The mirrored packet is the received one, after the header."""
    switch = engine(
        tmp_path,
        ingress="md.session = 27; md.n = hdr.d.b; hdr.d.b = 1; dprsr.mirror_type = 1;"
        "dprsr.drop_ctl = hdr.d.a[2:0];",
        deparser_locals=MIRROR,
        deparser=OF_INGRESS,
        egress_states=BY_KIND,
        egress="if (hdr.bridge.isValid()) { hdr.d.c = (bit<32>)hdr.bridge.value; "
        "hdr.bridge.setInvalid(); }",
    )
    assert switch.process(1, data(b=500), 0) == [(2, data(b=1))]  # no such session
    switch.mirror_set(27, [(9, 0)])
    both = [(2, data(b=1)), (9, data(b=500, c=500))]
    assert sorted(switch.process(1, data(b=500), 0)) == both
    assert switch.process(1, data(a=1, b=500), 0) == [(9, data(a=1, b=500, c=500))]
    assert switch.process(1, data(a=4, b=500), 0) == [(2, data(a=4, b=1))]
    switch.mirror_set(27, [(9, 0)], 11)
    assert (9, data(b=500, c=500)) in switch.process(1, data(b=500) + bytes(90), 0)


def test_mirror_of_egress(tmp_path: Path) -> None:
    """The mirrored packet is the outgoing one, after the header."""
    switch = engine(
        tmp_path,
        egress_states=BY_KIND,
        egress="if (hdr.bridge.isValid()) { hdr.bridge.setInvalid(); } else {"
        "md.session = 3; dprsr.mirror_type = 1; hdr.d.b = 8; dprsr.drop_ctl = hdr.d.a[2:0]; }",
        egress_deparser_locals=MIRROR,
        egress_deparser=OF_INGRESS,
    )
    switch.mirror_set(3, [(9, 0)])
    assert sorted(switch.process(1, data(), 0)) == [(2, data(b=8)), (9, data(b=8))]
    assert switch.process(1, data(a=1), 0) == [(9, data(a=1, b=8))]


def test_resubmit(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        declarations="header again_t { bit<16> number; bit<48> rest; }",
        parser_locals="again_t again;",
        port_metadata="",
        states="""
            state more { transition select(ig.resubmit_flag) { 1: again_state; 0: port; } }
            state port { pkt.advance(PORT_METADATA_SIZE); transition rest; }
            state again_state { pkt.extract(again); md.n = again.number; transition rest; }
            state rest { pkt.extract(hdr.d); transition accept; }""",
        ingress="if (ig.resubmit_flag == 0) { dprsr.resubmit_type = 1; hdr.d.a = 99; }"
        "hdr.d.b = md.n; hdr.d.c = (bit<32>)ig.ingress_port;",
        deparser_locals="Resubmit(1) resubmit;",
        deparser="if (dprsr.resubmit_type == 1) { resubmit.emit<again_t>({1234, 0}); }",
    )
    assert switch.process(7, data(), 0) == [(2, data(b=1234, c=7))]


def test_resubmitted_data_of_a_bit(tmp_path: Path) -> None:
    """Data that are not whole bytes are padded on the right."""
    switch = engine(
        tmp_path,
        declarations="header short_t { bit<1> flag; } header again_t { bit<64> x; }",
        parser_locals="again_t again;",
        port_metadata="",
        states="""
            state more { pkt.extract(again); md.m = again.x[63:56]; pkt.extract(hdr.d);
                         transition accept; }""",
        ingress="dprsr.resubmit_type = (bit<3>)(bit<2>)(~ig.resubmit_flag); hdr.d.a = md.m;",
        deparser_locals="Resubmit(1) resubmit;",
        deparser="if (dprsr.resubmit_type == 1) { resubmit.emit<short_t>({1}); }",
    )
    assert switch.process(7, data(), 0) == [(2, data(a=0x80))]


def test_recirculation(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        ingress="hdr.d.b = (bit<16>)ig.ingress_port; hdr.d.a = hdr.d.a + 1;"
        "if (hdr.d.a < 3) { tm.ucast_egress_port = 196; }",
    )
    assert switch.process(7, data(), 0) == [(2, data(a=3, b=196))]


def test_recirculated_headers_that_grow(tmp_path: Path) -> None:
    """A frame that grows in each pass keeps enough room for the metadata before it."""
    states = "state more { pkt.extract(hdr.d); transition accept; }"
    switch = engine(
        tmp_path,
        declarations="header big_t { bit<480> x; }",
        states=states,
        ingress="hdr.d.a = hdr.d.a + 1; hdr.bridge.setValid(); if (hdr.d.a < 200)"
        " { tm.ucast_egress_port = 68; }",
        deparser="",
        egress_states="""state more { pkt.extract(hdr.bridge); pkt.extract(hdr.d);
                         transition accept; }""",
        egress="hdr.bridge.setInvalid(); hdr.ip.setValid();",
    )
    ((port, frame),) = switch.process(1, data(), 0)
    assert (port, frame[:8]) == (2, data(a=200))
    assert len(frame) == 8 + 200 * 8


def test_timestamps(tmp_path: Path) -> None:
    """Times are in nanoseconds."""
    switch = engine(
        tmp_path,
        ingress="hdr.d.c = ig.ingress_mac_tstamp[31:0]; hdr.d.b = prsr.global_tstamp[15:0];",
        egress="if (hdr.d.op == 1) { hdr.d.c = (bit<32>)eg.enq_tstamp;"
        "hdr.d.b = (bit<16>)eg.deq_timedelta; }",
    )
    now = 5_000_123
    assert switch.process(1, data(), now) == [(2, data(b=now & 0xFFFF, c=now))]
    assert switch.process(1, data(1), now) == [(2, data(1, c=now & 0x3FFFF))]


def test_queue(tmp_path: Path) -> None:
    """Egress metadata has the queue depth and waiting time of a packet; all qids use queue 0."""
    switch = engine(
        tmp_path,
        ingress="tm.qid = 3;",
        egress="hdr.d.c = (bit<32>)eg.deq_timedelta; hdr.d.b = (bit<16>)eg.enq_qdepth;"
        "hdr.d.a = (bit<8>)eg.egress_qid;",
    )
    switch.process(1, data(), 0)
    switch.clock = lambda: 0
    switch.set_queue(2, 0, depth_packets=9, rate_pps=10_000)
    first = switch.process(1, data(), 1_000_000)
    second = switch.process(1, data(), 1_000_100)
    assert first == [(2, data(a=3))]
    assert second == [(2, data(a=3, c=100_000 - 100))]


def test_digest(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="struct report_t { bit<16> number; bit<8> kind; }",
        ingress="dprsr.digest_type = 1; md.n = hdr.d.b + 1;",
        deparser_locals="Digest<report_t>(1) reports;",
        deparser="if (dprsr.digest_type == 1) { reports.pack({md.n, hdr.d.op}); }",
    )
    (message,) = program.p4info.digests
    assert message.preamble.name == "ID.reports"
    switch = Engine(program.bmv2_json)
    switch.process(1, data(op=4, b=6), 0)
    assert [(d.name, d.values) for d in switch.digests()] == [("ID.reports", (7, 4))]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"deparser": "if (md.m == 1) { pkt.emit(hdr.d); }"}, "emit() under a condition"),
        ({"deparser": "pkt.emit(hdr.ip); hdr.ip.sum = 1;"}, "changes after its emit()"),
        (
            {
                "declarations": "header odd_t { bit<9> x; }",
                "deparser_locals": "odd_t odd;",
                "deparser": "pkt.emit(odd);",
            },
            "header odd_t has 9 bits",
        ),
        (
            {
                "declarations": "header odd_t { bit<9> x; }",
                "parser_locals": "odd_t odd;",
                "states": "state more { pkt.extract(odd); transition accept; }",
            },
            "header odd_t has 9 bits",
        ),
        (
            {"ingress": "if (is_validated(md.m)) { exit; }"},
            "is_validated() of this is not supported",
        ),
        (
            {"locals": "Hash<bit<8>>(HashAlgorithm_t.XOR8) h;", "ingress": "md.m = h.get({md.n});"},
            "hash algorithm XOR8 is not supported",
        ),
        ({"deparser": "if (md.m == 1) { exit; }"}, "exit in a deparser"),
        (
            {"egress_deparser_locals": "Resubmit() again;", "egress_deparser": "again.emit();"},
            "cannot be used in the egress deparser",
        ),
        (
            {
                "parser_locals": "ParserCounter() c;",
                "states": "state more { pkt.extract(hdr.d); c.set(hdr.d.op, 8w255, hdr.d.a, 3w7,"
                " 8w0); transition accept; }",
            },
            "rotate and mask of set() must be constants",
        ),
        (
            {
                "declarations": "struct port_t { bit<128> x; }",
                "port_metadata": "port_t p = port_metadata_unpack<port_t>(pkt);",
            },
            "port metadata of type port_t are too long",
        ),
    ],
)
def test_refused(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(Minip4Error) as error:
        compiled(tmp_path, **parts)
    assert message in str(error.value)
    assert "program.p4:" in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda document: document["parsers"].pop(),
            "1 parsers, 2 deparsers, 2 pipelines; expected",
        ),
        (
            lambda document: document["register_arrays"][0].update(initial_value="0x100"),
            "initial value 0x100 does not fit in 8 bits",
        ),
    ],
    ids=["a missing parser", "an initial value"],
)
def test_bad_json_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    registers = {"locals": "Register<bit<8>, bit<8>>(4, 1) r;", "ingress": "md.m = r.read(0);"}
    document = compiled(tmp_path, **registers).bmv2_json
    change(document)
    with pytest.raises(InvalidArgument, match=message):
        Engine(document)


@pytest.mark.parametrize("trace", [False, True])
def test_copy_of_intrinsic_metadata_that_no_code_reads(tmp_path: Path, trace: bool) -> None:
    path = write(tmp_path, ingress="hdr.copy = ig; tm.bypass_egress = 1;")
    text = path.read_text().replace(
        "md = {0, 0, 0, false, 0}; pkt.extract(ig);", "pkt.extract(ig);"
    )
    path.write_text(text.replace("bridge_t bridge;", "ingress_intrinsic_metadata_t copy;", 1)
                    .replace("struct headers_t {", "struct headers_t {", 1))  # fmt: skip
    switch = Engine(compile_p4(path).bmv2_json, sanitize=False, trace=trace)
    ((port, frame),) = switch.process(7, data(a=3), 0)
    assert (port, frame[:2].hex(), frame[8:]) == (2, "0007", data(a=3))
