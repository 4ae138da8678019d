"""Warnings about declarations that are unused or hidden, and about code that is unreachable.

Unreachable code is a state, a case, or an entry of a table. In each program, `§` marks the location
of its only warning.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from programs_to_check import check, program
from warned import warned_at

from minip4.compiler.analysis.coverage import MOST_SHAPES, Keyset, covered
from minip4.compiler.front import parse_and_check
from minip4.compiler.source import Source, SourceFile
from minip4.compiler.syntax import Node

TABLE = "table t { key = { m.x: exact; } actions = { NoAction; } }"
STACK = "bit<8> v = 1; bit<8> w = 2;"
TERNARY = """action a() { } action b() { }
    table t { key = { m.x: ternary; m.y: KIND; } actions = { a; b; NoAction; }
              const entries = { ENTRIES } }"""


def select(cases: str, keys: str = "m.x") -> dict[str, str]:
    return {"states": f"state start {{ transition select({keys}) {{ {cases} }} }}"}


def entries(text: str, kind: str = "ternary") -> dict[str, str]:
    local = TERNARY.replace("ENTRIES", text).replace("KIND", kind)
    return {"local": local, "body": "t.apply();"}


NO_TRANSITION = select("0: next; _: accept;")["states"] + " state §next { }"

UNUSED = {
    "a table": {"local": TABLE.replace("t {", "§t {", 1)},
    "an action": {"local": "action §a() { }"},
    "the parameter of an action": {"local": "action a(bit<8> §v) { m.x = 1; }", "body": "a(1);"},
    "a variable": {"local": "bit<8> §v;"},
    "a variable of a block": {"body": "if (m.flag) { bit<8> §v = 1; }"},
    "a variable of a state": {"states": "state start { bit<8> §v = 1; transition accept; }"},
    "a constant of a control": {"local": "const bit<8> §v = 1;"},
    "a register": {"local": "register<bit<8>>(4) §r;"},
    "an instance of a control": {"top": "control C() { apply { } }", "local": "C() §c;"},
    "a control": {"top": "control §C() { apply { } }"},
    "a parser": {"top": "parser §P(packet_in p) { state start { transition accept; } }"},
    "a function": {"top": "void §f() { }"},
    "a value_set": {"parser_local": "value_set<bit<8>>(4) §s;"},
}
USED = {
    "a table": {"local": TABLE, "body": "t.apply();"},
    "an action of a table": {
        "local": "action a() { } " + TABLE.replace("NoAction;", "a; NoAction;"),
        "body": "t.apply();",
    },
    "the action of an entry": entries("(1, 2): a(); (2, 3): b();"),
    "a variable that is only written": {"body": "bit<8> v; v = 1;"},
    "a counter of a table": {
        "local": "direct_counter(CounterType.packets) c; "
        + TABLE.replace("key", "counters = c; key"),
        "body": "t.apply();",
    },
    "a name with two underscores": {"local": "bit<8> __v;"},
    "one that says so": {"local": '@noWarn("unused") bit<8> v;'},
    "a constant or type at the top": {"top": "const bit<8> five = 5; typedef bit<8> byte;"},
    "the parameter of a function": {"top": "void f(in bit<8> v) { }", "body": "f(1);"},
    "a generic control": {
        "top": "control C<T>(in T v) { apply { } }",
        "local": "C<bit<8>>() c;",
        "body": "c.apply(1);",
    },
    "an argument's variable": {"top": "void f(in bit<8> v) { }", "body": "bit<8> x = 1; f(v = x);"},
}  # fmt: skip

HIDES = {
    "a variable": {
        "local": "bit<8> v = 1;",
        "body": "v = 3; if (m.flag) { bit<8> §v = 2; m.x = v; }",
    },
    "an action at the top": {
        "top": "action a() { }",
        "local": "action §a() { }",
        "body": "a(); .a();",
    },
    "a variable, by an action's parameter": {
        "local": "bit<8> v; action a(bit<8> §v) { m.x = v; }",
        "body": "v = 1; a(v);",
    },
    "a constant, by a variable": {"top": "const bit<8> v = 1;", "body": "bit<8> §v = 2; m.x = v;"},
}
HIDES_NOTHING = {
    "in two blocks": {"body": "if (m.flag) { bit<8> v; v = 1; } else { bit<8> v; v = 2; }"},
    "what v1model declares": {"local": "action hash() { }", "body": "hash();"},
    "parameters of two controls": {
        "top": "control C(in bit<8> m) { apply { } }",
        "local": "C() c;",
        "body": "c.apply(m.x);",
    },
}
UNREACHABLE = {
    "a state": {"states": "state start { transition accept; } state §more { transition accept; }"},
    "a state that leads only to itself": {
        "states": "state start { transition accept; } state §more { transition more; }"},
    "accept": {"top": "parser §Q(packet_in p) { state start { transition reject; } }",
               "parser_local": "Q() q;",
               "states": "state start { q.apply(packet); transition accept; }"},
}  # fmt: skip
REACHED = {
    "a state by a case": select("1: more; _: accept;")["states"]
    + " state more { transition accept; }",
    "a state in a circle": """state start { transition more; }
        state more { transition select(m.x) { 0: start; _: accept; } }""",
}

COVERED = {
    "after the default": select("1: accept; default: reject; §2: accept;"),
    "the same value": select("1: accept; 2: reject; §1: reject; _: accept;"),
    "within a mask": select("0x10 &&& 0xf0: accept; §0x15: reject;"),
    "a mask within a mask": select("0x10 &&& 0x30: accept; §0x10 &&& 0xf0: reject;"),
    "within a range": select("1 .. 5: accept; §2 .. 4: reject;"),
    "a mask within a range": select("0x10 .. 0x2f: accept; §0x20 &&& 0xf0: reject;"),
    "a range within a mask": select("0x20 &&& 0xf0: accept; §0x21 .. 0x2e: reject;"),
    "in all keys": select("(1, _): accept; §(1, 2): reject; _: accept;", "m.x, m.y"),
    "of a truth value": select("true: accept; §true: reject; _: accept;", "m.flag"),
    "of an enum": select("Color.red: accept; §Color.red: reject; _: accept;", "m.color"),
}
NOT_COVERED = {
    "in one key only": select("(1, 3): accept; (1, 2): reject; (2, 2): accept;", "m.x, m.y"),
    "a mask that leaves a bit open": select("0x10 &&& 0xf0: accept; 0x10 &&& 0x30: reject;"),
    "a range that reaches further": select("1 .. 5: accept; 4 .. 6: reject;"),
    "a mask beyond a range": select("0x10 .. 0x2e: accept; 0x20 &&& 0xf0: reject;"),
    "a range beyond a mask": select("0x20 &&& 0xf0: accept; 0x21 .. 0x30: reject;"),
    "one narrower before": select("1: accept; 1 &&& 1: reject; _: accept;"),
    "after a value_set": {
        "parser_local": "value_set<bit<8>>(4) s;", **select("s: accept; 1: reject; s: accept;")},
    "other members of an enum": select("Color.red: accept; Color.green: reject;", "m.color"),
}  # fmt: skip

HIDDEN = {
    "by a mask": entries("(1 &&& 1, _): a(); §(3, 5): b();"),
    "by a range": entries("(_, 1 .. 9): a(); §(1, 3 .. 4): b();", "range"),
}
NOT_HIDDEN = {
    "a prefix counts before the order": entries(
        "(_, 0x100 &&& 0xff00): a(); (_, 0x101): b();", "lpm"
    ),
    "its own priority": entries("priority = 1: (_, _): a(); priority = 9: (1, 2): b();"),
    "another value": entries("(1 &&& 1, _): a(); (2, 5): b();"),
}


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        pytest.param(kind, parts, id=f"{kind}: {name}")
        for kind, table in [
            ("unused", UNUSED),
            ("shadow", HIDES), ("unreachable", UNREACHABLE), ("parser-transition", COVERED),
            ("keys", HIDDEN),
        ]
        for name, parts in table.items()
    ] + [pytest.param("parser-transition", {"states": NO_TRANSITION}, id="no transition")],
)  # fmt: skip
def test_warned_of(kind: str, parts: dict[str, str]) -> None:
    found, place = warned_at(program(**parts))
    assert found == [(kind, *place)]


@pytest.mark.parametrize(
    "parts",
    [
        *[pytest.param(parts, id=f"used: {name}") for name, parts in USED.items()],
        *[pytest.param({"states": text}, id=name) for name, text in REACHED.items()],
        *[pytest.param(parts, id=name) for name, parts in HIDES_NOTHING.items()],
        *[pytest.param(parts, id=name) for name, parts in NOT_COVERED.items()],
        *[pytest.param(parts, id=name) for name, parts in NOT_HIDDEN.items()],
    ],
)
def test_not_warned_of(parts: dict[str, str]) -> None:
    assert [str(w) for w in check(program(**parts)).warnings] == []


def test_unused_declarations_of_included_files_have_no_warning(tmp_path: Path) -> None:
    (tmp_path / "library.p4").write_text("void f() { } control C() { apply { bit<8> v; } }")
    main = tmp_path / "main.p4"
    main.write_text(program(top='#include "library.p4"'))
    [warning] = parse_and_check(main).warnings
    assert warning.message == "variable 'v' is unused"


def test_a_list_of_thousands_is_compared_with_its_first_masks_and_ranges() -> None:
    """A keyset is compared only with keysets of the first 64 masks, and with the first 64 ranges.

    A comparison of all pairs would take time that grows with the square of the length of the list.
    """
    for is_range in (False, True):
        rows = [keysets(n, is_range) for n in range(MOST_SHAPES + 1)]
        nodes = [
            Node(Source(SourceFile("", ""), line, 1, line, 1)) for line in range(len(rows) * 2)
        ]
        found = list(covered(zip(nodes, rows + rows, strict=True)))
        assert [(b.source.line, a.source.line) for a, b in found] == [
            (n, n + MOST_SHAPES + 1) for n in range(MOST_SHAPES)
        ]


def keysets(n: int, is_range: bool) -> list[Keyset]:
    """Return a list with one keyset. It covers no keyset of another `n`."""
    if is_range:
        return [Keyset(3 * n, 3 * n + 1, 0, is_range=True)]
    return [Keyset(1 << n, 1 << n, 1 << n)]
