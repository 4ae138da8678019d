"""The benchmark one_switch.py, started as users start it, with its smallest parameters."""

import csv
from pathlib import Path

import loaded

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "one_switch.py"


def test_all_packets_arrive(tmp_path: Path) -> None:
    done = loaded.run(SCRIPT, "--time", "virtual", "--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert {row["received"] for row in rows} == {"100000"}
    assert min(float(row["cpu_s"]) for row in rows) > 0
