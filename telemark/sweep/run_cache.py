"""Cache of finished runs. Each run is one file, whose name is a hash of all inputs of the run.

The hash covers the arguments (measure, setting, seed), the Python and C code in the folders of all
loaded modules, the installed packages, and the machine. The P4 programs of a run are known only
when the run ends. Therefore, the cache stores hashes of the P4 programs with the run, and verifies
them when it reads the run. pickle is used only to compute hashes; the files contain plain data.
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
from telemark.sweep.task import Outcome, Task, deserialize

MAX_BYTES = 1 << 30  # maximum size of all cached runs of one experiment in one folder
# Options that do not affect the result of a run.
IRRELEVANT_OPTIONS = {
    "out",
    "interactive",
    "keep",
    "snaplen",
    "traceback",
    "jobs",
    "scheduler",
    "again",
    "watch",
    "metrics",
}


class RunCache:
    """Cached runs of one experiment, in the folder SweepOptions.cache."""

    def __init__(self, sweep_options: SweepOptions, say: Callable[[str], None]) -> None:
        self._folder = sweep_options.cache
        self._used = sweep_options.used
        self._say = say

    def find(self, task: Task) -> Outcome | None:
        """Return the cached outcome of a task.

        Returns None if there is no outcome, or if its P4 programs have changed.

        If a file cannot be read, prints a warning in one line.
        """
        if self._folder is None or not (path := self._folder / _name(task)).is_file():
            return None
        try:
            outcome = deserialize(path.read_bytes())
        except FileNotFoundError:  # another run of the experiment has just removed the file
            return None
        # the file is damaged, or another program wrote it
        except (NotPlainDataError, OSError) as error:
            self._say(f"warning: {path}: not a cached run ({error}); the run is repeated")
            return None
        if not all(map(is_unchanged, outcome.programs)):
            return None
        self._used.add(path)
        return outcome

    def add(self, task: Task, serialized: bytes) -> None:
        """Store the outcome of a task, unless the size of the cache would exceed MAX_BYTES."""
        if self._folder is None:
            return
        make_folder(self._folder)
        with exclusive(self._folder):  # other experiments may use the same folder
            sizes = [path.stat().st_size for path in self._used if path.exists()]
            if sum(sizes) + len(serialized) <= MAX_BYTES:
                path = self._folder / _name(task)
                replace(path, lambda partial: partial.write_bytes(serialized))
                self._used.add(path)


def remove_unused(sweep_options: SweepOptions, experiment: str) -> None:
    """Remove those cached runs of this experiment that its complete sweeps did not use.

    Such runs belong to other code, settings or seeds. Cached runs of other experiments remain.
    """
    if sweep_options.cache is None or not sweep_options.cache.exists():
        return
    with exclusive(sweep_options.cache):
        for path in sweep_options.cache.glob("*"):
            if _experiment(path) == experiment and path not in sweep_options.used:
                path.unlink()


def _name(task: Task) -> str:
    setting = [_relevant(value) for value in task.setting]
    measure = f"{task.measure.__module__}.{task.measure.__qualname__}"
    arguments = pickle.dumps((task.name, measure, setting, task.seed))
    return f"{task.name}-{hashlib.sha256(_code_hash().encode() + arguments).hexdigest()}"


def _experiment(path: Path) -> str:
    return path.name.rpartition("-")[0]


def _relevant(value: object) -> object:
    if isinstance(value, argparse.Namespace):
        return {k: v for k, v in vars(value).items() if k not in IRRELEVANT_OPTIONS}
    return value


@cache
def is_unchanged(program: P4Source) -> bool:
    """Return whether a P4 program is the same as when a run compiled it."""
    try:
        return P4Source.read(program.path, program.defines).sha256 == program.sha256
    except (OSError, Minip4Error):  # the program is missing or no longer valid
        return False


@cache
def _code_hash() -> str:
    """Return a hash of the loaded code and of the machine."""
    digest = hashlib.sha256(json.dumps(machine()).encode())
    for path in sorted(code_files()):
        digest.update(f"{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def code_files() -> set[Path]:
    """Return the files of all loaded modules of the project, and all files of their packages."""
    loaded = python_files()
    packages = {path.parent for path in loaded if (path.parent / "__init__.py").is_file()}
    return loaded | {*_files_of(packages)}


def _files_of(packages: Iterable[Path]) -> Iterator[Path]:
    for package in packages:
        for pattern in ("*.py", "c/*", "include/*"):
            yield from (path for path in package.glob(pattern) if path.is_file())
