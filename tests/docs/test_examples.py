"""docs/examples: each script runs with any Python and gives the documented result."""

import csv
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["/usr/bin/python3", str(EXAMPLES / example), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_tcp_loss_is_exact_per_block_and_direction(time: str, tmp_path: Path) -> None:
    done = run("ampm_tcp.py", "--time", time, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(row["lost"] == row["true"] for row in rows)
    for near, far in (("s1", "s2"), ("s2", "s3"), ("s3", "s2"), ("s2", "s1")):
        link = [row for row in rows if (row["from"], row["to"]) == (near, far)]
        assert len(link) >= 3  # three seconds contain at least three blocks of one second
        assert sum(int(row["sent"]) for row in link) > 500
        assert sum(int(row["lost"]) for row in link) > 3


def test_failing_link_in_virtual_time(tmp_path: Path) -> None:
    done = run("virtual_time.py", "--time", "virtual", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["sequence"]) for row in rows] == [*range(1001, 2001)]
    assert [round(float(row["time_s"]) * 1e9) for row in rows] == [
        10**6 * int(row["sequence"]) for row in rows
    ]


def test_failing_link_in_real_time(tmp_path: Path) -> None:
    done = run("virtual_time.py", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "samples.csv").read_text().count("\n") > 100  # packets lost in one second


def test_collector_receives_reports_that_the_link_did_not_lose(tmp_path: Path) -> None:
    """In virtual time, the collector of the example receives all reports that the link delivers.

    test_application.py tests such a collector in real time, too.
    """
    done = run("collector.py", "--time", "virtual", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "samples.csv").open() as file:
        numbers = [int(row["number"]) for row in csv.DictReader(file)]
    assert numbers == sorted(numbers)
    assert 1800 < len(numbers) < 1960


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_int_collector_finds_the_switch_with_the_queue(time: str, tmp_path: Path) -> None:
    done = run("int_collector.py", "--time", time, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    samples = (tmp_path / "samples.csv").read_text().split()
    assert len(samples) == 6
    if time == "virtual":
        tutorial = (EXAMPLES.parent / "tutorials" / "int-collector.md").read_text()
        assert all(f"    {sample}\n" in tutorial for sample in samples)
