"""Runs that are done, in a folder beside the results, each named after all that determines it.

That is what it was told (measure, setting, seed), the code of all modules' folders that are loaded,
with the C there, the installed packages and the machine. P4 programs are known only when it is
done: what it compiled is noted with it, and has to be what it was. pickle makes bytes to hash here,
and reads nothing: files are plain data.
"""

import argparse
import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from minip4.errors import Minip4Error
from telemark.results.files import exclusive, make_folder, replace
from telemark.results.provenance import P4Source, machine, python_files
from telemark.session.run import SweepOptions
from telemark.sweep.plain_data import NotPlainDataError
from telemark.sweep.task import Outcome, Task, unpacked

MAX_BYTES = 1 << 30  # of all runs of an experiment in a folder
# Options that change nothing of what a run finds.
ASIDE = {"out", "interactive", "keep", "snaplen", "traceback", "jobs", "scheduler", "again"}


class Kept:
    """The runs that are kept beside the results of one that wants to spread (`Spread.kept`)."""

    def __init__(self, sweep_options: SweepOptions, say: Callable[[str], None]) -> None:
        self._folder = sweep_options.kept
        self._used = sweep_options.used
        self._say = say

    def find(self, task: Task) -> Outcome | None:
        """What became of a task before; None: nobody knows, or its programs have changed.

        Reports a file that cannot be read, in one line.
        """
        if self._folder is None or not (path := self._folder / _name(task)).is_file():
            return None
        try:
            outcome = unpacked(path.read_bytes())
        except FileNotFoundError:  # a run of the same experiment has just ended
            return None
        except (NotPlainDataError, OSError) as error:  # damaged, or written by another program
            self._say(f"warning: {path}: not a cached run ({error}); the run is repeated")
            return None
        if not all(map(is_as_it_was, outcome.programs)):
            return None
        self._used.add(path)
        return outcome

    def add(self, task: Task, packed: bytes) -> None:
        """Keep what became of a task, unless that is more than there is room for."""
        if self._folder is None:
            return
        make_folder(self._folder)
        with exclusive(self._folder):  # another experiment may have the same folder
            there = [path.stat().st_size for path in self._used if path.exists()]
            if sum(there) + len(packed) <= MAX_BYTES:
                path = self._folder / _name(task)
                replace(path, lambda partial: partial.write_bytes(packed))
                self._used.add(path)


def forget_others(sweep_options: SweepOptions, experiment: str) -> None:
    """Remove the cached runs of an experiment that its complete sweeps did not use.

    They are of other code, settings or seeds. Other experiments' runs in the folder stay.
    """
    if sweep_options.kept is None or not sweep_options.kept.exists():
        return
    with exclusive(sweep_options.kept):
        for path in sweep_options.kept.glob("*"):
            if _experiment(path) == experiment and path not in sweep_options.used:
                path.unlink()


def _name(task: Task) -> str:
    setting = [_determining(value) for value in task.setting]
    measure = f"{task.measure.__module__}.{task.measure.__qualname__}"
    told = pickle.dumps((task.name, measure, setting, task.seed))
    return f"{task.name}-{hashlib.sha256(_code().encode() + told).hexdigest()}"


def _experiment(path: Path) -> str:
    return path.name.rpartition("-")[0]


def _determining(value: object) -> object:
    if isinstance(value, argparse.Namespace):
        return {k: v for k, v in vars(value).items() if k not in ASIDE}
    return value


@cache
def is_as_it_was(program: P4Source) -> bool:
    """Whether a program is here what it was where a run compiled it."""
    try:
        return P4Source.read(program.path, program.defines).sha256 == program.sha256
    except (OSError, Minip4Error):  # it went, or is no program any more
        return False


@cache
def _code() -> str:
    """A hash of the code that computes, and of where it does."""
    digest = hashlib.sha256(json.dumps(machine()).encode())
    for path in sorted(code_files()):
        digest.update(f"{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def code_files() -> set[Path]:
    """The files of loaded modules that are not installed, and all others of their packages."""
    ours = python_files()
    packages = {path.parent for path in ours if (path.parent / "__init__.py").is_file()}
    return ours | {*_files_of(packages)}


def _files_of(packages: Iterable[Path]) -> Iterator[Path]:
    for package in packages:
        for pattern in ("*.py", "c/*", "include/*"):
            yield from (path for path in package.glob(pattern) if path.is_file())
