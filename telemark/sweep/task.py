"""One run of a sweep: task, execution and outcome."""

import contextlib
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minip4.compiler import CompiledProgram
from telemark.accounting.drops import DropReport
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import TestbedError, take_notes
from telemark.programs import Source
from telemark.results.provenance import Origin, P4Source
from telemark.session import error_reporting
from telemark.session.progress import Progress
from telemark.session.run import Run
from telemark.sweep import plain_data
from telemark.watch.publisher import Publisher

Measure = Callable[..., Awaitable[Any]]  # measure(*setting, run)
ReportProgress = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """Run in virtual time.

    The outcome depends only on the fields of the task, the code, and the P4 programs.
    """

    measure: Measure
    setting: tuple[Any, ...]
    name: str  # name of the experiment
    seed: int
    keeps: bool  # whether captures and logs are kept
    snaplen: int  # maximum number of bytes of a frame in captures
    threads: int  # number of threads of each network


@dataclass(frozen=True)
class Outcome:
    """Result or failure of a run, with its messages, drops and programs."""

    result: Any
    failure: error_reporting.ErrorReport | None
    lines: list[str]  # lines printed by Progress.say()
    warnings: str  # warnings of the compiler
    drop_report: DropReport

    # programs of this run, and possibly programs of other runs of the sweep
    programs: frozenset[P4Source]


def failed_outcome(error: Exception) -> Outcome:
    """Create the outcome of a run that was not executed."""
    return Outcome(None, error_reporting.error_report(error), [], "", DropReport(), frozenset())


class CompiledPrograms:
    """Programs that this process has compiled. The runs of a sweep share them."""

    def __init__(self) -> None:
        self.compiled: dict[Source, CompiledProgram] = {}
        self.sources: set[P4Source] = set()


class _RemoteProgress(Progress):
    """Progress of a run in a worker process.

    Updates go to the parent process, lines are collected.
    """

    def __init__(self, report_progress: ReportProgress, clock: VirtualClock) -> None:
        super().__init__(note=clock)
        self._report_progress = report_progress
        self.lines: list[str] = []

    def refresh(self) -> None:
        self._report_progress(f"{self._last} ({self._note})")

    def update(self, text: str) -> None:
        self._last = text
        self.refresh()

    def say(self, text: str) -> None:
        self.lines.append(text)


def execute(
    task: Task, folder: Path, report_progress: ReportProgress, programs: CompiledPrograms,
    publisher: Publisher | None = None,
) -> Outcome:  # fmt: skip
    """Execute a run in virtual time. Its clock starts at 1 s; its files are in `folder`."""
    clock = VirtualClock()
    progress = _RemoteProgress(report_progress, clock)
    clock.on_progress = progress.refresh
    run = Run(
        task.name, folder, task.seed, clock=clock, progress=progress, origin=Origin(),
        keeps=task.keeps, snaplen=task.snaplen, programs=programs.compiled, threads=task.threads,
        publisher=publisher,
    )  # fmt: skip
    result, failure = None, None
    with contextlib.redirect_stderr(io.StringIO()) as warnings:
        try:
            # without notes, because the caller is in another process, and would not get them
            with take_notes(None):
                result = clock.run(_measure(task, run))
        except Exception as error:
            failure = error_reporting.error_report(error)
    programs.sources |= run.origin.programs
    return Outcome(
        result, failure, progress.lines, warnings.getvalue(), run.drop_report,
        frozenset(programs.sources),
    )  # fmt: skip


def serialize(outcome: Outcome) -> bytes:
    """Return an outcome as bytes, for other processes and machines, and for the cache.

    If the result is not plain data, a failed outcome is returned; its error names the field.
    """
    sources: Any = frozenset(source.as_portable() for source in outcome.programs)
    plain = replace(outcome, programs=sources)
    try:
        return plain_data.dump(plain, "run")
    except TestbedError as error:
        return plain_data.dump(
            replace(plain, result=None, failure=error_reporting.error_report(error)), "run"
        )


def deserialize(data: bytes) -> Outcome:
    """Return the outcome.

    Raises plain_data.NotPlainDataError for bytes that are not from serialize().
    """
    plain = plain_data.load(data)
    if not isinstance(plain, Outcome):
        raise plain_data.NotPlainDataError(f"a {type(plain).__name__}, not the outcome of a run")
    sources: Any = plain.programs
    return replace(plain, programs=frozenset(P4Source.from_portable(*each) for each in sources))


async def _measure(task: Task, run: Run) -> Any:
    return await task.measure(*task.setting, run)
