"""Earlier runs: whether they are up to date (no dependency has changed), and their durations."""

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from minip4.errors import Minip4Error
from telemark import REPOSITORY
from telemark.results.files import replace
from telemark.results.provenance import P4Source, machine
from telemark.results.reference import REAL, REFERENCE

QUICK_S, FULL_S = 25.0, 90.0  # default durations


class FinishedRuns:
    """Records of runs that passed, in a hidden file of the results folder."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._path = results / ".finished.json"
        try:
            self._notes: dict[str, Any] = json.loads(self._path.read_text())
        except (OSError, ValueError):
            self._notes = {}

    def add(self, name: str, key: str, arguments: Sequence[str], duration_s: float) -> None:
        """Record a run that has just passed. `key` is the dependency_key() from before the run."""
        seconds = self._notes.get(name, {}).get("seconds", {})
        self._notes[name] = {
            "key": key,
            "summary": self._summary_digest(name),
            "seconds": {**seconds, " ".join(arguments): round(duration_s, 1)},
        }
        text = json.dumps(self._notes, indent=2) + "\n"
        replace(self._path, lambda path: path.write_text(text))

    def is_up_to_date(self, name: str, key: str) -> bool:
        """Return whether the recorded results still exist and all dependencies are unchanged."""
        note = self._notes.get(name, {})
        digest = self._summary_digest(name)
        if not digest or note.get("summary") != digest or note["key"] != key:
            return False
        summary = json.loads((self._results / name / "summary.json").read_text())
        return _same_programs(summary["programs"])

    def duration_s(self, name: str, arguments: Sequence[str]) -> float | None:
        """Return the duration of the last run with these arguments; None if there was no run."""
        seconds = self._notes.get(name, {}).get("seconds", {})
        found: float | None = seconds.get(" ".join(arguments))
        return found

    def _summary_digest(self, name: str) -> str:
        path = self._results / name / "summary.json"
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def expected_s(name: str, arguments: Sequence[str], finished: FinishedRuns) -> float:
    """Return the duration (s) of the last run with these arguments; if none, of the reference."""
    last_s = finished.duration_s(name, arguments)
    if last_s is not None:
        return last_s
    is_quick = "--quick" in arguments
    folder = REFERENCE / (name if "--time=virtual" in arguments else name + REAL)
    try:
        full_s = float(json.loads((folder / "summary.json").read_text())["duration_s"])
    except (OSError, KeyError):
        full_s = FULL_S
    return min(full_s, QUICK_S) if is_quick else full_s


def dependency_key(script: Path, arguments: Sequence[str]) -> str:
    """Return a hash of the dependencies: code, arguments, packages, machine.

    P4 programs are excluded.
    """
    digest = hashlib.sha256(json.dumps([*arguments, machine()]).encode())
    for path in sorted(code_files(script)):
        digest.update(f"{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def code_files(script: Path) -> set[Path]:
    """Return the script, and all files of the folders from which it imports modules.

    These folders include those of the imports of imported modules. All modules and C files of such
    a folder are returned, also those in include/, because processes of a run may use files that the
    run itself does not import.
    """
    folders: set[Path] = set()
    todo = [script]
    while todo:
        for folder in _folders_imported(todo.pop(), script.parent) - folders:
            folders.add(folder)
            todo += folder.glob("*.py")
    files = {
        path
        for folder in folders
        for below in ("*", "c/*", "include/*")
        for path in folder.glob(below)
    }
    return {script, *(path for path in files if path.is_file())}


@cache
def _folders_imported(path: Path, beside: Path) -> set[Path]:
    """Return the packages that a file imports, in the repository or next to the script."""
    found = set()
    for name in _names_imported(path):
        parts = name.split(".")
        for root in (beside, REPOSITORY):
            # The parts of the imported name may be modules, classes or functions.
            folders = [root.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
            found |= {folder for folder in folders if (folder / "__init__.py").is_file()}
    return found


def _names_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _same_programs(programs: Sequence[dict[str, Any]]) -> bool:
    """Return whether the P4 programs named in a summary are unchanged.

    Comments may have changed.
    """
    for program in programs:
        try:
            now = P4Source.read(REPOSITORY / program["path"], program["defines"])
        except (OSError, Minip4Error):  # a program is missing or no longer valid
            return False
        if now.sha256 != program["sha256"]:
            return False
    return True
