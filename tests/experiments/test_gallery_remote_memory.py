"""experiments/gallery_remote_memory.py equals its models, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

CELLS = "cells of the memory that differ from the model"
PACKETS = "packets that are lost, wrong or out of order"


@pytest.mark.parametrize("seed", [11, 12])
def test_memory_and_packets_equal_the_models(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_remote_memory", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("(bit<64>)cell << 3;", "0;", f"counters: {CELLS}"),
        ("hdr.entry.port[8:0];", "OUT;", f"lookup table: {PACKETS}"),
        ("(bit<64>)cell * 72 + 8;", "(bit<64>)cell * 72;", f"lookup table: {CELLS}"),
        (" || meta.slot != back;", ";", f"packet buffer: {PACKETS}"),
        ("psns.write((bit<32>)session, number.psn + 1);", "", "counters: rejected requests"),
    ],
)
def test_a_fault_of_the_program_is_found(
    right: str, wrong: str, failing: str, tmp_path: Path
) -> None:
    program = scripts.faulty_program(
        tmp_path, "remote_memory.p4", right, wrong, "gallery/remote_memory.p4"
    )
    out = tmp_path / "out"
    done = scripts.run("gallery_remote_memory", "--time", "virtual", "--quick", "--program",
                       program, "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert failing in scripts.failed_checks(out)
