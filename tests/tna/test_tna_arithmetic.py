"""Externs of tna.p4 that compute: math units, filters, predicates, logs, residual checksums."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tna_programs import compiled, data, engine

from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument
from minip4.errors import Minip4Error


def result(switch: Engine, frame: bytes, time_ns: int = 0) -> int:
    """Return the field `c` of the packet that leaves."""
    ((_, out),) = switch.process(1, frame, time_ns)
    return int.from_bytes(out[4:8], "big")


# --- math units ------------------------------------------------------------------------------


def math_unit(tmp_path: Path, unit: str) -> Engine:
    return engine(
        tmp_path,
        locals=f"""MathUnit<bit<32>>({unit}) unit;
            Register<bit<32>, bit<8>>(1) reg;
            RegisterAction<bit<32>, bit<8>, bit<32>>(reg) run = {{
                void apply(inout bit<32> value, out bit<32> rv) {{
                    value = unit.execute(hdr.d.c); rv = value; }} }};""",
        ingress="hdr.d.c = run.execute(0);",
    )


def leading_bits(x: int, count: int) -> int:
    """Return x with all bits after the first `count` set to 0."""
    dropped = max(0, x.bit_length() - count)
    return x >> dropped << dropped


@pytest.mark.parametrize(
    ("unit", "factor", "function"),
    [
        ("MathOp_t.MUL, 5", 5.0, lambda x: x),
        ("MathOp_t.MUL, 2, 7", 2 / 7, lambda x: x),
        ("MathOp_t.SQR, 1, 3", 1 / 3, lambda x: x**2),
        ("MathOp_t.SQRT, 100", 100.0, lambda x: x**0.5),
        ("MathOp_t.DIV, 1000000000", 1e9, lambda x: 1 / x),
        ("MathOp_t.RSQR, 1000000000", 1e9, lambda x: 1 / x**2),
        ("MathOp_t.RSQRT, 1000000000", 1e9, lambda x: x**-0.5),
    ],
)
def test_math_unit(
    tmp_path: Path, unit: str, factor: float, function: Callable[[int], float]
) -> None:
    """The result is exact to 1 % for the first four bits of x, or three in some square roots."""
    switch = math_unit(tmp_path, unit)
    rng = random.Random(3)
    for x in [*range(1, 40), *(rng.getrandbits(rng.randint(1, 15)) + 1 for _ in range(100))]:
        is_odd = (x.bit_length() - 1) % 2 == 1
        near = leading_bits(x, 3 if "SQRT" in unit and is_odd else 4)
        expected = factor * function(near)
        assert result(switch, data(c=x)) == pytest.approx(expected, rel=0.01, abs=1), x
    assert result(switch, data(c=0)) == 0


def test_math_unit_with_a_table(tmp_path: Path) -> None:
    """The table begins with the value for 15: here, a number with four bits plus 16."""
    values = ", ".join(str(16 + i) for i in range(15, -1, -1))
    switch = math_unit(tmp_path, f"false, 0, -3, {{{values}}}")
    for x in (8, 9, 15, 96, 1, 0, 0x90000000):
        exponent = max(x.bit_length() - 1, 0)
        expected = (16 + Fraction(x, 2**exponent) * 8) * Fraction(2) ** (exponent - 3)
        assert result(switch, data(c=x)) == int(expected) % 2**32, x


# --- filters ---------------------------------------------------------------------------------


def average(samples: list[tuple[int, int]], gain_ns: float, decay_ns: float) -> list[float]:
    """Return the averages of a filter that is 0 at time 0, for samples (time in ns, value)."""
    value, last_ns, result = 0.0, 0, []
    for time_ns, sample in samples:
        constant = gain_ns if sample > value else decay_ns
        share = math.exp(-(time_ns - last_ns) / constant) if constant else 0.0
        value, last_ns = sample + (value - sample) * share, time_ns
        result.append(value)
    return result


@pytest.mark.parametrize(("gain", "decay"), [(1000, 5000), (3_000_000, 10), (0, 777), (0, 0)])
def test_lpf(tmp_path: Path, gain: int, decay: int) -> None:
    switch = engine(
        tmp_path,
        locals="Lpf<bit<32>, bit<8>>(4) lpf;",
        ingress="hdr.d.c = lpf.execute(hdr.d.c, hdr.d.a);",
    )
    switch.register_write("IC.lpf", 2, gain << 64 | decay)
    rng, time_ns, samples = random.Random(5), 0, []
    for _ in range(200):
        time_ns += rng.choice((0, 1, 90, 2500, 400_000))
        samples.append((time_ns, rng.getrandbits(rng.choice((4, 16, 32)))))
    got = [result(switch, data(a=2, c=sample), time_ns) for time_ns, sample in samples]
    assert got == pytest.approx(average(samples, gain, decay), abs=0.501)
    assert result(switch, data(a=3, c=99), time_ns) == 99  # another cell, without settings
    assert result(switch, data(a=4, c=98), time_ns) == 98  # out of bounds


def wred(tmp_path: Path, *, seed: int = 1) -> Engine:
    program = compiled(
        tmp_path,
        locals="Wred<bit<16>, bit<8>>(4, 9, 6) wred;",
        ingress="hdr.d.a = wred.execute(hdr.d.b, hdr.d.op);",
    )
    return Engine(program.bmv2_json, seed=seed)


def drops(switch: Engine, depth: int, count: int = 2000, *, cell: int = 1) -> list[bool]:
    values = [switch.process(1, data(cell, b=depth), 0)[0][1][1] for _ in range(count)]
    assert set(values) <= {6, 9}
    return [value == 9 for value in values]


def test_wred(tmp_path: Path) -> None:
    """Between the thresholds 100 and 300, the probability increases to 0.2."""
    switch = wred(tmp_path)
    settings = 300 << 64 | 100 << 128 | 200_000
    switch.register_write("IC.wred", 1, settings)
    assert not any(drops(switch, 99))
    assert all(drops(switch, 300))
    assert not any(drops(switch, 1000, cell=2))  # without settings
    for depth, probability in ((150, 0.05), (200, 0.1), (299, 0.199)):
        count = sum(drops(switch, depth))
        deviation = math.sqrt(2000 * probability * (1 - probability))
        assert count == pytest.approx(2000 * probability, abs=4 * deviation)


def test_wred_uses_the_average(tmp_path: Path) -> None:
    switch = wred(tmp_path)
    switch.register_write("IC.wred", 1, 1000 << 192 | 100 << 128 | 101 << 64)
    for time_ns in (0, 10, 110):  # depth 1000: the average is 10 after 10 ns, then 104
        got = switch.process(1, data(1, b=1000), time_ns)[0][1][1]
        assert got == (9 if 1000 * (1 - math.exp(-time_ns / 1000)) >= 101 else 6)


def test_wred_depends_on_the_seed_only(tmp_path: Path) -> None:
    def run(seed: int) -> list[bool]:
        switch = wred(tmp_path, seed=seed)
        switch.register_write("IC.wred", 1, 300 << 64 | 100 << 128 | 500_000)
        return drops(switch, 250, 100)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_settings_in_p4info(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="Wred<bit<16>, bit<8>>(4, 9, 6) wred;",
        ingress="hdr.d.a = wred.execute(hdr.d.b, hdr.d.op);",
    )
    (register,) = program.p4info.registers
    assert (register.preamble.name, register.size) == ("IC.wred", 4)
    struct = program.p4info.type_info.structs[register.type_spec.struct.name]
    assert [m.name for m in struct.members] == [
        "time_constant_ns", "min_threshold", "max_threshold", "max_drop_ppm",
    ]  # fmt: skip


@pytest.mark.parametrize("of", ["int<32>", "bit<128>"])
def test_types_that_a_math_unit_does_not_have(tmp_path: Path, of: str) -> None:
    with pytest.raises(Minip4Error, match=f"MathUnit of {of} is not supported"):
        compiled(
            tmp_path,
            locals=f"MathUnit<{of}>(MathOp_t.SQR, 1) unit;",
            ingress=f"hdr.d.a = (bit<8>)(bit<32>)({'bit<32>' if of[0] == 'i' else of})"
            f"unit.execute(({of})({'bit<32>' if of[0] == 'i' else of})hdr.d.c);",
        )


def test_wide_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Minip4Error, match="Lpf of bit<48> is not supported"):
        compiled(
            tmp_path,
            locals="Lpf<bit<48>, bit<8>>(4) lpf;",
            ingress="hdr.d.c = lpf.execute(ig.ingress_mac_tstamp, 0)[31:0];",
        )


# --- register actions ------------------------------------------------------------------------


def test_execute_log(tmp_path: Path) -> None:
    """Each call uses the next cell, and the first one after the last; actions share the index."""
    action = """RegisterAction<bit<32>, bit<8>, bit<32>>(reg) {} = {{
        void apply(inout bit<32> value, out bit<32> rv) {{ rv = value; value = hdr.d.c + {}; }} }};
    """
    switch = engine(
        tmp_path,
        locals="Register<bit<32>, bit<8>>(3) reg;"
        + action.format("log", 0)
        + action.format("other", 100),
        ingress="if (hdr.d.op == 0) { hdr.d.c = log.execute_log(); } "
        "else { hdr.d.c = other.execute_log(); }",
    )
    got = [result(switch, data(op, c=c)) for op, c in ((0, 1), (1, 2), (0, 3), (0, 4), (1, 5))]
    assert got == [0, 0, 0, 1, 102]
    assert switch.register_read_all("IC.reg") == [4, 105, 3]


@pytest.mark.parametrize(("low", "high", "value"), [(0, 0, 1), (1, 0, 2), (0, 1, 4), (1, 1, 8)])
def test_predicate(tmp_path: Path, low: int, high: int, value: int) -> None:
    """One of four bits is set."""
    switch = engine(
        tmp_path,
        locals="""Register<bit<8>, bit<8>>(1, 7) reg;
            RegisterAction<bit<8>, bit<8>, bit<8>>(reg) compare = {
                void apply(inout bit<8> value, out bit<8> rv) {
                    rv = this.predicate(hdr.d.b == 1, hdr.d.c == (bit<32>)value); } };
            RegisterAction<bit<8>, bit<8>, bit<8>>(reg) first = {
                void apply(inout bit<8> value, out bit<8> rv) {
                    rv = this.predicate(hdr.d.b == 1); } };""",
        ingress="hdr.d.a = compare.execute(0); hdr.d.op = first.execute(0);",
    )
    given = data(b=low, c=7 * high)
    assert switch.process(1, given, 0) == [(2, data(1 + low, a=value, b=low, c=7 * high))]


def test_predicate_needs_four_bits(tmp_path: Path) -> None:
    with pytest.raises(Minip4Error, match=r"the result of predicate\(\) has 4 bits"):
        compiled(
            tmp_path,
            locals="""Register<bit<8>, bit<8>>(1) reg;
                RegisterAction<bit<8>, bit<8>, bit<1>>(reg) compare = {
                    void apply(inout bit<8> value, out bit<1> rv) {
                        rv = this.predicate(hdr.d.b == 1); } };""",
            ingress="hdr.d.a = (bit<8>)compare.execute(0);",
        )


# --- residual checksums ----------------------------------------------------------------------


def internet_checksum(message: bytes) -> int:
    words = [int.from_bytes(message[i : i + 2], "big") for i in range(0, len(message), 2)]
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@pytest.mark.parametrize("order", ["before", "after"])
def test_subtract_all_and_deposit(tmp_path: Path, order: str) -> None:
    """The residual contains what the program does not subtract, before or after the call."""
    deposit = "sum.subtract_all_and_deposit(md.n);"
    subtract = "sum.subtract({hdr.ip.sum}); sum.subtract({hdr.ip.last});"
    calls = deposit + subtract if order == "before" else subtract + deposit
    switch = engine(
        tmp_path,
        parser_locals="Checksum() sum;",
        states=f"""state more {{ pkt.extract(hdr.d); pkt.extract(hdr.ip); {calls}
                   transition accept; }}""",
        ingress="hdr.ip.last = hdr.d.c;",
        deparser_locals="Checksum() sum;",
        deparser="hdr.ip.sum = sum.update({hdr.ip.last, md.n});",
    )
    rng = random.Random(1)
    for _ in range(50):
        first, last, rest = rng.randbytes(2), rng.randbytes(4), rng.randbytes(20)
        before = internet_checksum(first + last + rest).to_bytes(2, "big")
        new = rng.getrandbits(32)
        after = new.to_bytes(4, "big")
        changed = internet_checksum(first + after + rest).to_bytes(2, "big")
        head = data(c=new)
        sent = head + first + before + last + rest
        assert switch.process(1, sent, 0) == [(2, head + first + changed + after + rest)]


def test_conditional_deposit_is_refused(tmp_path: Path) -> None:
    states = """state more { pkt.extract(hdr.d); sum.add(hdr.d);
        if (hdr.d.op == 1) { sum.subtract_all_and_deposit(md.n); } transition accept; }"""
    with pytest.raises(Minip4Error, match="under a condition is not supported"):
        compiled(tmp_path, parser_locals="Checksum() sum;", states=states)


# --- table properties ------------------------------------------------------------------------


def test_idle_timeout(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="""table t { key = { hdr.d.op: exact; } actions = { NoAction; }
                  idle_timeout = true; }""",
        ingress="t.apply();",
    )
    (table,) = program.p4info.tables
    assert table.idle_timeout_behavior == table.NOTIFY_CONTROL
    assert not program.warnings


# --- JSON ------------------------------------------------------------------------------------


def _primitive(document: dict[str, Any], op: str) -> Any:
    """Return the parameters of the first primitive of this kind."""
    actions = document["actions"]
    return next(p for a in actions for p in a["primitives"] if p["op"] == op)["parameters"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: _primitive(d, "math_unit")[3].update(value="0x7"), "a math unit with wrong"),
        (lambda d: _primitive(d, "math_unit").pop(), "a math unit with wrong"),
        (lambda d: _primitive(d, "wred")[3].update(value="IC.reg"), "256 and 32 bits"),
        (
            lambda d: next(r for r in d["register_arrays"] if r["name"] == "IC.wred$state").update(
                size=3
            ),
            "a state for each cell",
        ),
    ],
)
def test_bad_json_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    document = compiled(
        tmp_path,
        locals="""MathUnit<bit<32>>(MathOp_t.SQR, 1) unit;
            Wred<bit<16>, bit<8>>(4, 9, 6) wred;
            Register<bit<32>, bit<8>>(4) reg;
            RegisterAction<bit<32>, bit<8>, bit<32>>(reg) run = {
                void apply(inout bit<32> value) { value = unit.execute(hdr.d.c); } };""",
        ingress="run.execute(0); hdr.d.a = wred.execute(hdr.d.b, 0);",
    ).bmv2_json
    change(document)
    with pytest.raises(InvalidArgument, match=message):
        Engine(document)
