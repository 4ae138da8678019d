"""experiments/gallery_intsight.py equals its model, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

HEADERS = "headers that differ from the model"
REPORTS = "reports that differ from the model"


@pytest.mark.parametrize("seed", [11, 12])
def test_headers_and_reports_equal_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_intsight", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        ("hdr.telemetry.delay_us + latency_us", "latency_us", HEADERS),
        ("48w1 << hdr.telemetry.path_length", "48w1", HEADERS),
        ("(is_new ? 0 : meta.packets) + 1", "meta.packets + 1", HEADERS),
        ("now.contention | telemetry.contention", "telemetry.contention", REPORTS),
        ("previous.egress_bytes < meta.min_bytes\n                &&", "", REPORTS),
    ],
)
def test_a_fault_of_the_program_is_found(
    right: str, wrong: str, check: str, tmp_path: Path
) -> None:
    program = scripts.faulty_program(tmp_path, "intsight.p4", right, wrong, "gallery/intsight.p4")
    out = tmp_path / "out"
    done = scripts.run("gallery_intsight", "--time", "virtual", "--quick", "--program", program,
                       "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert check in scripts.failed_checks(out)
