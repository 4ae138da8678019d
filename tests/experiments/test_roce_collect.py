"""Records in the collector's file, in virtual time: correct records pass; faults are detected."""

import json
from pathlib import Path

import pytest
from scripts import failed_checks, faulty_program, run, samples

SHORT = ("--time", "virtual", "--quick", "--packets", "60")


def test_the_file_holds_each_record(tmp_path: Path) -> None:
    done = run("roce_collect", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = samples(tmp_path)
    assert [row["case"] for row in rows] == ["v1", "v2, with hop", "v2, small ring"]
    assert [row["slots"] for row in rows] == ["60", "60", "18"]
    assert (tmp_path / "roce_collect.png").stat().st_size > 10_000
    caption = json.loads((tmp_path / "summary.json").read_text())["caption"]
    assert "Without rdma_rxe: virtual time has no virtual machine." in caption


@pytest.mark.parametrize(
    ("file", "right", "wrong", "failed"),
    [
        (
            "records.p4", "flow.tcp_acknowledgement = tcp.acknowledgement;",
            "flow.tcp_acknowledgement = ports.word;",
            {"v1", "v2, with hop", "v2, small ring"},
        ),
        (
            "records.p4", "record.latency_us = hop.latency_us;",
            "record.latency_us = hop.latency_us + 1;",
            {"v2, with hop"},
        ),
        (
            "transport.p4", "number.slot + 1 >= slots",
            "number.slot + 2 >= slots",
            {"v1", "v2, with hop", "v2, small ring"},
        ),
    ],
    ids=["another field", "a latency that is off", "a slot left out"],
)  # fmt: skip
def test_wrong_bytes_in_the_file_fail(
    file: str, right: str, wrong: str, failed: set[str], tmp_path: Path
) -> None:
    program = faulty_program(tmp_path, file, right, wrong, "roce/roce.p4")
    done = run("roce_collect", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert failed_checks(tmp_path / "out") == {
        f"{case}: wrong bytes of the file" for case in failed
    }


def test_more_than_memory_holds_is_refused(tmp_path: Path) -> None:
    done = run("roce_collect", "--packets", "100001", "--time", "virtual", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--packets 100001: too many segments for memory; use at most 100000" in done.stderr
