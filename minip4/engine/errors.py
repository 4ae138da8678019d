"""Errors of the engine: programs that it cannot run, and invalid control-plane requests."""

from minip4.errors import Minip4Error


class EngineError(Minip4Error):
    """A request or a program that the engine rejects."""

    reason: str | None = None
    """The problem without its object, if the engine's C code reported it."""


class NotFound(EngineError):
    """No table, action, entry, counter, register, ... with this name, index or handle."""


class AlreadyExists(EngineError):
    """An entry with the same key (and priority), or a group or session with the same number."""


class InvalidArgument(EngineError):
    """A value out of range, or a request that the program's declarations forbid."""


class TableFull(EngineError):
    """The table or action profile has reached its declared size."""


class TooLarge(EngineError):
    """A program that exceeds a resource limit, see limits.py."""


class NotSupported(EngineError):
    """A feature that the engine does not have, in a program or a request."""
