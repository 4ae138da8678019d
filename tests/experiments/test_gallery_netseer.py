"""experiments/gallery_netseer.py equals its model, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

REPORTS, NOTICES = "reports that differ from the model", "notices that differ from the gaps"


@pytest.mark.parametrize("seed", [11, 12])
def test_the_reports_equal_the_model(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_netseer", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("meta.evicted_count = count;", "meta.evicted_count = 0;", REPORTS),
        ("stored != meta.flow || path != current", "stored != meta.flow", REPORTS),
        ("resubmit_preserving_field_list(NOTICE_FIELDS);", "", REPORTS),
        ("stored == meta.missing ? meta.flow : 0", "meta.flow", REPORTS),
        ("hdr.ipv4.identification - meta.missing;", "1;", NOTICES),
    ],
)
def test_a_fault_of_the_program_is_found(
    right: str, wrong: str, failing: str, tmp_path: Path
) -> None:
    program = scripts.faulty_program(tmp_path, "netseer.p4", right, wrong, "gallery/netseer.p4")
    out = tmp_path / "out"
    done = scripts.run("gallery_netseer", "--time", "virtual", "--quick", "--seed", "1",
                       "--program", program, "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert failing in scripts.failed_checks(out)
