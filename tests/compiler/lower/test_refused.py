"""Constructs that the target does not support are rejected. The error has location and name."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs_to_run import compiled

from minip4.compiler import compile_p4
from minip4.compiler.errors import P4Error

ACTION = "action a(bit<8> v) { h.d.c = v; } action none() { } "
GIVEN_TO_TWO = {
    "declarations": "control S(inout bit<8> x) { action a() { x = 1; exit; }"
    " table t { actions = { a; } default_action = a(); } apply { t.apply(); } }"
    " control G(inout bit<8> p, inout bit<8> q)(S s) { apply { s.apply(p); } }",
    "locals": "S() s; G(s) g; G(s) i;",
}
REFUSED = {
    # parts of the program, text of the error
    "division": ({"ingress": "h.d.a = h.d.b / h.d.c;"}, "not a power of two"),
    "exit in an instance that two controls have, the first of which copies out": (
        GIVEN_TO_TWO | {"ingress": "g.apply(h.d.a, h.d.a); i.apply(h.d.b, h.d.c);"},
        "is applied by two controls",
    ),
    "exit in an instance that two controls have, the second of which copies out": (
        GIVEN_TO_TWO | {"ingress": "g.apply(h.d.b, h.d.c); i.apply(h.d.a, h.d.a);"},
        "is applied by two controls",
    ),
    "two lpm keys": (
        {
            "locals": ACTION + "table t { key = { h.d.a : lpm; h.d.b : lpm; } actions = { a; } }",
            "ingress": "t.apply();",
        },
        "one lpm key",
    ),
    "hit here and action_run there": (
        {
            "locals": ACTION + "table t { key = { h.d.a : exact; } actions = { a; none; } }",
            "ingress": "if (h.d.b == 1) { if (t.apply().hit) { h.d.b = 0; } }"
            " else { switch (t.apply().action_run) { a: { h.d.c = 1; } none: { h.d.c = 2; } } }",
        },
        "action_run at another",
    ),
    "mask that is not a prefix": (
        {
            "locals": ACTION + "table t { key = { h.d.a : lpm; } actions = { none; }"
            " default_action = none(); const entries = { 1 &&& 5 : none(); } }",
            "ingress": "t.apply();",
        },
        "is not a prefix",
    ),
    "a counter attached twice": (
        {
            "locals": ACTION + "direct_counter(CounterType.bytes) c;"
            " table t { actions = { none; } default_action = none(); counters = c; }"
            " table u { actions = { none; } default_action = none(); counters = c; }",
            "ingress": "t.apply(); u.apply();",
        },
        "belongs to table t already",
    ),
    "a direct meter without table": (
        {
            "locals": "direct_meter<bit<8>>(MeterType.bytes) m; action a() { m.read(meta.m); }"
            " table t { actions = { a; } default_action = a(); }",
            "ingress": "t.apply();",
        },
        "belongs to no table",
    ),
    "resubmit in egress": (
        {"egress": "resubmit_preserving_field_list(1);"},
        "cannot be called here",
    ),
    "resubmit with a header's field": (
        {"ingress": "resubmit({ h.d.a });"},
        "expected: resubmit_preserving_field_list(), and @field_list at fields of the user meta",
    ),
    "clone with a computed value": (
        {"ingress": "clone3(CloneType.I2E, 1, { meta.m + 1 });"},
        "expected: clone_preserving_field_list(), and @field_list",
    ),
    "clone with standard metadata": (
        {"ingress": "clone3(CloneType.I2E, 1, { meta.m, sm });"},
        "expected: clone_preserving_field_list(), and @field_list",
    ),
    "recirculate with a local variable": (
        {"egress": "bit<8> x = 1; recirculate(x);"},
        "expected: recirculate_preserving_field_list(), and @field_list",
    ),
    "recirculate with data in ingress": ({"ingress": "recirculate(meta.m);"}, "called here"),
    "clone3 in the wrong pipeline": (
        {"egress": "clone3(CloneType.I2E, 1, meta);"},
        "clone3() cannot be called here",
    ),
    "a checksum by Checksum16": (
        {"locals": "Checksum16() c;", "ingress": "h.d.w = (bit<32>) c.get({ h.d.a });"},
        "expected: verify_checksum() or update_checksum()",
    ),
    "clone from the wrong pipeline": ({"egress": "clone(CloneType.I2E, 1);"}, "clone()"),
    "assignment in the deparser": (
        {"deparser": "bit<8> x = h.d.a; if (x == 1) { packet.emit(h.d); }"},
        "only emit()",
    ),
    "code in the checksum control": ({"compute": "h.d.a = 1;"}, "only checksums"),
    "header of odd bits": (
        {"declarations": "header odd_t { bit<3> x; }", "ingress": "odd_t o; o.setValid();"},
        "has 3 bits",
    ),
    "reading .next": (
        {
            "states": "state start { packet.extract(h.items.next);"
            " transition select(h.items.next.v) { default: accept; } }"
        },
        ".next can only be extracted",
    ),
    "packet length": (
        {
            "states": "state start { packet.extract(h.d); h.d.w = packet.length();"
            " transition accept; }"
        },
        "packet_in.length()",
    ),
    "register of structs": (
        {"locals": "register<inner_t>(4) r;", "ingress": "r.write(0, { 1, 2 });"},
        "register cell",
    ),
    "entries behind a selector": (
        {
            "locals": ACTION + "table t { key = { h.d.a : exact; h.d.b : selector; }"
            " actions = { none; } default_action = none(); const entries = { (1, _) : none(); }"
            " implementation = action_selector(HashAlgorithm.crc16, 16, 8); }",
            "ingress": "t.apply();",
        },
        "takes its entries from the control plane",
    ),
    "priority below zero": (
        {
            "locals": ACTION + "table t { key = { h.d.a : ternary; } actions = { none; }"
            " default_action = none(); priority_delta = 10;"
            " entries = { priority = 5: 1 : none(); 2 : none(); } }",
            "ingress": "t.apply();",
        },
        "the priority of this entry is -5",
    ),
    "translation to a bool": (
        {
            "declarations": '@p4runtime_translation("x", bool) type bit<8> id_t;',
            "locals": "action a(id_t x) { } table t { actions = { a; NoAction; } }",
            "ingress": "t.apply();",
        },
        "cannot have bool for a translated type",
    ),
    "endless unrolling": (
        {"ingress": "for (bit<16> i in 0 .. 60000) { h.d.a = h.d.a + 1; }"},
        "too long",
    ),
}


def test_a_package_of_the_same_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(
        "parser P(); package V1Switch(P p);\n"
        "parser MyP() { state start { transition accept; } }\n"
        "V1Switch(MyP()) main;"
    )
    with pytest.raises(P4Error, match=r"program.p4:3:.*package V1Switch is not supported"):
        compile_p4(path)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    parts, message = REFUSED[name]
    with pytest.raises(P4Error) as caught:
        compiled(tmp_path, **parts)
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"{tmp_path}/program.p4:")
