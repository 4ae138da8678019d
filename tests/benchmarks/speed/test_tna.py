"""The benchmark tna.py, started as users start it. Its checks compare the two programs' frames."""

import csv
import json
from pathlib import Path

import loaded

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "tna.py"


def test_both_architectures_are_measured(tmp_path: Path) -> None:
    done = loaded.run(SCRIPT, "--time", "virtual", "--quick", "--out", str(tmp_path))
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr  # tests do not judge speed
    results = tmp_path / "inconclusive" if done.returncode == 2 else tmp_path
    checks = json.loads((results / "summary.json").read_text())["checks"]
    differ = [check["passed"] for check in checks if check["name"].endswith("frames that differ")]
    assert differ == [True, True]
    lost = [check["passed"] for check in checks if check["name"].endswith("packets lost")]
    assert lost == [True] * 6  # three rounds of each program
    with (results / "samples.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert {(row["setting"], row["architecture"]) for row in rows} == {
        (setting, name)
        for setting in ("10 routes", "10,000 routes", "network")
        for name in ("v1model", "TNA")
    }
    assert min(float(row["cpu_ns"]) for row in rows) > 0
