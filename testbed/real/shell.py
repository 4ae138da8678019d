"""The shell of a node: what it is given is noted first, since a signal may come in between."""

from typing import Any


class Shell:
    """Goes before Mininet's class of a node."""

    waiting: bool

    def write(self, data: Any) -> None:
        """Note that the shell is at a command, then give it the command.

        Mininet notes it afterwards. A stop in between would ask a shell that does not answer. An
        idle shell that is taken for a busy one is interrupted and says that it is ready: no harm.
        """
        self.waiting = True
        super().write(data)  # type: ignore[misc]
