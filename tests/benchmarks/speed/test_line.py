"""Benchmark line.py: a short, slow run, and one with a rate that no machine sustains."""

import json
import subprocess
from pathlib import Path

import loaded

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "line.py"


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return loaded.run(SCRIPT, "--quick", "--out", str(out), *options)


def test_a_slow_line_loses_nothing_and_tells_its_cost(tmp_path: Path) -> None:
    done = run(tmp_path, "--rate", "10000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CPU, ns/packet" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    costs = summary["metrics"]["cpu_ns_per_packet"]
    assert costs.keys() == {"s1", "s2", "s3"}
    assert all(300 < cost < 1_000_000 for cost in costs.values())  # on a slow machine, too
    assert all(check["passed"] for check in summary["checks"])


def test_a_rate_that_cannot_be_kept_is_no_result(tmp_path: Path) -> None:
    done = run(tmp_path, "--rate", "20000000", "--switches", "1", "--seconds", "1")
    assert done.returncode == 2
    assert "rate too high for this machine" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "summary.json").exists()
