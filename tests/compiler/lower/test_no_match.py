"""A select without a matching case rejects with NoMatch (P4-16, 13.6), in minip4 and in BMv2."""

from __future__ import annotations

from pathlib import Path

import pytest
from bmv2_interpreter import Interpreter
from programs_to_run import compiled, outcome

from minip4.engine.engine import Engine

SUB = """
parser Sub(packet_in packet, inout headers_t h) {
    state start { packet.extract(h.d); transition select(h.d.a) { 1: accept; } }
}
"""
CASES = {
    # parts of the program, packets that match no case
    "one key": (
        {
            "states": "state start { packet.extract(h.d);"
            " transition select(h.d.a) { 1: accept; 5 .. 7: accept; } }"
        },
        ["02", "08", "ff"],
    ),
    "several keys": (
        {
            "states": "state start { packet.extract(h.d); transition select(h.d.a, h.d.b) {"
            " (1, _): accept; (_, 0x10 &&& 0xf0): accept; } }"
        },
        ["0200", "0021"],
    ),
    "a value set": (
        {
            "parser_locals": "value_set<bit<8>>(4) vs;",
            "states": "state start { packet.extract(h.d);"
            " transition select(h.d.a) { vs: accept; 1: accept; } }",
        },
        ["02"],
    ),
    "in a sub-parser": (
        {
            "declarations": SUB,
            "parser_locals": "Sub() sub;",
            "states": "state start { sub.apply(packet, h); h.d.w = 0; transition accept; }",
        },
        ["02"],
    ),
    "the second of two, with a state called so": (
        {
            "states": "state start { packet.extract(h.d);"
            " transition select(h.d.a) { 1: accept; 2: no_match; } }"
            " state no_match { transition select(h.d.b) { 1: accept; } }"
        },
        ["0200", "03"],
    ),
    "in a branch's state": (
        {
            "states": "state start { packet.extract(h.d); if (h.d.a == 2) { h.d.b = 9; }"
            " transition select(h.d.b) { 1: accept; } }"
        },
        ["02", "0102"],
    ),
}
SEES = "if (sm.parser_error == error.NoMatch) { sm.egress_spec = 7; } h.d.s = (int<8>)h.d.a[7:0];"


@pytest.mark.parametrize("name", CASES)
def test_no_case_matches(tmp_path: Path, name: str) -> None:
    parts, packets = CASES[name]
    program = compiled(tmp_path, ingress=SEES, **parts).bmv2_json
    engine, interpreter = Engine(program), Interpreter(program)
    for start in packets:
        packet = bytes.fromhex(start.ljust(16, "0"))
        (sent,) = engine.process(1, packet, 0)
        assert sent == interpreter.run(packet), start
        assert sent[0] == 7, start
        assert sent[1][3] == packet[0], "what was extracted before stays"
    matching = bytes.fromhex("0101000000000000")
    (sent,) = engine.process(1, matching, 0)
    assert sent == interpreter.run(matching)
    assert sent[0] == 0


def test_a_default_leaves_nothing_unmatched(tmp_path: Path) -> None:
    states = "state start { packet.extract(h.d); transition select(h.d.a) { default: accept; } }"
    assert outcome(tmp_path, "0900000000000000", states=states, ingress=SEES) == (
        0,
        "0900000900000000",
    )


def test_json_without_a_default_transition_accepts(tmp_path: Path) -> None:
    """If a state has no default transition, a packet without a match is accepted.

    p4c writes such JSON. simple_switch then continues without an error, too.
    """
    parts, (packet, *_) = CASES["one key"]
    program = compiled(tmp_path, ingress=SEES, **parts).bmv2_json
    (start,) = (s for s in program["parsers"][0]["parse_states"] if s["name"] == "start")
    start["transitions"] = [t for t in start["transitions"] if t["type"] != "default"]
    (sent,) = Engine(program).process(1, bytes.fromhex(packet.ljust(16, "0")), 0)
    assert sent[0] == 0
