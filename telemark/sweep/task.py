"""One run of a sweep: what determines it, and what became of it, wherever it was."""

import contextlib
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minip4.compiler import CompiledProgram
from telemark.accounting.drops import DropReport
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import TestbedError
from telemark.programs import Source
from telemark.results.provenance import Origin, P4Source
from telemark.session import error_reporting
from telemark.session.progress import Progress
from telemark.session.run import Run
from telemark.sweep import plain_data

Measure = Callable[..., Awaitable[Any]]  # measure(*setting, run)
Tell = Callable[[str], None]  # how far a run is


@dataclass(frozen=True)
class Task:
    """A run in virtual time: a function of these alone, and of the code and programs it uses."""

    measure: Measure
    setting: tuple[Any, ...]
    name: str  # the experiment's
    seed: int
    keeps: bool  # its captures and logs
    snaplen: int  # bytes of each frame in captures
    threads: int  # of its networks


@dataclass(frozen=True)
class Outcome:
    """What a run returned, or why it did not, with all that it did beside that."""

    result: Any
    failure: error_reporting.ErrorReport | None
    said: list[str]  # lines that stay on the screen
    warnings: str  # of the compiler
    drop_report: DropReport
    programs: frozenset[P4Source]  # which it ran, and maybe others of its sweep


def failed(why: Exception) -> Outcome:
    """Of a run that was not even begun, or came to nothing for a reason that is not its own."""
    return Outcome(None, error_reporting.error_report(why), [], "", DropReport(), frozenset())


class Known:
    """Programs that were compiled in this process, each for several runs of one sweep."""

    def __init__(self) -> None:
        self.compiled: dict[Source, CompiledProgram] = {}
        self.sources: set[P4Source] = set()


class _Told(Progress):
    """The progress of a run that has no screen: others tell how far it is, and what it said."""

    def __init__(self, tell: Tell, clock: VirtualClock) -> None:
        super().__init__(note=clock)
        self._tell = tell
        self.said: list[str] = []

    def refresh(self) -> None:
        self._tell(f"{self._last} ({self._note})")

    def update(self, text: str) -> None:
        self._last = text
        self.refresh()

    def say(self, text: str) -> None:
        self.said.append(text)


def execute(task: Task, folder: Path, tell: Tell, known: Known) -> Outcome:
    """Do a run in virtual time of its own, which begins at 1 s; its files lie in `folder`."""
    clock = VirtualClock()
    progress = _Told(tell, clock)
    clock.on_progress = progress.refresh
    run = Run(
        task.name, folder, task.seed, clock=clock, progress=progress, origin=Origin(),
        keeps=task.keeps, snaplen=task.snaplen, programs=known.compiled, threads=task.threads,
    )  # fmt: skip
    result, failure = None, None
    with contextlib.redirect_stderr(io.StringIO()) as warnings:
        try:
            result = clock.run(_measured(task, run))
        except Exception as error:
            failure = error_reporting.error_report(error)
    known.sources |= run.origin.programs
    return Outcome(
        result, failure, progress.said, warnings.getvalue(), run.drop_report,
        frozenset(known.sources),
    )  # fmt: skip


def packed(outcome: Outcome) -> bytes:
    """Return an outcome as bytes, for another process or machine and for the cache.

    A result that is not plain data becomes a failure that names the field.
    """
    sources: Any = frozenset(source.as_portable() for source in outcome.programs)
    plain = replace(outcome, programs=sources)
    try:
        return plain_data.dump(plain, "run")
    except TestbedError as error:
        return plain_data.dump(
            replace(plain, result=None, failure=error_reporting.error_report(error)), "run"
        )


def unpacked(data: bytes) -> Outcome:
    """Return the outcome; raises plain_data.NotPlainDataError for bytes not made by packed()."""
    plain = plain_data.load(data)
    if not isinstance(plain, Outcome):
        raise plain_data.NotPlainDataError(f"a {type(plain).__name__}, not the outcome of a run")
    sources: Any = plain.programs
    return replace(plain, programs=frozenset(P4Source.from_portable(*each) for each in sources))


async def _measured(task: Task, run: Run) -> Any:
    return await task.measure(*task.setting, run)
