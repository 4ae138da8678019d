"""The compiler rejects each mistake with its location, and with a message that names the mistake.

In every program, `§` marks the line and column of the error.
"""

import pytest
from programs_to_check import HEADERS, check, program, refusal

from minip4.compiler.errors import P4Error
from minip4.compiler.front import parse_and_check
from minip4.errors import Minip4Error

IN_BODY = [
    # syntax
    # names
    # types
    # lvalues
    # calls
    # statements
    ("m.x = 1 §}", "unexpected '}'"),
    ("m.x = §;", "unexpected ';'"),
    ("m.x = (1§;", "unexpected ';'"),
    ("m.x = 1; §$", "unexpected character '$'"),
    ("m.x = §3abc;", "'3abc' is not a number"),
    ("m.x §+ 1;", "unexpected '+'"),
    ("bit<8> §table = 1;", "'table' is a keyword"),
    ("bit<8> list = 1; m.x = §list;", "'list' is a keyword"),
    ("§/* open", "this comment is not closed"),
    ("§Mca a;", "'Mca' is not declared; did you mean 'Mac'?"),
    ("§m a;", "'m' is not a type"),
    ("if §m.flag { }", "unexpected 'm'"),
    ("§x = 1;", "'x' is not declared"),
    ("§hh.ethernet.setValid();", "'hh' is not declared"),
    ("m.x = §m.z1;", "metadata_t has no member 'z1'"),
    ("m.x = §h.ethernet.typ;", "ethernet_t has no member 'typ'; did you mean 'type'?"),
    ("bit<8> a; bit<8> §a;", "'a' is declared twice"),
    ("bit<8> §m;", "'m' hides the parameter"),
    ("m.color = §Color.blue;", "Color has no member 'blue'"),
    ("m.e = §error.Unknown;", "error has no member 'Unknown'"),
    ("m.x = §Mac;", "'Mac' is a type"),
    ("m.x = §MyEgress.apply;", "'MyEgress' is used before its declaration"),
    ("§later = 1;", "'later' is not declared"),
    ("m.x = §m.y;", "the assigned value is bit<16>"),
    ("m.flag = §1;", "the assigned value is an integer without a width"),
    ("m.x = m.x + §m.y;", "an operand of + is bit<16>"),
    ("m.x = §m.flag + 1;", "an operand of + is bool"),
    ("if (§m.x) { }", "the condition is bit<8>"),
    ("m.flag = §m.x && true;", "an operand of && is bit<8>"),
    ("m.x = §!m.x;", "'!' of bit<8>"),
    ("m.flag = §~m.flag;", "'~' of bool"),
    ("m.x = m.x << §m.s;", "a shift by a signed int<8>"),
    ("m.x = m.x << §-1;", "a shift by a negative number"),
    ("m.z = §1 ++ m.y;", "an operand of ++ is an integer without a width"),
    ("m.x = m.x / §0;", "division by zero"),
    ("m.x = §m.x / m.x;", "'/' at run time by a number that is not a power of two"),
    ("m.s = §m.s / 2;", "'/' of a signed type int<8>"),
    ("m.x = §(bit<8>) m.flag;", "bool cannot be cast to bit<8>"),
    ("m.x = §(bit<8>) m.pair;", "pair_t cannot be cast to bit<8>"),
    ("m.s = §(int<8>) m.y;", "bit<16> cannot be cast to int<8>"),
    ("m.x = m.y[§16:9];", "bit 16 is not in bit<16>"),
    ("m.x = §m.y[3:4];", "slice [3:4] is empty"),
    ("m.x = m.y[§m.x:0];", "the upper end of a slice must be known at compile time"),
    ("m.x = §m.flag[0:0];", "a slice of bool"),
    ("h.labels[§4].bos = 1;", "index 4 is out of range"),
    ("m.x = §m.x[1];", "bit<8> has no elements"),
    ("m.x = m.t[§m.x];", "the index of a tuple is not constant"),
    ("m.color = §EtherType.ipv4;", "the assigned value is EtherType"),
    ("m.type = §0x800;", "the assigned value is an integer without a width"),
    ("m.port = §m.x ++ 1w0;", "the assigned value is bit<9>"),
    ("m.flag = m.port == §9w1;", "an operand of == is bit<9>"),
    ("m.x = m.flag ? m.x : §m.y;", "a branch of ?: is bit<16>"),
    ("m.x = §m.flag ? 1 : 2;", "neither operand of this ?: has a width"),
    ("m.pair = §{1, 2, 3};", "the assigned value has 3 value(s) in braces"),
    ("m.pair = {1, §m.flag};", "the assigned value is bool"),
    ("m.pair = {a = 1, §c = 2};", "pair_t has no field 'c'"),
    ("m.pair = §{a = 1};", "the assigned value has no value for b"),
    ("m.pair = {a = 1, §a = 2};", "'a' has two values"),
    ("m.pair = §{a = 1, 2};", "values with and without names are mixed"),
    ("m.x = §{#};", "{#} is not of type bit<8>"),
    ("§int a = 1;", "a variable cannot have type int"),
    ("§string a;", "a variable cannot have type string"),
    ("§register<bit<8>> a;", "a variable cannot have type register<bit<8>>"),
    ("§generic_t a;", "'generic_t' takes 1 type argument(s), 0 given"),
    ("§pair_t<bit<8>> a;", "'pair_t' takes 0 type argument(s), 1 given"),
    ("bit<§m.x> a;", "the width of bit must be known at compile time"),
    ("int<§0> a;", "int<0> has no valid width"),
    ("bit<§-1> a;", "bit<-1> has no valid width"),
    ("bit<2048> w; bit<§2049> a;", "bit<2049> has no valid width"),
    ("int<§2049> a;", "int<2049> has no valid width"),
    ("bit<2048> w; m.x = (§w ++ 1w1)[7:0];", "bit<2049> is too wide"),
    ("m.x = (§2049w1)[7:0];", "bit<2049> is too wide"),
    ("label_t[§0] a;", "a stack of size 0"),
    ("§bit<8>[4] a;", "an array of bit<8> is not supported"),
    ("const bit<8> a = §m.x;", "the value of 'a' is not known at compile time"),
    ("m.x §+ 1 = 2;", "unexpected '+'"),
    ("§five = 1;", "'five' is a constant"),
    ("§h.labels.size = 1;", "'.size' cannot be written"),
    ("§h.labels.next.bos = 1;", "can be used only in a parser"),
    ("§f(5) = 1;", "cannot be written"),
    ("§f();", "'f' takes 1 argument(s), 0 given"),
    ("§f(1, 2);", "'f' takes 1 argument(s), 2 given"),
    ("f(§m.y);", "argument 'x' is bit<16>"),
    ("f(§y = 1);", "'f' has no parameter 'y'"),
    ("§two(1, y = 2);", "arguments with and without names are mixed"),
    ("§two(x = 1);", "'two' has no argument 'y'"),
    ("out_(§five);", "'five' is a constant"),
    ("out_(§5);", "argument 'x' is an integer without a width"),
    ("out_(§m.y);", "argument 'x' is bit<16>"),
    ("f(§_);", "`_` is valid for out arguments only"),
    ("§m.x();", "metadata_t has no member 'x'"),
    ("§t();", "'t' is a table and cannot be called like this"),
    ("§h.ethernet.isvalid();", "did you mean 'isValid'?"),
    ("§h.ethernet.setValid(1);", "'setValid' takes 0 argument(s), 1 given"),
    ("h.labels.push_front(§m.x);", "the count of push_front is not constant"),
    ("§r.reed(m.z, 1);", "did you mean 'read'?"),
    ("r.read(§m.x, 1);", "argument 'result' is bit<8>"),
    ("r.read(m.z, §m.flag);", "argument 'index' is bool"),
    ("clone_preserving_field_list(CloneType.I2E, 1, §m.x);", "must be known at compile time"),
    ("hash(m.x, HashAlgorithm.crc16, §0, {m.y}, 8w9);", "this number needs a width"),
    ("hash(m.x, HashAlgorithm.crc16, 8w0, {m.y, §1}, 8w9);", "this number needs a width"),
    ("§verify(true, error.Custom);", "verify can be called only in a parser"),
    ('§static_assert(1 == 2, "no");', "static_assert failed: no"),
    ("§MyParser.apply(h);", "parser 'MyParser' applied in a control"),
    ("§Sub(1) s;", "'s' is instantiated in a block"),
    ("§Sub.apply(m);", "'Sub' needs constructor arguments"),
    ("§f<bit<8>>(1);", "'f' takes 0 type argument(s), 1 given"),
    ("§break;", "'break' outside of a loop"),
    ("return §1;", "'MyIngress' returns no value"),
    ("switch (t.apply().action_run) { §set: { } }", "'set' is not an action of table 't'"),
    ("switch (m.x) { 1: { } §1: { } }", "a second case for 1"),
    ("switch (m.x) { §default: { } 1: { } }", "'default' is not the last case"),
    ("switch (m.x) { §m.x: { } }", "the label of a case is not constant"),
    ("switch (§m.pair) { }", "a switch over pair_t"),
    ("for (bit<8> i in §m.x) { }", "a loop over bit<8>"),
    ("for (bit<8> i = 0; §i; i = i + 1) { }", "the condition is bit<8>"),
    ("m.flag = §t.apply();", "is a result of t.apply()"),
    ("m.flag = §t.apply().hot;", "did you mean 'hit'?"),
]
BODY_TOP = """const bit<8> five = 5;
bit<8> f(in bit<8> x) { return x; }
void two(in bit<8> x, in bit<8> y) { }
void out_(out bit<8> x) { x = 1; }
control Sub(inout metadata_t m)(bit<8> c) { apply { } }"""
BODY_LOCAL = "register<bit<32>>(4) r; table t { actions = { NoAction; } }"


@pytest.mark.parametrize(("body", "message"), IN_BODY)
def test_mistakes_in_the_body_of_a_control(body: str, message: str) -> None:
    error, place = refusal(program(top=BODY_TOP, local=BODY_LOCAL, body=body))
    assert message in error.message
    assert (error.source.line, error.source.column) == place


AT_TOP = [
    ("header a { bit<8> x; bit<8> §x; }", "field 'x' is declared twice"),
    ("header a { §string x; }", "a field cannot have type string"),
    ("header a { §label_t x; }", "a field of a header cannot have type label_t"),
    ("header_union a { §bit<8> x; }", "a field of a header_union is bit<8>"),
    ("struct a { §Unknown x; }", "type 'Unknown' is not declared"),
    ("struct a { §b x; } struct b { }", "'b' is used before its declaration"),
    ("struct a { §a x; }", "'a' is used before its declaration"),
    ("struct §pair_t { }", "'pair_t' is declared twice; first at"),
    ("struct a { bit<8> x §}", "unexpected '}'"),
    ("enum e { a, §a }", "member 'a' is declared twice"),
    ("enum bit<8> e { §a }", "member 'a' has no value"),
    ("enum bit<8> e { a = §300 }", "300 does not fit in bit<8>"),
    ("enum §bool e { a = true }", "an enum cannot be of type bool"),
    ("enum e { §a = 1 }", "member 'a' has a value, but 'e' has no underlying type"),
    ("error { §NoError }", "error 'NoError' is declared twice"),
    ("match_kind { §exact }", "match kind 'exact' is declared twice"),
    ("type §pair_t new_t;", "a new type cannot be made of pair_t"),
    ("typedef §void v;", "a typedef of void"),
    ("const bit<8> c = §d; const bit<8> d = 1;", "'d' is used before its declaration"),
    (
        "struct a { @field_list(§d) bit<8> x; } const bit<8> d = 1;",
        "'d' is used before its declaration",
    ),
    ("struct a { @field_list(1, §none) bit<8> x; }", "'none' is not declared"),
    ("const bit<8> c = §nothing;", "'nothing' is not declared"),
    (
        "bit<8> §f(in bit<8> x) { if (x == 1) { return 1; } }",
        "function 'f' can end without 'return'",
    ),
    ("bit<8> f() { return §true; }", "the returned value is bool"),
    ("bit<8> f() { §return; }", "'return' without a value"),
    ("void f(in bit<8> x) { §x = 1; }", "'x' is an 'in' parameter and cannot be written"),
    ("void f(in bit<8> x) { §f(x); }", "'f' uses itself, but recursion is not allowed"),
    ("void f() { §exit; }", "'exit' in a function"),
    ("void f(in bit<8> x, in bit<8> §x) { }", "'x' is declared twice"),
    ("void f(out bit<8> x = §1) { }", "an 'out' parameter has no default value"),
    ("void f(in string §s) { }", "a parameter of type string has no direction"),
    ("void f(@optional in bit<8> §x) { }", "@optional is not allowed here"),
    (
        "action a(bit<8> x, in bit<8> §y) { }",
        "'y' with a direction follows a parameter without a direction",
    ),
    ("action a(bit<8> x) { §x = 1; }", "is a directionless parameter and cannot be written"),
    ("action a(pair_t §x) { }", "the control plane cannot set a pair_t"),
    ("action a() { §b(); }", "'b' is not declared"),
    ("§Sub() s;", "'Sub' is not declared"),
    ("control C() { apply { } } §C() c;", "C instantiated at the top level"),
    ("control C() { apply { §C.apply(); } }", "'C'"),
    ("control C() { apply { } §bit<8> x; }", "unexpected 'bit'"),
    (
        "extern E { E(); abstract void f(); } control C() { §E() e; apply { } }",
        "E has no method 'f'",
    ),
    (
        "extern E { E(); abstract void f(in bit<8> x); } E() e = { void §f() { } };",
        "'f' does not have the parameters of the abstract method",
    ),
    ("counter(1, CounterType.bytes) c = { void §f() { } };", "'f' is not an abstract method"),
    ("extern E { void f(); } control C() { §E() e; apply { } }", "extern 'E' has no constructor"),
    ("§counter(16) c;", "'counter' takes 2 argument(s), 1 given"),
    ("§register(16) c;", "type argument T cannot be inferred"),
    ("counter(16, §1) c;", "argument 'type' is an integer without a width"),
    ("package P(bit<8> x); §Q() p;", "'Q' is not declared"),
    ("§frobnicate", "unexpected 'frobnicate'"),
    ("§contorl C() { }", "'contorl' is not declared; did you mean 'control'?"),
]


@pytest.mark.parametrize(("top", "message"), AT_TOP)
def test_mistakes_at_the_top_level(top: str, message: str) -> None:
    error, place = refusal(program(top=top))
    assert message in error.message
    assert (error.source.line, error.source.column) == place


IN_PARSER = [
    ("state §begin { transition accept; }", "parser 'MyParser' has no state 'start'"),
    ("state start { transition §strat; }", "there is no state 'strat'; did you mean 'start'?"),
    ("state start { transition accept; } state §start { }", "state 'start' is declared twice"),
    (
        "state start { transition a; } state a { transition start; }",
        "never reaches accept or reject",
    ),
    ("state start { transition accept; } state §accept { }", "state 'accept' is predefined"),
    ("state start { packet.extract(§m.x); }", "extract into bit<8>"),
    ("state start { packet.extract(§h.options); }", "header options_t has 1 varbit field(s)"),
    ("state start { packet.extract(§h.ethernet, 8); }", "header ethernet_t has 0 varbit field(s)"),
    ("state start { h.options = §packet.lookahead<options_t>(); }", "lookahead of options_t"),
    ("state start { packet.extract(§h.nothing); }", "headers_t has no member 'nothing'"),
    (
        "state start { transition select(§h.ethernet) { default: accept; } }",
        "a select over ethernet_t",
    ),
    ("state start { transition select(m.x, m.y) { §1: accept; } }", "this case has 1 keyset(s)"),
    ("state start { transition select(m.x) { §m.x: accept; } }", "known at compile time"),
    ("state start { transition select(m.x) { §true: accept; } }", "the value is bool"),
    (
        "state start { transition select(m.flag) { §false .. true: accept; } }",
        "a mask or range for bool",
    ),
    ("state start { transition select(§1) { default: accept; } }", "this number has no width"),
    ("state start { §return; }", "'return' in a parser"),
    ("state start { §exit; }", "'exit' in a parser"),
    ("state start { §NoAction(); }", "action 'NoAction' called in a parser"),
    ("state start { §switch (m.x) { } }", "'switch' in a parser"),
    ("state start { §for (bit<8> i in 0 .. 1) { } }", "'for' in a parser"),
    ("state start { transition accept; } §bit<8> late;", "unexpected 'bit'"),
    ("state start { transition accept §}", "unexpected '}'"),
]


@pytest.mark.parametrize(("states", "message"), IN_PARSER)
def test_mistakes_in_a_parser(states: str, message: str) -> None:
    text = program(states=states)
    if "§" not in text:  # the location of the error is the parser itself
        text = text.replace("parser MyParser", "parser §MyParser")
    if "no state 'start'" in message:
        text = text.replace("§", "").replace("parser MyParser", "parser §MyParser")
    error, place = refusal(text)
    assert message in error.message
    assert (error.source.line, error.source.column) == place


IN_TABLE = [
    ("key = { §m.x : exakt; }", "'exakt' is not a match kind; did you mean 'exact'?"),
    ("key = { §m.pair : exact; }", "a key cannot have type pair_t"),
    ("key = { §m.flag : lpm; }", "a key of kind lpm has type bool"),
    ("key = { §m.x + 1 : exact; }", "this key has no name for the control plane"),
    ("actions = { set; §set; }", "action 'set' is listed twice"),
    ("actions = { §sett; }", "'sett' is not declared; did you mean 'set'?"),
    ("actions = { §f; }", "'f' is not an action"),
    ("actions = { §set(1); }", "'v' of 'set' is set by the control plane"),
    ("actions = { set; } default_action = §drop;", "'drop' is not in the actions of table 't'"),
    ("actions = { set; } default_action = §set;", "'set' takes 1 argument(s), 0 given"),
    ("actions = { set; } default_action = set(§m.x);", "must be known at compile time"),
    ("actions = { @tableonly set; } default_action = §set(1);", "is @tableonly"),
    ("actions = { bound(m.x); } default_action = bound(§m.s2, 1);", "metadata_t has no member"),
    (
        "actions = { bound(m.x); } default_action = bound(§m.w, 1);",
        "differs from the one in the list",
    ),
    ("actions = { set; } §actions = { }", "two properties 'actions'"),
    ("actions = { set; } size = §m.x;", "the size of a table must be known at compile time"),
    ("actions = { set; } const entries = { §1 : set(1); }", "has entries but no key"),
    ("actions = { set; } entries = { } §key = { }", "'key' after the entries"),
]
TABLE_LOCAL = """bit<8> w;
action set(bit<8> v) { m.x = v; } action drop() { } action bound(in bit<8> d, bit<8> v) { }
table t { %s }"""


@pytest.mark.parametrize(("properties", "message"), IN_TABLE)
def test_mistakes_in_a_table(properties: str, message: str) -> None:
    if "actions" not in properties:
        properties += " actions = { NoAction; }"
    properties = properties.replace("§m.w", "§w")
    local = TABLE_LOCAL % properties
    error, place = refusal(program(top="bit<8> f() { return 1; }", local=local, body="t.apply();"))
    assert message in error.message
    assert (error.source.line, error.source.column) == place


IN_ENTRY = [
    ("exact", "set", "(§1, 2) : set(1);", "this entry has 2 key(s)"),
    ("exact", "set", "§m.x : set(1);", "a key of an entry is not constant"),
    ("exact", "set", "§1 &&& 3 : set(1);", "a mask for a key of kind exact"),
    ("exact", "set", "§_ : set(1);", "`_` for a key of kind exact"),
    ("lpm", "set", "1 &&& §5 : set(1);", "mask 0x5 is not a prefix"),
    ("exact", "set", "1 : set(1); §1 : set(2);", "duplicate entry with this key"),
    ("exact", "set", "priority = §3 : 1 : set(1);", "a priority, but no key"),
    ("ternary", "set", "1 : §drop();", "'drop' is not in the actions"),
    ("ternary", "@defaultonly set", "1 : §set(1);", "is @defaultonly"),
]


@pytest.mark.parametrize(("kind", "action", "entry", "message"), IN_ENTRY)
def test_mistakes_in_an_entry(kind: str, action: str, entry: str, message: str) -> None:
    local = TABLE_LOCAL % (
        f"key = {{ m.x : {kind}; }} actions = {{ {action}; }} entries = {{ {entry} }}"
    )
    error, place = refusal(program(local=local, body="t.apply();"))
    assert message in error.message
    assert (error.source.line, error.source.column) == place


PLACES = [
    ("action a() { §t.apply(); }", "table 't' applied in an action"),
    ("action a() { §r2.read(m.z, 1); }", "'r2' is not declared"),
    (
        "action a() { bit<8> x = 1; §counter(1, CounterType.bytes) c; }",
        "instantiated in a block",
    ),
    ('action b() { } @name("b") action §c() { }', "control-plane name 'b' is already used"),
    ("§MyParser() p;", "MyParser instantiated in a control"),
    ("Sub(§m.x) s;", "argument 'c' must be known at compile time"),
    ("§value_set<bit<8>>(4) v;", "unexpected 'value_set'"),
]


@pytest.mark.parametrize(("local", "message"), PLACES)
def test_statements_in_the_wrong_place_are_refused(local: str, message: str) -> None:
    local = "table t { actions = { NoAction; } } " + local
    error, place = refusal(program(top=BODY_TOP, local=local))
    assert message in error.message
    assert (error.source.line, error.source.column) == place


def test_emit_takes_headers() -> None:
    error, place = refusal(program(deparser="packet.emit(§h.ethernet.type);"))
    assert "emit of bit<16>" in error.message
    assert (error.source.line, error.source.column) == place


def test_parsers_and_controls_must_fit_the_package() -> None:
    text = program().replace("MyIngress(), MyEgress()", "§Verify(), MyEgress()")
    error, place = refusal(text)
    assert "Verify does not fit Ingress" in error.message
    assert "standard_metadata_t standard_metadata" in error.expected
    assert (error.source.line, error.source.column) == place
    other = HEADERS + "control D(packet_out b, in pair_t h) { apply { } }"
    text = other + program().replace(HEADERS, "").replace("MyDeparser()) main", "§D()) main")
    assert "D does not fit Deparser" in refusal(text)[0].message


@pytest.mark.parametrize("text", ["", "const bit<8> a = 1;", HEADERS])
def test_a_program_needs_a_main(text: str) -> None:
    with pytest.raises(P4Error, match="no instance called 'main'"):
        check(text)


def test_an_error_shows_the_line_a_caret_and_the_expected_token() -> None:
    with pytest.raises(P4Error) as caught:
        check("header h_t {\n\tbit<8> f\n}")
    assert str(caught.value).splitlines()[0].endswith("test.p4:2:10: error: missing ';'")
    assert str(caught.value).splitlines()[1:] == [
        "  \tbit<8> f",
        "  \t        ^",
        "  expected: ';' after a field",
    ]
    with pytest.raises(P4Error) as caught:
        check("\tconst bit<8> a = unknown;")
    assert str(caught.value).splitlines()[1:] == [
        "  \tconst bit<8> a = unknown;",
        "  \t                 ^^^^^^^",
    ]


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(Minip4Error, match="no such file"):
        parse_and_check("/nowhere/nothing.p4")
    with pytest.raises(Minip4Error, match="cannot be read"):
        parse_and_check("/")


WARNINGS = [
    ("m.x = 300;", ["300 does not fit in bit<8>; it becomes 44"]),
    ("m.s = 128;", ["128 does not fit in int<8>; it becomes -128"]),
    ("m.x = 4w16 ++ 4w1;", ["4w16 does not fit in bit<4>; it becomes 0"]),
    ("m.x = (bit<8>) 300;", []),
    ("mark_to_drop();", ["'mark_to_drop' is deprecated: Use mark_to_drop(standard_metadata)"]),
    ("m.x = 255; m.s = -128;", []),
]


@pytest.mark.parametrize(("body", "messages"), WARNINGS)
def test_warnings(body: str, messages: list[str]) -> None:
    warnings = list(check(program(body=body)).warnings)
    assert len(warnings) == len(messages)
    for warning, message in zip(warnings, messages, strict=True):
        assert f"warning: {message}" in str(warning)
