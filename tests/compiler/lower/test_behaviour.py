"""Effects of tiny compiled programs, each with an input packet and the expected output packet."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs_to_run import interpreter

# the fields a, b, c, s and w (8 bytes), then payload
PACKET = "0102037f00000004"

EXPRESSIONS = {
    # statement(s) in ingress -> first bytes of the output packet
    "addition wraps": ("h.d.a = h.d.a + 255;", "0002"),
    "subtraction wraps": ("h.d.a = h.d.a - 2;", "ff02"),
    "wrapped before it is widened": ("h.d.w = (bit<32>)(h.d.a + 255);", "0102037f00000000"),
    "wrapped before it is compared": ("if (h.d.a + 255 < h.d.b) { h.d.c = 9; }", "010209"),
    "multiplication": ("h.d.c = h.d.b * 200;", "010290"),
    "negation": ("h.d.a = -h.d.b;", "fe02"),
    "complement": ("h.d.w = (bit<32>)(~h.d.a);", "0102037f000000fe"),
    "signed wraps": ("h.d.s = h.d.s + 1; if (h.d.s < 0) { h.d.a = 9; }", "09020380"),
    "sign extended": ("h.d.s = -2; h.d.w = (bit<32>)(int<32>)h.d.s;", "010203fefffffffe"),
    "signed to unsigned": ("h.d.s = -1; h.d.w = (bit<32>)(bit<8>)h.d.s;", "010203ff000000ff"),
    "unsigned to signed": ("h.d.s = (int<8>)(h.d.a + 254); if (h.d.s < 0) { h.d.a = 7; }", "0702"),
    "arithmetic shift": ("h.d.s = -8; h.d.s = h.d.s >> 1;", "010203fc"),
    "shift left drops bits": ("h.d.a = (h.d.a << 7) >> 7; h.d.b = h.d.b << 7;", "0100"),
    "shift by a field": ("h.d.w = h.d.w << h.d.b;", "0102037f00000010"),
    "shift by more than the width": ("h.d.w = h.d.w << (h.d.w + 1000);", "0102037f00000000"),
    "signed shift by more than the width": (
        "h.d.s = -8; h.d.s = h.d.s >> (h.d.w + 1000);",
        "010203ff",
    ),
    "saturated addition": ("h.d.a = h.d.b |+| 254; h.d.s = h.d.s |+| 1;", "ff02037f"),
    "saturated subtraction": (
        "h.d.a = h.d.a |-| 9; h.d.s = -h.d.s; h.d.s = h.d.s |-| 9;",
        "000203" + "80",
    ),
    "slice": ("h.d.a = h.d.w[9:2];", "0102"),
    "slice as target": ("h.d.a[7:4] = h.d.b[3:0];", "2102"),
    "slice of a slice as target": ("h.d.w[31:8][7:0] = 0xab;", "0102037f0000ab04"),
    "run-time slice": ("h.d.a = h.d.w[h.d.b +: 8];", "0102"),
    "concatenation": ("h.d.w = h.d.a ++ h.d.b ++ h.d.c ++ 8w5;", "0102037f01020305"),
    "concatenation of signed": (
        "h.d.s = -1; h.d.w = 16w0 ++ 8w1 ++ (bit<8>)h.d.s;",
        "010203ff000001ff",
    ),
    "conditional": ("h.d.a = h.d.b > 1 ? h.d.c : 8w9;", "0302"),
    "conditional of bools": ("if (h.d.b > 1 ? h.d.c == 3 : false) { h.d.a = 8; }", "0802"),
    "bool variable": (
        "bool yes = h.d.a == 1; meta.flag = !yes; if (!meta.flag) { h.d.a = 5; }",
        "0502",
    ),
    "bool casts": (
        "h.d.a = (bit<8>)(bit<1>)(h.d.b == 2); if ((bool)h.d.b[1:1]) { h.d.c = 6; }",
        "010206",
    ),
    "bools compared": ("if ((h.d.a == 1) != (h.d.b == 1)) { h.d.a = 4; }", "0402"),
    "power of two": (
        "h.d.w = 37; h.d.a = (bit<8>)(h.d.w / 8); h.d.b = (bit<8>)(h.d.w % 8);",
        "0405",
    ),
    "compound assignment": ("h.d.a += 2; h.d.b <<= 1; h.d.c |= 0x10;", "030413"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(tmp_path: Path, name: str) -> None:
    code, expected = EXPRESSIONS[name]
    switch = interpreter(tmp_path, ingress=code)
    result = switch.run(bytes.fromhex(PACKET))
    assert result is not None
    assert result[1].hex().startswith(expected)


INC = "bit<8> inc(inout bit<8> x) { x = x + 1; return x; }"
CALLS = {
    # declarations, locals of ingress, body of ingress, output packet
    "earlier operand is read before a call changes it": (
        INC,
        "",
        "h.d.c = h.d.a + inc(h.d.a);",
        "020203",
    ),
    "later operand sees the change": (INC, "", "h.d.c = inc(h.d.a) + h.d.a;", "020204"),
    "index is fixed before the right side": (
        INC,
        "",
        "h.items[1] = { 5 }; h.items[2] = { 6 }; h.items[h.d.a].v = inc(h.d.a);",
        "0202037f000000040206",
    ),
    "right side of && is skipped": (
        INC,
        "",
        "if (h.d.a == 9 && inc(h.d.b) == 3) { h.d.c = 0; }",
        "010203",
    ),
    "right side of || is evaluated": (
        INC,
        "",
        "if (h.d.a == 9 || inc(h.d.b) == 3) { h.d.c = 0; }",
        "010300",
    ),
    "one branch of ?: only": (INC, "", "h.d.c = h.d.a == 1 ? inc(h.d.b) : inc(h.d.a);", "010303"),
    "return ends the function": (
        "bit<8> f(in bit<8> x) { if (x > 1) { return 7; } return 8; }",
        "",
        "h.d.a = f(h.d.a); h.d.b = f(h.d.b);",
        "0807",
    ),
    "return from a loop": (
        "bit<8> f(in bit<8> n) { bit<8> t = 0;"
        " for (bit<8> i in 1 .. 5) { if (i > n) { return t; } t = t + i; } return t; }",
        "",
        "h.d.a = f(3); h.d.b = f(100);",
        "060f",
    ),
    "out arguments are copied back in order": (
        "void f(out bit<8> x, out bit<8> y) { x = 5; y = 6; }",
        "",
        "f(h.d.a, h.d.a);",
        "0602",
    ),
    "in and inout of the same variable": (
        "void f(in bit<8> x, inout bit<8> y) { y = 9; y = y + x; }",
        "",
        "f(h.d.a, h.d.a);",
        "0a02",
    ),
    "inout argument is read where it stands": (
        INC + "void f(inout bit<8> x, in bit<8> y) { x = x + y; }",
        "",
        "f(h.d.a, inc(h.d.a));",
        "0302",
    ),
    "slice as inout argument": (
        "void f(inout bit<4> x) { x = x + 1; }",
        "",
        "f(h.d.a[7:4]);",
        "1102",
    ),
    "actions see the control's variables": (
        "",
        "bit<8> v = 3; action f(inout bit<8> x) { x = 1; v = 7; x = x + v; }",
        "f(v); h.d.a = v;",
        "0802",
    ),
    "exit copies out arguments": (
        "",
        "action f(inout bit<8> x) { x = 9; exit; }",
        "f(h.d.a); h.d.b = 0;",
        "0902",
    ),
    "return in an action": (
        "",
        "action f() { if (h.d.a == 1) { h.d.b = 8; return; } h.d.b = 9; }",
        "f(); f();",
        "0108",
    ),
    "return from a sub-control": (
        "control S(inout bit<8> x) { apply { if (x == 1) { x = 4; return; } x = 5; } }",
        "S() s;",
        "s.apply(h.d.a); s.apply(h.d.b);",
        "0405",
    ),
    "exit in a sub-control": (
        "control S(inout bit<8> x) { apply { x = 4; exit; } }",
        "S() s;",
        "s.apply(h.d.a); h.d.b = 0;",
        "0402",
    ),
    "constructor parameters": (
        "control S(inout bit<8> x)(bit<8> n) { apply { x = n; } }",
        "S(7) s; S(8) t;",
        "s.apply(h.d.a); t.apply(h.d.b);",
        "0708",
    ),
    "table in a branch that a constructor parameter disables": (
        "control S(inout bit<8> x)(bool first) { action set() { x = 9; }"
        " table t { key = { x: exact; } actions = { set; } default_action = set(); }"
        " apply { if (first) { t.apply(); } else { x = 8; t.apply(); x = x + 1; } } }",
        "S(false) s;",
        "s.apply(h.d.a);",
        "0a02",
    ),
    "generic function": (
        "T second<T>(in T x, in T y) { T z = y; return z; }",
        "",
        "h.d.a = second<bit<8>>(h.d.b, h.d.c); h.d.w = second<bit<32>>(1, 5);",
        "0302037f00000005",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(tmp_path: Path, name: str) -> None:
    declarations, local, code, expected = CALLS[name]
    switch = interpreter(tmp_path, declarations=declarations, locals=local, ingress=code)
    result = switch.run(bytes.fromhex(PACKET))
    assert result is not None
    assert result[1].hex().startswith(expected)


STATEMENTS = {
    "switch over a value": (
        "switch (h.d.a) { 0: { h.d.c = 9; } 1: 2: { h.d.c = 7; } default: { h.d.c = 8; } }",
        "010207",
    ),
    "switch looks once": (
        "switch (h.d.a) { 1: { h.d.a = 2; } 2: { h.d.a = 3; } }",
        "0202",
    ),
    "loop with break and continue": (
        "for (bit<8> i = 0; i < 10; i = i + 1)"
        " { if (i == 1) { continue; } if (i == 4) { break; } h.d.a = h.d.a + i; }",
        "0602",
    ),
    "loop over a run-time range": (
        "for (bit<8> i in h.d.a .. h.d.c) { h.d.b = h.d.b + i; }",
        "0108",
    ),
    "range up to the largest value": (
        "for (bit<8> i in 253 .. (h.d.a | 255)) { h.d.b = h.d.b + 1; }",
        "0105",
    ),
    "nested structs": (
        "inner_t x = { 5, 6 }; meta.inner = x; meta.inner.p = 9; x = meta.inner;"
        " h.d.a = x.p; h.d.b = x.q;",
        "0906",
    ),
    "struct made of its own fields": (
        "inner_t x = { 5, 6 }; x = { x.q, x.p }; h.d.a = x.p; h.d.b = x.q;",
        "0605",
    ),
    "tuples": ("tuple<bit<8>, bit<8>> t = { 4, h.d.a }; h.d.a = t[0]; h.d.b = t[1];", "0401"),
    "structs compared": (
        "inner_t x = { 1, h.d.b }; if (x == { h.d.a, 2 }) { h.d.c = 0; }",
        "010200",
    ),
    "header copied with its validity": (
        "h.e = h.d; h.e.a = 9; h.d.setInvalid(); h.d = h.e;",
        "0902037f000000040902037f00000004",
    ),
    "invalid headers are equal": (
        "data_t x; if (x == h.e) { h.d.a = 7; } if (h.d == h.e) { h.d.b = 0; }",
        "0702",
    ),
    "header literal is valid": (
        "h.items[0] = { 5 }; h.items[1] = { v = 6 };",
        PACKET + "0506",
    ),
    "{#} is invalid": ("h.e = h.d; h.e = (data_t){#}; if (!h.e.isValid()) { h.d.a = 3; }", "0302"),
    "variables start invalid in each round": (
        "for (bit<8> i in 0 .. 1) { item_t x; if (x.isValid()) { h.d.a = 9; } x.setValid(); }",
        "0102",
    ),
    "push and pop": (
        "h.items[0].setValid(); h.items[0].v = 5; h.items.push_front(1);"
        " h.items[0] = { 4 }; h.items.push_front(1); h.items.pop_front(1);",
        PACKET + "0405",
    ),
    "run-time index": (
        "h.items[0] = { 1 }; h.items[1] = { 2 }; h.items[2] = { 3 };"
        " h.items[h.d.b].v = h.items[h.d.a].v + 7;",
        PACKET + "010209",
    ),
    "index out of bounds changes nothing": (
        "h.items[0] = { 1 }; h.items[h.d.s[7:0]].v = 9;",
        PACKET + "01",
    ),
    "run-time index of a header": (
        "h.items[h.d.b] = { 3 };"
        " if (h.items[h.d.b].isValid()) { h.items[h.d.a] = h.items[h.d.b]; }",
        PACKET + "0303",
    ),
    "one valid member of a union": (
        "h.u.two.setValid(); h.u.two.y = 5; h.u.one.setValid(); h.u.one.x = 4;"
        " if (h.u.two.isValid()) { h.d.a = 0; } if (h.u.isValid()) { h.d.b = 7; }",
        "0107037f0000000404",
    ),
    "exit ends ingress only": ("if (h.d.a == 1) { h.d.b = 7; exit; } h.d.c = 0;", "010703"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement(tmp_path: Path, name: str) -> None:
    code, expected = STATEMENTS[name]
    switch = interpreter(tmp_path, ingress=code)
    result = switch.run(bytes.fromhex(PACKET))
    assert result is not None
    assert result[1].hex().startswith(expected)


def test_egress_runs_after_exit_in_ingress(tmp_path: Path) -> None:
    switch = interpreter(tmp_path, ingress="sm.egress_spec = 3; exit;", egress="h.d.a = 9;")
    assert switch.run(bytes.fromhex(PACKET)) == (3, bytes.fromhex("09" + PACKET[2:]))


def test_mark_to_drop(tmp_path: Path) -> None:
    assert interpreter(tmp_path, ingress="mark_to_drop(sm);").run(bytes.fromhex(PACKET)) is None


def test_long_chains(tmp_path: Path) -> None:
    """1,500 branches of `else if` are compiled, as p4c does, because they are not nested."""
    chain = " else ".join(f"if (h.d.w == {i}) {{ h.d.b = 8w{i % 256}; }}" for i in range(1500))
    switch = interpreter(tmp_path, ingress=chain)
    result = switch.run(bytes.fromhex("0102037f00000095"))
    assert result is not None
    assert result[1].hex().startswith("0195")
