"""A terminal for tests, in which an experiment keeps its network up (--interactive)."""

import contextlib
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

PROMPT = b"mininet> "


class Terminal:
    """An experiment with --interactive in a terminal. Its results are in `folder`/out."""

    def __init__(self, folder: Path, script: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.pop("DISPLAY", None)
            command = [sys.executable, script, "--interactive", "--out", "out"]
            os.execve(command[0], command, {**os.environ, "TERM": "dumb", "HOME": str(folder)})
        self.until(PROMPT)

    def until(self, words: bytes, timeout_s: float = 300.0) -> str:
        """Wait for `words`; return the output up to these words."""
        seen = b""
        deadline = time.monotonic() + timeout_s
        while words not in seen:
            left_s = max(deadline - time.monotonic(), 0)
            assert select.select([self._terminal], [], [], left_s)[0], seen
            try:
                seen += os.read(self._terminal, 1)
            except OSError:  # no process has the terminal open any more
                raise AssertionError(seen) from None
        return seen.decode()

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def do(self, command: str) -> str:
        """Return the output of a command, without its echo."""
        self.type(command + "\n")
        _echo, _, said = self.until(b"\n" + PROMPT).partition("\n")
        return re.sub(r"\s+", " ", said)

    def leave(self) -> None:
        """End the experiment; fail with its output if its status is not 0."""
        self.type("exit\n")
        said = self.until(b"Results in").encode()
        with contextlib.suppress(OSError):  # no process has the terminal open any more
            while select.select([self._terminal], [], [], 300.0)[0]:
                said += os.read(self._terminal, 1024)
        assert self.status() == 0, said.decode()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            self.status()

    def status(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
