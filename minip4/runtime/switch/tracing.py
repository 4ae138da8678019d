"""Writer of the trace of a running switch."""

import threading
import time
from pathlib import Path
from typing import TextIO

from minip4.engine.control.trace import Trace
from minip4.engine.engine import Engine
from minip4.errors import Minip4Error

INTERVAL_S = 0.05
STOP_S = 5.0  # grace period for a slow reader of a pipe


class TraceFile:
    """The output file of a trace; "-" is `output`. Raises Minip4Error."""

    def __init__(self, engine: Engine, path: Path, output: TextIO) -> None:
        self.error: str | None = None
        """Why the trace is incomplete, or None."""
        self._path = path
        try:
            self._file: TextIO = output if path == Path("-") else path.open("w")
        except OSError as error:
            raise Minip4Error(f"--trace {path}: {error.strerror}") from error
        self._trace = Trace(engine)

    def write(self, *, is_end: bool = False) -> None:
        """Write the new blocks of the trace and, at the end, also unfinished blocks."""
        blocks = [*self._trace.blocks(), *(self._trace.unfinished() if is_end else ())]
        if self.error is not None or not blocks:
            return
        try:
            self._file.write("".join(f"{block}\n\n" for block in blocks))
            self._file.flush()
        except OSError as error:
            self._fail(error)

    def swap(self, engine: Engine) -> None:
        """Switch to another engine after writing the remaining blocks of the old one."""
        self.write(is_end=True)
        self._trace = Trace(engine)

    def close(self) -> None:
        """Write the remaining blocks and close the file."""
        self.write(is_end=True)
        if self._path == Path("-"):
            return
        try:
            self._file.close()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = f"--trace {self._path}: {error.strerror}"


class TraceWriter:
    """A thread that writes a trace from start() to stop(); packets never wait for it."""

    def __init__(self, engine: Engine, path: Path, output: TextIO) -> None:
        self._file = TraceFile(engine, path, output)
        self._late: str | None = None
        self._path = path
        self._mutex = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minip4-trace", daemon=True)

    @property
    def error(self) -> str | None:
        """Return why the trace is incomplete, or None."""
        return self._late or self._file.error

    def start(self) -> None:
        self._thread.start()

    def swap(self, engine: Engine) -> None:
        """Switch to another engine after writing the remaining blocks of the old one."""
        with self._mutex:
            self._file.swap(engine)

    def stop(self) -> None:
        """Write the remaining blocks and close the file."""
        self._stopping.set()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self._late = f"--trace {self._path}: the pipe has no reader"

    def _run(self) -> None:
        pause = INTERVAL_S
        while not self._stopping.wait(pause):
            start = time.monotonic()
            with self._mutex:
                self._file.write()
            # Use at most half of a core for the trace, because packets need the other half.
            pause = max(INTERVAL_S, time.monotonic() - start)
        with self._mutex:
            self._file.close()
