"""Small P4 programs for the tests of the front end, and functions that check them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.front import parse_and_check

HEADERS = """#include <v1model.p4>
typedef bit<48> Mac;
type bit<9> Port;
enum bit<16> EtherType { ipv4 = 0x800, ipv6 = 0x86dd }
enum Color { red, green }
error { Custom }
header ethernet_t { Mac dst; Mac src; bit<16> type; }
header options_t { bit<8> size; varbit<320> data; }
header label_t { bit<20> label; bit<1> bos; bit<11> rest; }
header_union layer_t { ethernet_t a; label_t b; }
struct pair_t { bit<8> a; bit<16> b; }
struct generic_t<T> { T value; }
struct headers_t { ethernet_t ethernet; options_t options; label_t[4] labels; layer_t[2] layers; }
struct metadata_t { bit<8> x; bit<16> y; bit<32> z; bool flag; int<8> s; pair_t pair; Color color;
    Port port; EtherType type; error e; tuple<bit<8>, bit<16>> t; }
"""
PARSER_PARAMETERS = """packet_in packet, out headers_t h, inout metadata_t m,
    inout standard_metadata_t standard_metadata"""
CONTROL_PARAMETERS = """inout headers_t h, inout metadata_t m,
    inout standard_metadata_t standard_metadata"""


def program(
    *, top: str = "", states: str = "state start { transition accept; }", local: str = "",
    body: str = "", deparser: str = "", checksum: str = "", parser_local: str = "",
) -> str:  # fmt: skip
    """Return a whole v1model program: top-level text, parser, and ingress with declarations and
    body.
    """
    return f"""{HEADERS}
{top}
parser MyParser({PARSER_PARAMETERS}) {{
{parser_local}
{states}
}}
control Verify(inout headers_t h, inout metadata_t m) {{ apply {{ {checksum} }} }}
control MyIngress({CONTROL_PARAMETERS}) {{
{local}
apply {{
{body}
}}
}}
control MyEgress({CONTROL_PARAMETERS}) {{ apply {{ }} }}
control Compute(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control MyDeparser(packet_out packet, in headers_t h) {{ apply {{ {deparser} }} }}
V1Switch(MyParser(), Verify(), MyIngress(), MyEgress(), Compute(), MyDeparser()) main;
"""


def check(text: str, defines: tuple[str, ...] = ()) -> syntax.Program:
    """Return the checked tree of a program given as text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.p4"
        path.write_text(text)
        return parse_and_check(path, (), defines)


def refusal(marked: str) -> tuple[P4Error, tuple[int, int]]:
    """Return the error of a program, and its expected location (line, column).

    `§` marks this location.
    """
    before = marked[: marked.index("§")]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    try:
        check(marked.replace("§", ""))
    except P4Error as error:
        return error, place
    raise AssertionError("the program was accepted")


def find(program: syntax.Program, name: str) -> Any:
    declaration = program.find(name)
    assert declaration is not None
    return declaration


def local(program: syntax.Program, name: str) -> Any:
    """Return a local declaration of MyIngress."""
    return next(d for d in find(program, "MyIngress").locals if d.name == name)


def statements(program: syntax.Program) -> list[Any]:
    """Return the statements of MyIngress."""
    body: syntax.Block = find(program, "MyIngress").body
    return list(body.statements)


def expression(text: str, type_text: str = "bit<32>") -> Any:
    """Return the checked initial value of a variable of the given type."""
    return statements(check(program(body=f"{type_text} result = {text};")))[0].initializer


# a program with many kinds of constructs
WHOLE = program(
    top="bit<8> f(in bit<8> x) { return x; } const bit<8> five = 5; @name(\"q\") type bit<8> q;",
    parser_local="value_set<bit<16>>(4) types;",
    states="""state start { packet.extract(h.ethernet);
        transition select(h.ethernet.type, m.x) {
            (0x800 &&& 0xff, 1 .. 2): other; (types, _): accept; } }
    state other { packet.extract(h.labels.next); transition accept; }""",
    local="""register<bit<32>>(4) r;
    action set(bit<8> v) { m.x = v; }
    table t { key = { m.x : ternary @name("k"); } actions = { set; NoAction; }
        const default_action = NoAction(); size = 8; const entries = { 1 &&& 3 : set(2); } }""",
    body="""bit<16> a = {1, 2} == m.pair ? m.y : 16w3 ++ 4w0 == 20w5 ? 1 : m.y[7:0] ++ m.x;
    switch (t.apply().action_run) { set: { f(five); } default: { exit; } }
    for (bit<8> i in 0 .. 9) { m.x |+|= i; if (i == 3) { break; } else { continue; } }
    hash(a, HashAlgorithm.crc16, 16w0, {m.x, h.ethernet.src}, 16w9); r.write(1, (bit<32>) m.x);""",
)  # fmt: skip
