"""What a worker of Dask does for a sweep: each of its threads has a process, which does its runs.

That ends with the thread, and when nobody wants its run any more.
"""

import contextlib
import importlib.metadata
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import distributed

from telemark import REPOSITORY
from telemark.apps.application import APPLICATION_PROCESS
from telemark.backends.real import isolation
from telemark.errors import TestbedError
from telemark.results.provenance import PACKAGES
from telemark.sweep import serving
from telemark.sweep.serving import GRACE_S
from telemark.sweep.task import failed, packed
from telemark.sweep.worker_death import TRIES, describe_death, oom_kills

LOOKS_S = 0.5  # how often it looks whether somebody still wants the run

_thread = threading.local()  # .process: that of this thread


@dataclass(frozen=True)
class CheckoutFingerprint:
    """What a checkout has to have in common with the one of whoever asks for runs."""

    script: str  # the experiment's: below the repository, or anywhere
    code: Mapping[str, str]  # hashes of files, that one too
    versions: Mapping[str, str]  # of Python, and of packages that compute

    @classmethod
    def of(cls, script: Path, code: Iterable[Path]) -> "CheckoutFingerprint":
        """Those of this process."""
        return cls(_below(script), _hashes(map(_below, {script, *code})), _versions())

    def differ(self) -> str:
        """In what this checkout is another one, in words; nothing where it is not."""
        for name, found in _hashes(self.code).items():
            if found != self.code[name]:
                return f"{REPOSITORY / name} is not as it is here"
        for name, found in _versions().items():
            if found != self.versions[name]:
                return f"it has {name} {found}, and here is {self.versions[name]}"
        for name, found in _LOADED.items():
            if found != self.code[name]:
                return f"{name} has changed since it began: start it again"
        return ""


def do(task: bytes, fingerprint: CheckoutFingerprint) -> bytes:
    """What became of a pickled Task, packed; for distributed.Client.submit()."""
    if differs := fingerprint.differ():
        who = f"worker on {socket.gethostname()}, process {os.getpid()}"
        return packed(failed(TestbedError(f"{who}: {differs}")))
    cause = ""
    for _ in range(TRIES):
        process = _process_for(fingerprint)
        try:
            with isolation.run_folder("worker") as folder:
                return process.do(task, folder / "run")
        except (EOFError, ConnectionResetError, BrokenPipeError):
            cause = process.describe_death()
            process.end()
    died = f"its process died {TRIES} times, the last time of {cause}"
    return packed(failed(TestbedError(died)))


class _Process:
    """A process that has loaded an experiment."""

    def __init__(self, fingerprint: CheckoutFingerprint) -> None:
        self.fingerprint = fingerprint
        self._oom_kills = oom_kills()
        self._connection, theirs = multiprocessing.Pipe()
        told = (theirs.fileno(), os.getpid(), REPOSITORY / fingerprint.script)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", serving.__name__, *map(str, told)],
                pass_fds=[theirs.fileno()], env={**os.environ, APPLICATION_PROCESS: "1"},
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def do(self, task: bytes, place: Path) -> bytes:
        """The packed outcome. Raises EOFError and its like when the process was killed."""
        self._connection.send((task, place))
        while True:
            while not self._connection.poll(LOOKS_S):
                if not _is_wanted():
                    self.end()
                    return packed(failed(TestbedError("nobody wants this run any more")))
            said = self._connection.recv()
            if isinstance(said, bytes):
                return said

    def describe_death(self) -> str:
        """Return why the process died, once its connection has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        return describe_death(self._process.returncode, self._oom_kills)

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()


def _process_for(fingerprint: CheckoutFingerprint) -> _Process:
    """This thread's process, which has loaded that script as it is now."""
    process: _Process | None = getattr(_thread, "process", None)
    if process is not None and process.runs:
        if process.fingerprint == fingerprint:
            return process
        process.end()
    _thread.process = _Process(fingerprint)
    return _thread.process


def _is_wanted() -> bool:
    """Whether the scheduler still wants what this thread does: not so when its client went."""
    worker = distributed.get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is not None and task.state == "executing"


def _below(path: Path) -> str:
    return str(path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path)


def _hashes(names: Iterable[str]) -> dict[str, str]:
    paths = {name: REPOSITORY / name for name in names}
    return {
        name: sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        for name, path in sorted(paths.items())
    }


def _versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"Python": ".".join(map(str, sys.version_info[:3])), **found}


# Of what worker and client say to each other.
_LOADED = _hashes(_below(path) for path in Path(__file__).parent.glob("*.py"))
