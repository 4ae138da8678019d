"""Arguments are evaluated and copied out in source order, and each only once (P4-16, 6.8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs_to_run import compiled, outcome

PACKET = "0102037f00000004"  # the fields a, b, c, s and w
INC = "bit<8> inc(inout bit<8> x) { x = x + 1; return x; }"
TWO = "{ x = 0xaa; y = 0xbb; }"
TWICE_OF = "bit<8> twice(in bit<8> x) { return x + x; }"
BY_B = (
    "control S(inout headers_t g, in bit<8> x) { apply { g.d.b = x; g.d.c = g.d.a; g.d.a = 9; } }"
)
ITEMS = "h.items[0] = { 0x10 }; h.items[1] = { 0x11 }; h.items[2] = { 0x12 };"

IN_INGRESS = {
    # declarations, locals of ingress, body of ingress, start of the output packet
    "function, names out of order, both out": (
        f"void f(out bit<8> x, out bit<8> y) {TWO}",
        "",
        "f(y = h.d.a, x = h.d.a);",
        "aa02",
    ),
    "function, names in order": (
        f"void f(inout bit<8> x, inout bit<8> y) {TWO}",
        "",
        "f(x = h.d.a, y = h.d.a);",
        "bb02",
    ),
    "function with a default between": (
        "void f(inout bit<8> x, in bit<8> d = 7, inout bit<8> y) { x = d; y = 0xbb; }",
        "",
        "f(y = h.d.a, x = h.d.a);",
        "0702",
    ),
    "action": (
        "",
        f"action f(inout bit<8> x, inout bit<8> y) {TWO}",
        "f(y = h.d.a, x = h.d.a);",
        "aa02",
    ),
    "action that exits": (
        "",
        "action f(inout bit<8> x, inout bit<8> y) { x = 0xaa; y = 0xbb; exit; }",
        "f(y = h.d.a, x = h.d.a); h.d.b = 0;",
        "aa02",
    ),
    "action of a table": (
        "",
        f"action f(inout bit<8> x, inout bit<8> y) {TWO}"
        " table t { actions = { f(y = h.d.a, x = h.d.a); }"
        " default_action = f(y = h.d.a, x = h.d.a); }",
        "t.apply();",
        "aa02",
    ),
    "sub-control": (
        f"control S(inout bit<8> x, inout bit<8> y) {{ apply {TWO} }}",
        "S() s;",
        "s.apply(y = h.d.a, x = h.d.a);",
        "aa02",
    ),
    "sub-control applied twice": (
        f"control S(inout bit<8> x, inout bit<8> y) {{ apply {TWO} }}",
        "S() s;",
        "s.apply(y = h.d.a, x = h.d.a); s.apply(x = h.d.b, y = h.d.b);",
        "aabb",
    ),
    "whole headers": (
        "void f(inout item_t x, inout item_t y) { x.v = 0xaa; y.v = 0xbb; }",
        "",
        "h.items[0] = { 1 }; f(y = h.items[0], x = h.items[0]);",
        PACKET + "aa",
    ),
    "in arguments see what earlier ones changed": (
        INC + "bit<8> f(in bit<8> x, in bit<8> y) { return x ++ y == 0x0202 ? 8w9 : 8w8; }",
        "",
        "h.d.c = f(y = inc(h.d.a), x = h.d.a);",
        "020209",
    ),
    "in arguments do not see what later ones change": (
        INC + "bit<8> f(in bit<8> x, in bit<8> y) { return x ++ y == 0x0201 ? 8w9 : 8w8; }",
        "",
        "h.d.c = f(y = h.d.a, x = inc(h.d.a));",
        "020209",
    ),
    "inout argument is saved before a later one changes it": (
        INC + "void f(in bit<8> x, inout bit<8> y) { y = y + x; }",
        "",
        "f(y = h.d.a, x = inc(h.d.a));",
        "0302",
    ),
    "fields of a struct in the order written": (
        INC,
        "",
        "inner_t v = { q = inc(h.d.a), p = inc(h.d.a) }; h.d.b = v.p; h.d.c = v.q;",
        "030302",
    ),
    "fields of a struct that a function takes": (
        INC + "bit<8> f(in inner_t v) { return v.p; }",
        "",
        "h.d.c = f({ q = inc(h.d.a), p = inc(h.d.a) });",
        "030203",
    ),
    "register.write": (
        INC,
        "register<bit<8>>(4) r;",
        "r.write(value = inc(h.d.a), index = (bit<32>)h.d.a); r.read(h.d.c, 2);",
        "020202",
    ),
    "register.read": (
        INC,
        "register<bit<8>>(4) r;",
        "r.write(2, 9); r.read(index = (bit<32>)inc(h.d.a), result = h.d.c);",
        "020209",
    ),
    "hash": (
        INC,
        "",
        "hash(data = { inc(h.d.a) }, base = h.d.a, max = 8w255, algo = HashAlgorithm.identity,"
        " result = h.d.c);",
        "020204",
    ),
    "index with an effect, inout": (
        INC + "void f(inout bit<8> x) { x = x + 7; }",
        "",
        ITEMS + "f(h.items[inc(h.d.a)].v);",
        "0202037f00000004" + "101119",
    ),
    "index with an effect, out header": (
        INC + "void f(out item_t x) { x = { 9 }; }",
        "",
        ITEMS + "f(h.items[inc(h.d.a)]);",
        "0202037f00000004" + "101109",
    ),
    "index with an effect, and another one": (
        INC + "void f(inout item_t x, in bit<8> y) { x.v = x.v + y; }",
        "",
        ITEMS + "f(h.items[inc(h.d.a)], inc(h.d.a));",
        "0302037f00000004" + "101115",
    ),
    "index that a later argument changes": (
        INC + "void f(inout bit<8> x, in bit<8> y) { x = x + y; }",
        "",
        ITEMS + "f(h.items[h.d.a].v, inc(h.d.a));",
        "0202037f00000004" + "101312",
    ),
    "header at an index, by value before a later effect": (
        INC + "bit<8> f(in item_t x, in bit<8> y) { return x.v + y; }",
        "",
        ITEMS + "h.d.c = f(h.items[h.d.a], inc(h.d.a));",
        "0202137f00000004" + "101112",
    ),
    "index with an effect, slice": (
        INC + "void f(inout bit<4> x) { x = x + 1; }",
        "",
        ITEMS + "f(h.items[inc(h.d.a)].v[7:4]);",
        "0202037f00000004" + "101122",
    ),
    "index with an effect, of a sub-control": (
        INC + "control S(inout item_t x) { apply { x.v = x.v + 7; } }",
        "S() s;",
        ITEMS + "s.apply(h.items[inc(h.d.a)]);",
        "0202037f00000004" + "101119",
    ),
    "index with an effect, of a direct action": (
        INC,
        "action f(inout bit<8> x) { x = x + 7; }",
        ITEMS + "f(h.items[inc(h.d.a)].v);",
        "0202037f00000004" + "101119",
    ),
    "index that the action changes": (
        "",
        "action f(inout bit<8> x) { h.d.a = 2; x = x + 7; }",
        ITEMS + "f(h.items[h.d.a].v);",
        "0202037f00000004" + "101812",
    ),
    "index that the action of a table changes": (
        "",
        "action f(inout bit<8> x) { h.d.a = 2; x = x + 7; }"
        " table t { actions = { f(h.items[h.d.a].v); } default_action = f(h.items[h.d.a].v); }",
        ITEMS + "t.apply();",
        "0202037f00000004" + "101812",
    ),
    "index with an effect, of an extern's result": (
        INC,
        "register<bit<8>>(4) r;",
        ITEMS + "r.write(0, 9); r.read(h.items[inc(h.d.a)].v, 0);",
        "0202037f00000004" + "101109",
    ),
    "index with an effect, and an extern's own index": (
        INC,
        "register<bit<8>>(4) r;",
        ITEMS + "r.write(2, 9); r.read(h.items[inc(h.d.a)].v, (bit<32>)h.d.a);",
        "0202037f00000004" + "101109",
    ),
    "index with an effect, setValid": (
        INC,
        "",
        ITEMS + "h.items[inc(h.d.a)].setInvalid();",
        "0202037f00000004" + "1011",
    ),
    "index with an effect, compound assignment": (
        INC,
        "",
        ITEMS + "h.items[inc(h.d.a)].v += 1;",
        "0202037f00000004" + "101113",
    ),
    "index with an effect, on both sides": (
        INC,
        "",
        "h.d.a = 0; " + ITEMS + "h.items[inc(h.d.a)] = h.items[inc(h.d.a)];",
        "0202037f00000004" + "101212",
    ),
    "calls in arguments of calls": (
        INC + "bit<8> add(in bit<8> x, in bit<8> y) { return x + y; }",
        "",
        "h.d.c = add(add(inc(h.d.a), h.d.a), add(y = h.d.a, x = inc(h.d.a)));",
        "030209",
    ),
    "a function of what the sub-control changes": (
        TWICE_OF + BY_B,
        "S() s;",
        "s.apply(h, twice(h.d.a));",
        "090201",
    ),
    "a function that changes what the sub-control gets": (
        INC + BY_B,
        "S() s;",
        "s.apply(h, inc(h.d.a));",
        "090201",
    ),
    "a function of what another one changes, which the sub-control gets": (
        INC + TWICE_OF + BY_B,
        "S() s;",
        "s.apply(h, twice(inc(h.d.a)));",
        "090401",
    ),
}


# `exit` copies out arguments (P4-16, 12.5). Before the call, x is 1 and y is 2.
EXITS = (
    "control S(inout bit<8> x, inout bit<8> y) { action a() { x = 0x55; exit; }"
    " table t { actions = { a; } default_action = a(); }"
    " apply { y = y + 1; t.apply(); y = 0; } } "
)
NESTED = (
    EXITS + "control R(inout bit<8> p, inout bit<8> q) { S() s;"
    " apply { p = p + 0x10; s.apply(p, q); q = 0; } } "
)
TWICE = (
    "control S(inout bit<8> x, inout bit<8> y) { action a() { x = 0x55; exit; }"
    " action b() { x = x + 1; } table t { key = { x: exact; } actions = { a; b; }"
    " const entries = { 2: a(); } default_action = b(); } apply { y = y + 1; t.apply(); } } "
)
TWICE_NESTED = (
    TWICE + "control R(inout bit<8> p, inout bit<8> q) { S() s;"
    " apply { s.apply(p, q); s.apply(q, p); } } "
)
GIVEN = "control G(inout bit<8> p, inout bit<8> q)(S s) { apply { s.apply(p, q); } } "
AT_EXIT = {
    # declarations, locals of ingress, body of ingress, start of the output packet (its rest equals
    # the rest of PACKET)
    "an action of a table in a sub-control": (
        EXITS, "S() s;", "s.apply(h.d.a, h.d.b); h.d.c = 0;", "550303",
    ),
    "in the first of two applications": (
        TWICE, "S() s;", "s.apply(h.d.b, h.d.c); s.apply(h.d.a, h.d.b); h.d.c = 0;", "015504",
    ),
    "in the second of two applications": (
        TWICE, "S() s;", "s.apply(h.d.a, h.d.c); s.apply(h.d.b, h.d.a); h.d.c = 0;", "035504",
    ),
    "in an instance that two controls have": (
        TWICE + GIVEN, "S() s; G(s) g; G(s) i;",
        "g.apply(h.d.a, h.d.c); i.apply(h.d.b, h.d.a); h.d.c = 0;", "035504",
    ),
    "in the last of two applications in each of two": (
        TWICE_NESTED, "R() r;", "r.apply(h.d.c, h.d.b); r.apply(h.d.c, h.d.a); h.d.c = 0;",
        "550407",
    ),
    "with names out of order": (
        EXITS, "S() s;", "s.apply(y = h.d.b, x = h.d.a); h.d.c = 0;", "550303",
    ),
    "both to one place, from left to right": (
        EXITS, "S() s;", "s.apply(h.d.a, h.d.a); h.d.c = 0;", "020203",
    ),
    "both to one place, the other way round": (
        EXITS, "S() s;", "s.apply(y = h.d.a, x = h.d.a); h.d.c = 0;", "550203",
    ),
    "a sub-control of a sub-control": (
        NESTED, "R() r;", "r.apply(h.d.a, h.d.b); h.d.c = 0;", "550303",
    ),
    "to slices": (
        NESTED, "R() r;", "r.apply(h.d.w[15:8], h.d.w[23:16]); h.d.c = 0;", "0102037f00015504",
    ),
    "to an element at an index that changes": (
        NESTED, "R() r;",
        "h.items[0] = { 1 }; h.items[1] = { 2 }; r.apply(h.items[h.d.a].v, h.d.a); h.d.c = 0;",
        "0202037f00000004" + "0155",
    ),
    "an action that an action of a table calls": (
        "", "action f(inout bit<8> x) { x = 7; exit; } action g() { f(h.d.a); h.d.b = 0; }"
        " table t { actions = { g; } default_action = g(); }",
        "t.apply(); h.d.c = 0;", "070203",
    ),
    "an action that calls another": (
        "", "action f(inout bit<8> x) { x = 7; exit; } action g(inout bit<8> y) { f(y); y = 0; }",
        "g(h.d.a); h.d.c = 0;", "070203",
    ),
    "a struct": (
        "control S(inout inner_t x) { apply { x.p = 9; exit; } }"
        " control R(inout bit<8> y) { S() s; apply { inner_t v = { 1, y }; s.apply(v); y = 0; } }",
        "R() r;", "r.apply(h.d.a); h.d.c = 0;", "010203",
    ),
    "an out header that was not set": (
        "control S(out item_t x) { apply { exit; } }", "S() s;",
        "h.items[0] = { 5 }; s.apply(h.items[0]); h.d.c = 0;", PACKET,
    ),
    "in a branch of a switch over an action": (
        "control S(inout bit<8> x) { action a() { x = 8; } action b() { x = 9; }"
        " table t { actions = { a; b; } default_action = a(); }"
        " apply { switch (t.apply().action_run) { a: { x = x + 1; exit; } b: { x = 0; } } } }",
        "S() s;", "s.apply(h.d.w[7:0]); h.d.c = 0;", "0102037f00000009",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_EXIT)
def test_copies_at_exit(tmp_path: Path, name: str) -> None:
    declarations, local, code, expected = AT_EXIT[name]
    left = outcome(tmp_path, PACKET, declarations=declarations, locals=local, ingress=code)
    assert left is not None
    assert left[1] == expected + PACKET[len(expected) :]


@pytest.mark.parametrize("name", IN_INGRESS)
def test_in_ingress(tmp_path: Path, name: str) -> None:
    declarations, local, code, expected = IN_INGRESS[name]
    left = outcome(tmp_path, PACKET, declarations=declarations, locals=local, ingress=code)
    assert left is not None
    assert left[1].startswith(expected)


def headers(directory: Path, code: str) -> list[str]:
    """Return the types of a program's headers. Temporary headers for copies are included."""
    program = compiled(directory, declarations=TWICE_OF + BY_B, locals="S() s;", ingress=code)
    return sorted(header["header_type"] for header in program.bmv2_json["headers"])


def test_a_function_beside_them_costs_no_copies_of_headers(tmp_path: Path) -> None:
    assert headers(tmp_path, "s.apply(h, twice(h.d.b));") == headers(
        tmp_path, "s.apply(h, meta.m);"
    )


SUB = (
    "parser S(packet_in packet, inout bit<8> x, inout bit<8> y)"
    " { state start { x = 0xaa; y = 0xbb; transition accept; } }"
)
IN_PARSER = {
    # declarations, locals of the parser, body of the state, input packet, start of the output
    "sub-parser": (
        SUB,
        "S() s;",
        "packet.extract(h.d); s.apply(packet = packet, y = h.d.a, x = h.d.a);",
        PACKET,
        "aa02",
    ),
    "extract at an index with an effect": (
        INC,
        "",
        "bit<8> i = 0; packet.extract(h.items[inc(i)]); packet.extract(h.d); h.d.a = i;",
        "99" + PACKET,
        "0102037f00000004" + "99",
    ),
    "extract, names out of order": (
        INC,
        "",
        "packet.extract(h.d); bit<32> n = packet.lookahead<bit<32>>();"
        " packet.advance(sizeInBits = (bit<32>)inc(h.d.c) * 8);"
        " packet.extract(hdr = h.items.next); h.d.w = n;",
        PACKET + "0102030405",
        "0102047f01020304" + "05",
    ),
    "keys of a select, from left to right": (
        INC,
        "",
        "packet.extract(h.d); transition select(h.d.a, inc(h.d.a)) {"
        " (2, 2): accept; (1, 2): right; } } state right { h.d.b = 0;",
        PACKET,
        "0200",
    ),
    "a function that takes from the packet": (
        "bit<8> skip(packet_in p) { p.advance(8); return 1; }"
        "bit<8> add(in bit<8> x, in bit<8> y) { return x + y; }",
        "",
        "packet.extract(h.d); h.d.a = add(packet.lookahead<bit<8>>(), skip(packet));",
        PACKET + "0509",
        "06",
    ),
    "verify": (
        INC,
        "",
        "packet.extract(h.d); verify(toSignal = error.NoMatch, check = inc(h.d.a) == 2);"
        " h.d.b = 0;",
        PACKET,
        "0200",
    ),
}


@pytest.mark.parametrize("name", IN_PARSER)
def test_in_a_parser(tmp_path: Path, name: str) -> None:
    declarations, local, code, packet, expected = IN_PARSER[name]
    left = outcome(
        tmp_path,
        packet,
        declarations=declarations,
        parser_locals=local,
        states=f"state start {{ {code} transition accept; }}",
    )
    assert left is not None
    assert left[1].startswith(expected)
