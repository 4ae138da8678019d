"""benchmarks/virtual.py as its users start it, in its smallest version."""

import csv
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "virtual.py"


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--out", str(out), *options],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def test_fabrics_deliver_every_packet(tmp_path: Path) -> None:
    small = ("--switches", "10", "30", "--flows", "500", "--packets", "10", "--quick")
    done = run(tmp_path, "--time", "virtual", *small)
    assert "hops/s" in done.stdout, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["switches"]) for row in rows] == [10, 30]
    for row in rows:
        assert int(row["packets"]) == 5000
        # Two leaves and a spine within a pod; to another pod a core and another spine, too.
        assert 4 * 5000 < int(row["hops"]) < 5 * 5000
    assert "mean wait of M/D/1" in done.stdout
    assert "holds" in done.stdout


def test_real_time_is_not_what_it_measures(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert "add --time virtual" in done.stderr.splitlines()[-1]
