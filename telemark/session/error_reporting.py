"""What is told of an exception: one line of a controller's mistake, else a short traceback.

Whose code raised it decides. In P4Runtime's client it was a wrong table, field, action or value, or
what a switch refused; in an experiment or controller, Python's own words tell best, from there on.
"""

import linecache
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import finsy as fy

from minip4.errors import Minip4Error
from telemark.errors import FailedRunError, InvalidRunError, TestbedError
from telemark.session.traceback_filter import TELEMARK, Frames, is_under, user_frames

CLIENTS = ("finsy", "grpc")  # packages


@dataclass(frozen=True)
class ErrorReport:
    """What is told of an exception, also in a process in which it was not raised."""

    line: str | None  # of what the user or the machine got wrong; None: the program did
    short_traceback: str
    whole: str  # the traceback
    problem: str | None = None  # of an InvalidRunError
    is_failed_run: bool = False


class RemoteError(Exception):
    """An exception of another process, as that tells of it."""

    def __init__(self, account: ErrorReport) -> None:
        super().__init__(account.line or account.short_traceback)
        self.account = account


def error_report(error: Exception) -> ErrorReport:
    """What is told of an exception."""
    if isinstance(error, RemoteError):
        return error.account
    known = error if isinstance(error, (TestbedError, Minip4Error)) else controller_error(error)
    return ErrorReport(
        None if known is None else str(known), short_traceback(error),
        "".join(traceback.format_exception(error)),
        error.problem if isinstance(error, InvalidRunError) else None,
        isinstance(error, FailedRunError),
    )  # fmt: skip


def controller_error(error: Exception) -> TestbedError | None:
    """The error in one line, where a P4Runtime client raised it; None: elsewhere."""
    frames: Frames = list(traceback.walk_tb(error.__traceback__))
    users = user_frames(frames)
    if not users or not any(_package(frame) in CLIENTS for frame, _ in _after(frames, users[-1])):
        return None
    who = next((f"switch {name}: " for name in map(_switch, reversed(frames)) if name), "")
    places = ", ".join(f"{Path(f.f_code.co_filename).name}:{line}" for f, line in users)
    return TestbedError(f"{who}{_cause(error, frames[-1])} ({places}; --traceback tells more)")


def short_traceback(error: Exception) -> str:
    """The traceback, from the user's first line on; of what libraries made of it, the message."""
    frames: Frames = list(traceback.walk_tb(error.__traceback__))
    users = user_frames(frames)
    if not users:
        return "".join(traceback.format_exception(error))
    ours = [at for at in _after(frames, users[-1]) if is_under(at[0], *TELEMARK)]
    shown = traceback.StackSummary.extract(iter([*users, *ours]))
    lines = ["Traceback (--traceback tells all):\n", *shown.format()]
    return "".join([*lines, *traceback.format_exception_only(type(error), error)])


def _after(frames: Frames, at: tuple[FrameType, int]) -> Frames:
    return frames[frames.index(at) + 1 :]


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _switch(at: tuple[FrameType, int]) -> str | None:
    """The switch whose client is at work in a frame, or is at hand there."""
    return next((value.name for value in at[0].f_locals.values() if isinstance(value, fy.Switch)),
                None)  # fmt: skip


def _cause(error: Exception, raised_at: tuple[FrameType, int]) -> str:
    if isinstance(error, fy.P4ClientError):
        return refusal(error)
    if isinstance(error, AssertionError):  # finsy's, which have no words
        line = linecache.getline(raised_at[0].f_code.co_filename, raised_at[1]).strip()
        return f"not connected: expected its calls inside `async with connection(...)` ({line})"
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def refusal(error: fy.P4ClientError) -> str:
    """What the switch said: of a batch, of the first update that failed."""
    first = next(iter(error.details.values()), None)
    code, text = error.code, error.message
    if first is not None:
        code = first.canonical_code
        text = text if first.message in text else first.message
    return f"{code.name}: {' '.join(text.split()) or 'it does not say why'}"
