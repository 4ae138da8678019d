"""The shell of a node: what it is given is noted first, since a signal may come in between, and it
may end."""

import os
import select
from typing import Any

from telemark.errors import TestbedError


class Shell:
    """Goes before Mininet's class of a node."""

    name: str
    pid: int
    shell: Any
    lastCmd: str | None
    stdout: Any
    pollOut: Any
    waiting: bool
    end = -1  # a descriptor that can be read when the shell has ended; once it has started

    def startShell(self, mnopts: str | None = None) -> None:
        """Start it. Who waits for what it says learns of its end, too."""
        super().startShell(mnopts)  # type: ignore[misc]
        self.end = os.pidfd_open(self.pid)
        for descriptor in (self.stdout, self.end):  # Mininet polls whether it could write, too
            self.pollOut.register(descriptor, select.POLLIN)

    def cleanup(self) -> None:
        """Close what belongs to it."""
        if self.shell:
            os.close(self.end)
        super().cleanup()  # type: ignore[misc]

    def sendCmd(self, *args: Any, **options: Any) -> None:
        """Give it a command. Raises TestbedError where it has ended."""
        self.check_shell()
        super().sendCmd(*args, **options)  # type: ignore[misc]

    def write(self, data: Any) -> None:
        """Note that the shell is at a command, then give it the command.

        Mininet notes it afterwards. A stop in between would ask a shell that does not answer. An
        idle shell that is taken for a busy one is interrupted and says that it is ready: no harm.
        """
        self.waiting = True
        super().write(data)  # type: ignore[misc]

    def waitReadable(self, timeoutms: int | None = None) -> Any:
        """What poll() says of its output. Raises TestbedError where it has ended, and said all."""
        ready = super().waitReadable(timeoutms)  # type: ignore[misc]
        if ready and all(descriptor == self.end for descriptor, _ in ready):
            self.waiting = False
            self.check_shell()
        return ready

    def check_shell(self) -> None:
        """Raise TestbedError when the shell has ended, as by `exit`: its node is no more."""
        if self.shell is not None and self.shell.poll() is not None:
            raise TestbedError(
                f"{self.name}: its shell has ended, and {self.name} with it, at `{self.lastCmd}`: "
                "expected commands that leave it, as `(exit 1)` does"
            )
