"""Behaviour and names that are those of p4c: NoAction, shadowing, direct counters and P4Info."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs_to_run import compiled, outcome

from minip4.compiler.errors import P4Error

PACKET = "0102037f00000004"  # the fields a, b, c, s and w
TABLE = "table {0} {{ key = {{ h.d.a : exact; }} actions = {{ {1}; }} default_action = {1}(); }} "
NO_ACTION = '@name(".NoAction") action NoAction_{0}() {{ }} '

TAKEN = {
    # parts of the program, start of the output packet, warnings (kind, a part of the message)
    "a local named like a parameter of its control": (
        {"locals": "bit<8> sm = 3;", "ingress": "h.d.a = sm;"},
        "0302",
        [("shadow", "'sm'")],
    ),
    "a constant named so": (
        {"locals": "const bit<8> meta = 4;", "ingress": "h.d.a = meta;"},
        "0402",
        [("shadow", "'meta'")],
    ),
    "an action named so": (
        {"locals": "action sm() { h.d.a = 5; }", "ingress": "sm();"},
        "0502",
        [("shadow", "'sm'")],
    ),
    "a local of a parser named so": (
        {
            "parser_locals": "bit<8> meta = 6;",
            "states": "state start { packet.extract(h.d); h.d.a = meta; transition accept; }",
        },
        "0602",
        [("shadow", "'meta'")],
    ),
    "a local named like a constructor's parameter": (
        {
            "declarations": "control S(inout bit<8> x)(bit<8> n)"
            " { bit<8> n = 7; apply { x = n; } }",
            "locals": "S(9) s;",
            "ingress": "s.apply(h.d.a);",
        },
        "0702",
        [("shadow", "'n'")],
    ),
    "NoAction by another name": (
        {"locals": NO_ACTION.format(1) + TABLE.format("t", "NoAction_1"), "ingress": "t.apply();"},
        "0102",
        [],
    ),
    "NoAction by several names": (
        {
            "locals": NO_ACTION.format(1) + NO_ACTION.format(2)
            + TABLE.format("t", "NoAction_1") + TABLE.format("u", "NoAction_2")
            + "table v { key = { h.d.a : exact; } actions = { NoAction; } }",
            "ingress": "switch (t.apply().action_run) { NoAction_1: { h.d.a = 8; } }"
            " u.apply(); v.apply();",
        },
        "0802",
        [],
    ),
    "a direct counter that no table has": (
        {
            "locals": "direct_counter(CounterType.bytes) c; action a() { c.count(); h.d.a = 9; }"
            + TABLE.format("t", "a"),
            "ingress": "t.apply();",
        },
        "0902",
        [("unused", "I.c")],
    ),
    "a direct counter of another table": (
        {
            "locals": "direct_counter(CounterType.bytes) c; action a() { c.count(); h.d.a = 9; }"
            + TABLE.format("t", "a")
            + "table u { key = { h.d.a : exact; } actions = { a; } counters = c; }",
            "ingress": "t.apply(); u.apply();",
        },
        "0902",
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_taken(tmp_path: Path, name: str) -> None:
    parts, expected, warnings = TAKEN[name]
    left = outcome(tmp_path, PACKET, **parts)
    assert left is not None
    assert left[1].startswith(expected)
    said = [(w.kind, w.message) for w in compiled(tmp_path, **parts).warnings]
    shadowing = [(kind, text) for kind, text in said if kind == "shadow" or "counts" in text]
    assert [kind for kind, _ in shadowing] == [kind for kind, _ in warnings]
    assert all(word in text for (_, text), (_, word) in zip(shadowing, warnings, strict=True))


REFUSED = {
    "a variable of a block hides a parameter of the control": {"ingress": "bit<8> sm = 1;"},
    "an action's variable hides its own parameter": {
        "locals": "action a(inout bit<8> x) { bit<8> x = 1; }"
    },
    "an action of NoAction's name that does something": {
        "locals": '@name(".NoAction") action b() { h.d.a = 1; }' + TABLE.format("t", "b"),
        "ingress": "t.apply();",
    },
    "an action of NoAction's name that takes data": {
        "locals": '@name(".NoAction") action b(bit<8> x) { }'
        " table t { key = { h.d.a : exact; } actions = { b; } }",
        "ingress": "t.apply();",
    },
    "two of one name, which is not NoAction": {
        "locals": '@name(".b") action b() { } @name(".b") action c() { }'
    },
    "a direct meter that is read and no table has": {
        "locals": "direct_meter<bit<8>>(MeterType.bytes) m; action a() { m.read(h.d.a); }"
        + TABLE.format("t", "a"),
        "ingress": "t.apply();",
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(P4Error):
        compiled(tmp_path, **REFUSED[name])


def test_no_action_is_one_for_controllers(tmp_path: Path) -> None:
    parts, *_ = TAKEN["NoAction by several names"]
    message = compiled(tmp_path, **parts).p4info
    assert [a.preamble.name for a in message.actions] == ["NoAction"]
    assert {t.action_refs[0].id for t in message.tables} == {21257015}


def test_unused_direct_counters_are_not_for_controllers(tmp_path: Path) -> None:
    parts, *_ = TAKEN["a direct counter that no table has"]
    program = compiled(tmp_path, **parts)
    assert not program.p4info.direct_counters
    assert program.bmv2_json["counter_arrays"] == []


KEYS = {
    # expression of a key field -> name of the field in P4Info
    "h.d.a & 0xf": "h.d.a & 0xf",
    "h.d.a & (bit<8>)0x0F": "h.d.a & 0xf",
    "h.d.a & 8w0x0f": "h.d.a & 0xf",
    "h.d.a & 15": "h.d.a & 15",
    "h.d.a & 0b0011": "h.d.a & 0b11",
    "h.d.a & 8w0o17": "h.d.a & 0o17",
    "h.d.a & (0xf0 | 1)": "h.d.a & 0xf1",
    "h.d.a & ~8w0xf": "h.d.a & 0xf0",
    "h.d.a & M": "h.d.a & 0x1f",
    "(bit<8>)M & h.d.a": "0x1f & h.d.a",
    "h.d.s & -16": "h.d.s & -16",
    "(h.d.w & 0xff) & 0xf": "h.d.w & 0xff & 0xf",
    "h.d.w[0xf:0] & 0xf": "h.d.w[0xf:0] & 0xf",
    "h.items[0x1].v": "h.items[0x1].v",
    "h.items[1].v & 8w3": "h.items[1].v & 3",
}


@pytest.mark.parametrize("key", KEYS)
def test_names_of_keys(tmp_path: Path, key: str) -> None:
    message = compiled(
        tmp_path,
        declarations="const bit<8> M = 0x1f;",
        locals=f"table t {{ key = {{ {key} : exact; }} actions = {{ NoAction; }} }}",
        ingress="t.apply();",
    ).p4info
    assert [field.name for field in message.tables[0].match_fields] == [KEYS[key]]


STRUCTS = "".join(f"struct d{i} {{ bit<8> x; }} " for i in range(1, 6))
DIGESTS = {
    # parts of the program, names of its digests in the order of P4Info
    "actions of tables, then the body": (
        {
            "locals": "action a() { digest<d2>(1, { 1 }); } action b() { digest<d1>(1, { 1 }); } "
            + TABLE.format("t", "b") + TABLE.format("u", "a"),
            "ingress": "digest<d3>(1, { 1 }); t.apply(); u.apply();",
        },
        ["d2", "d1", "d3"],
    ),
    "a sub-control's body where it is applied": (
        {
            "declarations": STRUCTS + "control S() { apply { digest<d2>(1, { 1 }); } }",
            "locals": "S() s;",
            "ingress": "digest<d1>(1, { 1 }); s.apply(); digest<d3>(1, { 1 });",
        },
        ["d1", "d2", "d3"],
    ),
    "actions that are called": (
        {
            "locals": "action a() { digest<d2>(1, { 1 }); } action b() { digest<d1>(1, { 1 }); } ",
            "ingress": "digest<d3>(1, { 1 }); b(); a();",
        },
        ["d2", "d1", "d3"],
    ),
    "actions of sub-controls where these are declared": (
        {
            "declarations": STRUCTS + "control S() { action a() { digest<d4>(1, { 1 }); }"
            " table t { actions = { a; } default_action = a(); }"
            " apply { digest<d5>(1, { 1 }); t.apply(); } }",
            "locals": "action a() { digest<d2>(1, { 1 }); } S() s;"
            " action b() { digest<d1>(1, { 1 }); } " + TABLE.format("t", "b")
            + TABLE.format("u", "a"),
            "ingress": "s.apply(); t.apply(); u.apply(); digest<d3>(1, { 1 });",
        },
        ["d2", "d4", "d1", "d5", "d3"],
    ),
    "global actions first": (
        {
            "declarations": STRUCTS + "action g() { digest<d5>(1, { 1 }); }",
            "locals": "action a() { digest<d1>(1, { 1 }); } " + TABLE.format("t", "a")
            + TABLE.format("u", "g"),
            "ingress": "t.apply(); u.apply();",
        },
        ["d5", "d1"],
    ),
    "global actions that are called, and actions that actions call": (
        {
            "declarations": STRUCTS + "action g() { digest<d5>(1, { 1 }); }",
            "locals": "action a() { digest<d1>(1, { 1 }); }"
            " action b() { digest<d3>(1, { 1 }); a(); }" + TABLE.format("t", "b"),
            "ingress": "digest<d2>(1, { 1 }); g(); t.apply();",
        },
        ["d5", "d3", "d1", "d2"],
    ),
    "without a name, in actions and the body": (
        {
            "locals": "action a() { digest(1, { h.d.a }); } " + TABLE.format("t", "a"),
            "ingress": "digest(1, { h.d.w, h.d.a }); t.apply();",
        },
        ["digest_0", "digest_1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIGESTS)
def test_the_order_of_digests(tmp_path: Path, name: str) -> None:
    parts, expected = DIGESTS[name]
    message = compiled(tmp_path, **{"declarations": STRUCTS, **parts}).p4info
    assert [digest.preamble.name for digest in message.digests] == expected


COPY = """
    control {0}(inout headers_t h) {{
        @name(".set") action set(bit<{1}> x) {{ h.d.a = (bit<8>)x; }}
        @name(".{0}") table t {{ key = {{ h.d.b : exact; }} actions = {{ set; }} }}
        apply {{ t.apply(); }}
    }}
"""
CALLS = {"locals": "S() s; R() r;", "ingress": "s.apply(h); r.apply(h);"}


def test_copies_of_an_action_are_one_for_controllers(tmp_path: Path) -> None:
    """Programs converted from P4-14 have copies of an action in several controls."""
    declarations = COPY.format("S", 8) + COPY.format("R", 8)
    message = compiled(tmp_path, declarations=declarations, **CALLS).p4info
    (number,) = [a.preamble.id for a in message.actions if a.preamble.name == "set"]
    assert [t.preamble.name for t in message.tables] == ["S", "R"]
    assert [t.action_refs[0].id for t in message.tables] == [number, number]


def test_actions_of_one_name_need_the_same_parameters(tmp_path: Path) -> None:
    declarations = COPY.format("S", 8) + COPY.format("R", 16)
    with pytest.raises(P4Error, match="control-plane name 'set' is already used"):
        compiled(tmp_path, declarations=declarations, **CALLS)
