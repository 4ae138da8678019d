"""Fixtures for all tests: experiments written on the fly, started as their users start them.

With SANITIZE in the environment all C that tests build has sanitizers: see test_sanitized.py.
"""

import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loaded import Started, StartExperiment
from rerun_inconclusive import pytest_runtest_protocol  # noqa: F401  pytest finds the hook here

from minip4.native import build
from telemark.results.files import give_to_caller

if "SANITIZE" in os.environ:
    plain = build._mode

    def sanitized(sanitize: bool) -> tuple[str, ...]:
        return plain(True)

    build._mode = sanitized

REPOSITORY = Path(__file__).parents[1]
WITH_A_MACHINE, LONGEST = ("test_roce_rxe.py", "test_vm.py"), "test_sanitized.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: at the end all other workers would wait for it.

    But before it what boots a virtual machine for all tests of its file: a worker that has nothing
    left takes the second half of another's share, and would boot one more for what lies there.
    """
    first = (*WITH_A_MACHINE, LONGEST, "")
    items.sort(key=lambda item: first.index(item.path.name if item.path.name in first else ""))


def pytest_collection_finish() -> None:
    """All tests and what they import stay: the garbage collector need not look at them again."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """At the interpreter's end they go, or libraries tell of leaks."""
    gc.unfreeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """With sudo, pytest's cache is the calling user's, who may then remove the checkout."""
    for folder, _, names in os.walk(config.rootpath / ".pytest_cache"):
        for name in (".", *names):
            give_to_caller(Path(folder, name))


@pytest.fixture
def scripts_of() -> Callable[[str], set[str]]:
    """The names of a folder's Python files that git tracks: what users add is their own affair."""

    def names(folder: str) -> set[str]:
        git = ["git", "-c", f"safe.directory={REPOSITORY}", "-C", str(REPOSITORY), "ls-files"]
        done = subprocess.run([*git, f"{folder}/[!_]*.py"], capture_output=True, text=True,
                              check=True)  # fmt: skip
        paths = map(Path, done.stdout.splitlines())
        return {path.stem for path in paths if str(path.parent) == folder}

    return names


@pytest.fixture
def start_experiment(tmp_path: Path) -> Iterator[StartExperiment]:
    """Start a script whose experiment has the given body, with the given arguments.

    The body sees `options` and `run`, may await, and returns a Report. Whatever still runs when
    the test ends is killed.
    """
    started: list[Started] = []

    def start(body: str, *arguments: str, head: str = "") -> Started:
        script = tmp_path / "example.py"
        lines = "\n".join("    " + line for line in body.splitlines())
        script.write_text(
            f'"""An example."""\n{head}\n'
            "from telemark.session import cli\n"
            "from telemark.results.report import Check, Report\n"
            f"async def experiment(options, run):\n{lines}\n"
            'if __name__ == "__main__":\n'
            "    cli.main(__file__, __doc__, experiment)\n"
        )
        process = Started(script, "--out", str(tmp_path / "out"), *arguments)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
