"""Starts scripts in processes that have already loaded the modules which experiments import.

Without this, each run would load the same modules, and this would take a third of the time of all
tests. Therefore, one process loads them (this file, run as a script) and forks for each script that
a test starts. Each child has its own arguments, environment and outputs.

Two steps are shortened, because they would take most of a short run's time. A figure is drawn only
as PNG, unless ALL_FIGURES is in the environment. If a test uses a faulty program (--program), cc
optimises less, and no figure is drawn.
"""

import contextlib
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MODULES = ("experiments.shared.ampm.measurement", "fontTools.subset",
           "matplotlib.backends.backend_agg",
           "matplotlib.backends.backend_pdf", "matplotlib.backends.backend_svg",
           "scapy.layers.inet", "telemark.session.cli", "telemark.network",
           "telemark.results.plots", "telemark.traffic.tcp")  # fmt: skip
LARGEST = 1 << 17  # max bytes of a request, most of which is the environment
MESSAGE, ENDING_S = 64, 60  # bytes of a message; limit for a process to end, in seconds
LONGEST_S = 300  # timeout for hung processes; generous for a loaded machine


class Started:
    """The process of a script, with the methods of subprocess.Popen that tests use."""

    def __init__(self, script: Path, *arguments: str) -> None:
        """Start the script with the environment and the working directory of this process."""
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        self._process, their_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
        request = json.dumps([[str(script), *arguments], {**os.environ}, str(Path.cwd())])
        descriptors = [their_out, their_err, their_end.detach()]
        socket.send_fds(_loading()[0], [request.encode()], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self.stdout: IO[str] = os.fdopen(out)
        self.stderr: IO[str] = os.fdopen(err)
        self.returncode: int | None = None
        self.pid = int(self._process.recv(MESSAGE))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._process.settimeout(timeout)
            try:
                self.returncode = int(self._process.recv(MESSAGE))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("a script", timeout or 0) from None
        return self.returncode

    def waited_s(self) -> float:
        """Return the run-queue wait in seconds (proc(5)); 0 after the process has ended."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        return 0.0

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = LONGEST_S) -> tuple[str, str]:
        """Return the text of both outputs at the end of the process.

        Raises subprocess.TimeoutExpired. Time in which the process waited for a CPU does not count.
        """
        deadline, waited_s = time.monotonic() + timeout, self.waited_s()
        said = {self.stdout: b"", self.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for pipe in said:
                if not pipe.closed:
                    selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    before_s, waited_s = waited_s, max(waited_s, self.waited_s())
                    deadline += waited_s - before_s
                    if deadline <= time.monotonic():
                        raise subprocess.TimeoutExpired("a script", timeout, said[self.stdout])
                for key, _ in ready:
                    text = os.read(key.fd, 1 << 16)
                    said[key.fileobj] += text
                    if not text:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
        self.wait(max(deadline - time.monotonic(), ENDING_S))  # the process has closed its outputs
        return said[self.stdout].decode(), said[self.stderr].decode()


StartExperiment = Callable[..., Started]  # type of the fixture start_experiment


def run(
    script: Path, *arguments: str, timeout: float = LONGEST_S
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end and capture its outputs, like subprocess.run()."""
    process = Started(script, *arguments)
    try:
        output, errors = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess([script, *arguments], process.wait(), output, errors)


@cache
def _loading() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Return the process that loads all modules, and a connection to it.

    The process ends together with this process.
    """
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        return ours, subprocess.Popen([sys.executable, __file__], stdin=theirs)


# --- in the process that loads the modules ------------------------------------------------------


def serve(requests: socket.socket) -> tuple[list[Any], int, int]:
    """Fork for each request, and report how each child ends. In a child, return its request."""
    running: dict[int, tuple[int, socket.socket]] = {}  # processes by pidfd
    while True:
        for ready in select.select([requests.fileno(), *running], [], [])[0]:
            if ready in running:
                child, connection = running.pop(ready)
                os.close(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with connection, contextlib.suppress(BrokenPipeError):
                    connection.send(str(code).encode())
                continue
            text, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 3)
            if not text:
                os._exit(0)
            out, err, end = descriptors
            child = os.fork()
            if not child:
                for descriptor in (end, *running):
                    os.close(descriptor)
                return json.loads(text), out, err
            os.close(out)
            os.close(err)
            connection = socket.socket(fileno=end)
            connection.send(str(child).encode())
            running[os.pidfd_open(child)] = child, connection


def become(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Change this process to the state in which Python would start a script."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]


def spare(is_faulty: bool, all_figures: bool) -> None:
    """Omit expensive work whose results no test checks."""
    report = import_module("telemark.results.report")
    if is_faulty:
        library = import_module("minip4.engine.library")
        library.NO_ERRORS += ("-Og",)  # these flags come after -O2 for generated C
        report.FIGURE_KINDS = {}
    elif not all_figures:
        report.FIGURE_KINDS = {"png": report.FIGURE_KINDS["png"]}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[0] = str(EXPERIMENTS)
    for module in MODULES:
        import_module(module)
    # otherwise, the garbage collector of each child would write to all memory pages and so copy
    # them
    gc.freeze()
    requests = socket.socket(fileno=0)
    (arguments, environment, folder), *outputs = serve(requests)
    requests.detach()
    for number, output in enumerate(outputs, start=1):
        os.dup2(output, number)
        os.close(output)
    become(arguments, environment, folder)
    spare("--program" in arguments, "ALL_FIGURES" in environment)
    script = ModuleType("__main__")
    script.__file__ = arguments[0]
    # __mp_main__ is for multiprocessing
    sys.modules["__main__"] = sys.modules["__mp_main__"] = script
    exec(compile(Path(arguments[0]).read_bytes(), arguments[0], "exec"), vars(script))


if __name__ == "__main__":
    main()
