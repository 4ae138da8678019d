"""Applications in real time: one process per application in the namespace of its host.

The process runs telemark.backends.real.application_host. The stdin of the process receives a
pickled Task, the pickled application, and the line CLOSE. The end of stdin requests the result. The
process writes the lines READY and CLOSED, and then a pickled ExitReport, to its stdout. Output of
the application goes to a log.
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
FAILED = 1  # exit status of a process whose application failed
# module name of the experiment's script in this process, as in multiprocessing
SCRIPT = "__mp_main__"
STOP_S = 10.0  # maximum time to deliver the remaining packets and to return the result


@dataclass(frozen=True)
class Task:
    """Host of an application, and the paths from which Python imports its class."""

    place: HostInfo
    interface: str
    paths: list[str]  # sys.path of the process
    script: str | None  # path of the experiment's script


@dataclass(frozen=True)
class ExitReport:
    """Result and counters of an application that has stopped."""

    result: Any
    sent: int
    received: int
    kernel_drops: int


class ApplicationProcess:
    """Process of an application; the constructor returns after the application has started."""

    def __init__(self, host: Any, place: HostInfo, application: Application, log: Path) -> None:
        self.running = RunningApplication(host.name, type(application).__name__)
        self._log = log
        script = getattr(sys.modules["__main__"], "__file__", None)
        task = Task(
            place,
            interface=str(host.defaultIntf()),
            # Skip the entries of editable installs: these entries are names of import hooks, not
            # paths.
            paths=[str(Path(p).absolute()) if Path(p).exists() else p for p in sys.path],
            script=None if script is None else str(Path(script).absolute()),
        )
        request = pickle.dumps(task) + pickled(application, str(self.running))
        shown = () if place.display is None else (place.display.descriptor,)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [*host.enter(), sys.executable, "-m", "telemark.backends.real.application_host"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                env={**os.environ, APPLICATION_PROCESS: "1"}, start_new_session=True,
                pass_fds=shown,
            )  # fmt: skip
        try:
            self._request(request, READY)
        except BaseException:
            self.stop()
            raise

    def close(self) -> None:
        """Tell the application that the network stops; its timers no longer run."""
        self._request(CLOSE, CLOSED)

    def check_alive(self) -> None:
        """Raise TestbedError if the process has exited."""
        if self._process.poll() is not None:
            self._fail()

    def finish(self) -> None:
        """Read the exit report, which the process writes after it has delivered all packets.

        Raises TestbedError.
        """
        output = wait_for_output(self._process, STOP_S, str(self.running))
        if self._process.returncode:
            self._fail()
        exit_report: ExitReport = _Unpickler(io.BytesIO(output)).load()
        self.running.sent, self.running.received = exit_report.sent, exit_report.received
        self.running.kernel_drops = exit_report.kernel_drops
        self.running.results.append(exit_report.result)

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # the process has exited without reading all input
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _request(self, request: bytes, answer: bytes) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except BrokenPipeError:  # the process has exited
            self._fail()
        if self._process.stdout.readline() != answer:
            self._fail()

    def _fail(self) -> NoReturn:
        status = self._process.wait()
        lines = self._log.read_text(errors="replace").strip().splitlines()

        cause = lines[-1] if lines else "no output"
        if status < 0:
            cause = f"ended by {signal.Signals(-status).name}: {cause}"
        elif status != FAILED:
            cause = f"exited with status {status}: {cause}"
        raise TestbedError(f"{self.running}: {cause}") from ApplicationLog("\n".join(lines))


class ApplicationLog(Exception):
    """Log of an application's process: traceback and output."""


class _Unpickler(pickle.Unpickler):
    """Unpickler that looks up classes of the module SCRIPT in __main__."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class("__main__" if module == SCRIPT else module, name)
