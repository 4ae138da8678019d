"""Provenance of results: the program, the commit, files changed since then, and the time."""

import json
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from telemark import REPOSITORY
from telemark.results import provenance
from telemark.results.provenance import Origin, P4Source, git_state

PROGRAM = '#include "size.p4"\nconst bit<8> rows = ROWS;\n'


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Write a program that includes a file which has only macros."""
    (tmp_path / "size.p4").write_text("#ifndef ROWS\n#define ROWS 8\n#endif\n")
    (tmp_path / "x.p4").write_text(PROGRAM)
    return tmp_path / "x.p4"


def test_a_program_s_hash_is_of_what_the_compiler_sees(program: Path, tmp_path: Path) -> None:
    first = P4Source.read(program).sha256
    program.write_text("#include <core.p4>\n// a comment\n" + PROGRAM.replace(" = ", "   =\n"))
    assert P4Source.read(program).sha256 == first
    assert P4Source.read(program, ["ROWS=8"]).sha256 == first
    assert P4Source.read(program, ["ROWS=9"]).sha256 != first
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("x.p4", "size.p4"):
        (moved / name).write_text((tmp_path / name).read_text())
    assert P4Source.read(moved / "x.p4").sha256 == first
    (tmp_path / "size.p4").write_text("#define ROWS 9\n")
    assert P4Source.read(program).sha256 != first


def test_all_files_of_a_program_are_known(program: Path, tmp_path: Path) -> None:
    program.write_text("#include <core.p4>\n" + PROGRAM)
    assert P4Source.read(program).files == {tmp_path / "x.p4", tmp_path / "size.p4"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a checkout with two files, one of which is a result."""
    for name in ("a.p4", "results/reference/x.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("first\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *command], check=True)
    return tmp_path


def unchanged(_checkout: Path) -> None:
    pass


def change(name: str) -> Callable[[Path], None]:
    return lambda checkout: (checkout / name).write_text("second\n") and None


@pytest.mark.parametrize(
    ("do", "used", "changed"),
    [
        (unchanged, ["a.p4"], []),
        (change("a.p4"), [], ["a.p4"]),
        (change("mine.p4"), [], []),
        (change("mine.p4"), ["a.p4", "mine.p4"], ["mine.p4"]),
        (change("results/reference/x.csv"), [], []),
    ],
)
def test_a_commit_is_clean_if_all_that_was_used_is_in_it(
    checkout: Path, do: Callable[[Path], None], used: list[str], changed: list[str]
) -> None:
    do(checkout)
    revision, found = git_state([checkout / name for name in used], checkout)
    assert found == changed
    assert len(revision.rstrip("+")) == 40
    assert revision.endswith("+") == bool(changed)


def test_a_program_of_elsewhere_is_not_of_the_commit(checkout: Path, program: Path) -> None:
    elsewhere = Path("/elsewhere/x.p4")
    assert git_state([elsewhere], checkout)[1] == [str(elsewhere)]


def test_outside_a_checkout_the_commit_is_unknown(tmp_path: Path) -> None:
    assert git_state([], tmp_path) == ("unknown", [])


def test_a_run_says_when_it_was_and_what_it_used(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "git_state", lambda used: ("0123abc", sorted(map(str, used))))
    origin = Origin("What?", programs={P4Source.read(program, ["A=1"]), P4Source.read(program)})
    said = json.loads(json.dumps(origin.as_dict()))
    began = datetime.fromisoformat(said["date"])
    assert began.utcoffset() == timedelta(0)
    assert abs(datetime.now(timezone.utc) - began) < timedelta(minutes=1)
    assert 0 <= said["duration_s"] < 60
    assert said["question"] == "What?"
    assert [p["defines"] for p in said["programs"]] == [[], ["A=1"]]
    assert {p["path"] for p in said["programs"]} == {str(program)}
    assert {str(program), provenance.__file__} <= {*said["environment"]["changed"]}
    assert not any("site-packages" in name for name in said["environment"]["changed"])


@pytest.mark.skipif(git_state([])[0] == "unknown", reason="no checkout of git")
def test_a_script_that_is_not_committed_counts(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    (tmp_path / "mine_too.py").write_text("")
    script.write_text(
        "import mine_too\nfrom telemark.results.provenance import environment\n"
        "print(environment()['changed'])\n"
    )
    command = [str(REPOSITORY / ".venv" / "bin" / "python"), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert str(script) in done.stdout
    assert str(tmp_path / "mine_too.py") in done.stdout
    assert "site-packages" not in done.stdout
