"""Experiments as tests need them: run as commands, or loaded as modules."""

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
# Of int/pipeline.p4: what writes a report, and what then has one of them lost.
REPORTED = "write_report.apply(hdr, meta.watch, meta.report, meta.hop, meta.drop_reason);"
LOST = "if (meta.report.sequence == 40) { mark_to_drop(standard_metadata); }"


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return loaded.run(EXPERIMENTS / f"{name}.py", *arguments)


def samples(folder: Path) -> list[dict[str, str]]:
    """What an experiment left in samples.csv."""
    with (folder / "samples.csv").open() as file:
        return [*csv.DictReader(file)]


def largest_kept(folder: Path) -> int:
    """Bytes of what a run of a sweep returned, packed; with its packets several times as many."""
    return max(path.stat().st_size for path in (folder / ".runs").iterdir())


def failed_checks(folder: Path) -> set[str]:
    """The names of the checks that did not pass."""
    checks = json.loads((folder / "summary.json").read_text())["checks"]
    return {check["name"] for check in checks if not check["passed"]}


def faulty_program(
    folder: Path, file: str, right: str, wrong: str, program: str = "ampm/ampm.p4"
) -> str:
    """The path of a copy of a program that has something wrong in one of its folder's files."""
    return with_faults(folder, [(file, right, wrong)], program)


def with_faults(folder: Path, faults: Iterable[tuple[str, str, str]], program: str) -> str:
    """Run the same with several changes: (file, right text, wrong text) each.

    Of faults that different checks find: if all fail, and no others, each fault was found.
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
    """What experiments import first is for commands: it sets what Ctrl-C does."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def module(name: str) -> ModuleType:
    """An experiment's module."""
    with _own_interrupt():
        return importlib.import_module(name)


def from_file(name: str) -> ModuleType:
    """The same of one whose name a module of the tests has, too."""
    spec = importlib.util.spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    with _own_interrupt():
        spec.loader.exec_module(found)
    return found
