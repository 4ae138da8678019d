"""What an update becomes once it is checked: an operation on the engine, and its undoing."""

from collections.abc import Callable

from finsy.proto import p4r

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Undo = Callable[[], object]
Operation = Callable[[], Undo]  # does one update on the engine; returns what takes it back
