"""Commands, and helper processes that answer lines of text."""

import contextlib
import subprocess
from typing import TypeVar

from telemark.errors import TestbedError

Started = TypeVar("Started", bound="LineProcess")


def run_command(command: str) -> str:
    """Run a command and return its output. Raises TestbedError if it fails."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"{command}: {done.stderr.strip()}")
    return done.stdout


class LineProcess:
    """Process that reads lines and answers with lines. The end of the `with` block kills it."""

    def __init__(self, name: str, *command: object) -> None:
        """Start the process. Error messages contain `name`."""
        self.name = name
        self._process = subprocess.Popen(
            [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def __enter__(self: Started) -> Started:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()

    def ask(self, line: str = "") -> str:
        """Send a line and return the answer. Raises TestbedError if the process has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # read_line() reports that it has ended
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        return self.read_line()

    def read_line(self) -> str:
        """Wait for a line and return it. Raises TestbedError if the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise TestbedError(f"{self.name}: ended with status {self._process.wait()}")
        return line.strip()
