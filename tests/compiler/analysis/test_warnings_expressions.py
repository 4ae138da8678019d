"""Warnings about shifts, keys and arguments that have less effect than a reader expects.

Some programs cause no warning. In the others, `§` marks the location of the only warning.
"""

from __future__ import annotations

import pytest
from programs_to_check import check, program
from warned import warned_at

KEY = "table t { key = { KEY; } actions = { NoAction; } const entries = { ENTRY: NoAction(); } }"
TWO = "void f(inout bit<8> a, out bit<8> b) { b = a; }"
PARTS = """void f(inout pair_t a, in bit<8> b) { a.a = b; }
    void g(inout pair_t a, out bit<8> b) { b = a.a; }"""
OLD = '@deprecated("use other") action old() { }'


def table(key: str, entry: str = "1") -> dict[str, str]:
    return {"local": KEY.replace("KEY", key).replace("ENTRY", entry), "body": "t.apply();"}


def preserving(call: str, index: str = "1") -> str:
    """Return a complete program with a metadata field that has @field_list(index)."""
    text = program(body=call).replace("bit<8> x;", f"@field_list({index}) bit<8> x;", 1)
    return text.replace("struct", "enum bit<8> Lists { none = 0, some = 1 } struct", 1)


WARNED = {
    "overflow": {
        "a shift of all bits": {"body": "m.x = §m.x << 8;"},
        "a shift of a constant": {"body": "m.x = §8w1 >> 9;"},
    },
    "mismatch": {
        "a constant key": table('§8w1: exact @name("k")'),
        "a value with bits outside of its mask": table("m.x: ternary", "§0x11 &&& 0xf0"),
        "a prefix with bits behind it": table("m.x: lpm", "§0x11 &&& 0xf0"),
    },
    "ordering": {
        "the same twice": {"top": TWO, "body": "f(m.x, §m.x);"},
        "named arguments": {"top": TWO, "body": "f(b = §m.x, a = m.x);"},
        "a struct and its field": {"top": PARTS, "body": "g(m.pair, §m.pair.a); f(m.pair, 1);"},
        "arguments of an action": {
            "local": "action a(out bit<8> v, out bit<8> w) { v = 1; w = 2; }",
            "body": "a(m.x, §m.x);",
        },
    },
    "deprecated": {
        "an action of a table": {
            "local": OLD + "table t { actions = { §old; } }",
            "body": "t.apply();",
        },
    },
}
NOT_WARNED = {
    "a shift that leaves one bit": {"body": "m.x = m.x << 7;"},
    "a key": table("m.x: exact"),
    "a value within its mask": table("m.x: ternary", "0x10 &&& 0xf0"),
    "different fields": {"top": TWO, "body": "bit<8> v = 1; f(m.x, v);"},
    "one that is only read": {"top": PARTS, "body": "bit<8> v; f(m.pair, m.pair.a); g(m.pair, v);"},
    "two elements of a stack": {
        "top": "void f(inout label_t a, inout label_t b) { a = b; }",
        "body": "f(h.labels[0], h.labels[1]);",
    },
    "two slices": {
        "top": "void f(out bit<4> a, out bit<4> b) { a = 1; b = 2; }",
        "body": "f(m.x[3:0], m.x[7:4]);",
    },
}


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        pytest.param(kind, parts, id=f"{kind}: {name}")
        for kind, cases in WARNED.items()
        for name, parts in cases.items()
    ],
)
def test_warned_of(kind: str, parts: dict[str, str]) -> None:
    found, place = warned_at(program(**parts))
    assert found == [(kind, *place)]


@pytest.mark.parametrize("name", NOT_WARNED)
def test_not_warned_of(name: str) -> None:
    assert [str(w) for w in check(program(**NOT_WARNED[name])).warnings] == []


@pytest.mark.parametrize(
    "call",
    ["clone_preserving_field_list(CloneType.I2E, 5, §2);", "resubmit_preserving_field_list(§2);"],
)
def test_a_list_of_fields_that_has_none(call: str) -> None:
    found, place = warned_at(preserving(call))
    assert found == [("invalid", *place)]


@pytest.mark.parametrize(
    "text",
    [
        preserving("resubmit_preserving_field_list(1);"),
        preserving("resubmit_preserving_field_list(Lists.some);", "Lists.some"),
        # an unused list is the only way to preserve no fields
        program(body="resubmit_preserving_field_list(0);"),
    ],
)
def test_a_list_of_fields_that_has_some_or_that_no_program_uses(text: str) -> None:
    assert [str(w) for w in check(text).warnings] == []
