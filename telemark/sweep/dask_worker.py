"""Dask worker of a sweep. Each thread of a worker has a process, which executes the thread's runs.

The process of a thread ends when the thread ends or its run is cancelled.
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
from telemark.sweep import worker_process
from telemark.sweep.task import failed_outcome, serialize
from telemark.sweep.worker_process import GRACE_S, TRIES, give_up, oom_kills

POLL_S = 0.5  # interval at which the worker checks whether a run was cancelled

_thread = threading.local()  # its attribute `process` is the process of this thread


@dataclass(frozen=True)
class CheckoutFingerprint:
    """Hashes and versions of a checkout. They must be the same for a worker and its client."""

    script: str  # script of the experiment; the path is relative to the repository, or absolute
    code: Mapping[str, str]  # map from file (including the script) to hash
    versions: Mapping[str, str]  # versions of Python and packages

    @classmethod
    def of(cls, script: Path, code: Iterable[Path]) -> "CheckoutFingerprint":
        """Return the fingerprint of this process."""
        return cls(_below(script), _hashes(map(_below, {script, *code})), _versions())

    def difference(self) -> str:
        """Describe how this process differs from the fingerprint; "" if it does not."""
        for name, found in _hashes(self.code).items():
            if found != self.code[name]:
                return f"{REPOSITORY / name} differs from the client's file; update the checkout"
        for name, found in _versions().items():
            if found != self.versions[name]:
                return f"{name} {found} differs from the client's {self.versions[name]}"
        for name, found in _LOADED.items():
            if found != self.code[name]:
                return f"{name} has changed since the worker started; restart the worker"
        return ""


def run_task(task: bytes, fingerprint: CheckoutFingerprint) -> bytes:
    """Run a pickled Task; return its serialized outcome. Argument of Client.submit()."""
    if difference := fingerprint.difference():
        worker = f"worker on {socket.gethostname()}, process {os.getpid()}"
        return serialize(failed_outcome(TestbedError(f"{worker}: {difference}")))
    death: tuple[int | None, int] = None, 0
    for _ in range(TRIES):
        process = _process_for(fingerprint)
        try:
            with isolation.run_folder("worker") as folder:
                return process.run_task(task, folder / "run")
        except (EOFError, ConnectionResetError, BrokenPipeError):
            death = process.death()
            process.end()
    return serialize(failed_outcome(give_up("", *death)))


class _Process:
    """Process that has loaded an experiment's script."""

    def __init__(self, fingerprint: CheckoutFingerprint) -> None:
        self.fingerprint = fingerprint
        self._oom_kills = oom_kills()
        self._connection, theirs = multiprocessing.Pipe()
        arguments = (theirs.fileno(), os.getpid(), REPOSITORY / fingerprint.script)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", worker_process.__name__, *map(str, arguments)],
                pass_fds=[theirs.fileno()], env={**os.environ, APPLICATION_PROCESS: "1"},
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def run_task(self, task: bytes, folder: Path) -> bytes:
        """Execute a task; return its serialized outcome.

        Raises EOFError, ConnectionResetError or BrokenPipeError if the process was killed.
        """
        self._connection.send((task, folder))
        while True:
            while not self._connection.poll(POLL_S):
                if _is_cancelled():
                    self.end()
                    return serialize(failed_outcome(TestbedError("the run was cancelled")))
            message = self._connection.recv()
            if isinstance(message, bytes):
                return message

    def death(self) -> tuple[int | None, int]:
        """Return the arguments for give_up(). The process must have died."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        return self._process.returncode, self._oom_kills

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()


def _process_for(fingerprint: CheckoutFingerprint) -> _Process:
    """Return the process that this thread uses for the script. If there is none, start one."""
    process: _Process | None = getattr(_thread, "process", None)
    if process is not None and process.runs:
        if process.fingerprint == fingerprint:
            return process
        process.end()
    _thread.process = _Process(fingerprint)
    return _thread.process


def _is_cancelled() -> bool:
    """Return whether the run of this thread was cancelled, e.g. because the client exited."""
    worker = distributed.get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state != "executing"


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


# Modules that implement the protocol between worker and client.
_LOADED = _hashes(_below(path) for path in Path(__file__).parent.glob("*.py"))
