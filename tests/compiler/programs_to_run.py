"""Tiny v1model programs for tests of the back end. Tests insert parts into one common program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bmv2_interpreter import Interpreter

from minip4.compiler import CompiledProgram, compile_p4
from minip4.engine.engine import Engine

FRAME = """
#include <core.p4>
#include <v1model.p4>
header data_t {{ bit<8> a; bit<8> b; bit<8> c; int<8> s; bit<32> w; }}
header item_t {{ bit<8> v; }}
header one_t {{ bit<8> x; }}
header two_t {{ bit<16> y; }}
header_union union_t {{ one_t one; two_t two; }}
struct inner_t {{ bit<8> p; bit<8> q; }}
struct headers_t {{ data_t d; item_t[3] items; data_t e; union_t u; }}
struct metadata_t {{ bit<8> m; inner_t inner; bool flag; @field_list(1) bit<16> kept; }}
{declarations}
parser P(packet_in packet, out headers_t h, inout metadata_t meta,
         inout standard_metadata_t sm) {{
    {parser_locals}
    {states}
}}
control V(inout headers_t h, inout metadata_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t h, inout metadata_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {ingress} }}
}}
control E(inout headers_t h, inout metadata_t meta, inout standard_metadata_t sm) {{
    {egress_locals}
    apply {{ {egress} }}
}}
control C(inout headers_t h, inout metadata_t meta) {{ apply {{ {compute} }} }}
control D(packet_out packet, in headers_t h) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

DEFAULTS = {
    "declarations": "",
    "parser_locals": "",
    "states": "state start { packet.extract(h.d); transition accept; }",
    "verify": "",
    "locals": "",
    "ingress": "",
    "egress_locals": "",
    "egress": "",
    "compute": "",
    "deparser": "packet.emit(h);",
}


def compiled(directory: Path, **parts: str) -> CompiledProgram:
    """Compile a program with the given parts. All other parts are those of DEFAULTS."""
    assert parts.keys() <= DEFAULTS.keys()
    path = directory / "program.p4"
    path.write_text(FRAME.format(**{**DEFAULTS, **parts}))
    return compile_p4(path)


def interpreter(directory: Path, **parts: str) -> Interpreter:
    return Interpreter(compiled(directory, **parts).bmv2_json)


def outcome(directory: Path, packet: str, **parts: str) -> tuple[int, str] | None:
    """Return the port and the packet that leave for an input packet; packets are hexadecimal.

    Return None if the packet is dropped. The engine and the interpreter must agree.
    """
    program = compiled(directory, **parts).bmv2_json
    left = Engine(program).process(1, bytes.fromhex(packet), 0)
    result = Interpreter(program).run(bytes.fromhex(packet))
    assert left == ([] if result is None else [result])
    return None if result is None else (result[0], result[1].hex())


def primitives(json: dict[str, Any], action: str) -> list[str]:
    """Return the names of the primitives of the first action with this name."""
    found = next(a for a in json["actions"] if a["name"] == action)
    return [p["op"] for p in found["primitives"]]
