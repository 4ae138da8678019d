"""experiments/gallery_sonata.py equals exact queries, and detects faults of the program."""

from pathlib import Path

import pytest
import scripts

from experiments.shared.gallery.stream_processor import complete

pytest.importorskip("duckdb")


@pytest.mark.parametrize("seed", [11, 12])
def test_answers_equal_exact_ones(seed: int, tmp_path: Path) -> None:
    done = scripts.run("gallery_sonata", "--time", "virtual", "--quick", "--seed", str(seed),
                       "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("stored_key == key", "stored_window == window"),
        ("stored_count + 1", "stored_count"),
        ("result = DISTINCT_OVERFLOW", "occurrences = 1"),
        ("fields & key_mask", "fields & distinct_mask"),
        ("has_distinct = distinct_mask != 0", "has_distinct = false"),
    ],
)
def test_a_fault_of_the_program_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    program = scripts.faulty_program(tmp_path, "sonata.p4", right, wrong, "gallery/sonata.p4")
    out = tmp_path / "out"
    done = scripts.run("gallery_sonata", "--time", "virtual", "--quick", "--program", program,
                       "--out", str(out))  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "keys whose count differs from the trace" in scripts.failed_checks(out)


def test_the_stream_processor_adds_overflows_to_counts() -> None:
    reports = [("a", "a1", 1), ("a", "a2", 2), ("a", "a2", 2), ("a", "a3", 3), ("a", "a3", 3),
               ("b", "b1", 2)]  # fmt: skip
    assert complete(reports, {"a": 4, "b": 5}, 7) == {0xA: 4 + 1 + 2}
