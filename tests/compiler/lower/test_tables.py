"""Tables, actions and the control graph of compiled programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from programs_to_run import compiled, interpreter

TABLE = """
    action set(bit<8> v) { h.d.c = v; }
    action twice(inout bit<8> x, bit<8> v) { x = x + v; x = x + v; }
    action leave() { h.d.b = 6; exit; }
    table t { key = { h.d.a : exact; } actions = { set; leave; twice(h.d.b); NoAction; } }
"""
BRANCHES = {
    # body of ingress, output packet with the entry set(9), output packet without an entry
    "plain": ("t.apply(); h.d.b = 5;", "010509", "010503"),
    "hit": ("if (t.apply().hit) { h.d.b = 5; }", "010509", "010203"),
    "miss": ("if (t.apply().miss) { h.d.b = 5; }", "010209", "010503"),
    "not hit": ("if (!t.apply().hit) { h.d.b = 5; } else { h.d.b = 4; }", "010409", "010503"),
    "hit in an expression": (
        "bool y = t.apply().hit && h.d.c == 9; if (y) { h.d.b = 5; }",
        "010509",
        "010203",
    ),
    "action_run": (
        "switch (t.apply().action_run) { set: { h.d.b = 5; } leave: NoAction: { h.d.b = 4; } }"
        " h.d.w = 0;",
        "0105097f00000000",
        "0104037f00000000",
    ),
    "action_run default": (
        "switch (t.apply().action_run) { leave: { h.d.b = 5; } default: { h.d.b = 4; } }",
        "010409",
        "010403",
    ),
    "applied in two places": (
        "if (h.d.c == 3) { t.apply(); h.d.b = 5; } else { t.apply(); h.d.b = 6; }",
        "010509",
        "010503",
    ),
    "applied twice": (
        "t.apply(); h.d.b = 5; if (t.apply().hit) { h.d.w = 0; }",
        "0105097f00000000",
        "0105037f00000004",
    ),
    "in both branches, alike": (
        "if (h.d.a == 1) { h.d.b = 5; t.apply(); } else { t.apply(); }",
        "010509",
        "010503",
    ),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branch(tmp_path: Path, name: str) -> None:
    code, with_entry, without = BRANCHES[name]
    switch = interpreter(tmp_path, locals=TABLE, ingress=code)
    packet = bytes.fromhex("0102037f00000004")
    for expected in (without, with_entry):
        result = switch.run(packet)
        assert result is not None
        assert result[1].hex().startswith(expected)
        switch.add("I.t", [1], "I.set", 9)


@pytest.mark.parametrize(
    ("action", "data", "expected"), [("I.leave", [], "0106037f"), ("I.twice", [4], "010a007f")]
)
def test_actions_of_entries(tmp_path: Path, action: str, data: list[int], expected: str) -> None:
    switch = interpreter(tmp_path, locals=TABLE, ingress="t.apply(); h.d.c = 0;")
    switch.add("I.t", [1], action, *data)
    result = switch.run(bytes.fromhex("0102037f00000004"))
    assert result is not None
    assert result[1].hex().startswith(expected)


def table(tmp_path: Path, text: str, **parts: str) -> dict[str, Any]:
    local = "action set(bit<8> v) { h.d.c = v; } action none() { } " + text
    json = compiled(tmp_path, locals=local, ingress="t.apply();", **parts).bmv2_json
    return next(t for t in json["pipelines"][0]["tables"] if t["name"] == "I.t")


def test_keys(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        """table t { key = { h.d.a : exact; h.e.isValid() : exact; h.d.b : ternary @name("bee");
           h.d.w[15:8] : range; h.items[1].v & 15 : optional; } actions = { set; none; }
           const default_action = none(); size = 77; support_timeout = true; }""",
    )
    assert [(k["match_type"], k["name"]) for k in found["key"]] == [
        ("exact", "h.d.a"),
        ("exact", "h.e.$valid$"),
        ("ternary", "bee"),
        ("range", "h.d.w[15:8]"),
        ("ternary", "h.items[1].v & 15"),
    ]
    assert [k["target"] for k in found["key"][:3]] == [["d", "a"], ["e", "$valid$"], ["d", "b"]]
    assert all(k["target"][0] == "scalars" for k in found["key"][3:])
    assert (found["match_type"], found["max_size"], found["support_timeout"]) == ("range", 77, True)
    assert found["default_entry"]["action_const"] is True


def test_entries(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        """table t { key = { h.d.a : exact; h.d.w : lpm; h.d.b : ternary; } actions = { set; none; }
           const entries = { (1, 0x0a000000 &&& 0xff000000, _) : set(3);
                             (2, 5, 0x10 &&& 0xf0) : none(); } }""",
    )
    first, second = found["entries"]
    assert first["match_key"] == [
        {"match_type": "exact", "key": "0x01"},
        {"match_type": "lpm", "key": "0x0a000000", "prefix_length": 8},
        {"match_type": "ternary", "key": "0x00", "mask": "0x00"},
    ]
    assert first["action_entry"]["action_data"] == ["0x3"]
    assert second["match_key"][1]["prefix_length"] == 32
    assert (first["priority"], second["priority"]) == (1, 2)
    assert found["max_size"] == 2


PRIORITIES = {
    "largest wins": (
        "",
        ["priority=10: 1 : set(1);", "2 : set(2);", "priority=20: 3 : set(3);"],
        [11, 12, 1],
    ),
    "smallest wins": (
        "largest_priority_wins = false; priority_delta = 5;",
        ["priority=10: 1 : set(1);", "2 : set(2);", "priority=1: 3 : set(3);"],
        [10, 15, 1],
    ),
}


@pytest.mark.parametrize("name", PRIORITIES)
def test_priorities_of_entries(tmp_path: Path, name: str) -> None:
    """The JSON has the priorities that BMv2 needs: there, the entry with the smallest one wins."""
    properties, entries, expected = PRIORITIES[name]
    found = table(
        tmp_path,
        f"table t {{ key = {{ h.d.a : ternary; }} actions = {{ set; none; }} {properties}"
        f" entries = {{ {' '.join(entries)} }} }}",
    )
    assert [e["priority"] for e in found["entries"]] == expected


def test_profiles(tmp_path: Path) -> None:
    text = """
        action set(bit<8> v) { h.d.c = v; }
        action_selector(HashAlgorithm.crc16, 64, 10) chooser;
        table t { key = { h.d.a : exact; h.d.b : selector; h.d.c : selector; } actions = { set; }
                  implementation = chooser; }
        table u { key = { h.d.a : exact; } actions = { set; }
                  @name("mine") implementation = action_profile(32); }
    """
    pipeline = compiled(tmp_path, locals=text, ingress="t.apply(); u.apply();").bmv2_json[
        "pipelines"
    ][0]
    tables = {t["name"]: t for t in pipeline["tables"]}
    assert (tables["I.t"]["type"], tables["I.t"]["action_profile"]) == ("indirect_ws", "I.chooser")
    assert (tables["I.u"]["type"], tables["I.u"]["action_profile"]) == ("indirect", "mine")
    assert "default_entry" not in tables["I.t"]
    chooser, mine = pipeline["action_profiles"]
    assert chooser["selector"] == {
        "algo": "crc16",
        "input": [{"type": "field", "value": ["d", "b"]}, {"type": "field", "value": ["d", "c"]}],
    }
    assert (mine["name"], mine["max_size"]) == ("mine", 32)


def test_names_of_instances(tmp_path: Path) -> None:
    declarations = """
        control S(inout headers_t h) {
            action a() { h.d.a = 1; }
            @name("named") action b() { }
            @name(".absolute") table t { actions = { a; b; } default_action = a(); }
            counter(4, CounterType.bytes) c;
            apply { t.apply(); c.count(1); }
        }
    """
    json = compiled(
        tmp_path, declarations=declarations, locals="S() s; S() r;", ingress="s.apply(h);"
    ).bmv2_json
    tables = json["pipelines"][0]["tables"]
    assert tables[0]["name"] == "absolute"
    assert tables[0]["actions"] == ["I.s.a", "I.s.named", "NoAction"][:2]
    assert [c["name"] for c in json["counter_arrays"]] == ["I.s.c", "I.r.c"]


SHARED = """
    control S(inout bit<8> x, inout standard_metadata_t m)(bit<8> n) {
        bit<8> local = n;
        action bump() { x = x + local; local = 0; }
        action drop() { mark_to_drop(m); }
        table t { key = { x : exact; } actions = { bump; drop; } default_action = bump(); }
        apply { t.apply(); x = x + local; }
    }
"""


@pytest.mark.parametrize(
    ("code", "packet", "expected"),
    [
        # equal arguments at both calls; different arguments (twice); a drop in the second branch
        ("if (h.d.b == 2) { s.apply(h.d.a, sm); } else { s.apply(h.d.a, sm); }", "0102", "0602"),
        ("if (h.d.b == 2) { s.apply(h.d.a, sm); } else { s.apply(h.d.b, sm); }", "0102", "0602"),
        ("if (h.d.b == 2) { s.apply(h.d.a, sm); } else { s.apply(h.d.b, sm); }", "0103", "0108"),
        ("if (h.d.b == 2) { s.apply(h.d.a, sm); } else { s.apply(h.d.b, sm); }", "0109", None),
    ],
)
def test_control_applied_in_two_places(
    tmp_path: Path, code: str, packet: str, expected: str | None
) -> None:
    switch = interpreter(tmp_path, declarations=SHARED, locals="S(5) s;", ingress=code)
    switch.add("I.s.t", [9], "I.s.drop")
    result = switch.run(bytes.fromhex(packet + "037f00000004"))
    assert (result and result[1].hex()[:4]) == expected


def test_drop_of_copied_metadata(tmp_path: Path) -> None:
    switch = interpreter(
        tmp_path,
        locals="action drop(inout standard_metadata_t m) { mark_to_drop(m); }",
        ingress="drop(sm);",
    )
    assert switch.run(bytes(8)) is None


def test_signed_action_data(tmp_path: Path) -> None:
    local = """action set(int<8> v) { if (v < 0) { h.d.a = 9; } h.d.s = v; }
               table t { key = { h.d.b : exact; } actions = { set; } default_action = set(-2); }"""
    switch = interpreter(tmp_path, locals=local, ingress="t.apply();")
    result = switch.run(bytes.fromhex("0102037f00000004"))
    assert result is not None
    assert result[1].hex().startswith("090203fe")
