"""A Switch with several pipelines: ports 0 to 127 belong to pipe 0, 128 to 255 to pipe 1, etc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tna_programs import compiled, data, engine

from minip4.engine.control.trace import Trace
from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument
from minip4.engine.keys import Exact
from minip4.errors import Minip4Error

A = "Pipeline(IP(), IC(1), ID(), EP(), EC(16), ED()) a;"
B = "Pipeline(IP(), IC(2), ID(), EP(), EC(32), ED()) b;"
TWO = {
    "package": f"{A} {B} Switch(a, b) main;",
    "constructor": "(bit<8> number)",
    "egress_constructor": "(bit<8> number)",
    # op is the egress port divided by 2
    "ingress": "hdr.d.a = hdr.d.a + number; tm.ucast_egress_port = (bit<9>)hdr.d.op << 1;",
    "egress": "hdr.d.a = hdr.d.a + number;",
}
COUNT = """
    Register<bit<16>, bit<8>>(4, 100) reg;
    RegisterAction<bit<16>, bit<8>, bit<16>>(reg) add = {
        void apply(inout bit<16> value, out bit<16> rv) { value = value + 1; rv = value; }
    };
"""


def test_each_pipe_has_its_pipeline(tmp_path: Path) -> None:
    """Ingress is that of the ingress port, egress that of the egress port."""
    switch = engine(tmp_path, **TWO)
    for ingress, egress in ((3, 4), (3, 130), (127, 254), (128, 126), (255, 128)):
        number = 1 + (ingress >> 7) + 16 * (1 + (egress >> 7))
        frame = data(op=egress // 2)
        expected = [(egress, data(op=egress // 2, a=number))]
        assert switch.process(ingress, frame, 0) == expected, (ingress, egress)


def test_one_pipeline_processes_the_packets_of_all_ports(tmp_path: Path) -> None:
    package = f"{A} Switch(a) main;"
    switch = engine(tmp_path, **TWO | {"package": package})
    for ingress, egress in ((1, 2), (130, 260), (400, 500)):
        frame = data(op=egress // 2)
        assert switch.process(ingress, frame, 0) == [(egress, data(op=egress // 2, a=17))]
    # the name of the pipeline is not part of the names of its objects
    program = compiled(tmp_path, **TWO | {"package": package, "locals": COUNT})
    assert [r.preamble.name for r in program.p4info.registers] == ["IC.reg"]


def test_ports_of_a_pipe_without_pipeline(tmp_path: Path) -> None:
    switch = engine(tmp_path, **TWO)
    assert switch.process(256, data(op=1), 0) == []
    assert switch.counters()["ingress_drops"] == 1
    assert switch.process(1, data(op=128), 0) == []
    assert switch.counters()["egress_drops"] == 1


@pytest.mark.parametrize("package", ["Switch(a, b, a, b)", "Switch(pipe0=a, pipe1=b, pipe2=a)"])
def test_a_pipeline_of_several_pipes_has_one_state(tmp_path: Path, package: str) -> None:
    ingress = "hdr.d.b = add.execute(0); tm.ucast_egress_port = ig.ingress_port;"
    parts = {"package": f"{A} {B} {package} main;", "locals": COUNT, "ingress": ingress}
    switch = engine(tmp_path, **TWO | parts)
    counts = [switch.process(port, data(), 0)[0][1] for port in (1, 257, 129)]
    assert counts == [data(b=101, a=16), data(b=102, a=16), data(b=101, a=32)]


def test_state_and_tables_of_each_pipeline(tmp_path: Path) -> None:
    locals_ = (
        COUNT
        + """
        action set(bit<16> value) { hdr.d.b = value; }
        table t { key = { hdr.d.op: exact; } actions = { set; } }"""
    )
    ingress = "t.apply(); hdr.d.c = (bit<32>)add.execute(1);"
    switch = engine(tmp_path, **TWO | {"locals": locals_, "ingress": ingress, "egress": ""})
    switch.table_add("a.IC.t", [Exact(7)], "a.IC.set", [10])
    switch.table_add("b.IC.t", [Exact(7)], "b.IC.set", [20])
    assert switch.process(1, data(7), 0) == [(2, data(7, b=10, c=101))]
    assert switch.process(200, data(7), 0) == [(2, data(7, b=20, c=101))]
    assert switch.process(200, data(7), 0) == [(2, data(7, b=20, c=102))]
    assert [switch.register_read(f"{name}.IC.reg", 1) for name in "ab"] == [101, 102]


def test_global_objects_of_each_pipeline(tmp_path: Path) -> None:
    """An action outside of the controls counts in the register of its pipeline."""
    declarations = (
        COUNT
        + """
        action count() { add.execute(2); }
        action nothing() { }"""
    )
    locals_ = """table t { key = { hdr.d.op: exact; } actions = { count; nothing; }
                 default_action = nothing(); const entries = { 5: count(); } }"""
    switch = engine(tmp_path, **TWO | {"declarations": declarations, "locals": locals_,
                                       "ingress": "t.apply();", "egress": ""})  # fmt: skip
    for port in (1, 130, 130):
        switch.process(port, data(5), 0)
    assert [switch.register_read(f"{name}.reg", 2) for name in "ab"] == [101, 102]


def test_copies_go_to_all_pipes(tmp_path: Path) -> None:
    """Groups and sessions belong to the traffic manager, which all pipes share."""
    switch = engine(
        tmp_path,
        **TWO | {
            "ingress": "hdr.d.a = number; dprsr.mirror_type = 1; tm.mcast_grp_a = 3;"
                       "invalidate(tm.ucast_egress_port);",
            "deparser_locals": "Mirror(1) mirror;",
            "deparser": "if (dprsr.mirror_type == 1) { mirror.emit(4); }",
        },
    )  # fmt: skip
    switch.multicast_set(3, [(5, 0), (135, 0)])
    switch.mirror_set(4, [(140, 0)])
    expected = [(5, data(a=18)), (135, data(a=34)), (140, data(a=32))]
    assert sorted(switch.process(150, data(), 0)) == expected


def test_recirculation_ports_lead_to_their_pipes(tmp_path: Path) -> None:
    """They need no interface."""
    ingress = "hdr.d.a = hdr.d.a + number; tm.ucast_egress_port = hdr.d.a < 3 ? 9w196 : 9w2;"
    switch = engine(tmp_path, **TWO | {"ingress": ingress, "egress": ""})
    switch._is_open = True
    switch.library.engine_collect(switch.handle, 3)  # ports 0 to 2 are up
    assert switch.process(1, data(), 0) == [(2, data(a=1 + 2))]


def test_trace(tmp_path: Path) -> None:
    """It shows the names of the pipelines, and the trace of a packet without a pipeline."""
    parts = {"locals": COUNT, "ingress": "hdr.d.b = add.execute(0);" + TWO["ingress"]}
    switch = Engine(compiled(tmp_path, **TWO | parts).bmv2_json, trace=True)
    switch.process(1, data(op=100), 0)
    switch.process(260, data(op=100), 0)
    first, second = Trace(switch).blocks()
    lines = [line.strip() for line in first.splitlines()]
    assert "register a.IC.reg[0] written: 0x65" in lines
    assert "b.egress.d.a: 1 -> 33" in lines
    assert "out at port 200, 8 bytes, at 0.000000000 s" in lines
    assert [line.partition(",")[0].strip() for line in second.splitlines()] == [
        "packet 2: in at port 260", "dropped",
    ]  # fmt: skip


def test_names_without_declared_pipelines(tmp_path: Path) -> None:
    package = (
        "Switch(Pipeline(IP(), IC(1), ID(), EP(), EC(1), ED()),"
        " Pipeline(IP(), IC(2), ID(), EP(), EC(2), ED())) main;"
    )
    program = compiled(tmp_path, **TWO | {"package": package, "locals": COUNT})
    names = [(r.preamble.name, r.preamble.alias) for r in program.p4info.registers]
    assert names == [("pipe0.IC.reg",) * 2, ("pipe1.IC.reg",) * 2]
    assert len({r.preamble.id for r in program.p4info.registers}) == 2


def test_parser_error_that_one_pipeline_reads(tmp_path: Path) -> None:
    """The other pipeline drops such packets."""
    other = """
        control Reading(inout headers_t hdr, inout metadata_t md,
                in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
            apply { tm.ucast_egress_port = 2; if (prsr.parser_err != 0) { hdr.d.setValid(); } }
        }"""
    package = f"{other} {A.replace('IC(1)', 'Reading()')} {B} Switch(a, b) main;"
    switch = engine(tmp_path, **TWO | {"package": package, "egress": ""})
    assert switch.process(1, b"", 0) == [(2, data())]
    assert switch.process(129, b"", 0) == []


PARSERS = """
    parser Offset(packet_in pkt, out headers_t hdr, out metadata_t md,
                  out ingress_intrinsic_metadata_t ig) {
        value_set<bit<8>>(4) ops;
        state start {
            md = {0, 0, 0, false, 0};
            pkt.extract(ig); pkt.advance(PORT_METADATA_SIZE); pkt.advance(16);
            transition select(pkt.lookahead<bit<8>>()) { ops: odd; default: more; }
        }
        state odd { md.m = 1; transition more; }
        state more { pkt.extract(hdr.d); transition accept; }
    }
"""


def multi_parser(parsers: str, egress: str = "EgressParsers(EP()) eg;") -> dict[str, str]:
    package = f"""{PARSERS} {parsers} {egress}
        MultiParserPipeline(ig, IC(), ID(), eg, EC(), ED()) pipe;
        MultiParserSwitch(pipe) main;"""
    return {"package": package, "ingress": "hdr.d.a = md.m;"}


def test_a_parser_for_each_port(tmp_path: Path) -> None:
    """Parser 1 is for the ports 4 to 11 of each pipe; the first parser is for all others."""
    switch = engine(
        tmp_path, **multi_parser("@default_portmap(0, {1, 2}) IngressParsers(IP(), Offset()) ig;")
    )
    frame = b"\1\2" + data(3, b=4)
    moved, direct = (2, data(3, b=4)), (2, b"\1\0" + frame[2:])
    for port in (4, 11, 132, 139):
        assert switch.process(port, frame, 0) == [moved], port
    for port in (0, 3, 12, 128, 140, 68):
        assert switch.process(port, frame, 0) == [direct], port


def test_value_sets_of_parsers(tmp_path: Path) -> None:
    """Parsers of one pipeline are known by their numbers, since their names could be the same."""
    program = compiled(
        tmp_path,
        **multi_parser("@default_portmap(0, 1) IngressParsers(Offset(), Offset()) ig;"),
    )
    names = [v.preamble.name for v in program.p4info.value_sets]
    assert names == ["ig.prsr0.ops", "ig.prsr1.ops"]
    switch = Engine(program.bmv2_json)
    switch.value_set_set("ig.prsr1.ops", [3])
    frame = b"\1\2" + data(3)
    assert switch.process(0, frame, 0) == [(2, data(3))]
    assert switch.process(4, frame, 0) == [(2, data(3, a=1))]


def test_parsers_of_egress(tmp_path: Path) -> None:
    other = """
        parser EQ(packet_in pkt, out headers_t hdr, out metadata_t md,
                  out egress_intrinsic_metadata_t eg) {
            state start { md = {1, 0, 0, false, 0}; pkt.extract(eg); pkt.extract(hdr.d);
                          transition accept; }
        }
        @default_portmap(5, 1) EgressParsers(EP(), EQ()) eg;"""
    parts = multi_parser("IngressParsers(IP()) ig;", other)
    parts["ingress"] = "tm.ucast_egress_port = (bit<9>)hdr.d.op;"
    switch = engine(tmp_path, **parts, egress="hdr.d.a = md.m;")
    for port, seen in ((3, 0), (4, 1), (7, 1), (8, 0), (20, 0)):
        assert switch.process(1, data(port), 0) == [(port, data(port, a=seen))]


@pytest.mark.parametrize(
    ("parsers", "message"),
    [
        ("IngressParsers(IP(), Offset()) ig;", "the ports of these 2 parsers are unknown"),
        (
            "@default_portmap(0) IngressParsers(IP(), Offset()) ig;",
            "@default_portmap has 1 values\n",
        ),
        (
            "@default_portmap(0, 18) IngressParsers(IP(), Offset()) ig;",
            "@default_portmap takes numbers (port / 4)",
        ),
        (
            "@default_portmap(0, {1, x}) IngressParsers(IP(), Offset()) ig;",
            "@default_portmap takes numbers (port / 4)",
        ),
        (
            "@default_portmap(1, {1, 2}) IngressParsers(IP(), Offset()) ig;",
            "a number has two parsers in @default_portmap",
        ),
    ],
)
def test_refused_parsers(tmp_path: Path, parsers: str, message: str) -> None:
    with pytest.raises(Minip4Error) as error:
        compiled(tmp_path, **multi_parser(parsers))
    assert message in str(error.value)
    assert "program.p4:" in str(error.value)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"locals": '@name(".x") Register<bit<8>, bit<8>>(1) r;'},
            "two pipelines have an object called x",
        ),
        (
            {"locals": '@name(".x") table t { key = { hdr.d.a: exact; } actions = { NoAction; } }'},
            "two pipelines have an object called x",
        ),
        (
            {"locals": "table t { key = { hdr.d.a: exact; } actions = { NoAction; }"
                       '@name("x") implementation = ActionProfile(4); }',
             "ingress": "t.apply();"},
            "two pipelines have an object called x",
        ),
        (
            {"package": f"{A.replace(' a;', ' pipe1;')} Switch(pipe1, {B[:-3]}) main;"},
            "two pipelines are called pipe1",
        ),
    ],
    ids=["register", "table", "profile", "pipelines"],
)  # fmt: skip
def test_refused_names(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(Minip4Error) as error:
        compiled(tmp_path, **TWO | parts)
    assert message in str(error.value)
    assert "program.p4:" in str(error.value)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta["pipelines"][1].update(pipes=[0]), "pipes .*: expected different"),
        (lambda meta: meta["pipelines"][1].update(pipes=[4]), "numbers from 0 to 3"),
        (lambda meta: meta["pipelines"][1].update(pipes=["1"]), "numbers from 0 to 3"),
        (lambda meta: meta["pipelines"][0].update(ingress_parsers=[]), "no ingress_parsers"),
        (lambda meta: meta["pipelines"][0].update(egress_parsers=[[18]]), "from 0 to 17"),
        (lambda meta: meta["pipelines"].pop(), "4 parsers, 4 deparsers, 4 pipelines; expected 2"),
        (lambda meta: meta.update(pipelines={}), "expected"),
        (lambda meta: meta.update(pipelines=[]), "expected 0 parsers"),
        (lambda meta: meta["pipelines"][0].pop("pipes"), "'pipes' is missing or invalid"),
        (
            lambda meta: meta.update(port_metadata_bytes=65),
            "port_metadata_bytes 65: expected a number",
        ),
        (lambda meta: meta.update(port_metadata_bytes=7), "a number from 8 to 64"),
        (lambda meta: meta.update(port_metadata_bytes="8"), "port_metadata_bytes '8': expected"),
    ],
)
def test_bad_json_is_refused(tmp_path: Path, change: Change, message: str) -> None:
    document = compiled(tmp_path, **TWO).bmv2_json
    change(document["__meta__"])
    with pytest.raises(InvalidArgument, match=message):
        Engine(document)
