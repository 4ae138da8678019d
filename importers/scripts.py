"""Commands that run while an imported network runs: controllers, and tasks of hosts."""

import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from telemark.backends.real.p4utils.environment import environment, interpreter
from telemark.errors import TestbedError
from telemark.session.run import Run

TIMED_OUT = (124, 137)  # exit status of timeout(1); it is normal for tasks


class Scripts:
    """Shell commands that run until their `with` block ends.

    start() and begin() start commands in the namespaces of the run. If p4-utils is installed, its
    Python is first in PATH. At the end of the block, the commands are terminated. Each command that
    failed is reported with its last line of output. Output goes to files, because no process
    would read a pipe.
    """

    def __init__(self, commands: Sequence[str], folder: Path, run: Run) -> None:
        self._commands = commands
        self._folder = folder
        self._run = run
        self._started: list[tuple[str, Path, subprocess.Popen[Any]]] = []

    def start(self) -> None:
        """Start the commands."""
        variables = _variables() if self._commands else None
        popen = partial(
            subprocess.Popen, cwd=self._folder, env=variables, start_new_session=True
        )  # fmt: skip
        for command in self._commands:
            self.begin(f"`{command}`", command, popen)

    def begin(self, name: str, command: str, popen: Callable[..., subprocess.Popen[Any]]) -> None:
        """Start a command, e.g. with the popen() of a host. `name` is used in messages."""
        log = self._run.folder / f"script-{len(self._started)}.log"
        with log.open("w") as output:
            process = popen(
                ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._started.append((name, log, process))

    def __enter__(self) -> "Scripts":
        return self

    def __exit__(self, *_error: object) -> None:
        for name, log, process in self._started:
            if (status := process.poll()) and status not in TIMED_OUT:
                lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
                self._run.progress.say(f"{name} ended with status {status}: {lines[-1]}")


def _variables() -> dict[str, str] | None:
    try:
        return environment(interpreter())
    except TestbedError:  # the first command that needs p4-utils reports that p4-utils is missing
        return None
