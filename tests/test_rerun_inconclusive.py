"""A test whose run was inconclusive runs again. A test that fails for other reasons does not."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rerun_inconclusive import LINE, TRIES

from telemark.errors import InvalidRunError

HERE = Path(__file__).parent
BLAMED = re.compile("run invalid|for this machine|too busy|stood still")
GAP = r'[ "f\n]+'  # what separates two words of a message, which may consist of two literals
HEAD = f"""
import pathlib, time
import pytest
HERE = pathlib.Path(__file__).parent
LINE = {LINE!r}

def count(name="ran"):
    with (HERE / name).open("a") as file:
        file.write("x")
    return (HERE / name).stat().st_size
"""


def outcome(folder: Path, tests: str, *options: str) -> tuple[dict[str, int], str]:
    """Run the given tests in a separate pytest; return its counts and its output."""
    # The copied plugin locks the copied files, not the files that this pytest locks.
    shutil.copy(HERE / "rerun_inconclusive.py", folder)
    (folder / "conftest.py").write_text("from rerun_inconclusive import pytest_runtest_protocol")
    (folder / "test_them.py").write_text(HEAD + tests)
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS")
                   and not name.startswith("PYTEST_XDIST")}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)],
        capture_output=True, text=True, check=False, cwd=folder, timeout=300,
        env=environment | {"PYTHONPATH": str(folder)},
    )  # fmt: skip
    counted = re.findall(r"(\d+) (passed|failed|errors?|warnings?)", done.stdout.splitlines()[-1])
    return {name.rstrip("s"): int(number) for number, name in counted}, done.stdout


def times_ran(folder: Path, name: str = "ran") -> int:
    return (folder / name).stat().st_size


def test_a_test_runs_until_its_run_is_a_verdict(tmp_path: Path) -> None:
    body = """
def test_it(tmp_path):
    (tmp_path / "is new").mkdir()
    assert count() == 3, f"run invalid: something; {LINE}"
"""
    counted, said = outcome(tmp_path, body)
    assert (counted, times_ran(tmp_path)) == ({"passed": 1, "warning": 1}, 3), said
    assert "test_them.py::test_it ran 3 times: its machine disturbed it" in said


def test_a_run_that_is_never_one_fails_at_last(tmp_path: Path) -> None:
    counted, said = outcome(tmp_path, "def test_it():\n    count()\n    assert False, LINE\n")
    assert (counted, times_ran(tmp_path)) == ({"failed": 1, "warning": 1}, TRIES), said


@pytest.mark.parametrize(
    "body",
    [
        "assert 1 == 2, 'wrong'",
        f"raise ValueError  # {LINE}",  # LINE is in the code of the failure, not in its message
        f"print({LINE!r}); assert 1 == 2",
        "pytest.skip(LINE)",
    ],
)
def test_other_failures_are_not_repeated(body: str, tmp_path: Path) -> None:
    _, said = outcome(tmp_path, f"def test_it():\n    count()\n    {body}\n")
    assert times_ran(tmp_path) == 1, said


@pytest.mark.parametrize("scope", ["function", "module"])
def test_a_failure_beside_it_is_one(scope: str, tmp_path: Path) -> None:
    body = f"""
@pytest.fixture(scope={scope!r})
def left_open():
    yield
    assert not "closed"

def test_it(left_open):
    count()
    assert False, LINE

def test_another(left_open):
    pass
"""
    counted, said = outcome(tmp_path, body)
    assert (counted, times_ran(tmp_path)) == ({"failed": 1, "passed": 1, "error": 2}, 1), said


def test_fixtures_that_tests_share_are_made_again(tmp_path: Path) -> None:
    """Shared fixtures are created again after an inconclusive failure in a fixture or in a test."""
    body = """
@pytest.fixture(scope="module")
def run():
    found = count()
    assert found > 1, f"2: {LINE}"
    yield found
    count("torn down")

def test_one(run):
    assert run > 2, LINE

def test_two(run):
    assert run == 3
"""
    counted, said = outcome(tmp_path, body)
    assert (counted, times_ran(tmp_path)) == ({"passed": 2, "warning": 1}, 3), said
    assert times_ran(tmp_path, "torn down") == 2


def test_an_inconclusive_test_is_repeated_without_parallel_tests(tmp_path: Path) -> None:
    """While one of two workers repeats a test, the other one runs no test. Both workers finish."""
    body = """
@pytest.mark.parametrize("number", range(3))
def test_it(number):
    others = {*HERE.glob("busy*")}
    if count(f"ran{number}") == 1:
        time.sleep(0.05)
        assert False, LINE
    time.sleep(0.05)
    assert not others | {*HERE.glob("busy*")}

@pytest.mark.parametrize("number", range(40))
def test_of_others(number):
    (HERE / f"busy{number}").touch()
    time.sleep(0.02)
    (HERE / f"busy{number}").unlink()
"""
    counted, said = outcome(tmp_path, body, "-n", "2", "--dist", "worksteal")
    assert counted == {"passed": 43, "warning": 3}, said


def test_tests_that_blame_the_machine_print_the_line() -> None:
    blaming = {
        f"{path}:{node.lineno}": ast.unparse(node)
        for folder in ("benchmarks", "controllers", "experiments", "telemark")
        for path in (HERE.parent / folder).rglob("*.py")
        if BLAMED.search(path.read_text())
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and BLAMED.search(ast.unparse(node))
    }
    named = re.compile(f"{LINE}|IDLE_MACHINE")
    assert [place for place, text in blaming.items() if not named.search(text)] == []
    assert str(InvalidRunError("late")) == f"run invalid: late; {LINE}"


def test_only_real_time_blames_the_machine() -> None:
    """Only code for real time mentions load on the machine in its errors.

    Other code raises InvalidRunError. In virtual time, a run with this error counts as failed.
    """
    blaming = {
        str(path.relative_to(HERE.parent))
        for folder in ("collectors", "controllers", "experiments", "telemark")
        for path in (HERE.parent / folder).rglob("*.py")
        if re.search(rf"{LINE.replace(' ', GAP)}|IDLE_MACHINE|run invalid", path.read_text())
    }
    assert {path for path in blaming if not path.startswith("telemark/backends/real/")} == {
        "telemark/errors.py",
        "telemark/capacity_probe.py",  # capacity probe of bmv2
        "telemark/accounting/packet_accounting.py",  # mentioned in an InvalidRunError
    }


def test_only_code_that_cannot_continue_raises() -> None:
    """Only code that cannot continue raises InvalidRunError.

    All other code calls note_invalid(), so that the report contains the measurements.
    """
    raising = {
        str(path.relative_to(HERE.parent))
        for folder in ("benchmarks", "collectors", "controllers", "experiments", "telemark")
        for path in (HERE.parent / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
        and re.search("InvalidRunError|BusyMachineError|run invalid", ast.unparse(node))
    }
    assert raising == {
        "controllers/ampm/collector.py",  # the records of a block could not be read
        "controllers/dta/manager/runner.py",  # `telemark dta` has no results to save
        # bmv2 dropped packets, so the order of the others does not identify them
        "experiments/roce_collect.py",
        "experiments/shared/gallery/intsight_model.py",  # for the same reason
        "experiments/shared/int/on_bmv2.py",  # for the same reason
        "experiments/shared/int/marking.py",  # no block was read
        "experiments/shared/xdp/pace.py",  # no packet arrived
        "telemark/backends/real/traffic.py",  # Network records the error
    }
