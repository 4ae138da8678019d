"""Reports of exceptions: one line for a controller's mistake, otherwise a short traceback.

An exception of the P4Runtime client means a mistake in a controller (wrong table, field, action or
value), or an error status from a switch. It is reported in one line. For other exceptions, a
traceback is printed that starts at the first line of the user's code.
"""

import linecache
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import finsy as fy

from minip4.errors import Minip4Error
from telemark import REPOSITORY
from telemark.errors import BusyMachineError, FailedRunError, InvalidRunError, TestbedError

TELEMARK = tuple(str(REPOSITORY / folder) for folder in ("telemark", "minip4"))
LIBRARIES = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

Frames = list[tuple[FrameType, int]]  # frames with line numbers; the outermost frame is first
CLIENTS = ("finsy", "grpc")  # packages of the P4Runtime client


def user_frames(frames: Frames) -> Frames:
    """Select the frames whose code belongs to experiments, controllers or applications."""
    return [at for at in frames if not is_under(at[0], *TELEMARK, *LIBRARIES, "<frozen")]


def is_under(frame: FrameType, *folders: str) -> bool:
    """Return whether a frame's code is in a file below one of the folders."""
    return frame.f_code.co_filename.startswith(folders)


@dataclass(frozen=True)
class ErrorReport:
    """Texts that report an exception. The report can be sent to another process."""

    # report in one line, for a mistake of the user or an unsuitable machine; None for other errors
    line: str | None
    short_traceback: str
    traceback: str  # full traceback
    # problem of an InvalidRunError; None for a BusyMachineError and other errors
    problem: str | None = None
    is_failed_run: bool = False


class RemoteError(Exception):
    """Exception that was raised in another process."""

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(report.line or report.short_traceback)
        self.report = report


def error_report(error: Exception) -> ErrorReport:
    """Create the report of an exception."""
    if isinstance(error, RemoteError):
        return error.report
    is_load = isinstance(error, BusyMachineError)
    known = error if isinstance(error, (TestbedError, Minip4Error)) else controller_error(error)
    return ErrorReport(
        None if known is None else str(known), short_traceback(error),
        "".join(traceback.format_exception(error)),
        error.problem if isinstance(error, InvalidRunError) and not is_load else None,
        isinstance(error, FailedRunError),
    )  # fmt: skip


def controller_error(error: Exception) -> TestbedError | None:
    """Describe an exception of the P4Runtime client in one line; None for other exceptions."""
    frames: Frames = list(traceback.walk_tb(error.__traceback__))
    users = user_frames(frames)
    if not users or not any(_package(frame) in CLIENTS for frame, _ in _after(frames, users[-1])):
        return None
    switch = next((f"switch {name}: " for name in map(_switch, reversed(frames)) if name), "")
    places = ", ".join(f"{Path(f.f_code.co_filename).name}:{line}" for f, line in users)
    return TestbedError(
        f"{switch}{_cause(error, frames[-1])} ({places}; use --traceback for details)"
    )


def short_traceback(error: Exception) -> str:
    """Format a traceback that starts at the user's first line.

    The traceback contains only the user's and Telemark's frames.
    """
    frames: Frames = list(traceback.walk_tb(error.__traceback__))
    users = user_frames(frames)
    if not users:
        return "".join(traceback.format_exception(error))
    own = [at for at in _after(frames, users[-1]) if is_under(at[0], *TELEMARK)]
    shown = traceback.StackSummary.extract(iter([*users, *own]))
    lines = ["Traceback (shortened; use --traceback for all frames):\n", *shown.format()]
    return "".join([*lines, *traceback.format_exception_only(type(error), error)])


def _after(frames: Frames, at: tuple[FrameType, int]) -> Frames:
    return frames[frames.index(at) + 1 :]


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _switch(at: tuple[FrameType, int]) -> str | None:
    """Return the name of the switch whose P4Runtime client is a local variable of a frame."""
    return next((value.name for value in at[0].f_locals.values() if isinstance(value, fy.Switch)),
                None)  # fmt: skip


def _cause(error: Exception, raised_at: tuple[FrameType, int]) -> str:
    if isinstance(error, fy.P4ClientError):
        return refusal(error)
    if isinstance(error, AssertionError):  # finsy's assertions have no message
        line = linecache.getline(raised_at[0].f_code.co_filename, raised_at[1]).strip()
        return f"not connected; call it inside `async with connection(...)` ({line})"
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def refusal(error: fy.P4ClientError) -> str:
    """Describe the error status of a switch.

    For a batch, describe the status of the first update that failed.
    """
    first = next(iter(error.details.values()), None)
    code, text = error.code, error.message
    if first is not None:
        code = first.canonical_code
        text = text if first.message in text else first.message
    return f"{code.name}: {' '.join(text.split()) or 'no message'}"
