"""Programs for Tofino 2: its metadata, mirrored packets and externs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tna_programs import compiled, data, write

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.errors import Minip4Error

INGRESS_BYTES = (1 + 1 + 2 + 3 + 9 + 48) // 8
EGRESS_BYTES = sum(
    [7 + 9, 5 + 19, 6 + 2, 32, 5 + 19, 6 + 2, 8, 32, 16, 7 + 1, 1 + 7, 5 + 3, 7 + 1, 16, 8]
) // 8  # fmt: skip


def engine(folder: Path, **parts: str) -> Engine:
    return Engine(compiled(folder, architecture="t2na.p4", **parts).bmv2_json)


def test_names_of_the_architecture(tmp_path: Path) -> None:
    program = compiled(tmp_path, architecture="t2na.p4")
    assert program.p4info.pkg_info.arch == "t2na"
    assert program.bmv2_json["__meta__"]["port_metadata_bytes"] == 24


def test_sizes_of_metadata(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        ingress="hdr.d.b = (bit<16>)sizeInBytes(ig);",
        egress="hdr.d.c = sizeInBytes(eg); hdr.d.a = (bit<8>)(PORT_METADATA_SIZE >> 3);",
    )
    expected = data(a=24, b=INGRESS_BYTES, c=EGRESS_BYTES)
    assert (INGRESS_BYTES, EGRESS_BYTES) == (8, 28)
    assert switch.process(1, data(), 0) == [(2, expected)]


def test_metadata_of_egress(tmp_path: Path) -> None:
    """Times have 32 bits, and queues 7."""
    switch = engine(
        tmp_path,
        ingress="tm.qid = 100; tm.rid = 0x1234;",
        egress="if (hdr.d.op == 1) { hdr.d.c = eg.enq_tstamp; hdr.d.b = eg.pkt_length; }"
        "else { hdr.d.c = eg.deq_timedelta; hdr.d.b = eg.egress_rid; }"
        "hdr.d.a = (bit<8>)eg.egress_qid;",
    )
    now = 0x1_2345_6789
    assert switch.process(300, data(1), now) == [(2, data(1, a=100, b=8, c=now & 0xFFFFFFFF))]
    switch.clock = lambda: 0
    switch.set_queue(2, 0, depth_packets=9, rate_pps=1000)
    switch.process(1, data(), 2 * now)
    delay = 1_000_000  # needs 20 bits
    expected = [(2, data(a=100, b=0x1234, c=delay))]
    assert switch.process(1, data(), 2 * now) == expected


def test_port_metadata(tmp_path: Path) -> None:
    """They are zeros before the frame; the data of Resubmit replace the first 8 of 24 bytes."""
    switch = engine(
        tmp_path,
        declarations="header again_t { bit<16> number; bit<48> rest; }"
        "struct port_t { bit<64> x; bit<64> y; bit<64> z; }",
        port_metadata="port_t p = port_metadata_unpack<port_t>(pkt);"
        "md.n = p.x[63:48]; md.o = p.z[31:0];",
        ingress="if (ig.resubmit_flag == 0) { dprsr.resubmit_type = 1; }"
        "hdr.d.b = md.n; hdr.d.c = md.o;",
        deparser_locals="Resubmit(1) resubmit;",
        deparser="if (dprsr.resubmit_type == 1) { resubmit.emit<again_t>({1234, 0}); }",
    )
    assert switch.process(7, data(c=5), 0) == [(2, data(b=1234))]


MIRROR = "Mirror(9) mirror;"
EMIT = "if (dprsr.mirror_type == 9) { mirror.emit<bridge_t>(md.session, {5, md.n}); }"


@pytest.mark.parametrize(("select", "mirrored"), [(0, 500), (1, 1)])
def test_mirror_of_the_incoming_or_outgoing_packet_of_ingress(
    tmp_path: Path, select: int, mirrored: int
) -> None:
    switch = engine(
        tmp_path,
        ingress="md.session = 250; md.n = 9; dprsr.mirror_type = 9; hdr.d.b = 1;"
        f"dprsr.mirror_io_select = {select}; dprsr.drop_ctl = hdr.d.a[2:0];",
        deparser_locals=MIRROR,
        deparser=EMIT,
        egress_states="state more { transition select(pkt.lookahead<bit<8>>()) "
        "{ 5: mirrored; default: plain; } } state mirrored { pkt.extract(hdr.bridge);"
        "transition plain; } state plain { pkt.extract(hdr.d); transition accept; }",
    )
    switch.mirror_set(250, [(3, 0)])
    copy = (3, b"\5\0\t" + data(b=mirrored))
    assert sorted(switch.process(1, data(b=500), 0)) == [(2, data(b=1)), copy]
    # a dropped packet is mirrored, unless drop_ctl also suppresses this
    copy = (3, b"\5\0\t" + data(a=1, b=mirrored))
    assert switch.process(1, data(a=1, b=500), 0) == [copy]
    assert switch.process(1, data(a=5, b=500), 0) == []


@pytest.mark.parametrize(
    ("select", "mirrored"),
    [
        ("", data(b=8)),
        ("dprsr.mirror_io_select = 1;", data(b=8)),
        # with the bridged metadata, as the egress parser received it
        ("dprsr.mirror_io_select = 0;", b"\7\3\t" + data(b=500)),
    ],
    ids=["default", "outgoing", "incoming"],
)
def test_mirror_of_the_incoming_or_outgoing_packet_of_egress(
    tmp_path: Path, select: str, mirrored: bytes
) -> None:
    switch = engine(
        tmp_path,
        ingress="hdr.bridge = {7, 0x309}; hdr.bridge.setValid();",
        egress_states="state more { transition select(pkt.lookahead<bit<8>>()) "
        "{ 5: accept; default: plain; } } state plain { pkt.extract(hdr.bridge);"
        "pkt.extract(hdr.d); transition accept; }",
        egress="if (hdr.d.isValid()) { hdr.bridge.setInvalid(); md.session = 3; md.n = 1;"
        f"dprsr.mirror_type = 9; hdr.d.b = 8; dprsr.drop_ctl = hdr.d.a[2:0]; {select} }}",
        egress_deparser_locals=MIRROR,
        egress_deparser=EMIT,
    )
    switch.mirror_set(3, [(9, 0)])
    copies = [(2, data(b=8)), (9, b"\5\0\1" + mirrored)]
    assert sorted(switch.process(1, data(b=500), 0)) == copies


def test_register_action(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals="""
            Register<bit<16>, bit<8>>(4, 7) reg;
            RegisterAction<bit<16>, bit<8>, bit<16>>(reg) add = {
                void apply(inout bit<16> value, out bit<16> rv) { value = value + 1; rv = value; }
            };""",
        ingress="hdr.d.b = add.execute(2);",
    )
    assert switch.process(1, data(), 0) == [(2, data(b=8))]
    assert switch.process(1, data(), 0) == [(2, data(b=9))]


def test_no_warnings_of_limits(tmp_path: Path) -> None:
    """Stateful ALUs of Tofino 2 can do more than those that the warnings are about."""
    locals_ = """
        Register<bit<128>, bit<8>>(4) reg;
        RegisterAction<bit<128>, bit<8>, bit<8>>(reg) read = {
            void apply(inout bit<128> value, out bit<8> rv) { rv = value[7:0]; }
        };"""
    parts = {"locals": locals_, "ingress": "hdr.d.a = read.execute(0);"}
    assert [w.kind for w in compiled(tmp_path, **parts).warnings] == ["hardware"]
    assert not compiled(tmp_path, architecture="t2na.p4", **parts).warnings


def test_fields_without_effect(tmp_path: Path) -> None:
    ingress = "dprsr.mirror_egress_port = 3; dprsr.mirror_hash = 3; dprsr.mirror_io_select = 1;"
    program = compiled(tmp_path, architecture="t2na.p4", ingress=ingress)
    assert [w.message for w in program.warnings] == ["mirror_egress_port has no effect in minip4"]


def test_mask_of_parser_counters(tmp_path: Path) -> None:
    """It is a mask on Tofino 2, and the number of its highest bit on Tofino 1."""
    parts = {
        "parser_locals": "ParserCounter() counter;",
        "states": """state more { pkt.extract(hdr.d);
                     counter.set(hdr.d.a, 255, 0, {mask}, 0); transition next; }
                     state next { transition select(counter.is_zero()) { true: zero;
                                  default: accept; } }
                     state zero { md.m = 1; transition accept; }""",
        "ingress": "hdr.d.op = md.m;",
    }

    def passed(architecture: str, mask: int) -> list[int]:
        states = parts["states"].replace("{mask}", str(mask))
        program = compiled(tmp_path, architecture=architecture, **parts | {"states": states})
        switch = Engine(program.bmv2_json)
        return [a for a in (1, 2, 4, 8) if not switch.process(1, data(a=a), 0)[0][1][0]]

    assert passed("t2na.p4", 6) == [2, 4]
    assert passed("tna.p4", 1) == [1, 2]


def test_colours_of_meters(tmp_path: Path) -> None:
    """The last parameter, true_egress_accounting, is optional."""
    switch = engine(
        tmp_path,
        locals="Meter<bit<8>>(4, MeterType_t.PACKETS, 33, 22, 11, false) of_five;"
        "Meter<bit<8>>(4, MeterType_t.PACKETS, 9, 8, 7) of_four;"
        "Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS, false) counter;",
        ingress="hdr.d.a = of_five.execute(0); hdr.d.op = of_four.execute(0); counter.count(0);",
    )
    assert switch.process(1, data(), 0) == [(2, data(op=7, a=11))]


def test_ghost_metadata_are_zero(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        ghost=", in ghost_intrinsic_metadata_t g",
        ingress="hdr.d.b = (bit<16>)g.qid; hdr.d.a = (bit<8>)g.ping_pong;",
    )
    assert switch.process(1, data(a=1, b=1), 0) == [(2, data())]


GHOST = """control Ghost(in ghost_intrinsic_metadata_t g) { apply { } }
    Pipeline(IP(), IC(), ID(), EP(), EC(), ED(), Ghost()) pipe; Switch(pipe) main;"""
COUNTER = "Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS, true) counter;"
ACTION = """
    Register<bit<16>, bit<8>>(4) reg;
    RegisterAction<bit<16>, bit<8>, bit<16>>(reg) act = {
        void apply(inout bit<16> value, out bit<16> rv) { rv = value; }
    };"""
ACTION2 = """
    Register<bit<16>, bit<8>>(4) reg;
    RegisterAction2<bit<16>, bit<8>, bit<16>, bit<8>>(reg) act = {
        void apply(inout bit<16> value, out bit<16> one, out bit<8> two) { one = value; two = 1; }
    };"""


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"package": GHOST}, "the ghost thread is not supported"),
        (
            {"locals": COUNTER, "ingress": "counter.count(0);"},
            "true_egress_accounting of IC.counter is not supported",
        ),
        ({"locals": ACTION, "ingress": "act.execute();"}, "execute() without an index"),
        ({"locals": ACTION, "ingress": "act.execute(0, md.n);"}, "several results"),
        (
            {"locals": ACTION.replace("out bit<16> rv", "out bit<16> rv, out bit<16> rv2"),
             "ingress": "act.execute(0);"},
            "several results",
        ),
        ({"locals": ACTION, "ingress": "act.enqueue();"}, "RegisterAction.enqueue() is not"),
        ({"locals": ACTION2, "ingress": "act.execute(0, hdr.d.a);"}, "RegisterAction2.execute()"),
        ({"locals": ACTION, "ingress": "reg.clear(0);"}, "Register.clear() is not supported"),
        (
            {"parser_locals": "ParserCounter() c;", "states":
             "state more { c.push(8w1); pkt.extract(hdr.d); transition accept; }"},
            "ParserCounter.push() is not supported",
        ),
        (
            {"deparser_locals": "Pktgen() p;", "deparser": "p.emit(hdr.bridge);"},
            "Pktgen.emit() is not supported",
        ),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(Minip4Error) as error:
        compiled(tmp_path, architecture="t2na.p4", **parts)
    assert message in str(error.value)
    assert "program.p4:" in str(error.value)


def test_tna_on_tofino_2(tmp_path: Path) -> None:
    """tna.p4 has the widths of Tofino 2 if the program is for this target."""
    path = write(tmp_path, ingress="hdr.d.c = PORT_METADATA_SIZE;")
    switch = Engine(compile_p4(path, defines=["__TARGET_TOFINO__=2"]).bmv2_json)
    assert switch.process(1, data(), 0) == [(2, data(c=192))]
