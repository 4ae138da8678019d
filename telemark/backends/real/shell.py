"""Shell of a Mininet node.

The shell may exit at any time, and signals may interrupt the code that uses it.
"""

import os
import select
from typing import Any

from telemark.errors import TestbedError


class Shell:
    """Mixin for Mininet's node classes. In the list of base classes, it must come before them."""

    name: str
    pid: int
    shell: Any
    lastCmd: str | None
    stdout: Any
    pollOut: Any
    waiting: bool
    end = -1  # pidfd of the shell; -1 before it starts

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell. Register its output and its end for polling."""
        super().startShell(mnopts)  # type: ignore[misc]
        self.end = os.pidfd_open(self.pid)
        # replaces the event mask that Mininet registered, which includes POLLOUT
        for descriptor in (self.stdout, self.end):
            self.pollOut.register(descriptor, select.POLLIN)

    def cleanup(self) -> None:
        """Close the pidfd and the node's pipes."""
        if self.shell:
            os.close(self.end)
        super().cleanup()  # type: ignore[misc]

    def sendCmd(self, *args: Any, **options: Any) -> None:
        """Send a command to the shell. Raises TestbedError if the shell has ended."""
        self.check_shell()
        super().sendCmd(*args, **options)  # type: ignore[misc]

    def write(self, data: Any) -> None:
        """Set the node's `waiting` flag, then write to the shell.

        Mininet sets the flag only after it has written. A signal between these two steps would
        leave a shell that runs a command, without the flag. A flag for an idle shell is harmless:
        the CLI then interrupts the shell, and the shell prints its prompt.
        """
        self.waiting = True
        super().write(data)  # type: ignore[misc]

    def waitReadable(self, timeoutms: int | None = None) -> Any:
        """Wait for output.

        Raises TestbedError if the shell has ended and all its output was read.
        """
        ready = super().waitReadable(timeoutms)  # type: ignore[misc]
        if ready and all(descriptor == self.end for descriptor, _ in ready):
            self.waiting = False
            self.check_shell()
        return ready

    def check_shell(self) -> None:
        """Raise TestbedError if the shell has ended, e.g. by `exit`."""
        if self.shell is not None and self.shell.poll() is not None:
            raise TestbedError(
                f"{self.name}: `{self.lastCmd}` ended its shell; use commands that do not exit "
                f"the shell, e.g. `(exit 1)`"
            )
