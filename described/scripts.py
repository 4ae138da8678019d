"""Scripts that run beside a described network, as controllers of its author do."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from testbed.errors import TestbedError
from testbed.real.p4utils.environment import environment, interpreter
from testbed.run import Run


class Scripts:
    """Commands for a shell, from start() until the end of the `with` block.

    They run in the run's own namespaces, with p4-utils' Python first on PATH where there is one,
    and end with them at the latest. One that failed is told of, with the last line that it wrote.
    """

    def __init__(self, commands: Sequence[str], folder: Path, run: Run) -> None:
        self._commands = commands
        self._folder = folder
        self._run = run
        self._started: list[tuple[str, Path, subprocess.Popen[bytes]]] = []

    def start(self) -> None:
        """Let them begin."""
        variables = _variables() if self._commands else None
        for number, command in enumerate(self._commands):
            log = self._run.folder / f"script-{number}.log"
            with log.open("w") as output:
                process = subprocess.Popen(
                    ["sh", "-c", command], cwd=self._folder, env=variables, stdout=output,
                    stderr=output, stdin=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            self._started.append((command, log, process))

    def __enter__(self) -> "Scripts":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for command, log, process in self._started:
            if status := process.poll():
                lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
                self._run.progress.say(f"`{command}` ended with status {status}: {lines[-1]}")


def _variables() -> dict[str, str] | None:
    try:
        return environment(interpreter())
    except TestbedError:  # then what needs it says so
        return None
