"""The congestion experiment in virtual time: it detects congestion, and only congestion."""

from pathlib import Path

import pytest
from scripts import failed_checks, faulty_program, run, samples

SHORT = ("--time", "virtual", "--blocks", "3", "--seeds", "2")


@pytest.mark.parametrize("method", ["double", "multiplexed"])
def test_congestion_is_seen_in_loss_and_delay(method: str, tmp_path: Path) -> None:
    done = run("ampm_congestion", *SHORT, "--method", method, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert [float(row["load"]) for row in rows] == 2 * [*3 * [0], *3 * [0.6], *3 * [1.5], *3 * [0]]
    assert all(row["measured_loss"] == row["true_loss"] for row in rows)
    for row in rows:
        congested = float(row["load"]) > 1
        assert (int(row["true_loss"]) > 20) == congested
        if row["measured_delay_us"]:
            assert (float(row["measured_delay_us"]) > 25_000) == congested
    assert (tmp_path / "ampm_congestion.png").stat().st_size > 10_000


@pytest.mark.parametrize("options", [("--rate", "20"), ("--load", "1.05")])
def test_short_congestion_need_not_be_visible_in_each_block(
    options: tuple[str, str], tmp_path: Path
) -> None:
    done = run("ampm_congestion", *SHORT, *options, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_congestion_none_is_seen(tmp_path: Path) -> None:
    done = run("ampm_congestion", *SHORT, "--load", "0.3", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert {row["measured_loss"] for row in rows} == {"0"}
    assert max(float(row["measured_delay_us"]) for row in rows) < 10_000


def test_departures_stamped_before_the_queue_are_found_out(tmp_path: Path) -> None:
    right = "now_us = standard_metadata.egress_global_timestamp"
    wrong = "now_us = standard_metadata.ingress_global_timestamp"
    program = faulty_program(tmp_path, "ampm.p4", right, wrong)
    done = run("ampm_congestion", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {"pulses with a wrong queueing delay in s1"}


@pytest.mark.parametrize("arguments", [("--method", "step"), ("--load", "-1"), ("--blocks", "0")])
def test_a_mistake_gets_one_clear_line(arguments: tuple[str, str], tmp_path: Path) -> None:
    done = run("ampm_congestion", *arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert arguments[0] in done.stderr.splitlines()[-1]
