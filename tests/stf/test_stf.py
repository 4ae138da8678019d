"""STF scripts and `minip4 test`: scripts that pass, and the messages for scripts that fail."""

import time
from pathlib import Path

import pytest
from small_programs import DEFAULTS, TEMPLATE, engine

from minip4.cli import main
from minip4.stf.script import StfError, run_stf
from minip4.stf.trace_page import source_files

PROGRAM = {
    "ingress_locals": """
        action go(bit<9> port, bit<8> value) { std.egress_spec = port; hdr.h.b = value; }
        action drop() { mark_to_drop(std); }
        table t { key = { hdr.h.a: ternary @name("first"); hdr.h.c: lpm; }
                  actions = { go; drop; } default_action = drop(); }""",
    "ingress": "if (hdr.h.a == 0xEE) { std.mcast_grp = 1; } else { t.apply(); }",
}

GOOD = """
# a table with priorities: the larger wins
add t 10 first:0x1* hdr.h.c:0x0100/8 go(port:2, value:0x22)
add I.t 20 first:0x11 c:0x01** I.go(port:3, value:0x33)
packet 1 1001 0102 aabb
expect 2 1022 01** aabb$
packet 1 11010102
expect 3 1133
packet 1 22000000
no_packet
setdefault t go(value: 7, port: 4)
packet 1 22000000
expect 4
mc_mgrp_create 1
mc_node_create 5 6 7
mc_node_associate 1 0
packet 1 EE00 0000
wait
expect 6 EE000000 $
expect 7
"""

# a program and a script as p4testgen's STF back end for bmv2 writes them
TESTGEN_PROGRAM = {
    "ingress_locals": """
        action go(bit<9> port, bit<8> value) { std.egress_spec = port; hdr.h.b = value; }
        @name("send away (to, 9)") action away() { std.egress_spec = 9; }
        table t { key = { hdr.h.a: ternary @name("first, # or (second)"); hdr.h.c[15:8]: lpm;
                          hdr.h.isValid(): exact; }
                  actions = { go; away; NoAction; } default_action = NoAction(); }
        action_profile(4) profile;
        table p { key = { hdr.h.a: optional; } actions = { go; NoAction; }
                  implementation = profile; }""",
    "ingress": "t.apply(); p.apply(); if (hdr.h.c[7:0] == 5) { clone(CloneType.I2E, 3); }",
}

TESTGEN = """# p4testgen seed: 1
# Date generated: 2026-01-02-03:04:05.678
    # "selected branches"
# Current node coverage: 0.97
# Traces
# [Method Call]: "an odd quote

# Table I.t
add "I.t" 7 "first, # or (second)":0b0001**** "hdr.h.c[15:8]":0b0000000* "hdr.h.$valid$":0x1 \
"I.go"("port":0x002,"value":0xAB)
add "I.t" 8 "first, # or (second)":0b******** "hdr.h.c[15:8]":0b******** "hdr.h.$valid$":0x1 \
"send away (to, 9)"()
# Table I.p
add "I.p" 1 "hdr.h.a":0x22 "I.go"("port":0x004,"value":0x55)
packet 1 110001F0
expect 9 11****F0$
setdefault "I.t" "NoAction"()
packet 1 22000200
expect 4 22550200$

mirroring_add 3 6
packet 1 22000105
expect 6 220001**$
expect 4
packet 0
expect 0 $
""".replace("\\\n", "")

BAD = {
    "a packet that is not empty": ("packet 1 01020304\nexpect 0 $", "expected $, got 01020304"),
    "another byte": ("packet 1 00000000\nexpect 0 0001", "bad.stf:2: port 0: expected 0001, got"),
    "too long": ("packet 1 0000000011\nexpect 0 00000000$", "expected 00000000$, got 0000000011"),
    "nothing came": ("expect 3 00", "bad.stf:1: port 3: expected 00, got nothing"),
    "too many came": ("packet 1 00000000", "port 0: unexpected frame 00000000"),
    "something came before": ("packet 1 00000000\nno_packet", "port 0: unexpected frame 00000000"),
}

TRACED = "packet 1 01000000\npacket 1 11000000\nexpect 0 01\nexpect 0 22"

MALFORMED = {
    "no such command": ("teleport 1", "bad.stf:1: error: unknown command 'teleport'"),
    "no such table": ("add nope go()", "table 'nope'"),
    "no such action": ("add t first:1 c:1 nope()", "action 'nope'"),
    "no such key": ("add t second:1 drop()", "key of table I.t 'second'"),
    "no value": ("add t first:1 go(port:1)", "no value for parameter value"),
    "no hexadecimal": ("packet 1 zz", "error: non-hexadecimal"),
    "words missing": ("packet", "error: packet: missing arguments"),
    "no action": ("add t first:1 c:1 drop", "no ACTION(NAME:VALUE, ...)"),
    "a parameter without a value": ("add t first:1 c:1 go(port)", "'port': expected NAME:VALUE"),
    "no such port": ("packet 511 00", "port 511: expected 0 to 510"),
    "a negative port": ("packet -1 00", "port -1: expected 0 to 510"),
    "no such group": (
        "mc_node_create 1 2\nmc_node_associate 1 0",
        "group 1 or node 0 was not created",
    ),
    "no such node": ("mc_mgrp_create 1\nmc_node_associate 1 0", "node 0 was not created before"),
    "no value for a key": ("add t first drop()", "'first': expected FIELD:VALUE"),
    "unterminated quote": ('add "t first:1 drop()', "bad.stf:1: error: add"),
    "quotes around what is not there": ('add "t" "nope":1 "drop"()', "key of table I.t 'nope'"),
    "a wildcard that is not a prefix": ("add t c:0x0*0* drop()", "is not a prefix"),
}


def run(tmp_path: Path, text: str, **parts: str) -> list[str]:
    script = tmp_path / "bad.stf"
    script.write_text(text)
    e = engine(**parts)
    try:
        return run_stf(e, script)
    finally:
        e.close()


def test_a_script_that_is_right_passes(tmp_path: Path) -> None:
    assert run(tmp_path, GOOD, **PROGRAM) == []


def test_a_script_as_p4testgen_writes_it_is_read(tmp_path: Path) -> None:
    assert run(tmp_path, TESTGEN, **TESTGEN_PROGRAM) == []


@pytest.mark.parametrize("name", BAD)
def test_a_difference_is_shown_with_its_line(tmp_path: Path, name: str) -> None:
    text, message = BAD[name]
    [failure] = run(tmp_path, text)
    assert message in failure


@pytest.mark.parametrize("name", MALFORMED)
def test_a_script_that_makes_no_sense_is_refused(tmp_path: Path, name: str) -> None:
    text, message = MALFORMED[name]
    with pytest.raises(StfError) as error:
        run(tmp_path, text, **PROGRAM)
    assert message in str(error.value)


def test_the_command_compiles_runs_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, good, bad = (tmp_path / n for n in ("p.p4", "good.stf", "bad.stf"))
    program.write_text(TEMPLATE.format(**{**DEFAULTS, **PROGRAM}))
    good.write_text(GOOD)
    bad.write_text("expect 1 00")
    assert main(["test", str(program), str(good)]) == 0
    assert main(["test", str(program), str(good), str(bad)]) == 1
    assert "FAIL" in capsys.readouterr().out
    assert main(["test", str(program), str(tmp_path / "missing.stf")]) == 2
    assert "missing.stf" in capsys.readouterr().err


def test_a_failure_has_the_trace_of_its_packet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, script = tmp_path / "small.p4", tmp_path / "bad.stf"
    program.write_text(TEMPLATE.format(**DEFAULTS))
    script.write_text(TRACED)
    assert main(["test", "--trace", str(program), str(script)]) == 1
    told = capsys.readouterr().out
    assert "    packet 2: in at port 1, 4 bytes" in told, "that which came out wrong"
    assert "packet 1:" not in told, "that which came out right"
    assert main(["test", str(program), str(script)]) == 1
    assert "packet 2:" not in capsys.readouterr().out


def test_all_packets_have_a_trace_with_source_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, script = tmp_path / "small.p4", tmp_path / "bad.stf"
    program.write_text(TEMPLATE.format(**DEFAULTS))
    script.write_text(TRACED)
    assert main(["test", "--trace-all", str(program), str(script)]) == 1
    shown = capsys.readouterr().out
    number = line_of(program, "packet.extract")
    assert [shown.count(f"packet {packet}: in at port 1") for packet in (1, 2)] == [1, 1]
    assert shown.count(f"parser state start  (small.p4:{number})") == 2
    assert shown.count(f"c=0x0  (small.p4:{number})") == 2


def test_the_trace_page_links_to_the_source(tmp_path: Path) -> None:
    program, script, page = (tmp_path / name for name in ("small.p4", "bad.stf", "trace.html"))
    program.write_text(TEMPLATE.format(**DEFAULTS) + "// a < b")
    script.write_text(TRACED)
    assert main(["test", "--trace-html", str(page), str(program), str(script)]) == 1
    text = page.read_text()
    number = line_of(program, "packet.extract")
    assert f"href='#small.p4:{number}'" in text
    assert f"<span id='small.p4:{number}'>" in text
    assert "// a &lt; b" in text
    assert "port 0: expected 22, got 11000000" in text
    assert "<summary>packet 1: in at port 1" in text
    assert main(["test", "--trace-html", str(tmp_path), str(program), str(script)]) == 2


@pytest.mark.parametrize("name", ["/dev/null", "a\0b"])
def test_the_trace_page_reads_files_only(name: str) -> None:
    assert source_files({"source_info": {"filename": name}}) == {}


def line_of(program: Path, code: str) -> int:
    """Return the number of the first line that contains the code."""
    lines = program.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if code in line)


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null"])
def test_json_that_is_no_program_is_refused_as_the_switch_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    program, script = tmp_path / "e.json", tmp_path / "x.stf"
    program.write_text(text)
    script.write_text("")
    for arguments in (["test", str(program), str(script)], ["switch", str(program)]):
        assert main(arguments) == 2
        assert "e.json: expected BMv2 JSON, whose root is an object" in capsys.readouterr().err


def test_an_endless_recirculation_has_a_trace_from_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, script = tmp_path / "round.p4", tmp_path / "round.stf"
    parts = {"egress": "recirculate_preserving_field_list(0);"}
    program.write_text(TEMPLATE.format(**{**DEFAULTS, **parts}))
    script.write_text("packet 1 01020304")
    took_s = []
    for options in ([], [], ["--trace"]):  # the first run also builds the program
        start = time.process_time()
        assert main(["test", *options, str(program), str(script)]) == 2
        took_s.append(time.process_time() - start)
        shown = capsys.readouterr()
    assert took_s[2] < 4 * took_s[1], "15 times as long once: all that is not shown was read"
    lines = shown.out.splitlines()
    assert lines[0].startswith("    packet 1: in at port 1, 4 bytes")
    assert any("recirculated" in line for line in lines)
    assert lines[20:] == ["    ..."]
    assert "round.stf:1: error: packets circulate in the switch without end" in shown.err


def test_clocks_begin_at_zero(tmp_path: Path) -> None:
    stamp = "hdr.h.c = (bit<16>)std.ingress_global_timestamp; std.egress_spec = 1;"
    lines = ("packet 1 11220000", "expect 1 11220000", "packet 1 11220000", "expect 1 112203E8")
    assert run(tmp_path, "\n".join(lines), ingress=stamp) == []
