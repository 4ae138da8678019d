"""Programs whose resources exceed a limit are rejected immediately.

The error is one line that names the limit.
"""

import copy
from typing import Any

import pytest
from small_programs import DEFAULTS, engine, json_of

from minip4.engine.codegen.generator import Generator
from minip4.engine.engine import Engine
from minip4.engine.errors import EngineError, TooLarge
from minip4.engine.reader.program import read_program
from minip4.native import build

FRAME = bytes(range(64))
H_TYPE = DEFAULTS["types"]


def many(text: str, count: int) -> str:
    return " ".join(text.replace("#", str(i)) for i in range(count))


REGISTER = "register<bit<64>>({}) r; action a() {{ r.write((bit<32>) hdr.h.a, 1); }}"
WIDE = {
    "types": H_TYPE + "header w_t { bit<2048> x; bit<2048> y; }",
    "headers": "h_t h; w_t[300] w;",
    "ingress": "hdr.w[0].x = hdr.w[299].y;",
}
CASES: dict[str, tuple[dict[str, str], str]] = {
    "register": (
        {"ingress_locals": REGISTER.format(2**28), "ingress": "a();"},
        "the program's state (largest part: register I.r, 2147483648 bytes) needs 2147483712 "
        "bytes; at most 1073741824 are accepted",
    ),
    "registers together": (
        {"ingress_locals": many("register<bit<8>>(40000000) r#;", 4),
         "ingress": many("r#.write((bit<32>) hdr.h.a, 1);", 4)},
        "the program's state",
    ),
    "counter": (
        {"ingress_locals": "counter(2147483647, CounterType.bytes) c;", "ingress": "c.count(1);"},
        "largest part: counter I.c, 34359738352 bytes",
    ),
    "meter": (
        {"ingress_locals": "meter(10000000, MeterType.bytes) m;",
         "ingress": "m.execute_meter(1, hdr.h.a);"},
        "largest part: meter I.m, 1520000000 bytes",
    ),
    "action profile": (
        {"ingress_locals": "action a(bit<64> x) { hdr.h.a = (bit<8>) x; } table t { "
         "key = { hdr.h.a: exact; } actions = { a; } implementation = "
         "action_profile(2000000000); }", "ingress": "t.apply();"},
        "largest part: action profile",
    ),
    "headers in use": (WIDE, "a parsed packet (all headers and metadata) needs 15"),
    "header": (
        {"types": H_TYPE + "header big_t { " + many("bit<2048> x#;", 260) + "}",
         "headers": "h_t h; big_t big;", "ingress": "hdr.big.setValid();"},
        "header big needs 66560 bytes; at most 65536 are accepted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_too_large_programs_are_refused(case: str) -> None:
    parts, words = CASES[case]
    with pytest.raises(TooLarge) as refusal:
        Generator(read_program(json_of(**parts)))
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_too_much_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is rejected if its C code has too many lines.

    The code of a function for headers counts once per call, so that a short program may have much
    code.
    """
    fields = many("bit<64> f#;", 64)
    parts = {
        "types": H_TYPE + f"header b_t {{ {fields} }}", "headers": "h_t h; b_t[120] s;",
        "ingress": many("hdr.s[0].f# = 1;", 64),
    }  # fmt: skip
    made = Generator(read_program(json_of(**parts)))
    assert made.is_large
    assert made.text.count("\n") < 3000
    monkeypatch.setattr("minip4.engine.limits.MAX_CODE_LINES", 15_000)
    with pytest.raises(TooLarge, match="lines of C, but at most 15000 are accepted"):
        Generator(read_program(json_of(**parts)))
    assert not Generator(read_program(json_of())).is_large


def changed(change: Any) -> dict[str, Any]:
    """Return the JSON of a small program after `change` has made it malicious."""
    document = copy.deepcopy(json_of(headers="h_t h; h_t[3] s;", ingress="hdr.s.push_front(1);"))
    change(document)
    return document


def primitive(document: dict[str, Any], op: str) -> dict[str, Any]:
    found = [p for a in document["actions"] for p in a["primitives"] if p["op"] == op]
    return found[0]  # type: ignore[no-any-return]


def negative_push(document: dict[str, Any]) -> None:
    primitive(document, "push")["parameters"][1]["value"] = "-0x5"


def wide_lookahead(document: dict[str, Any]) -> None:
    state = document["parsers"][0]["parse_states"][0]
    state["transition_key"] = [{"type": "lookahead", "value": [0, 2**40]}]


def many_wide_lookaheads(document: dict[str, Any]) -> None:
    state = document["parsers"][0]["parse_states"][0]
    state["transition_key"] = [{"type": "lookahead", "value": [0, 2**20]}]
    state["transitions"] *= 1000


def wide_parameter(document: dict[str, Any]) -> None:
    document["actions"][0]["runtime_data"] = [{"name": "x", "bitwidth": 2**32 - 1}]


def wide_varbit(document: dict[str, Any]) -> None:
    document["header_types"].append(
        {"name": "v", "id": 99, "fields": [["x", "*", False, 2**50]], "max_length": 1}
    )


@pytest.mark.parametrize(
    "change",
    [negative_push, wide_lookahead, many_wide_lookaheads, wide_parameter, wide_varbit],
)
def test_numbers_that_p4c_would_not_write_are_refused(change: Any) -> None:
    """JSON with numbers that p4c never writes is rejected in one line, before the numbers are used.

    So these numbers cost neither time nor memory.
    """
    with pytest.raises(EngineError) as refusal:
        Generator(read_program(changed(change)))
    assert "\n" not in str(refusal.value)


def test_headers_longer_than_frames_take_no_stack_of_the_thread() -> None:
    """A program with a stack of 200 headers of 60 KB forwards a frame.

    A deparser that copied them to the stack of its thread would need 12 MB there.
    """
    made = engine(
        types=H_TYPE + f"header big_t {{ {many('bit<1024> x#;', 480)} }}",
        headers="h_t h; big_t[200] s;",
        ingress="hdr.h.a = 5; hdr.s[7].setValid(); hdr.s[7].setInvalid(); std.egress_spec = 2;",
        deparser="packet.emit(hdr.s); packet.emit(hdr.h);",
    )  # fmt: skip
    assert made.process(1, FRAME, 0) == [(2, b"\5" + FRAME[1:])]
    made.close()


def test_loops_in_loops_end() -> None:
    """Loops within loops end after 65,536 iterations in all, because this limit is per packet."""
    made = engine(
        types=H_TYPE + "header n_t { bit<32> count; }", headers="h_t h; n_t n;",
        parser="state start { packet.extract(hdr.n); transition accept; }",
        ingress_locals="""action spin() { for (bit<32> i = 0; i < 65000; i = i + 1) {
            hdr.n.count = hdr.n.count + 1; } }
            table t { actions = { spin; } default_action = spin(); }""",
        ingress="std.egress_spec = 2; for (bit<32> i = 0; i < 65000; i = i + 1) { t.apply(); }",
    )  # fmt: skip
    ((port, frame),) = made.process(1, bytes(64), 0)
    assert port == 2
    assert 60_000 < int.from_bytes(frame[:4], "big") <= 65_536
    made.close()


def test_a_program_that_cc_cannot_translate_within_its_limits_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "LIMITED", 'ulimit -v 1000; exec "$@"')
    monkeypatch.setattr(build, "OVER_LIMITS", ("",))
    with pytest.raises(TooLarge, match="cannot compile the program within 120 s"):
        Engine(json_of(ingress="hdr.h.a = 77;"))
