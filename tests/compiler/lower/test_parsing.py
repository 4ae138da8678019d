"""Parsers, deparsers and checksums of compiled programs, run on packets."""

from __future__ import annotations

from pathlib import Path

import pytest
from bmv2_interpreter import Interpreter
from programs_to_run import compiled, interpreter

from minip4.compiler import compile_p4

SUB = """
parser Sub(packet_in packet, inout headers_t h, out bit<8> n) {
    state start { packet.extract(h.items.next); n = h.items.last.v;
                  transition select(n) { 0: more; default: accept; } }
    state more { packet.extract(h.items.next); n = n + 100; transition accept; }
}
"""
CASES = {
    # parts of the program, input packet, output packet (all extracted headers, in order)
    "select with masks and a default": (
        {
            "states": "state start { packet.extract(h.d); transition select(h.d.a, h.d.b) {"
            " (1, 0x10 &&& 0xf0): one; (_, 5): two; default: accept; } }"
            " state one { h.d.c = 0xaa; transition accept; }"
            " state two { h.d.c = 0xbb; transition accept; }"
        },
        [
            ("0119037f00000004", "0119aa"),
            ("0705037f00000004", "0705bb"),
            ("01200300aabbccdd", "01200300aabbccdd"),
        ],
    ),
    "select keys are padded to bytes": (
        {
            "states": "state start { packet.extract(h.d);"
            " transition select(h.d.w[11:0], h.d.a[1:0]) { (0xaba, 3): one; default: accept; } }"
            " state one { h.d.c = 0; transition accept; }"
        },
        [("0302037f00000aba", "030200"), ("0202037f00000aba", "020203")],
    ),
    "ranges": (
        {
            "states": "state start { packet.extract(h.d); transition select(h.d.a) {"
            " 3 .. 250: inside; _: accept; } } state inside { h.d.b = 0; transition accept; }"
        },
        [
            (f"{a:02x}02037f00000004", f"{a:02x}{'00' if 3 <= a <= 250 else '02'}")
            for a in (0, 2, 3, 4, 127, 128, 250, 251, 255)
        ],
    ),
    "select on a condition": (
        {
            "states": "state start { packet.extract(h.d); transition select(h.d.a > 4) {"
            " true: big; false: accept; } } state big { h.d.b = 0; transition accept; }"
        },
        [("0502037f00000004", "0500"), ("0402037f00000004", "0402")],
    ),
    "branches inside a state": (
        {
            "states": "state start { packet.extract(h.d);"
            " if (h.d.a == 1) { h.d.b = 7; } else { packet.extract(h.items.next); }"
            " h.d.c = 9; transition accept; }"
        },
        [
            ("0102037f0000000455", "0107097f0000000455"),
            ("0202037f0000000455", "0202097f0000000455"),
        ],
    ),
    "lookahead does not move": (
        {
            "states": "state start { bit<16> t = packet.lookahead<bit<16>>();"
            " item_t i = packet.lookahead<item_t>(); packet.extract(h.d);"
            " h.d.w = (bit<32>)t; h.d.c = i.v; transition accept; }"
        },
        [("0102037f00000004", "0102017f00000102")],
    ),
    "advance": (
        {"states": "state start { packet.advance(16); packet.extract(h.d); transition accept; }"},
        [("ffff0102037f00000004", "0102037f00000004")],
    ),
    "a stack in a loop": (
        {
            "states": "state start { packet.extract(h.items.next);"
            " transition select(h.items.last.v, h.items.lastIndex) {"
            " (0, _): start; default: accept; } }",
            "ingress": "h.items[0].v = 9;",
        },
        [("00000755", "09000755"), ("0755", "0955"), ("0000000000", "0900000000")],
    ),
    "sub-parser applied twice": (
        {
            "declarations": SUB,
            "parser_locals": "Sub() sub;",
            "states": "state start { bit<8> x; bit<8> y; sub.apply(packet, h, x);"
            " sub.apply(packet, h, y); h.d.setValid(); h.d.a = x; h.d.b = y;"
            " h.d.c = 0; h.d.s = 0; h.d.w = 0; transition accept; }",
        },
        [("0405", "04050000000000000405"), ("000405", "64050000000000000004" + "05")],
    ),
    "an out stack of a sub-parser is empty each time": (
        {
            "declarations": "parser Sub(packet_in packet, out item_t[3] items) { state start"
            " { packet.extract(items.next); packet.extract(items.next); transition accept; } }",
            "parser_locals": "Sub() sub;",
            "states": "state start { sub.apply(packet, h.items); sub.apply(packet, h.items);"
            " h.items[2] = { 9 }; transition accept; }",
        },
        [("a1a2b1b2cc", "b1b209cc")],
    ),
    "a stack of a state is new in each round": (
        {
            "states": "state start { item_t[2] x; packet.extract(x.next); packet.extract(x.next);"
            " h.items[0] = x[1]; transition select(x[0].v) { 0: start; default: accept; } }",
        },
        [("00010002010304", "0304")],
    ),
    "a header that is skipped": (
        {
            "states": "state start { packet.extract<item_t>(_); packet.extract(h.d);"
            " transition accept; }"
        },
        [("ee0102037f00000004", "0102037f00000004")],
    ),
    "parser variables are reset": (
        {
            "parser_locals": "bit<8> n = 3;",
            "states": "state start { packet.extract(h.d); h.d.a = n; n = 5; transition accept; }",
        },
        [("0102037f00000004", "0302"), ("0102037f00000004", "0302")],
    ),
    "validity of one member of .last of a stack of unions": (
        {
            "parser_locals": "union_t[2] us;",
            "states": "state start { packet.extract(h.d); packet.extract(us.next.one);"
            " us.last.two.setInvalid(); h.d.b = us[0].one.isValid() ? 8w1 : 0;"
            " us.last.two.setValid(); h.d.c = us[0].two.isValid() ? 8w1 : 0;"
            " transition accept; }",
        },
        [("0102037f0000000499", "0101017f00000004")],
    ),
    "conditional emit": (
        {
            "deparser": "packet.emit(h.d); if (h.e.isValid()) { packet.emit(h.e); }",
            "ingress": "h.e = h.d; h.e.a = 7;",
        },
        [("0102037f00000004", "0102037f000000040702037f00000004")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_packet(tmp_path: Path, name: str) -> None:
    parts, packets = CASES[name]
    switch = interpreter(tmp_path, **parts)
    for given, expected in packets:
        result = switch.run(bytes.fromhex(given))
        assert result is not None
        assert result[1].hex().startswith(expected), given


@pytest.mark.parametrize(
    ("packet", "error"),
    [
        ("0102037f00000004", "NoError"),
        ("0502037f00000004", "StackOutOfBounds"),
        ("01", "PacketTooShort"),
        ("0902037f00000004", "NoMatch"),
    ],
)
def test_parser_error_reaches_ingress(tmp_path: Path, packet: str, error: str) -> None:
    states = """state start { packet.extract(h.d); verify(h.d.a != 5, error.StackOutOfBounds);
                transition select(h.d.a) { 1: accept; 5: accept; } }"""
    ingress = f"if (sm.parser_error == error.{error}) {{ sm.egress_spec = 7; }}"
    result = interpreter(tmp_path, states=states, ingress=ingress).run(bytes.fromhex(packet))
    assert result is not None
    assert result[0] == 7


def test_varbit(tmp_path: Path) -> None:
    declarations = "header var_t { bit<8> n; varbit<32> v; } struct all_t { var_t one; var_t two; }"
    program = f"""
        #include <core.p4>
        #include <v1model.p4>
        {declarations}
        struct meta_t {{ }}
        parser P(packet_in b, out all_t h, inout meta_t m, inout standard_metadata_t s) {{
            state start {{ bit<8> n = b.lookahead<bit<8>>();
                           b.extract(h.one, (bit<32>)n * 8); transition accept; }} }}
        control V(inout all_t h, inout meta_t m) {{ apply {{ }} }}
        control I(inout all_t h, inout meta_t m, inout standard_metadata_t s) {{
            apply {{ h.two = h.one; h.two.n = 0; }} }}
        control E(inout all_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{ }} }}
        control D(packet_out b, in all_t h) {{ apply {{ b.emit(h); }} }}
        V1Switch(P(), V(), I(), E(), V(), D()) main;
    """
    path = tmp_path / "varbit.p4"
    path.write_text(program)
    result = Interpreter(compile_p4(path).bmv2_json).run(bytes.fromhex("02aabbcc"))
    assert result is not None
    assert result[1].hex() == "02aabb00aabbcc"


def test_checksums(tmp_path: Path) -> None:
    declarations = "header sum_t { bit<8> x; bit<8> y; bit<16> sum; }"
    states = "state start { packet.extract(h.d); transition accept; }"
    data = "{ h.d.a, h.d.b ++ h.d.c, 8w0, (bit<16>)h.d.a }"
    switch = interpreter(
        tmp_path,
        declarations=declarations,
        states=states,
        verify=f"if (h.d.a == 1) {{ verify_checksum(h.d.isValid(), {data}, meta.kept,"
        " HashAlgorithm.csum16); }",
        ingress="meta.kept = 0; if (sm.checksum_error == 1) { h.d.s = 1; }",
        compute=f"update_checksum(h.d.a == 1, {data}, meta.kept, HashAlgorithm.csum16);",
    )
    program = switch.program
    assert [c["verify"] for c in program["checksums"]] == [False, True]
    assert [i["value"] for i in program["calculations"][0]["input"]] == [
        ["d", "a"],
        ["d", "b"],
        ["d", "c"],
        "0x00",
        "0x00",
        ["d", "a"],
    ]
    assert program["calculations"][0]["input"][3]["bitwidth"] == 8


def test_value_set(tmp_path: Path) -> None:
    json = compiled(
        tmp_path,
        parser_locals="value_set<bit<8>>(4) vs;",
        states="state start { packet.extract(h.d); transition select(h.d.a) {"
        " vs: one; default: accept; } } state one { transition accept; }",
    ).bmv2_json
    assert json["parse_vsets"] == [
        {"name": "P.vs", "id": 0, "compressed_bitwidth": 8, "max_size": 4}
    ]
    first = json["parsers"][0]["parse_states"][0]["transitions"][0]
    assert (first["type"], first["value"], first["next_state"]) == ("parse_vset", "P.vs", "one")
