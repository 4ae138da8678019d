"""Errors of the engine: programs that it cannot run, and invalid control-plane requests."""

from minip4.errors import Minip4Error


class EngineError(Minip4Error):
    """Base class of errors: the engine rejects a request or a program."""

    reason: str | None = None
    """The problem without the name of the object, if the engine's C code reported it."""


class NotFound(EngineError):
    """No table, action, entry, counter, register, ... has this name, index or handle."""


class AlreadyExists(EngineError):
    """Another entry has the same key (and priority), or a group or session has the same number."""


class InvalidArgument(EngineError):
    """A value is out of range, or the program's declarations forbid the request."""


class TableFull(EngineError):
    """The table or action profile has reached its declared size."""


class TooLarge(EngineError):
    """The program exceeds a resource limit, see limits.py."""


class NotSupported(EngineError):
    """A program or a request uses a feature that the engine does not support."""
