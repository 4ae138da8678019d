"""Warnings about values that are used before they are set, and about fields of invalid headers.

Some programs cause no warning. In the others, `§` marks the location of the only warning.
"""

from __future__ import annotations

import pytest
from programs_to_check import check, program
from warned import warned_at

ACTIONS = """bit<8> v; action set() { v = 1; } action other() { }
    table t { key = { m.x: exact; } actions = { set; other; } const default_action = other(); }"""
ALL_SET = ACTIONS.replace("const default_action = other", "const default_action = set")
HIT_SETS = ACTIONS.replace("other; } const", "@defaultonly other; } const")
G = "bool g(out bit<8> r) { r = 1; return true; }"
UNION = "layer_t u; u.a.setValid(); u.a = {1, 2, 3}; "
EXTRACTS = """state start { packet.extract(h.ethernet);
    transition select(h.ethernet.type) { 0x800: one; default: two; } }
    state one { packet.extract(h.options, 8); transition two; }"""
OUT = "void f(out bit<8> r, bool c) { if (c) { r = 1; } }"

UNSET = {
    "in the right operand of && alone": {
        "top": G,
        "body": "bit<8> v; if (m.flag && g(v)) { } m.x = §v;",
    },
    "in the right operand of || alone": {
        "top": G,
        "body": "bit<8> v; if (m.flag || g(v)) { } m.x = §v;",
    },
    "NoAction may run": {
        "local": ALL_SET.replace("set; other;", "set;")
        .replace("action other() { }", "")
        .replace("const default_action = set();", ""),
        "body": "t.apply(); m.x = §v;",
    },
    "in the default case": {
        "local": ACTIONS,
        "body": "switch (t.apply().action_run) { set: { } default: { m.x = §v; } }",
    },
    "no case is taken": {
        "local": ACTIONS,
        "body": "switch (t.apply().action_run) { set: { } } m.x = §v;",
    },
    "a loop over a range that may be empty": {
        "body": "bit<8> v; for (bit<8> i in 1 .. m.x) { v = i; } m.x = §v;"
    },
    "a loop that goes on before": {
        "body": "bit<8> v; for (bit<8> i in 0 .. 3) { if (m.flag) { continue; } v = i; } m.x = §v;"
    },
    "a loop that is left before": {
        "body": "bit<8> v; for (bit<8> i in 0 .. 3) { if (m.flag) { break; } v = i; } m.x = §v;"
    },
    "a variable": {"body": "bit<8> v; m.x = §v;"},
    "on one of two ways": {"body": "bit<8> v; if (m.flag) { v = 1; } m.x = §v;"},
    "after a return on the way that sets it": {
        "body": "bit<8> v; if (m.flag) { v = 1; return; } m.x = §v;"
    },
    "in the right operand of &&": {"body": "bool b; if (m.flag && §b) { m.x = 1; }"},
    "as one part of a struct": {"body": "pair_t p; p.a = 1; m.y = §p.b;"},
    "a struct that is not complete": {
        "top": "void f(in pair_t p) { }",
        "body": "pair_t p; p.a = 1; f(§p);",
    },
    "a copy of what is not set": {"body": "pair_t p; pair_t q; p.a = 1; q = p; m.y = §q.b;"},
    "an inout argument": {"top": "void f(inout bit<8> r) { }", "body": "bit<8> v; f(§v);"},
    "the left side of +=": {"body": "bit<8> v; §v += 1;"},
    "a key": {
        "local": "bit<8> v; table t { key = { §v: exact; } actions = { NoAction; } }",
        "body": "t.apply();",
    },
    "an action sets it, another may run": {"local": ACTIONS, "body": "t.apply(); m.x = §v;"},
    "after a miss": {"local": ACTIONS, "body": "if (!t.apply().hit) { m.x = §v; }"},
    "in the case of another action": {
        "local": ACTIONS,
        "body": "switch (t.apply().action_run) { set: { } other: { m.x = §v; } }",
    },
    "a loop that may not run": {
        "body": "bit<8> v; for (bit<8> i = 0; i < m.x; i = i + 1) { v = i; } m.x = §v;"
    },
    "before the loop's body sets it": {
        "body": """bit<8> v;
            for (bit<8> i in 0 .. 3) { if (i > 1) { m.x = §v; } if (m.flag) { v = i; } }"""
    },
    "in an action": {"local": "action a() { bit<8> v; m.x = §v; }", "body": "a();"},
    "in a select": {"states": "state start { bit<8> v; transition select(§v) { 0: accept; } }"},
    "on one way through the parser": {
        "parser_local": "bit<8> v;",
        "states": """state start { transition select(m.x) { 0: one; default: two; } }
            state one { v = 1; transition two; } state two { m.x = §v; transition accept; }""",
    },
    "a field of a local header": {
        "body": "ethernet_t e; e.setValid(); e.src = 1; h.ethernet.dst = §e.dst;"
    },
}

SET = {
    "a header of which not all is set": {
        "top": "void f(in ethernet_t e) { }",
        "body": "ethernet_t e; e.setValid(); e.src = 1; f(e);",
    },
    "by each action that can be hit": {
        "local": HIT_SETS,
        "body": "if (t.apply().hit) { m.x = v; }",
    },
    "where it was not missed": {
        "local": HIT_SETS,
        "body": "if (t.apply().miss) { } else { m.x = v; }",
    },
    "by the action that is fixed for a miss": {
        "local": ALL_SET,
        "body": "if (!t.apply().hit) { m.x = v; }",
    },
    "after a test that cannot hold": {
        "body": "ethernet_t e; bit<8> v; if (e.isValid()) { m.x = v; }"
    },
    "on both ways": {"body": "bit<8> v; if (m.flag) { v = 1; } else { v = 2; } m.x = v;"},
    "the other way ends": {"body": "bit<8> v; if (m.flag) { v = 1; } else { exit; } m.x = v;"},
    "by an out argument": {
        "top": "void f(out bit<8> r) { r = 1; }",
        "body": "bit<8> v; f(v); m.x = v;",
    },
    "by each case": {
        "body": "bit<8> v; switch (m.x) { 1: { v = 1; } default: { v = 2; } } m.x = v;"
    },
    "by each action": {
        "local": ALL_SET.replace("set; other;", "set;").replace("action other() { }", ""),
        "body": "t.apply(); m.x = v;",
    },
    "after a hit, in the case of its action": {
        "local": ACTIONS,
        "body": "switch (t.apply().action_run) { set: { m.x = v; } }",
    },
    "by the default action alone": {
        "local": ALL_SET.replace("other() { }", "other() { v = 2; }"),
        "body": "t.apply(); m.x = v;",
    },
    "in slices": {"body": "bit<8> v; v[3:0] = 1; v[7:4] = 2; m.x = v;"},
    "a struct in parts": {"body": "pair_t p; p.a = 1; p.b = 2; m.pair = p;"},
    "a struct handed on as inout": {
        "top": "void f(inout pair_t p) { p.b = 2; }",
        "body": "pair_t p; p.a = 1; f(p); m.y = p.b;",
    },
    "by a loop that runs": {"body": "bit<8> v; for (bit<8> i in 0 .. 3) { v = i; } m.x = v;"},
    "what never runs": {"body": "bit<8> v; if (false) { m.x = v; }"},
    "an invalid header is copied": {"body": "ethernet_t e; h.ethernet = e;"},
    "in the state before": {
        "parser_local": "bit<8> v;",
        "states": """state start { v = 1; transition next; }
            state next { m.x = v; v = v + 1; transition select(v) { 9: accept; _: next; } }""",
    },
    "with an initial value": {"body": "pair_t p = {1, ...}; m.pair = p;"},
    "by an action's out parameter": {
        "local": "action a(out bit<8> r) { r = 1; }",
        "body": "bit<8> v; a(v); m.x = v;",
    },
}

INVALID = {
    "in a round that was not finished": {
        "body": """for (bit<8> i = 0; i < 4; i = i + 1) {
            if (m.flag) { h.ethernet.setInvalid(); continue; } } m.y = §h.ethernet.type;"""
    },
    "the other member of the union that was set": {
        "body": UNION + "u.b.setValid(); u.b.label = 1; m.y = §u.a.type;"
    },
    "the other member of the union that was assigned": {
        "body": UNION + "u.b = {1, 0, 2}; m.y = §u.a.type;"
    },
    "the other member of the union that was copied": {
        "body": "label_t l = {1, 0, 2}; " + UNION + "u.b = l; m.y = §u.a.type;"
    },
    "what an action gives": {
        "local": "action a(out ethernet_t e) { e.setInvalid(); }",
        "body": "a(h.ethernet); m.y = §h.ethernet.type;",
    },
    "what an action is given": {
        "local": "action a(inout ethernet_t e) { §e.type = 1; }",
        "body": "h.ethernet.setInvalid(); a(h.ethernet);",
    },
    "by a state that is seen later": {
        "states": """state start { packet.extract(h.ethernet);
            transition select(m.x) { 0: one; _: two; } }
            state one { h.ethernet.setInvalid(); transition two; }
            state two { m.y = §h.ethernet.type; transition accept; }"""
    },
    "before it is extracted": {
        "states": """state start { m.y = §h.ethernet.type; packet.extract(h.ethernet);
            transition accept; }"""
    },
    "written to": {"body": "h.ethernet.setInvalid(); §h.ethernet.type = 1;"},
    "extracted on one of two ways": {
        "states": EXTRACTS + "state two { m.x = §h.options.size; transition accept; }"
    },
    "a test that failed": {"body": "if (!h.ethernet.isValid()) { m.y = §h.ethernet.type; }"},
    "one of several tests": {
        "body": """if (h.options.isValid() || h.ethernet.isValid()) { }
            else { m.y = §h.ethernet.type; }"""
    },
    "in the else branch": {"body": "if (h.ethernet.isValid()) { } else { §h.ethernet.type = 1; }"},
    "a variable": {"body": "ethernet_t e; §e.type = 1;"},
    "a copy of an invalid one": {"body": "ethernet_t e; h.ethernet = e; m.y = §h.ethernet.type;"},
    "set to {#}": {"body": "h.ethernet = {#}; m.y = §h.ethernet.type;"},
    "another member of the union": {
        "body": "layer_t u; u.b.setValid(); u.b.label = 1; m.y = §u.a.type;"
    },
    "in an action that is called": {
        "local": "action a() { §h.ethernet.type = 1; }",
        "body": "h.ethernet.setInvalid(); a();",
    },
    "a stack of which nothing is valid": {"body": "label_t[2] s; §s[0].bos = 1;"},
}

VALID = {
    "another element of a stack": {"body": "h.labels[0].setInvalid(); h.labels[1].bos = 1;"},
    "after a test that failed": {
        "body": "if (!h.ethernet.isValid()) { m.x = 1; } m.y = h.ethernet.type;"
    },
    "made valid in the round before": {
        "body": """if (!h.ethernet.isValid()) { for (bit<8> i in 0 .. 3) {
            if (i > 0) { h.ethernet.type = 1; } h.ethernet.setValid(); } }"""
    },
    "a parameter": {"body": "m.y = h.ethernet.type;"},
    "after a test": {"body": "ethernet_t e; e = h.ethernet; if (e.isValid()) { m.y = e.type; }"},
    "in the other operand": {
        "body": "if (h.ethernet.isValid() && h.ethernet.type == 1) { m.x = 1; }"
    },
    "or it is invalid": {"body": "if (!h.ethernet.isValid() || h.ethernet.type == 1) { m.x = 1; }"},
    "after the test": {"body": "if (h.ethernet.isValid()) { m.x = 1; } m.y = h.ethernet.type;"},
    "the way without it ended": {
        "body": "ethernet_t e; e = h.ethernet; if (!e.isValid()) { return; } m.y = e.type;"
    },
    "made valid where it was not": {
        "body": "if (!h.ethernet.isValid()) { h.ethernet.setValid(); h.ethernet.type = 1; }"
    },
    "extracted on both ways": {
        "states": EXTRACTS + "state two { m.y = h.ethernet.type; transition accept; }"
    },
    "an element of a stack, another tested": {
        "body": "if (h.labels[0].isValid()) { } else { h.labels[1].bos = 1; }"
    },
    "extracted into a stack": {
        "states": "state start { packet.extract(h.labels.next); "
        "transition select(h.labels.last.bos) { 0: start; 1: accept; } }"
    },
    "an action of a table, which entries choose": {
        "local": """action a() { h.ethernet.type = 1; }
            table t { key = { h.ethernet.dst: ternary; } actions = { a; NoAction; } }""",
        "body": "if (!h.ethernet.isValid()) { t.apply(); }",
    },
    "an action makes it valid": {
        "local": """action a() { h.ethernet.setValid(); }
            table t { actions = { a; } const default_action = a(); }""",
        "body": "if (!h.ethernet.isValid()) { t.apply(); h.ethernet.type = 1; }",
    },
}

OUT_PARAMETERS = {
    "of a function": {"top": OUT.replace("r, bool", "§r, bool"), "body": "f(m.x, m.flag);"},
    "of an action": {
        "local": "action a(out bit<8> §r) { if (m.flag) { r = 1; } }",
        "body": "a(m.x);",
    },
    "of a control": {
        "top": "control C(out bit<8> §r, in bool c) { apply { if (c) { r = 1; } } }",
        "local": "C() c;",
        "body": "c.apply(m.x, m.flag);",
    },
    "of a parser": {
        "top": "parser Q(packet_in p, out bit<8> §r) { state start { transition accept; } }",
        "parser_local": "Q() q;",
        "states": "state start { q.apply(packet, m.x); transition accept; }",
    },
    "before a return out of two loops": {
        "top": "bit<8> f(out bit<8> §r, bit<8> n) { for (bit<8> i = 0; i < n; i = i + 1) {"
        " for (bit<8> j = 0; j < n; j = j + 1) { if (j == 2) { return 1; } } } r = 1; return 2; }",
        "body": "m.x = f(m.x, 3);",
    },
    "before a return": {
        "top": "bit<8> f(out bit<8> §r) { if (true) { return 1; } r = 1; return 2; }",
        "body": "m.x = f(m.x);",
    },
}

SET_OUT_PARAMETERS = {
    "of a function": {
        "top": OUT.replace("r = 1; }", "r = 1; } else { r = 2; }"),
        "body": "f(m.x, m.flag);",
    },
    "headers, which may be invalid": {"top": "void f(out headers_t r) { }", "body": "f(h);"},
    "of a control": {
        "top": "control C(out bit<8> r) { apply { r = 1; } }",
        "local": "C() c;",
        "body": "c.apply(m.x);",
    },
}


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        *[pytest.param("uninitialized-use", parts, id=name) for name, parts in UNSET.items()],
        *[pytest.param("invalid-header", parts, id=name) for name, parts in INVALID.items()],
        *[
            pytest.param("uninitialized-out-param", parts, id=name)
            for name, parts in OUT_PARAMETERS.items()
        ],
    ],
)
def test_warned_of(kind: str, parts: dict[str, str]) -> None:
    found, place = warned_at(program(**parts))
    assert found == [(kind, *place)]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(parts, id=name)
        for table in (SET, VALID, SET_OUT_PARAMETERS)
        for name, parts in table.items()
    ],
)
def test_not_warned_of(parts: dict[str, str]) -> None:
    assert [str(w) for w in check(program(**parts)).warnings] == []


def test_the_words() -> None:
    text = program(
        top="void f(out pair_t r) { r.a = 1; }",
        body="""bit<8> v; ethernet_t e; f(m.pair); m.x = v; m.x = v + 1; e.type = 1;
        if (m.flag) { h.options.setInvalid(); } m.x = h.options.size;""",
    )
    assert [w.message for w in check(text).warnings] == [
        "out parameter 'r.b' may be unset where 'f' ends",
        "'v' may be uninitialized",  # a single warning
        "a field of 'e', which is invalid here",
        "a field of 'h.options', which may be invalid here",
    ]


def test_the_words_wait_for_all_ways() -> None:
    """A header that is valid on one path to a state, but not on another, "may be invalid".

    The text of the warning is chosen after both paths are known.
    """
    text = program(
        states="""state start { m.y = h.ethernet.type; packet.extract(h.ethernet);
        transition select(m.x) { 0: start; _: accept; } }"""
    )
    [warning] = check(text).warnings
    assert warning.message == "a field of 'h.ethernet', which may be invalid here"
