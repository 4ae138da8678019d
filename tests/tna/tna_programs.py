"""A small TNA program for tests: a frame, and what a test puts into its blocks."""

from __future__ import annotations

from pathlib import Path

from minip4.compiler import CompiledProgram, compile_p4
from minip4.engine.engine import Engine

FRAME = """
#include <core.p4>
#include <{architecture}>
header data_t {{ bit<8> op; bit<8> a; bit<16> b; bit<32> c; }}
header bridge_t {{ bit<8> kind; bit<16> value; }}
header ipv4_t {{ bit<16> first; bit<16> sum; bit<32> last; }}
struct headers_t {{ bridge_t bridge; data_t d; ipv4_t ip; }}
struct metadata_t {{ bit<8> m; bit<16> n; bit<32> o; bool wrong; MirrorId_t session; }}
{declarations}
parser IP(packet_in pkt, out headers_t hdr, out metadata_t md,
          out ingress_intrinsic_metadata_t ig) {{
    {parser_locals}
    state start {{ md = {{0, 0, 0, false, 0}}; pkt.extract(ig); {port_metadata} transition more; }}
    {states}
}}
control IC(inout headers_t hdr, inout metadata_t md, in ingress_intrinsic_metadata_t ig,
           in ingress_intrinsic_metadata_from_parser_t prsr,
           inout ingress_intrinsic_metadata_for_deparser_t dprsr,
           inout ingress_intrinsic_metadata_for_tm_t tm {ghost}) {constructor} {{
    {locals}
    apply {{ tm.ucast_egress_port = 2; {ingress} }}
}}
control ID(packet_out pkt, inout headers_t hdr, in metadata_t md,
           in ingress_intrinsic_metadata_for_deparser_t dprsr) {{
    {deparser_locals}
    apply {{ {deparser} pkt.emit(hdr); }}
}}
parser EP(packet_in pkt, out headers_t hdr, out metadata_t md,
          out egress_intrinsic_metadata_t eg) {{
    state start {{ md = {{0, 0, 0, false, 0}}; pkt.extract(eg); transition more; }}
    {egress_states}
}}
control EC(inout headers_t hdr, inout metadata_t md, in egress_intrinsic_metadata_t eg,
           in egress_intrinsic_metadata_from_parser_t prsr,
           inout egress_intrinsic_metadata_for_deparser_t dprsr,
           inout egress_intrinsic_metadata_for_output_port_t oport) {egress_constructor} {{
    {egress_locals}
    apply {{ {egress} }}
}}
control ED(packet_out pkt, inout headers_t hdr, in metadata_t md,
           in egress_intrinsic_metadata_for_deparser_t dprsr) {{
    {egress_deparser_locals}
    apply {{ {egress_deparser} pkt.emit(hdr); }}
}}
{package}
"""

DEFAULTS = {
    "architecture": "tna.p4",
    "package": "Pipeline(IP(), IC(), ID(), EP(), EC(), ED()) pipe; Switch(pipe) main;",
    "constructor": "",
    "egress_constructor": "",
    "ghost": "",
    "declarations": "",
    "parser_locals": "",
    "port_metadata": "pkt.advance(PORT_METADATA_SIZE);",
    "states": "state more { pkt.extract(hdr.d); transition accept; }",
    "locals": "",
    "ingress": "",
    "deparser_locals": "",
    "deparser": "",
    "egress_states": "state more { pkt.extract(hdr.d); transition accept; }",
    "egress_locals": "",
    "egress": "",
    "egress_deparser_locals": "",
    "egress_deparser": "",
}


def write(folder: Path, **parts: str) -> Path:
    """Write the program with the given parts; others are as in DEFAULTS."""
    assert parts.keys() <= DEFAULTS.keys()
    path = folder / "program.p4"
    path.write_text(FRAME.format(**(DEFAULTS | parts)))
    return path


def compiled(folder: Path, **parts: str) -> CompiledProgram:
    return compile_p4(write(folder, **parts))


def engine(folder: Path, **parts: str) -> Engine:
    return Engine(compiled(folder, **parts).bmv2_json, sanitize=False)


def data(op: int = 0, a: int = 0, b: int = 0, c: int = 0) -> bytes:
    """Return the bytes of the header `data_t`."""
    return bytes([op, a]) + b.to_bytes(2, "big") + c.to_bytes(4, "big")
