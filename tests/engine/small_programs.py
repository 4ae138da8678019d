"""Small v1model programs that tests compose of parts, and engines that run these programs."""

import functools
import os
import tempfile
from pathlib import Path
from typing import Any

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine

TEMPLATE = """
#include <core.p4>
#include <v1model.p4>
{types}
struct headers {{ {headers} }}
struct metadata {{ {metadata} }}
parser P(packet_in packet, out headers hdr, inout metadata meta,
         inout standard_metadata_t std) {{ {parser} }}
control V(inout headers hdr, inout metadata meta) {{ apply {{ {verify} }} }}
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {{
    {ingress_locals}
    apply {{ {ingress} }}
}}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {{
    {egress_locals}
    apply {{ {egress} }}
}}
control C(inout headers hdr, inout metadata meta) {{ apply {{ {compute} }} }}
control D(packet_out packet, in headers hdr) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

DEFAULTS = {
    "types": "header h_t { bit<8> a; bit<8> b; bit<16> c; }",
    "headers": "h_t h;",
    "metadata": "",
    "parser": "state start { packet.extract(hdr.h); transition accept; }",
    "verify": "",
    "ingress_locals": "",
    "ingress": "",
    "egress_locals": "",
    "egress": "",
    "compute": "",
    "deparser": "packet.emit(hdr);",
}


@functools.cache
def _compiled(source: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.p4"
        path.write_text(source)
        return compile_p4(path).bmv2_json


def engine(seed: int = 0, **parts: str) -> Engine:
    """Return an engine that runs the smallest program, with these parts replaced.

    With SANITIZE in the environment, its C code has sanitizers: see test_sanitized.py.
    """
    return Engine(json_of(**parts), seed=seed, sanitize="SANITIZE" in os.environ)


def json_of(**parts: str) -> dict[str, Any]:
    """Return the BMv2 JSON of the smallest program, with these parts replaced."""
    return _compiled(TEMPLATE.format(**{**DEFAULTS, **parts}))
