"""Programs with a few changed words are compiled to C, or rejected with a location; both fast."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from programs_to_run import DEFAULTS, FRAME

from minip4.compiler import compile_p4
from minip4.compiler.errors import P4Error
from minip4.engine.codegen.generator import Generator
from minip4.engine.errors import NotSupported
from minip4.engine.reader.program import read_program

PARTS = {
    "declarations": """
        bit<8> twice(in bit<8> x) { if (x > 9) { return x; } return x + x; }
        control Sub(inout bit<8> x)(bit<8> n) { apply { x = x + n; if (x == 7) { exit; } } }
        struct seen_t { bit<8> a; bit<32> w; } type bit<8> id_t;""",
    "parser_locals": "value_set<bit<8>>(4) kinds;",
    "states": """state start { packet.extract(h.d); verify(h.d.a != 9, error.NoMatch);
            transition select(h.d.a, h.d.b) { (1, _): items; (2 &&& 6, 1 .. 3): one;
            default: two; } }
        state items { packet.extract(h.items.next);
            transition select(h.items.last.v) { 0: accept; _: items; } }
        state one { packet.extract(h.u.one); packet.advance(8);
            transition select(h.d.c) { kinds: two; _: accept; } }
        state two { meta.kept = packet.lookahead<bit<16>>(); transition accept; }""",
    "verify": "verify_checksum(h.d.isValid(), { h.d.a, h.d.b }, h.d.c, HashAlgorithm.csum16);",
    "locals": """register<bit<32>>(4) r; counter(8, CounterType.packets) c; Sub(3) sub;
        direct_counter(CounterType.bytes) dc; meter(4, MeterType.bytes) m;
        action set(bit<8> v, id_t id) { h.d.c = v; sm.egress_spec = (bit<9>) v; dc.count(); }
        action drop(in bit<8> x) { meta.m = x; mark_to_drop(sm); }
        table t { key = { h.d.a : ternary; h.items[1].isValid() : exact;
            meta.m & 3 : optional @name("k"); }
            actions = { set; drop(h.d.b); NoAction; } default_action = drop(h.d.b); size = 8;
            counters = dc; const entries = { (1 &&& 3, true, _): set(2, 3); } }
        table s { key = { h.d.a : lpm; h.d.b : selector; } actions = { NoAction; }
            implementation = action_selector(HashAlgorithm.crc16, 16, 8); }""",
    "ingress": """switch (t.apply().action_run) { set: { h.d.b = twice(h.d.a); } default: { } }
        if (!s.apply().hit && h.items[0].isValid()) { h.items.push_front(1); return; }
        sub.apply(h.d.a); bit<32> x; r.read(x, (bit<32>) h.d.b); r.write(0, x |+| 1);
        for (bit<8> i in 0 .. 2) { if (i == 2) { break; } h.d.w = h.d.w << i; }
        switch (h.d.c) { 1: 2: { h.e = h.d; } default: { h.e.setInvalid(); } }
        h.d.s = meta.flag ? h.d.s : (int<8>) h.d.w[7:0]; h.d.w[15:8] = h.d.a ++ 4w1 == 3 ? 8w1 : 2;
        hash(meta.kept, HashAlgorithm.crc16, 16w0, { h.d.w, meta.inner }, 16w9); c.count(1);
        digest<seen_t>(1, { h.d.a, h.d.w }); clone_preserving_field_list(CloneType.I2E, 1, 1);
        m.execute_meter<bit<8>>(0, meta.m); h.items[h.d.a[0:0]].v = 4;""",
    "egress_locals": "action count() { h.d.b = h.d.b - 1; } table u { actions = { count; } }",
    "egress": """u.apply();
        if (sm.deq_qdepth > 3) { truncate(64); recirculate_preserving_field_list(1); }""",
    "compute": "update_checksum(true, { h.d.a, 8w0 }, h.d.c, HashAlgorithm.csum16);",
    "deparser": "packet.emit(h.d); packet.emit(h.items); packet.emit(h.u);",
}  # fmt: skip
PROGRAM = FRAME.format(**{**DEFAULTS, **PARTS})
PIECES = [
    *("{", "}", "(", ")", "<", ">", "[", "]", ",", ";", ":", ".", "=", "==", "?", "-", "+", "++"),
    *("..", "&&&", "&&", "!", "~", "<<", "|-|", "0", "1", "8w3", "300", "-5", "1s1", "true", "_"),
    *("...", "{#}", "bit<8>", "int<4>", "bit<0>", "bool", "error.NoMatch", "tuple<bit<8>>", "x"),
    *("h.d", "h.items", "h.u", "meta", "sm", "h.d.a", "h.d.w", "in", "inout", "exit;", "return;"),
    *("packet.length()", "lookahead", "next", "last", "apply()", "isValid()", "setInvalid();"),
]
LONGEST_S = 5


def mutilated(generator: random.Random, text: str) -> str:
    """Return the program after one to three words were deleted, doubled or replaced.

    Most replacements are other words of the same kind from the program, because such programs pass
    more checks.
    """
    words = re.findall(r"#include.*|\w+|\s+|[^\w\s]", text)
    alike: dict[str, list[int]] = {"name": [], "number": [], "sign": []}
    for i, word in enumerate(words):
        if not word.isspace():
            kind = "number" if word.isdigit() else "name" if word[0].isalpha() else "sign"
            alike[kind].append(i)
    for _ in range(generator.choice([1, 1, 1, 2, 3])):
        own = generator.choice([alike["name"], alike["name"], alike["number"], alike["sign"]])
        i, j = generator.choice(own), generator.choice(own)
        change = generator.choice(["copy", "copy", "copy", "drop", "double", "replace"])
        words[i] = {
            "copy": words[j],
            "drop": "",
            "double": f"{words[i]} {words[i]}",
            "replace": f" {generator.choice(PIECES)} ",
        }[change]
    return "".join(words)


def to_c(path: Path) -> str | None:
    """Return the C code of the program at `path`, or None if it is rejected."""
    start = time.process_time()
    try:
        return Generator(read_program(compile_p4(path).bmv2_json)).text
    except (P4Error, NotSupported):
        return None
    finally:
        assert time.process_time() - start < LONGEST_S


def test_the_program_itself_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "test.p4"
    path.write_text(PROGRAM)
    assert to_c(path) is not None


@pytest.mark.parametrize("seed", range(4))
def test_mutilated_programs(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    path = tmp_path / "test.p4"
    compiled = 0
    for _ in range(60):
        path.write_text(mutilated(generator, PROGRAM))
        compiled += to_c(path) is not None
    assert 0 < compiled < 60
