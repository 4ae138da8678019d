"""Errors that are reported to the user in one line."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

# remedy in messages; tests/rerun_inconclusive.py searches messages for this text
IDLE_MACHINE = "reduce the load on the machine"


class TestbedError(Exception):
    """Mistake of the user, or unsuitable environment. The exit status is 2.

    The message contains location, problem and remedy.
    """

    __test__ = False  # not a test class for pytest


class InvalidRunError(TestbedError):
    """Inconclusive run: because of `problem`, its measurements are not usable.

    In real time, the load on the machine may be the cause, so the exit status is 2 and the message
    contains a remedy. In virtual time, or if hosts rejected malformed frames, the run raises a
    FailedRunError instead. Raise InvalidRunError only if the run cannot continue. Otherwise call
    note_invalid(), which keeps the measurements.
    """

    def __init__(self, problem: str, remedy: str = IDLE_MACHINE) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"run invalid: {self.problem}; {self.remedy}"


class BusyMachineError(InvalidRunError):
    """Inconclusive benchmark of the machine. Even in virtual time, the load may be the cause."""


class FailedRunError(TestbedError):
    """Run in which the network under test prevented the measurement; exit status 1."""


_notes: ContextVar[list[InvalidRunError] | None] = ContextVar("notes", default=None)


def note_invalid(error: InvalidRunError | str) -> None:
    """Within a block of take_notes(), note that the run is inconclusive.

    Elsewhere, raise the error.

    A string argument means InvalidRunError(string).
    """
    notes = _notes.get()
    error = InvalidRunError(error) if isinstance(error, str) else error
    if notes is None:
        raise error
    notes.append(error)


@contextlib.contextmanager
def take_notes(notes: list[InvalidRunError] | None) -> Iterator[None]:
    """Within the block, note_invalid() appends errors to `notes`.

    If `notes` is None, note_invalid() raises errors.
    """
    token = _notes.set(notes)
    try:
        yield
    finally:
        _notes.reset(token)
