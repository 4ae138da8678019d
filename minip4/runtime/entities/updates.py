"""A checked update: an operation on the engine and its undo function."""

from collections.abc import Callable

from finsy.proto import p4r

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Undo = Callable[[], object]
Operation = Callable[[], Undo]
"""Performs one update and returns its undo function.

After a failed batch, the engine first undoes its own changes (Engine.batch()). Then the undo
function restores the data stored outside of the engine.
"""


def nothing() -> None:
    """Undo an operation that changed nothing outside of the engine."""
