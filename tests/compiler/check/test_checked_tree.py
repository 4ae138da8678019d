"""The checker adds types, constants, declarations, calls and conversions to the tree."""

import pytest
from programs_to_check import WHOLE, check, expression, find, local, program, statements

from minip4.compiler import syntax, types
from minip4.compiler.syntax import CallKind
from minip4.compiler.types import Bits

CONSTANTS = [
    # expression, type of the variable, value
    ("0xff", "bit<8>", 255), ("0b1_01", "bit<8>", 5), ("0o17", "bit<8>", 15),
    ("0d19", "bit<8>", 19), ("8w255", "bit<8>", 255), ("8w256", "bit<8>", 0),
    ("8s255", "int<8>", -1), ("4s7", "int<4>", 7), ("-1", "bit<8>", 255), ("-1", "int<8>", -1),
    ("300", "bit<8>", 44), ("1 << 31", "bit<32>", 1 << 31), ("1 + 2 * 3", "bit<8>", 7),
    ("(1 + 2) * 3", "bit<8>", 9), ("7 - 2 - 1", "bit<8>", 4), ("1 << 2 + 1", "bit<8>", 8),
    ("7 / 2", "bit<8>", 3), ("7 % 4", "bit<8>", 3), ("8w250 + 10", "bit<8>", 4),
    ("8w250 |+| 10", "bit<8>", 255), ("8w5 |-| 10", "bit<8>", 0), ("8s120 |+| 10", "int<8>", 127),
    ("8s1 - 8s2", "int<8>", -1), ("8w0xab ++ 8w0xcd", "bit<16>", 0xABCD),
    ("16w0xabcd[11:4]", "bit<8>", 0xBC), ("16w0xabcd[4 +: 8]", "bit<8>", 0xBC),
    ("~8w1", "bit<8>", 254), ("true ? 300 : 2", "bit<8>", 44), ("false ? 8w1 : 2", "bit<8>", 2),
    ("-(8w1)", "bit<8>", 255), ("+5", "bit<8>", 5), ("8w6 & 3 | 8", "bit<8>", 10),
    ("8w6 ^ 3", "bit<8>", 5), ("16w0xf000 >> 4", "bit<16>", 0xF00),
    ("(8s0x80) >> 4", "int<8>", -8), ("1 == 1", "bool", True),
    ("2 < 1 || 3 >= 3 && !false", "bool", True), ("8w3 != 3", "bool", False),
    ("true ? 8w1 : 8w2", "bit<8>", 1), ("true ? 8w1 : true ? 8w2 : 8w3", "bit<8>", 1),
    ("true ? true : true ? false : false", "bool", True), ("(bit<4>) 8w0xab", "bit<4>", 11),
    ("(bit<16>) 8w0xab", "bit<16>", 0xAB), ("(int<8>) 8w0xff", "int<8>", -1),
    ("(bit<8>) -1", "bit<8>", 255), ("(bit<1>) true", "bit<1>", 1), ("(bool) 1w1", "bool", True),
    ("(bit<16>) EtherType.ipv6", "bit<16>", 0x86DD), ("EtherType.ipv4", "bit<16>", 0x800),
    ("EtherType.ipv4 + 1", "bit<16>", 0x801), ("h.labels.size", "bit<32>", 4),
    ("h.ethernet.minSizeInBytes()", "bit<32>", 14), ("h.options.minSizeInBits()", "bit<32>", 8),
    ("h.options.maxSizeInBits()", "bit<32>", 328), ("h.layers.minSizeInBits()", "bit<32>", 64),
]  # fmt: skip


@pytest.mark.parametrize(("text", "of", "value"), CONSTANTS)
def test_constants_are_folded(text: str, of: str, value: int | bool) -> None:
    e = expression(text, of)
    assert e.constant == value
    assert type(e.constant) is type(value)
    assert str(e.type) == of


TYPES = [
    ("m.x + 1", "bit<8>"), ("1 + m.x", "bit<8>"), ("m.x ++ m.y", "bit<24>"), ("m.s - 1", "int<8>"),
    ("m.x == 5", "bool"), ("m.y[7:0]", "bit<8>"), ("m.s[3:1]", "bit<3>"),
    ("m.x[m.y +: 2]", "bit<2>"), ("m.x << m.y", "bit<8>"), ("m.s >> 2", "int<8>"),
    ("-m.x", "bit<8>"), ("!m.flag", "bool"), ("m.flag ? m.x : 0", "bit<8>"),
    ("m.pair == {1, 2}", "bool"), ("m.color != Color.red", "bool"),
    ("m.e == error.Custom", "bool"), ("h.labels[2].label", "bit<20>"),
    ("h.labels[m.x].bos", "bit<1>"), ("h.ethernet.isValid()", "bool"),
    ("h.layers[0].a.src", "bit<48>"), ("m.t[1]", "bit<16>"), ("(bit<9>) m.port", "bit<9>"),
    ("(Port) 9w1", "Port"), ("m.port == (Port) 9w1", "bool"), ("m.port == 1", "bool"),
    ("m.type == EtherType.ipv6", "bool"), ("m.y == EtherType.ipv6", "bool"),
    ("m.type", "EtherType"), ("m.y / 4", "bit<16>"), ("h.ethernet == h.ethernet", "bool"),
    ("{1, 2}", "pair_t"), ("{a = 1, b = 2}", "pair_t"), ("{b = 2, a = 1}", "pair_t"),
    ("(pair_t) {1, 2}", "pair_t"), ("{m.x, 2}", "tuple<bit<8>, bit<16>>"),
    ("{m.x}", "generic_t<bit<8>>"), ("h.ethernet", "ethernet_t"), ("{#}", "ethernet_t"),
    ("...", "pair_t"), ("{1, ...}", "pair_t"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "of"), TYPES)
def test_expressions_have_types(text: str, of: str) -> None:
    assert str(expression(text, of).type) == of


def test_struct_expressions_have_all_fields_in_order() -> None:
    for text in ("{1, 2}", "{a = 1, b = 2}", "{b = 2, a = 1}"):
        e = expression(text, "pair_t")
        assert [(v.name, v.value.constant, v.value.type) for v in e.values] == [
            ("a", 1, Bits(8)),
            ("b", 2, Bits(16)),
        ]
        assert e.constant == (1, 2)


def test_dots_stand_for_default_values() -> None:
    e = expression("{x = 7, ...}", "metadata_t")
    values = {v.name: v.value for v in e.values}
    assert values["x"].constant == 7
    assert values["flag"].constant is False
    assert values["color"].constant.name == "red"
    assert values["e"].constant.name == "NoError"
    assert values["pair"].constant == (0, 0)
    assert values["t"].type == types.Tuple((Bits(8), Bits(16)))
    assert isinstance(expression("{...}", "headers_t").values[0].value, syntax.InvalidHeader)


def test_names_lead_to_their_declarations() -> None:
    tree = check(
        program(
            top="const bit<8> five = 5;", body="bit<8> a = five; { bit<8> a = 1; a = 2; } a = 3;"
        )
    )
    outer, block, last = statements(tree)
    inner, assignment = block.statements
    assert outer.initializer.declaration is find(tree, "five")
    assert outer.initializer.constant == 5
    assert assignment.left.declaration is inner
    assert last.left.declaration is outer


def test_members_lead_to_fields_and_enum_members() -> None:
    e = expression("m.pair.b", "bit<16>")
    assert e.declaration.name == "b"
    assert e.base.declaration.name == "pair"
    color = expression("Color.green", "Color")
    assert (color.constant.name, color.constant.number, color.constant.enum.name) == (
        "green",
        1,
        "Color",
    )
    assert color.declaration is color.constant
    custom = expression("error.Custom", "error")
    assert (custom.constant.name, custom.constant.number) == ("Custom", 7)


def test_implicit_casts_are_explicit() -> None:
    literal = expression("m.x + 1", "bit<8>").right
    assert isinstance(literal, syntax.IntLiteral)
    assert literal.type == Bits(8)
    cast = expression("EtherType.ipv4", "bit<16>")
    assert isinstance(cast, syntax.Cast)
    assert cast.target is None
    assert isinstance(expression("-1", "bit<8>"), syntax.Cast)


CALLS = [
    ("mark_to_drop(standard_metadata);", CallKind.EXTERN_FUNCTION, "mark_to_drop", 1),
    ("bit<8> v; random(v, 1, 9);", CallKind.EXTERN_FUNCTION, "random", 3),
    ("clone(CloneType.I2E, 5);", CallKind.EXTERN_FUNCTION, "clone", 2),
    ("log_msg(\"x\");", CallKind.EXTERN_FUNCTION, "log_msg", 1),
    ("log_msg(\"x {}\", {m.x});", CallKind.EXTERN_FUNCTION, "log_msg", 2),
    ("r.write(1, 2);", CallKind.EXTERN_METHOD, "write", 2),
    ("act(m.x, 3);", CallKind.ACTION, "act", 2), ("f(1);", CallKind.FUNCTION, "f", 1),
    ("t.apply();", CallKind.TABLE_APPLY, "t", 0),
    ("sub.apply(m);", CallKind.CONTROL_APPLY, "Sub", 1),
    ("Sub.apply(m);", CallKind.CONTROL_APPLY, "Sub", 1),
    ("h.ethernet.setValid();", CallKind.BUILTIN, "", 0),
    ("h.labels.push_front(2);", CallKind.BUILTIN, "", 1),
]  # fmt: skip
CALL_TOP = """bit<8> f(in bit<8> x) { return x + 1; }
control Sub(inout metadata_t m) { apply { m.x = 1; } }"""
CALL_LOCAL = """register<bit<32>>(16) r; Sub() sub;
action act(inout bit<8> x, bit<16> y) { x = 1; }
table t { actions = { NoAction; } }"""


@pytest.mark.parametrize(("body", "kind", "name", "count"), CALLS)
def test_calls_have_their_declaration(body: str, kind: CallKind, name: str, count: int) -> None:
    tree = check(program(top=CALL_TOP, local=CALL_LOCAL, body=body))
    call = statements(tree)[-1].call
    assert call.kind is kind
    assert (call.declaration.name if call.declaration else "") == name
    assert len(call.arguments) == count
    assert all(a.type is not types.UNCHECKED for a in call.arguments)


def test_type_arguments_are_inferred() -> None:
    body = """bit<16> result;
    hash(result, HashAlgorithm.crc16, 16w0, {h.ethernet.src, m.x}, 32w100);
    r.write(1, 2);
    digest<pair_t>(1, {3, 4});"""
    _, hashing, writing, digest = statements(
        check(program(local="register<bit<32>>(16) r;", body=body))
    )
    data = types.Tuple((Bits(48), Bits(8)))
    assert hashing.call.type_arguments == (Bits(16), Bits(16), data, Bits(32))
    assert hashing.call.parameter_types[3] == data
    assert isinstance(hashing.call.arguments[3], syntax.ListExpression)
    assert writing.call.object.type.arguments == (Bits(32),)
    assert [a.type for a in writing.call.arguments] == [Bits(32), Bits(32)]
    assert isinstance(digest.call.arguments[1], syntax.StructExpression)


def test_named_and_default_arguments_are_in_parameter_order() -> None:
    top = "bit<8> f(in bit<8> x, in bit<16> y = 9) { return x + y[7:0]; }"
    body = "f(y = 2, x = 1); f(3); f(x = 4);"
    calls = [s.call for s in statements(check(program(top=top, body=body)))]
    assert [[a.constant for a in c.arguments] for c in calls] == [[1, 2], [3, 9], [4, 9]]
    assert [a.type for a in calls[1].arguments] == [Bits(8), Bits(16)]


def test_overloads_are_distinguished_by_their_parameters() -> None:
    top = "bit<8> f(in bit<8> x) { return x; } bit<8> f(in bit<8> x, in bit<8> y) { return y; }"
    one, two = (s.call for s in statements(check(program(top=top, body="f(1); f(1, 2);"))))
    assert len(one.declaration.parameters) == 1
    assert len(two.declaration.parameters) == 2


def test_parser_states_and_packet_methods() -> None:
    tree = check(program(parser_local="value_set<bit<16>>(4) types;", states="""
    state start {
        packet.extract(h.ethernet);
        bit<8> first = packet.lookahead<bit<8>>();
        packet.extract(h.options, (bit<32>) first * 8);
        packet.extract(h.labels.next);
        packet.advance(8);
        transition select(h.ethernet.type, h.labels.last.bos, h.labels.lastIndex) {
            (EtherType.ipv4, 1, _): accept;
            (0x100 &&& 0xff00, 0 .. 1, 3): next;
            (types, _, default): accept;
            default: reject;
        }
    }
    state next { verify(h.ethernet.isValid(), error.Custom); transition start; }"""))  # fmt: skip
    parser = find(tree, "MyParser")
    start, following = parser.states
    calls = [
        s.call if isinstance(s, syntax.CallStatement) else s.initializer for s in start.statements
    ]
    assert [c.declaration.name for c in calls] == [
        "extract",
        "lookahead",
        "extract",
        "extract",
        "advance",
    ]
    assert [len(c.arguments) for c in calls] == [1, 0, 2, 1, 1]
    assert calls[1].type == Bits(8)
    assert calls[0].object.type.name == "packet_in"
    select = start.transition
    assert [e.type for e in select.expressions] == [Bits(16), Bits(1), Bits(32)]
    first, second, third, last = select.cases
    assert [k.constant for k in first.keys] == [0x800, 1, None]
    assert isinstance(second.keys[0], syntax.Mask)
    assert second.keys[0].mask.type == Bits(16)
    assert isinstance(second.keys[1], syntax.Range)
    assert second.target.state is following
    assert third.keys[0].declaration is parser.locals[0]
    assert third.keys[0].type == types.Set(Bits(16))
    assert [k.text for k in last.keys] == ["default"]
    assert last.target.state is None
    assert following.transition.state is start


TABLE = """action set(inout bit<8> out_, bit<16> value) { out_ = value[7:0]; }
action drop() { mark_to_drop(standard_metadata); }
direct_counter(CounterType.packets) hits;
table t {
    key = { h.ethernet.dst : exact; m.y : ternary @name("y"); h.ethernet.isValid() : exact; }
    actions = { set(m.x); @defaultonly drop; NoAction; }
    const default_action = drop();
    size = 512;
    counters = hits;
    implementation = action_profile(32);
    const entries = {
        (1, 2 &&& 3, true) : set(m.x, 5);
        (2, _, false) : set(6) @label("two");
        priority = 3 : (4, 0x10, true) : NoAction();
    }
}"""


def test_tables() -> None:
    tree = check(program(local=TABLE.replace("(1, 2", "priority = 1 : (1, 2"), body="t.apply();"))
    t = local(tree, "t")
    assert [k.match_kind for k in t.keys] == ["exact", "ternary", "exact"]
    assert t.keys[1].annotation("name").values == ["y"]
    assert t.keys[2].expression.method == "isValid"
    assert [a.action for a in t.actions[:2]] == [local(tree, "set"), local(tree, "drop")]
    assert t.actions[0].arguments[0].declaration.name == "x"
    assert t.actions[0].arguments[1] is None
    assert t.default_action.action is local(tree, "drop")
    assert t.is_default_action_const
    assert t.are_entries_const
    assert t.property("size").value.constant == 512
    assert t.property("counters").value.declaration is local(tree, "hits")
    assert t.property("implementation").value.kind is CallKind.CONSTRUCTOR
    first, second, third = t.entries
    assert isinstance(first.keys[1], syntax.Mask)
    assert first.keys[0].type == Bits(48)
    assert [a.constant for a in first.action.arguments] == [None, 5]
    assert [a.constant for a in second.action.arguments] == [None, 6]
    assert second.annotations[0].values == ["two"]
    assert isinstance(second.keys[1], syntax.DontCare)
    assert third.priority.constant == 3


def test_switches_over_actions_and_values() -> None:
    body = """switch (t.apply().action_run) { set: { m.x = 1; } drop: default: { } }
    switch (m.y) { 1: 2: { m.x = 1; } EtherType.ipv6: { } }
    if (t.apply().hit) { } else if (!t.apply().miss) { }"""
    table = TABLE.replace("(1, 2", "priority = 1 : (1, 2")
    tree = check(program(local=table, body=body))
    over_actions, over_values, condition = statements(tree)
    assert over_actions.expression.type == types.ActionRun(local(tree, "t"))
    assert over_actions.cases[0].label.declaration is local(tree, "set")
    assert over_actions.cases[1].body is None
    assert [c.label.constant for c in over_values.cases] == [1, 2, 0x86DD]
    assert condition.condition.type is types.BOOL
    assert condition.condition.base.kind is CallKind.TABLE_APPLY


def test_loops() -> None:
    body = """for (bit<8> i = 0, bit<8> j = 1; i < 10; i = i + 1, j += 2) {
        if (j == 3) break;
        continue;
    }
    for (bit<8> i in 0 .. 9) { m.x = i; }
    for (label_t l in h.labels) { m.x = (bit<8>) l.label; }
    for (bit<8> i in {1, 2, 3}) m.x += i;"""
    first, over_range, over_stack, over_list = statements(check(program(body=body)))
    assert len(first.initial) == 2
    assert first.updates[1].operator == "+"
    assert first.updates[1].right.type == Bits(8)
    assert over_range.collection.high.type == Bits(8)
    assert isinstance(over_stack.collection.type, types.Stack)
    assert [e.constant for e in over_list.collection.elements] == [1, 2, 3]


def test_instances_and_constructor_parameters() -> None:
    top = """control Sub(inout metadata_t m)(bit<8> start, bool flag = true) {
        apply { m.x = start; } }"""
    tree = check(
        program(top=top, local="Sub(7) a; Sub(flag = false, start = 8) b;", body="a.apply(m);")
    )
    assert [a.constant for a in local(tree, "a").call.arguments] == [7, True]
    assert [a.constant for a in local(tree, "b").call.arguments] == [8, False]
    assert local(tree, "a").type.declaration is find(tree, "Sub")
    assert tree.main is not None
    package = tree.main.type
    assert package.name == "V1Switch"
    assert [str(a) for a in package.arguments] == ["headers_t", "metadata_t"]
    assert [a.declaration.name for a in tree.main.call.arguments][:2] == ["MyParser", "Verify"]


def test_generic_structs_and_functions() -> None:
    top = "T same<T>(in T x) { return x; } header wrap_t<T> { T inner; bit<8> tail; }"
    body = """generic_t<bit<8>> g; g.value = 3; wrap_t<bit<16>> w; m.y = w.inner;
    bit<8> r = same(m.x); same<bit<4>>(1);"""
    s = statements(check(program(top=top, body=body)))
    assert s[1].right.type == Bits(8)
    assert s[3].right.type == Bits(16)
    assert s[2].type.fields == {"inner": Bits(16), "tail": Bits(8)}
    assert s[4].initializer.type_arguments == (Bits(8),)
    assert s[5].call.arguments[0].type == Bits(4)


def test_generic_controls_are_copied_for_each_type() -> None:
    top = "control Keep<T>(inout T x)(T first) { T copy; apply { copy = x; x = first; } }"
    instances = "Keep<bit<8>>(3) a; Keep<bit<16>>(4) b; Keep<bit<8>>(5) c;"
    body = "a.apply(m.x); b.apply(m.y); c.apply(m.x);"
    tree = check(program(top=top, local=instances, body=body))
    a, b, c = (local(tree, name).call.declaration for name in "abc")
    assert a is c
    assert a is not b
    assert [d.locals[0].type for d in (a, b)] == [Bits(8), Bits(16)]
    assert [d.body.statements[0].left.type for d in (a, b)] == [Bits(8), Bits(16)]
    assert [s.call.declaration for s in statements(tree)] == [a, b, c]
    assert local(tree, "b").call.arguments[0].type == Bits(16)


def test_annotations_keep_their_values() -> None:
    top = """@name("x") @id(0x1234) @flags @mixed("a", 2, true)
    @structured["s", 1 + 2, five] @pairs[a = 1, b = "two"] @free(any - text, ( "here" ))
    @pragma unroll 3
    action annotated() { }"""
    tree = check(program(top="const bit<8> five = 5;\n" + top))
    action = find(tree, "annotated")
    values = {a.name: a.values for a in action.annotations}
    assert values["name"] == ["x"]
    assert values["id"] == [0x1234]
    assert values["flags"] == []
    assert values["mixed"] == ["a", 2, True]
    assert values["structured"] == ["s", 3, 5]
    assert action.annotation("pairs").pairs == {"a": 1, "b": "two"}
    assert action.annotation("free").text == 'any - text , ( "here" )'
    assert action.annotation("unroll").text == "3"


def test_v1model_has_the_fields_that_switches_expect() -> None:
    tree = check(program())
    metadata = find(tree, "standard_metadata_t")
    assert metadata.annotation("name").values == ["standard_metadata"]
    widths = {f.name: types.width_in_bits(f.type) for f in metadata.fields}
    assert widths["ingress_port"] == 9
    assert widths["ingress_global_timestamp"] == 48
    assert list(widths)[-2:] == ["parser_error", "priority"]
    alias = {
        f.name: f.annotation("alias").values[0] for f in metadata.fields if f.annotation("alias")
    }
    assert alias["deq_qdepth"] == "queueing_metadata.deq_qdepth"
    assert alias["mcast_grp"] == "intrinsic_metadata.mcast_grp"
    assert [e.name for e in tree.errors[:3]] == ["NoError", "PacketTooShort", "NoMatch"]
    assert [k.name for k in tree.match_kinds] == [
        "exact",
        "ternary",
        "lpm",
        "range",
        "optional",
        "selector",
    ]


def test_newer_v1model_has_typed_indices() -> None:
    text = program(local="register<bit<32>, bit<8>>(16) r;", body="r.write(m.x, 2);")
    call = statements(check(text, ("V1MODEL_VERSION=20200408",)))[0].call
    assert call.parameter_types == [Bits(8), Bits(32)]


def test_sources_cover_the_text_of_each_node() -> None:
    tree = check(program(body="m.x = m.x +\n    (1 << 2);"))
    assignment = statements(tree)[0]
    assert assignment.source.text == "m.x = m.x +\n    (1 << 2)"
    assert assignment.left.source.text == "m.x"
    assert assignment.right.right.source.text == "1 << 2"
    assert find(tree, "MyParser").whole.text.startswith("parser MyParser(")
    assert find(tree, "MyParser").source.text == "MyParser"


def test_children_walks_the_tree() -> None:
    tree = check(program(body="if (m.flag) { m.x = 1; }"))

    def names(node: syntax.Node) -> list[str]:
        own = [node.name] if isinstance(node, syntax.Name | syntax.Member) else []
        return own + [n for child in syntax.children(node) for n in names(child)]

    assert names(find(tree, "MyIngress").body) == ["flag", "m", "x", "m"]


def test_every_expression_is_decorated() -> None:
    seen = 0

    def walk(node: syntax.Node) -> None:
        nonlocal seen
        inner = list(syntax.children(node))
        if isinstance(node, syntax.Expression):
            seen += 1
            assert node.type is not types.UNCHECKED, node.source
        if isinstance(node, syntax.Name):
            assert node.declaration is not None, node.source
        if isinstance(node, syntax.Binary) and node.operator not in ("<<", ">>", "++"):
            assert node.left.type == node.right.type, node.source
        if isinstance(node, syntax.Assignment):
            assert node.left.type == node.right.type, node.source
        if isinstance(node, syntax.Call):
            assert len(node.arguments) == len(node.parameters) == len(node.parameter_types)
            inner = [a for a in (*node.arguments, node.object) if a is not None]
        if isinstance(node, syntax.ActionReference):
            assert node.action is not None
            assert len(node.arguments) == len(node.action.parameters)
            inner = [a for a in node.arguments if a is not None]
        for child in inner:
            if not isinstance(child, syntax.Annotation):
                walk(child)

    for declaration in check(WHOLE).declarations:
        walk(declaration)
    assert seen > 100
