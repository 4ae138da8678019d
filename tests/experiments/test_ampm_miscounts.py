"""All experiments on alternate marking detect a switch that does not count one packet in four."""

from pathlib import Path

import pytest
from scripts import failed_checks, faulty_program, run


@pytest.mark.parametrize(
    ("name", "options", "check"),
    [
        ("ampm_scale", ("--switches", "5", "--flows", "10"),
         "5 switches, 10 flows: wrong loss values (flow, block, segment)"),
        ("ampm_sync", ("--errors", "0.1", "--seeds", "1"),
         "double, A + D < 0.5 L: blocks with wrong loss"),
        ("ampm_reordering", ("--seeds", "1"), "10 % delayed by 30 packets, step: wrong blocks"),
    ],
)  # fmt: skip
def test_a_switch_that_miscounts_is_found_out(
    name: str, options: tuple[str, ...], check: str, tmp_path: Path
) -> None:
    count = "arrivals.count("
    faulty = f"if (standard_metadata.ingress_global_timestamp[5:4] != 0) {count}"
    program = faulty_program(tmp_path, "ampm.p4", count, faulty)
    out = str(tmp_path / "out")
    done = run(name, "--time", "virtual", "--quick", *options, "--program", program, "--out", out)
    assert done.returncode == 1, done.stdout + done.stderr
    assert check in failed_checks(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ampm_loss", ("--time", "virtual", "--loss", "0", "--seeds", "1")),
        ("ampm_delay", ("--time", "real", "--load", "0", "--loss", "--blocks", "2")),
    ],
    ids=["ampm_loss", "ampm_delay"],
)
def test_switches_that_forward_nothing_are_found_out(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """Switches that drop all packets are detected, although measured loss equals true loss."""
    count = "departures.count(meta.watch.cell);"
    program = faulty_program(
        tmp_path, "ampm.p4", count, f"{count} mark_to_drop(standard_metadata);"
    )
    out = tmp_path / "out"
    done = run(name, "--quick", *options, "--program", program, "--out", str(out))
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(check.endswith("packets dropped by switches") for check in failed_checks(out))
