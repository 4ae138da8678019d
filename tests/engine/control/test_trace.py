"""The trace: its content and its limits. A disabled trace costs nothing."""

import ctypes
import os
import random
import re

import pytest
from small_programs import json_of

from minip4.engine.codegen.generator import Generator
from minip4.engine.control.trace import Trace
from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument
from minip4.engine.keys import Exact, Lpm, Ternary
from minip4.engine.reader.program import read_program

FORWARD = "action forward(bit<9> port, bit<16> mark) { std.egress_spec = port; hdr.h.c = mark; }"
STACK = {
    "types": "header h_t { bit<8> a; bit<8> b; bit<16> c; } header s_t { bit<8> v; }",
    "headers": "h_t h; s_t[2] s;",
    "parser": """state start { packet.extract(hdr.h); transition select(hdr.h.a) {
        1: one; default: accept; } }
        state one { packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition accept; }""",
}


def table(key: str) -> dict[str, str]:
    return {
        "ingress_locals": f"{FORWARD} table t {{ key = {{ {key} }} "
        "actions = { forward; NoAction; } }",
        "ingress": "t.apply();",
    }


def traced(**parts: str) -> Engine:
    return Engine(json_of(**parts), trace=True, sanitize="SANITIZE" in os.environ)


def told(engine: Engine, *frames: str, port: int = 1) -> list[list[str]]:
    """Return the lines of each block of the trace, without indentation, times and locations."""
    trace = Trace(engine)
    for frame in frames:
        engine.process(port, bytes.fromhex(frame), 1_000)
    return [
        [re.sub(r",? at \d+\.\d{9} s|  \(.*\)$", "", line).strip() for line in block.split("\n")]
        for block in trace.blocks()
    ]


def test_a_packets_way() -> None:
    engine = traced(**table("hdr.h.a: exact;"))
    engine.table_add("I.t", [Exact(7)], "I.forward", [3, 0xBEEF])
    assert told(engine, "0708 0009") == [[
        "packet 1: in at port 1, 4 bytes",
        "parser state start",
        "extract h, 4 bytes at 0: a=7 b=8 c=0x9",
        "ingress",
        "table I.t (hdr.h.a=7): hit 7 [handle 4294967296]",
        "action I.forward(port=3, mark=0xbeef)",
        "standard_metadata.egress_spec: 0 -> 3",
        "h.c: 0x9 -> 0xbeef",
        "to port 3 after 0 us in queue 0, 0 packets left in the queue",
        "egress",
        "deparser",
        "out at port 3, 4 bytes",
    ]]  # fmt: skip


LINES = {
    "miss": (table("hdr.h.a: exact;"), "00000000", "table I.t (hdr.h.a=0): miss"),
    "lpm": (table("hdr.h.c: lpm;"), "00001234",
            "table I.t (hdr.h.c=0x1234): hit 0x1200/8 [handle 4294967296]"),
    "ternary": (
        table("hdr.h.c: ternary; hdr.h.a: exact;"), "05001234",
        "table I.t (hdr.h.c=0x1234, hdr.h.a=5): hit 0x4 &&& 0xf, 5 [handle 4294967296, priority 1]",
    ),
    "no key": ({"ingress_locals": "table t { actions = { NoAction; } }", "ingress": "t.apply();"},
               "00000000", "table I.t (): miss"),
    "statement": ({"ingress": "hdr.h.a = hdr.h.b;"}, "01020000", "hdr.h.a = hdr.h.b"),
    "change": ({"ingress": "hdr.h.a = hdr.h.b;"}, "01020000", "h.a: 1 -> 2"),
    "condition": ({"ingress": "if (hdr.h.a > 3) { hdr.h.b = 1; }"}, "04000000",
                  "if hdr.h.a > 3: true"),
    "short": ({}, "0102", "parser error PacketTooShort"),
    "stack": (STACK, "01000000 08 09", "extract s[1], 1 bytes at 5: v=9"),
    "invalid": ({**STACK, "ingress": "hdr.s.pop_front(1);"}, "01000000 08 09",
                "s[1]: invalid"),
    "program drop": ({"ingress": "mark_to_drop(std);"}, "00000000",
                     "dropped, ingress: the program dropped it (port 1)"),
    "egress drop": ({"egress": "mark_to_drop(std);"}, "00000000",
                    "dropped, egress: the program dropped it (port 0)"),
    "no group": ({"ingress": "std.mcast_grp = 9;"}, "00000000",
                 "dropped, no_group: its multicast group has no ports (port 1)"),
    "no queue": ({"ingress": "std.priority = 1;"}, "00000000",
                 "dropped, no_queue: its priority is above those of the switch (port 0)"),
    "multicast": ({"ingress": "std.mcast_grp = 5;"}, "00000000", "multicast to group 5: 2 copies"),
    "copy": ({"ingress": "std.mcast_grp = 5;"}, "00000000",
             "packet 3: copy of packet 1 (multicast) to port 3, replica 8"),
    "clone": ({"ingress": "clone(CloneType.I2E, 6);"}, "00000000", "cloned to session 6: 1 copies"),
    "resubmit": ({"ingress": "if (std.instance_type == 0) { resubmit_preserving_field_list(0); }"},
                 "00000000", "resubmitted"),
}  # fmt: skip


def test_a_deflected_packets_way() -> None:
    engine = traced(
        ingress="std.egress_spec = 2;",
        egress="if (std.instance_type == 7) { clone(CloneType.E2E, 6); }",
    )
    engine.process(1, bytes(4), 0)
    engine.deflect_on_drop(is_on=True)
    engine.mirror_set(6, [(3, 0)])
    engine.set_queue(2, 0, depth_packets=0, rate_pps=1)
    [dropped, copy] = told(engine, "00000000")[-2:]
    assert copy[0] == "packet 3: copy of packet 2 (egress clone) to port 3, replica 0"
    assert dropped[-6:] == [
        "deflected: queue 0 of port 2 has 0 packets, 0 bytes",
        "egress",
        "if std.instance_type == 7: true",
        "clone(CloneType.E2E, 6)",
        "cloned to session 6: 1 copies",
        "dropped, queue: the queue was full (port 2)",
    ]


STATE = """register<bit<48>>(4) r; register<bit<128>>(2) w; counter(4, CounterType.packets) c;
    meter(4, MeterType.packets) m; direct_counter(CounterType.packets_and_bytes) d;
    direct_meter<bit<8>>(MeterType.packets) n; bit<48> seen; bit<128> wide;
    action act() { n.read(hdr.h.b); }
    table t { key = { hdr.h.a: exact; } actions = { act; NoAction; } counters = d; meters = n; }"""


def test_accesses_to_state() -> None:
    """The trace shows accesses to registers, counters and meters, with name, index and value.

    The lines about accesses and about changes of fields are in the order of execution.
    """
    engine = traced(
        ingress_locals=STATE,
        ingress="""t.apply(); r.read(seen, 2); r.write((bit<32>)hdr.h.a, seen + 5);
            w.read(wide, 1); w.write(0, wide); c.count(3); m.execute_meter(1, hdr.h.b);
            r.write((bit<32>)hdr.h.c, 1); r.read(seen, 9); c.count(4); m.execute_meter(7, hdr.h.b);
            hdr.h.c = (bit<16>)seen;""",
    )
    engine.table_add("I.t", [Exact(3)], "I.act", [])
    engine.register_write("I.r", 2, 0x10001)
    engine.register_write("I.w", 1, 1 << 100)
    engine.meter_set_rates("I.m", 1, (0, 0, 0, 0))
    [lines] = told(engine, "0307 ffff")
    wanted = ("register", "counter", "meter", "table", "h.")
    assert [line for line in lines if line.startswith(wanted)] == [
        "table I.t (hdr.h.a=3): hit 3 [handle 4294967296]",
        "counter I.d: 1 packets, 4 bytes",
        "meter I.n: green",
        "h.b: 7 -> 0",
        "register I.r[2] read: 0x10001",
        "register I.r[3] written: 0x10006",
        f"register I.w[1] read: {1 << 100:#x}",
        f"register I.w[0] written: {1 << 100:#x}",
        "counter I.c[3]: 1 packets, 4 bytes",
        "meter I.m[1]: red",
        "h.b: 0 -> 2",
        "register I.r[65535] written: out of bounds",
        "register I.r[9] read: out of bounds",
        "counter I.c[4]: out of bounds",
        "meter I.m[7]: out of bounds",
        "h.c: 0xffff -> 0x1",
    ]


@pytest.mark.parametrize(("parts", "frame", "line"), LINES.values(), ids=LINES.keys())
def test_a_line(parts: dict[str, str], frame: str, line: str) -> None:
    engine = traced(**parts)
    engine.multicast_set(5, [(2, 7), (3, 8)])
    engine.mirror_set(6, [(4, 0)])
    if "I.t" in engine.program.tables and engine.program.tables["I.t"].key:
        kinds = {"exact": Exact(5), "lpm": Lpm(0x1200, 8), "ternary": Ternary(4, 15)}
        key = [kinds[k.match_type] for k in engine.program.tables["I.t"].key]
        engine.table_add("I.t", key, "I.forward", [1, 1], 1)
    lines = [line for block in told(engine, frame) for line in block]
    assert line in lines


def test_places_and_times() -> None:
    engine = traced(ingress="hdr.h.a = 9;")
    trace = Trace(engine)
    engine.process(1, bytes(4), 61_000_000_007)
    [block] = trace.blocks()
    assert "in at port 1, 4 bytes, at 61.000000007 s" in block
    assert re.search(r"hdr\.h\.a = 9  \(small\.p4:\d+\)", block)
    assert list(trace.blocks()) == [], "told once"


def test_a_flood_is_counted_not_kept() -> None:
    engine = traced()
    trace = Trace(engine)
    engine.repeat(1, [bytes(4)], 100_000, 0)
    *blocks, last = trace.blocks()
    [left_out] = re.findall(r"too fast to trace all: (\d+) packets and 0 events", last)
    assert len(blocks) + int(left_out) == 100_000
    assert len(blocks) > 1000
    engine.process(1, bytes(4), 1)
    assert len(list(trace.blocks())) == 1, "and then it goes on"


def test_no_frame_upsets_the_trace() -> None:
    engine = traced(
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; } header s_t { bit<8> v; }"
        "header l_t { bit<8> n; varbit<2040> rest; } header w_t { bit<200> wide; }",
        headers="h_t h; s_t[2] s; l_t l; w_t w;",
        parser="""state start { packet.extract(hdr.h); transition select(hdr.h.a) {
            1: more; 2: long; 3: wide; default: accept; } }
            state more { packet.extract(hdr.s.next); transition select(hdr.s.last.v) {
                7: long; default: more; } }
            state long { packet.extract(hdr.l, (bit<32>)hdr.h.c); transition accept; }
            state wide { packet.extract(hdr.w); transition accept; }""",
        ingress="hdr.w.wide = hdr.w.wide + 1; hdr.s.push_front(1);"
        "if (hdr.h.b > 50) { clone(CloneType.I2E, 6); }",
    )
    engine.mirror_set(6, [(4, 0), (511, 1)])
    rng, count = random.Random(1), 0
    trace = Trace(engine)
    engine.process(1, bytes(4), 0)
    for _ in range(300):
        size = rng.choice((0, 1, 3, 4, 5, 30, 300))
        head = bytes([rng.randrange(5), rng.randrange(60), 0, 8 * rng.randrange(32)])
        frame = (head + rng.randbytes(size))[:size]
        engine.library.engine_inject(
            engine.handle, 1, (ctypes.c_uint8 * max(1, size)).from_buffer_copy(frame or b"0"),
            size, 1,
        )  # fmt: skip
        count += sum("in at port 1" in block for block in trace.blocks())
    assert count == 301


def test_a_queued_packet_has_an_unfinished_trace() -> None:
    engine = traced()
    trace = Trace(engine)
    engine.process(1, bytes(4), 0)
    engine.set_link(0, rate_bps=1)
    for _ in range(2):
        engine.library.engine_inject(engine.handle, 1, (ctypes.c_uint8 * 4)(), 4, 10)
    assert len(list(trace.blocks())) == 2
    [block] = trace.unfinished()
    assert "queue 0 of port 0: 0 packets, 0 bytes before it" in block
    assert block.endswith("... still in the switch")
    assert list(trace.unfinished()) == []


def test_without_trace_the_c_is_the_same_but_for_the_lines_of_the_trace() -> None:
    document = json_of(**STACK, **table("hdr.h.a: exact;"), compute="")
    plain = Generator(read_program(document)).text
    traced_text = Generator(read_program(document), trace=True).text
    assert "TRACE" not in plain
    assert [line for line in traced_text.split("\n") if "TRACE_" not in line] == plain.split("\n")


def test_without_trace_the_library_has_none_of_it() -> None:
    engine = Engine(json_of())
    assert not hasattr(engine.library, "trace_put")
    assert hasattr(traced().library, "trace_put")
    with pytest.raises(InvalidArgument, match="without trace"):
        Trace(engine)
