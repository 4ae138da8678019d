"""A checked update: an operation on the engine and its undo function."""

from collections.abc import Callable

from finsy.proto import p4r

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Undo = Callable[[], object]
Operation = Callable[[], Undo]
"""Does one update. What it returns takes back what is kept beside the engine, after the engine has
taken back its own part: see Engine.batch()."""


def nothing() -> None:
    """The undo function of an operation without state outside of the engine."""
