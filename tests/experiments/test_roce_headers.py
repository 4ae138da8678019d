"""Header fields in virtual time, compared with those of a real session.

A wrong field is detected.
"""

import json
from pathlib import Path

import pytest
from scripts import failed_checks, faulty_program, run, samples

SHORT = ("--time", "virtual")


def test_every_field_is_as_in_a_real_session(tmp_path: Path) -> None:
    done = run("roce_headers", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    chosen = {row["field"] for row in rows if row["verdict"] == "sender's choice"}
    assert chosen == {"IP id", "UDP sport", "BTH migreq"}
    assert len(rows) == 37 + 38 + 38 + 37 + 38
    assert (tmp_path / "roce_headers.png").stat().st_size > 10_000
    reference = json.loads((tmp_path / "summary.json").read_text())["metrics"]["rdma_rxe"]
    assert reference == "from a capture: virtual time has no virtual machine"


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("transport.p4", "bth.partition_key = 0xFFFF;", "bth.partition_key = 0x7FFF;"),
        ("icrc.p4", "crc[7:0] ++ crc[15:8]", "crc[15:8] ++ crc[7:0]"),
    ],
    ids=["P_Key", "iCRC"],
)
def test_a_wrong_field_is_found_out(file: str, right: str, wrong: str, tmp_path: Path) -> None:
    program = faulty_program(tmp_path, file, right, wrong, "roce/roce.p4")
    done = run("roce_headers", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(failed_checks(tmp_path / "out")) == 5
