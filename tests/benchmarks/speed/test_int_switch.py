"""The benchmark int_switch.py: a short run as users start it, and invalid options."""

import csv
import subprocess
from pathlib import Path

import loaded

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "speed" / "int_switch.py"


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return loaded.run(SCRIPT, "--quick", "--time", "virtual", "--out", str(out), *options)


def test_a_short_run_measures_every_role(tmp_path: Path) -> None:
    done = run(tmp_path)
    if done.returncode == 2:  # the machine was loaded
        assert "run invalid: " in done.stderr.splitlines()[-1], done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        samples = {row["measure"]: float(row["ns"]) for row in csv.DictReader(file)}
    assert len(samples) == 9
    assert all(5 < ns < 100_000 for ns in samples.values())
    assert samples["INT, sink with a report per packet"] > samples["INT, sink"]
