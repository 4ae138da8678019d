"""P4Info: names, ids and match fields of objects, and everything else that a controller sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from programs_to_run import compiled

from minip4.compiler.errors import P4Error
from minip4.compiler.p4info.symbols import Symbols, name_hash
from minip4.compiler.p4info.text import p4info_text

ACTIONS = "action a(bit<9> x, @id(7) bit<8> y) { sm.egress_spec = x; h.d.a = y; } action b() { } "


def info(tmp_path: Path, **parts: str) -> Any:
    return compiled(tmp_path, **parts).p4info


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    # each compiler must compute these ids from these names
    [
        (0x02, "ingress.bd", 48392551),
        (0x02, "ingress.ipv4_fib", 41084491),
        (0x01, "NoAction", 21257015),
    ],
)
def test_ids(kind: int, name: str, expected: int) -> None:
    symbols = Symbols()
    symbols.add(kind, name)
    symbols.assign()
    assert symbols.id(kind, name) == expected


def test_colliding_ids_take_the_next_free_one() -> None:
    hashes: dict[int, str] = {}
    for i in range(20_000):
        first = hashes.setdefault(name_hash(f"n{i}") & 0xFFFFFF, f"n{i}")
        if first != f"n{i}":
            break
    symbols = Symbols()
    symbols.add(1, f"n{i}")
    symbols.add(1, first)
    symbols.assign()
    assert sorted((symbols.id(1, first), symbols.id(1, f"n{i}")))[1] == 1 + min(
        symbols.id(1, first), symbols.id(1, f"n{i}")
    )


def test_aliases_are_the_shortest_unique_suffixes() -> None:
    symbols = Symbols()
    for name in ("I.t", "I.s.t", "E.u", "v"):
        symbols.add(2, name)
    assert [symbols.alias(n) for n in ("I.t", "I.s.t", "E.u", "v")] == ["I.t", "s.t", "u", "v"]


def test_table(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        locals=ACTIONS
        + """@brief("routes") table t {
               key = { h.d.a : exact; h.d.w : lpm @name("to"); meta.flag : ternary;
                       h.d.b : range @id(9); h.e.isValid() : optional; }
               actions = { a; @tableonly b; @defaultonly NoAction; } size = 33;
               const default_action = NoAction(); }""",
        ingress="t.apply();",
    )
    (table,) = message.tables
    assert (table.preamble.name, table.preamble.alias, table.size) == ("I.t", "t", 33)
    assert table.preamble.doc.brief == "routes"
    assert [(f.id, f.name, f.bitwidth, f.match_type) for f in table.match_fields] == [
        (1, "h.d.a", 8, 2),
        (2, "to", 32, 3),
        (3, "meta.flag", 1, 4),
        (9, "h.d.b", 8, 5),
        (4, "h.e.$valid$", 1, 6),
    ]
    assert [r.scope for r in table.action_refs] == [0, 1, 2]
    assert table.const_default_action_id == table.initial_default_action.action_id == 21257015
    action = next(a for a in message.actions if a.preamble.name == "I.a")
    assert [(p.id, p.name, p.bitwidth) for p in action.params] == [(1, "x", 9), (7, "y", 8)]


def test_default_action_with_arguments(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        locals=ACTIONS
        + "table t { key = { h.d.a : exact; } actions = { a; } default_action = a(300, 2); }",
        ingress="t.apply();",
    )
    initial = message.tables[0].initial_default_action
    assert [(a.param_id, a.value) for a in initial.arguments] == [(1, b"\x01\x2c"), (7, b"\x02")]


def test_implicit_no_action_is_for_misses_only(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        locals=ACTIONS + "table t { key = { h.d.a : exact; } actions = { b; } }",
        ingress="t.apply();",
    )
    last = message.tables[0].action_refs[-1]
    assert (last.id, last.scope, list(last.annotations)) == (21257015, 2, ["@defaultonly"])


def test_controller_headers(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        declarations="""@controller_header("packet_out") header out_t { bit<9> port; bit<7> pad; }
                        @controller_header("packet_in") header in_t { @id(5) bit<16> reason; }""",
    )
    assert [
        (c.preamble.name, [(m.id, m.name, m.bitwidth) for m in c.metadata])
        for c in message.controller_packet_metadata
    ] == [("packet_out", [(1, "port", 9), (2, "pad", 7)]), ("packet_in", [(5, "reason", 16)])]


def test_extern_objects(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        locals=ACTIONS
        + """counter(8, CounterType.packets_and_bytes) c; register<bit<48>>(16) r;
             meter(4, MeterType.packets) m; direct_counter(CounterType.bytes) dc;
             @max_group_size(9) action_selector(HashAlgorithm.crc32, 64, 8) s;
             table t { key = { h.d.a : exact; h.d.b : selector; } actions = { b; }
                       implementation = s; support_timeout = true; }
             table u { key = { h.d.a : exact; } actions = { b; } counters = dc; }""",
        ingress="t.apply(); u.apply();",
    )
    (counter,), (register,), (meter,) = message.counters, message.registers, message.meters
    assert (counter.preamble.name, counter.size, counter.spec.unit) == ("I.c", 8, 3)
    assert (register.size, register.type_spec.bitstring.bit.bitwidth) == (16, 48)
    assert (meter.size, meter.spec.unit) == (4, 2)
    t, u = message.tables
    (profile,), (direct,) = message.action_profiles, message.direct_counters
    assert (profile.with_selector, profile.size, profile.max_group_size) == (True, 64, 9)
    assert list(profile.table_ids) == [t.preamble.id]
    assert t.implementation_id == profile.preamble.id
    assert [f.name for f in t.match_fields] == ["h.d.a"]
    assert t.idle_timeout_behavior == 1
    assert list(u.direct_resource_ids) == [direct.preamble.id]
    assert direct.direct_table_id == u.preamble.id


def test_digests_and_their_types(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        declarations="""enum bit<8> kind_t { one = 1, two = 2 }
                        @p4runtime_translation("x/port", bit<32>) type bit<9> port_t;
                        struct seen_t { port_t port; kind_t kind; bit<16> n; }""",
        ingress="digest<seen_t>(1, { (port_t)sm.ingress_port, kind_t.two, 5 });",
    )
    (digest,) = message.digests
    assert (digest.preamble.name, digest.type_spec.struct.name) == ("seen_t", "seen_t")
    members = message.type_info.structs["seen_t"].members
    assert [m.type_spec.WhichOneof("type_spec") for m in members] == [
        "new_type",
        "serializable_enum",
        "bitstring",
    ]
    assert message.type_info.new_types["port_t"].translated_type.sdn_bitwidth == 32
    assert message.type_info.serializable_enums["kind_t"].members[1].value == b"\x02"


def test_value_sets(tmp_path: Path) -> None:
    message = info(
        tmp_path,
        parser_locals="value_set<bit<8>>(4) vs;",
        states="state start { packet.extract(h.d);"
        " transition select(h.d.a) { vs: accept; default: accept; } }",
    )
    (value_set,) = message.value_sets
    assert (value_set.preamble.name, value_set.size, value_set.match[0].bitwidth) == ("P.vs", 4, 8)


def test_text_form(tmp_path: Path) -> None:
    text = p4info_text(info(tmp_path, locals="counter(8, CounterType.bytes) c;"))
    assert text.startswith(
        "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
        'pkg_info {\n  arch: "v1model"\n}\ncounters {\n  preamble {\n    id: '
    )
    assert text.endswith("  size: 8\n}\ntype_info {\n}\n")


LIVE = {
    # body of ingress, names of the actions that the control plane sees
    "called": ("a();", ["I.a"]),
    "in a branch that never runs": ("if (1 == 2) { a(); } else { b(); }", ["I.b"]),
    "behind a constant &&": ("if (1 == 2 && t.apply().hit) { a(); }", []),
    "behind a constant ||": ("if (1 == 1 || t.apply().hit) { a(); }", ["I.a"]),
    "in a ?: that never runs": ("h.d.a = false ? (t.apply().hit ? 8w1 : 2) : 8w3; b();", ["I.b"]),
    "after an exit": ("exit; a();", ["I.a"]),
}


@pytest.mark.parametrize("name", LIVE)
def test_dead_branches_are_left_out(tmp_path: Path, name: str) -> None:
    body, expected = LIVE[name]
    actions = "action a() { h.d.a = 1; } action b() { h.d.a = 2; } "
    table = "table t { actions = { a; b; } default_action = b(); }"
    message = info(tmp_path, locals=actions + table, ingress=body)
    assert [action.preamble.name for action in message.actions] == expected


WRONG_ANNOTATIONS = {
    "controller header without a name": (
        {"declarations": "@controller_header header cpu_t { bit<8> x; }"},
        "@controller_header takes a name",
    ),
    "more cells than 32 bits can count": (
        {"locals": "register<bit<8>>(4294967291) r;", "ingress": "r.write(0, 1);"},
        "a size of 4294967291 is out of range",
    ),
    "translation to no width": (
        {
            "declarations": '@p4runtime_translation("x", 0) type bit<8> id_t;',
            "locals": "action a(id_t x) { } table t { actions = { a; NoAction; } }",
            "ingress": "t.apply();",
        },
        "0 is not a valid width",
    ),
    "number of more than 64 bits": (
        {
            "locals": "@x[1 << 63] action a() { } table t { actions = { a; NoAction; } }",
            "ingress": "t.apply();",
        },
        "out of range",
    ),
    "id that is none": (
        {
            "locals": "action a(@id(0) bit<8> x) { h.d.a = x; }"
            " table t { actions = { a; NoAction; } }",
            "ingress": "t.apply();",
        },
        r"@id\(0\) is not a valid id",
    ),
}


@pytest.mark.parametrize("name", WRONG_ANNOTATIONS)
def test_wrong_annotations_are_refused(tmp_path: Path, name: str) -> None:
    parts, message = WRONG_ANNOTATIONS[name]
    with pytest.raises(P4Error, match=message):
        compiled(tmp_path, **parts)
