"""What the engine refuses: programs that it cannot run, and requests of the control plane."""

from minip4.errors import Minip4Error


class EngineError(Minip4Error):
    """A request or a program that the engine refuses."""

    reason: str | None = None
    """Without what it is about, where the engine's C gave it."""


class NotFound(EngineError):
    """No table, action, entry, counter, register, ... of that name, index or handle."""


class AlreadyExists(EngineError):
    """An entry with the same key (and priority), or a group or session of the same number."""


class InvalidArgument(EngineError):
    """A value that does not fit, or a request that the program's declarations forbid."""


class TableFull(EngineError):
    """The table or action profile holds as many entries as it was declared to hold."""


class TooLarge(EngineError):
    """A program that would take more of the machine than one may: see limits.py."""


class NotSupported(EngineError):
    """Something that the engine cannot do, in a program or on request."""
