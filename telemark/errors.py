"""Errors that are reported to the user in one line."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

IDLE_MACHINE = "reduce the load on the machine"  # tests/rerun_inconclusive.py looks for this text


class TestbedError(Exception):
    """Mistake of the user, or unsuitable environment; exit status 2.

    The message contains location, problem and remedy.
    """

    __test__ = False  # not a test class for pytest


class InvalidRunError(TestbedError):
    """Inconclusive run, whose measurements are not usable because of `problem`.

    In real time, the load on the machine may be the cause, so the exit status is 2 and the message
    contains a remedy. In virtual time, or if hosts rejected malformed frames, the error becomes a
    FailedRunError. Raise it only if the run cannot continue; otherwise, call note_invalid(), which
    keeps the measurements.
    """

    def __init__(self, problem: str, remedy: str = IDLE_MACHINE) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"run invalid: {self.problem}; {self.remedy}"


class BusyMachineError(InvalidRunError):
    """Inconclusive benchmark of the machine; even in virtual time, its load may be the cause."""


class FailedRunError(TestbedError):
    """Run in which the network under test prevented the measurement; exit status 1."""


_notes: ContextVar[list[InvalidRunError] | None] = ContextVar("notes", default=None)


def note_invalid(error: InvalidRunError | str) -> None:
    """Mark the run as inconclusive and continue; outside of take_notes(), raise the error.

    A string stands for InvalidRunError(string).
    """
    notes = _notes.get()
    error = InvalidRunError(error) if isinstance(error, str) else error
    if notes is None:
        raise error
    notes.append(error)


@contextlib.contextmanager
def take_notes(notes: list[InvalidRunError] | None) -> Iterator[None]:
    """Make note_invalid() append to a list; with None, make it raise the error."""
    token = _notes.set(notes)
    try:
        yield
    finally:
        _notes.reset(token)
