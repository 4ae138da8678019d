"""The benchmark switch.py: a short run as users start it, and faults that its checks detect."""

import csv
import json
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import loaded
import pytest

from benchmarks.speed.shared import pipeline
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Lpm

FOLDER = Path(__file__).parents[3] / "benchmarks" / "speed"


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import switch  # noqa: PLC0415

    return switch


def test_a_short_run_measures_everything(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "switch.py", "--quick", "--out", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode == 2:  # the machine was loaded
        assert "run invalid: " in done.stderr.splitlines()[-1], done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        samples = {(row["measure"], row["switch"]): float(row["value"])
                   for row in csv.DictReader(file)}  # fmt: skip
    for measure in ("64 B, saturated", "latency at 80 kpps, p50"):
        assert samples.keys() >= {(measure, kind) for kind in
                                  ("no switch", "plain forwarder", "minip4")}  # fmt: skip
    assert samples["64 B, chain of three", "minip4"] > 1
    assert samples["TCP, one stream", "minip4"] > 0.01
    assert samples["latency at 80 kpps, p50", "minip4"] > 1
    for measure, kind in (("pipeline, lpm 10", "C by hand"),
                          ("source to first packet, warm", "Python and gRPC alone"),
                          ("memory", "Python and gRPC alone")):  # fmt: skip
        assert 0 < samples[measure, kind] < samples[measure, "minip4"]
    checks = json.loads((tmp_path / "summary.json").read_text())["checks"]
    assert len(checks) >= 11
    assert all(check["passed"] for check in checks if check["name"].startswith("memory"))


def test_a_missing_switch_is_reported(tmp_path: Path) -> None:
    arguments = ("--out", str(tmp_path), "--simple-switch", "/none")
    done = loaded.run(FOLDER / "switch.py", *arguments)
    assert done.returncode == 2
    assert "--simple-switch /none: expected an executable file" in done.stderr


Found = dict[tuple[str, str], list[float]]


def in_rounds(switch: ModuleType) -> Found:
    """Return measured values of several rounds that satisfy every claim."""
    small = ["memory", switch.COLD, switch.WARM, f"{switch.OWN_LATENCY}, p50",
             "pipeline, telemetry",
             *(f"pipeline, {kind} {count}" for kind in ("lpm", "exact") for count in (10, 10000)),
             *(f"pipeline, ternary {count}" for count in (10, 1000))]  # fmt: skip
    given = {(measure, "minip4"): 1.0 for measure in small}
    given |= {(measure, "Python and gRPC alone"): 1.0 for measure in ("memory", switch.WARM)}
    given["pipeline, lpm 10", "C by hand"] = given[f"{switch.LATENCY}, p50", "plain forwarder"] = (
        1.0
    )
    for kind, value in (("minip4", 600.0), ("plain forwarder", 700.0), ("no switch", 800.0),
                        ("simple_switch", 60.0)):  # fmt: skip
        measures = ("64 B, saturated", "64 B, chain of three", "TCP, one stream")
        given |= {(measure, kind): value for measure in measures}
    given[switch.MEMORY_CHAIN, "minip4"] = 1200.0
    return {key: [value * disturbed for disturbed in (0.8, 1, 1.3)] for key, value in given.items()}


def test_ratios_within_rounds_are_claims(switch: ModuleType) -> None:
    checks = switch.checks(in_rounds(switch), ("simple_switch",))
    assert all(check.passed for check in checks)
    assert len(checks) == 14


@pytest.mark.parametrize(
    ("measure", "kind", "factor"),
    [("64 B, saturated", "minip4", 0.5), ("64 B, saturated", "plain forwarder", 2),
     ("latency at 80 kpps, real-time priority, p50", "minip4", 11),
     ("latency at 80 kpps, p50", "plain forwarder", 0.05),
     ("TCP, one stream", "no switch", 2), ("TCP, one stream", "simple_switch", 3),
     ("64 B, chain of three", "simple_switch", 2),
     ("64 B, chain of three over memory links", "minip4", 0.5),
     ("pipeline, lpm 10", "C by hand", 0.1), ("pipeline, telemetry", "minip4", 9),
     ("pipeline, lpm 10000", "minip4", 2), ("pipeline, exact 10000", "minip4", 2),
     ("pipeline, ternary 1000", "minip4", 4),
     ("source to first packet, cold", "minip4", 21),
     ("source to first packet, warm", "minip4", 8), ("memory", "minip4", 2.5)],
)  # fmt: skip
def test_a_ratio_out_of_its_limit_breaks_a_claim(
    switch: ModuleType, measure: str, kind: str, factor: float
) -> None:
    worse = in_rounds(switch)
    worse[measure, kind] = [value * factor for value in worse[measure, kind]]
    assert not all(check.passed for check in switch.checks(worse, ("simple_switch",)))


def test_a_slower_machine_breaks_no_claim(switch: ModuleType) -> None:
    slower = in_rounds(switch)
    for measure, kind in slower:
        if measure != "memory":
            is_time = measure.startswith(("pipeline", "latency", "source"))
            factor = 3 if is_time else 1 / 3
            slower[measure, kind] = [value * factor for value in slower[measure, kind]]
    assert all(check.passed for check in switch.checks(slower, ("simple_switch",)))


@pytest.mark.parametrize(("bmv2_kpps", "bmv2_singles_kpps"), [(60, 20), (20, 60)])
def test_bmv2_is_compared_at_its_better_rate(
    switch: ModuleType, bmv2_kpps: float, bmv2_singles_kpps: float
) -> None:
    rates = {(switch.SATURATED, "minip4"): 600.0, (switch.SATURATED, "simple_switch"): bmv2_kpps,
             (switch.SINGLES, "simple_switch"): bmv2_singles_kpps}  # fmt: skip
    samples = [
        switch.Sample(measure, "kpps", kind, rate * (factor if kind == "minip4" else 1), number)
        for number, factor in enumerate((0.8, 1, 1.2))
        for (measure, kind), rate in rates.items()
    ]
    (row,) = switch.times_bmv2(samples, ("simple_switch",))
    assert row == ("simple_switch", pytest.approx(10), "8.0 - 12.0")


def test_the_pipeline_agrees_with_the_reference_implementation() -> None:
    rng = random.Random(1)
    entries = pipeline.keys("lpm", 10, rng)
    engine = Engine(compile_p4(FOLDER / "p4" / "ipv4_lpm.p4", defines=("MATCH=lpm",)).bmv2_json)
    for key, _ in entries:
        engine.table_add(pipeline.TABLE, [key], pipeline.ACTION, [2, 2])
    nowhere = next(a for a in range(2**32) if not any(matches(key, a) for key, _ in entries))
    by_hand = pipeline.ByHand([key for key, _ in entries])
    good = [pipeline.frame(address) for _, address in entries]
    bad = [
        with_ttl_1(good[0]),
        good[0][:24] + b"\0\0" + good[0][26:],  # a wrong checksum
        good[0][:12] + b"\x86\0" + good[0][14:],  # not IPv4
        pipeline.frame(nowhere),
    ]
    assert [by_hand.process(frame) for frame in bad] == [None] * len(bad)
    for frame in (*good, *bad):
        out = engine.process(1, frame, 0)
        assert by_hand.process(frame) == (out[0][1] if out else None)
    assert by_hand.repeat([*good, *bad], 3) == 3 * len(good)


def with_ttl_1(frame: bytes) -> bytes:
    """Return the frame with TTL 1. Its checksum is updated by RFC 1624, as in the switch."""
    checksum = int.from_bytes(frame[24:26], "big") + (frame[22] - 1 << 8)
    checksum = (checksum & 0xFFFF) + (checksum >> 16)
    return frame[:22] + b"\1" + frame[23:24] + checksum.to_bytes(2, "big") + frame[26:]


def matches(key: Lpm, address: int) -> bool:
    return (address ^ key.value) >> (32 - key.prefix_length) == 0
