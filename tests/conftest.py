"""Fixtures for all tests. They write experiments, and start them as users do.

With SANITIZE in the environment, all C code that tests build has sanitizers: see test_sanitized.py.
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
    """Start the longest tests first. Otherwise, all workers would wait for them at the end.

    Files whose tests share a virtual machine start even earlier. A worker without tests takes half
    of the remaining tests of another worker. If it took tests of such a file, it would have to boot
    a second virtual machine.
    """
    first = (*WITH_A_MACHINE, LONGEST, "")
    items.sort(key=lambda item: first.index(item.path.name if item.path.name in first else ""))


def pytest_collection_finish() -> None:
    """Exclude tests and imports from garbage collection, because they stay in memory anyway."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let the garbage collector free all objects at exit. Otherwise, libraries report leaks."""
    gc.unfreeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """With sudo, give pytest's cache to the user who called sudo.

    Then this user can delete the cache.
    """
    for folder, _, names in os.walk(config.rootpath / ".pytest_cache"):
        for name in (".", *names):
            give_to_caller(Path(folder, name))


@pytest.fixture
def scripts_of() -> Callable[[str], set[str]]:
    """Return the names of a folder's Python files that git tracks. Users may add other files."""

    def names(folder: str) -> set[str]:
        git = ["git", "-c", f"safe.directory={REPOSITORY}", "-C", str(REPOSITORY), "ls-files"]
        done = subprocess.run([*git, f"{folder}/[!_]*.py"], capture_output=True, text=True,
                              check=True)  # fmt: skip
        paths = map(Path, done.stdout.splitlines())
        return {path.stem for path in paths if str(path.parent) == folder}

    return names


@pytest.fixture
def start_experiment(tmp_path: Path) -> Iterator[StartExperiment]:
    """Return a function that starts an experiment with a given body and given arguments.

    The body can use `options` and `run`, may await, and returns a Report. Processes that still run
    when the test ends are killed.
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
