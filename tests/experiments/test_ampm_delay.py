"""The delay experiment in virtual time is exact to the microsecond, and detects wrong delays."""

from pathlib import Path

import pytest
from scripts import failed_checks, faulty_program, largest_kept, run, samples

SHORT = ("--time", "virtual", "--delay-ms", "0.1", "500", "--blocks", "4", "--seeds", "2")


def test_every_delay_of_every_method_is_right(tmp_path: Path) -> None:
    done = run("ampm_delay", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    estimators = {row["estimator"] for row in rows}
    assert estimators == {"first packet", "mean", "pulse", "double", "multiplexed", "hashed"}
    known = [row for row in rows if row["error_us"] and row["estimator"] != "mean"]
    assert len(known) > 240  # the hash selects 102 samples in blocks of this length
    assert max(abs(float(row["error_us"])) for row in known) < 1
    slow = [float(row["measured_us"]) for row in known if row["case"] == "delay 500 ms"]
    assert set(slow) == {500_000}
    loaded = [float(row["measured_us"]) for row in known if row["loaded"] == "1"]
    assert max(loaded) > 2 * min(loaded)
    assert largest_kept(tmp_path) < 15_000
    assert (tmp_path / "ampm_delay.png").stat().st_size > 10_000


def test_lost_pulses_give_no_delay_and_a_reason(tmp_path: Path) -> None:
    options = ("--delay-ms", "1", "--load", "0", "--loss", "30", "--blocks", "12")
    done = run("ampm_delay", *SHORT, *options, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    pulses = [row for row in samples(tmp_path) if row["case"] == "loss 30 %"
              and row["estimator"] in ("pulse", "double", "multiplexed")]  # fmt: skip
    lost = [row for row in pulses if not row["true_us"]]
    assert len(pulses) == 3 * 2 * 12
    assert 5 < len(lost) < 50
    assert all((row in lost) == (not row["measured_us"]) for row in pulses)
    assert {row["problem"] for row in lost} == {"no pulse at the second point"}


@pytest.mark.parametrize(
    ("file", "right", "wrong", "failed"),
    [
        (
            "pulse.p4",
            "pulse_us.write(watch.cell, is_new ? time_us : time);",
            "pulse_us.write(watch.cell, is_new ? time_us + 3 * (bit<48>)watch.last : time);",
            {f"{name}: max error (us)" for name in ("pulse", "double", "multiplexed")},
        ),
        (  # the timestamps match no packet, so there is no true delay to compare
            "ampm.p4",
            "meta.watch, meta.sample, meta.watch.now_us,",
            "meta.watch, meta.sample, meta.watch.now_us + (bit<48>)meta.sample.hash[29:29] * 512,",
            {"hashed: timestamps matching no packet"},
        ),
    ],
    ids=["of a pulse", "of some samples"],
)
def test_a_wrong_time_is_found_out(
    file: str, right: str, wrong: str, failed: set[str], tmp_path: Path
) -> None:
    program = faulty_program(tmp_path, file, right, wrong)
    options = ("--delay-ms", "1", "--load", "0", "--loss", "--program", program)
    done = run("ampm_delay", *SHORT, *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {f"delay 1 ms, {name}" for name in failed}


def test_in_real_time_too_a_switch_that_stamps_late_is_found_out(tmp_path: Path) -> None:
    """In real time, too, a switch that timestamps 200 us late is detected.

    Other programs on the machine may cause such a delay. The timestamps contradict the times of
    sender and receiver.
    """
    right = "watch.now_us = standard_metadata.ingress_global_timestamp + offset_us"
    program = faulty_program(tmp_path, "watch.p4", right, f"{right} + 200")
    options = ("--quick", "--load", "0", "--loss", "--delay-ms", "1", "--program", program)
    done = run("ampm_delay", *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    found = failed_checks(tmp_path / "out")
    # Load on the machine widens the error bounds of some methods, such as the mean delay.
    assert {name for name in found if name.startswith("delay 1 ms, ")}
    assert not {name for name in found if name.startswith("packets ")}  # captures are right


def test_a_small_version_has_the_blocks_that_were_asked_for(tmp_path: Path) -> None:
    options = ("--quick", "--time", "virtual", "--load", "0", "--loss", "--blocks", "6")
    done = run("ampm_delay", *options, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({row["block"] for row in samples(tmp_path)}) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--delay-ms", "0"), "--delay-ms"),
        (("--delay-ms", "slow"), "--delay-ms"),
        (("--load", "2"), "--load"),
        (("--loss", "101"), "--loss"),
        (("--loss", "100"), "--loss 100: no packet arrives"),
        (("--blocks", "1"), "--blocks 1: the case with load"),
        (("--program", "no/such.p4"), "no/such.p4"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = run("ampm_delay", "--time", "virtual", *arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
