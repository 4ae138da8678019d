"""Experiments for tests: run as commands, or loaded as modules."""

import csv
import importlib.util
import json
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import loaded

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
# REPORTED is the statement of int/pipeline.p4 that writes a report. LOST after it drops one report.
REPORTED = "write_report.apply(hdr, meta.watch, meta.report, meta.hop, meta.drop_reason);"
LOST = "if (meta.report.sequence == 40) { mark_to_drop(standard_metadata); }"


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return loaded.run(EXPERIMENTS / f"{name}.py", *arguments)


def samples(folder: Path) -> list[dict[str, str]]:
    """Return the rows of samples.csv of an experiment."""
    with (folder / "samples.csv").open() as file:
        return [*csv.DictReader(file)]


def largest_kept(folder: Path) -> int:
    """Return the size of the largest packed result of a run in a sweep.

    A result that contained packets would be several times as large.
    """
    return max(path.stat().st_size for path in (folder / ".runs").iterdir())


def failed_checks(folder: Path) -> set[str]:
    """Return the names of the checks that failed."""
    checks = json.loads((folder / "summary.json").read_text())["checks"]
    return {check["name"] for check in checks if not check["passed"]}


def faulty_program(
    folder: Path, file: str, right: str, wrong: str, program: str = "ampm/ampm.p4"
) -> str:
    """Return the path of a copy of a program with one fault in a file of its folder."""
    return with_faults(folder, [(file, right, wrong)], program)


def with_faults(folder: Path, faults: Iterable[tuple[str, str, str]], program: str) -> str:
    """Return the path of a copy of a program with faults, each as (file, right text, wrong text).

    In a run with this program, each fault must make different checks fail. If exactly these checks
    fail, each fault was detected.
    """
    copy = folder / "p4src" / program
    shutil.copytree(EXPERIMENTS.parent / "p4src", folder / "p4src")
    for file, right, wrong in faults:
        source = copy.parent / file
        text = source.read_text()
        assert text.count(right) == 1
        source.write_text(text.replace(right, wrong))
    return str(copy)


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which the first import of experiments replaces."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def module(name: str) -> ModuleType:
    """Return an experiment as a module."""
    with _own_interrupt():
        return importlib.import_module(name)


def from_file(path: Path) -> ModuleType:
    """Return a script as a module. A module of the tests may have the same name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    with _own_interrupt():
        spec.loader.exec_module(found)
    return found
