"""INT paths in memory, in virtual time; a sink that reports wrong paths is detected."""

from pathlib import Path

from scripts import failed_checks, faulty_program, run, samples

SHORT = ("--time", "virtual", "--quick", "--slots", "256")


def test_paths_are_found_as_often_as_theory_says(tmp_path: Path) -> None:
    done = run("dta_int", *SHORT, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    found = samples(tmp_path)
    assert {row["source"] for row in found} == {"key-write", "postcards", "model"}
    assert {int(row["wrong"]) for row in found} == {0}
    whole = [row for row in found
             if row["source"] == "key-write" and row["bytes_per_flow"] == "32.0"]  # fmt: skip
    assert all(0 < int(row["right"]) < int(row["queries"]) == 256 for row in whole)
    assert (tmp_path / "dta_int.png").stat().st_size > 10_000


def test_a_sink_that_tells_of_other_switches_is_found_out(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path, "int_paths.p4", "flow.node_id = hop.node_id;",
        "flow.node_id = hop.node_id + 1;", "dta/int_sink.p4",
    )  # fmt: skip
    done = run("dta_int", *SHORT, "--program", program, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    failed = {name.partition(": ")[2] for name in failed_checks(tmp_path / "out")}
    assert {"bytes of memory that differ from the model", "wrong answers"} <= failed


def test_stores_that_cannot_be_are_refused(tmp_path: Path) -> None:
    done = run("dta_int", *SHORT[:2], "--slots", "65536", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--slots 65536: expected 256 to 32768, because there is one flow" in done.stderr
    assert not [*tmp_path.iterdir()]
