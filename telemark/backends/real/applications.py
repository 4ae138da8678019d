"""Applications in real time, as the network sees them: a process for each, at its host.

The process runs telemark.backends.real.application_host. Its standard input brings a Task and the
application, pickled, later the line CLOSE, and ends when the result is wanted. Its standard output
has the lines READY and CLOSED, then an ExitReport, pickled. What it prints goes to a log.
"""

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from telemark.apps.application import (
    APPLICATION_PROCESS,
    Application,
    HostInfo,
    RunningApplication,
    pickled,
)
from telemark.backends.real.scheduling import wait_for_output
from telemark.errors import TestbedError

READY, CLOSE, CLOSED = b"ready\n", b"close\n", b"closed\n"
FAILED = 1  # exit status
SCRIPT = "__mp_main__"  # the experiment's script as a module, as multiprocessing names it
STOP_S = 10.0  # for what is left to be handed over, and its result


@dataclass(frozen=True)
class Task:
    """Where an application runs, and what Python needs to find its class."""

    place: HostInfo
    interface: str
    paths: list[str]  # sys.path
    script: str | None  # of the experiment


@dataclass(frozen=True)
class ExitReport:
    """What became of an application."""

    result: Any
    sent: int
    received: int
    kernel_drops: int


class ApplicationProcess:
    """An application at a host; it runs when this returns."""

    def __init__(self, host: Any, place: HostInfo, application: Application, log: Path) -> None:
        self.running = RunningApplication(host.name, type(application).__name__)
        self._log = log
        script = getattr(sys.modules["__main__"], "__file__", None)
        task = Task(
            place,
            interface=str(host.defaultIntf()),
            # Of an editable install, an entry is no path, but the name of an import hook.
            paths=[str(Path(p).absolute()) if Path(p).exists() else p for p in sys.path],
            script=None if script is None else str(Path(script).absolute()),
        )
        told = pickle.dumps(task) + pickled(application, str(self.running))
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [*host.enter(), sys.executable, "-m", "telemark.backends.real.application_host"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                env={**os.environ, APPLICATION_PROCESS: "1"}, start_new_session=True,
            )  # fmt: skip
        try:
            self._expect(told, READY)
        except BaseException:
            self.stop()
            raise

    def close(self) -> None:
        """Tell it that the network is about to end: from now on it only answers."""
        self._expect(CLOSE, CLOSED)

    def check_alive(self) -> None:
        """Raise TestbedError when it has ended by itself."""
        if self._process.poll() is not None:
            self._fail()

    def finish(self) -> None:
        """Take its exit_report in, when all has been handed over. Raises TestbedError."""
        output = wait_for_output(self._process, STOP_S, str(self.running))  # stop() ends what hangs
        if self._process.returncode:
            self._fail()
        exit_report: ExitReport = _Unpickler(io.BytesIO(output)).load()
        self.running.sent, self.running.received = exit_report.sent, exit_report.received
        self.running.kernel_drops = exit_report.kernel_drops
        self.running.results.append(exit_report.result)

    def stop(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # of what it did not read any more
                if pipe is not None:
                    pipe.close()

    def _expect(self, told: bytes, answer: bytes) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(told)
            self._process.stdin.flush()
        except BrokenPipeError:  # it has ended: its log says why
            self._fail()
        if self._process.stdout.readline() != answer:
            self._fail()

    def _fail(self) -> NoReturn:
        status = self._process.wait()
        lines = self._log.read_text(errors="replace").strip().splitlines()
        why = lines[-1] if lines else "it said nothing"
        if status < 0:
            why = f"ended by {signal.Signals(-status).name}: {why}"
        elif status != FAILED:
            why = f"ended with status {status}: {why}"
        raise TestbedError(f"{self.running}: {why}") from ItsLog("\n".join(lines))


class ItsLog(Exception):
    """What an application's process left: its traceback, and what it printed."""


class _Unpickler(pickle.Unpickler):
    """Finds classes of the experiment's script, which is a module in the application's process."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class("__main__" if module == SCRIPT else module, name)
