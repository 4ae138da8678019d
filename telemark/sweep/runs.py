"""Sweeps for experiments: sweep() and sweep_seeds() run on all cores, or on several machines."""

import contextlib
import shutil
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import TestbedError
from telemark.session import error_reporting
from telemark.session.run import Run
from telemark.sweep import cluster, pool
from telemark.sweep.plain_data import NotPlainDataError
from telemark.sweep.run_cache import RunCache, is_unchanged
from telemark.sweep.task import Outcome, Task, deserialize

if TYPE_CHECKING:  # in `typing` only since Python 3.11
    from typing_extensions import TypeVarTuple, Unpack

    Setting = TypeVarTuple("Setting")

T = TypeVar("T")


async def sweep(
    measure: "Callable[[Unpack[Setting], Run], Awaitable[T]]",
    settings: "Iterable[tuple[Unpack[Setting]]]", run: Run,
) -> list[T]:  # fmt: skip
    """Return the result of `await measure(*setting, run)` for each setting, in the same order.

    In real time, runs are sequential. In virtual time, each run has its own folder and its own
    clock, which starts at 1 s; the result depends only on `setting` and `run.seed`. A run in
    virtual time may execute in another process, or its result may come from the cache
    (`run.sweep_options`). Therefore, `measure` must be a module-level function, must not modify its
    arguments, and must return plain data. Plain data are None, numbers, strings, bytes, ranges,
    enums, and numpy arrays and scalars. Lists, tuples, sets, dicts, dataclasses and named tuples of
    plain data are plain data as well. TestbedError names the first field that is not plain data.
    Raises the exception of the first run that failed.
    """
    return await _results(measure, [(setting, run.seed) for setting in settings], run)


async def sweep_seeds(
    measure: "Callable[[Unpack[Setting], Run], Awaitable[T]]",
    settings: "Iterable[tuple[Unpack[Setting]]]",
    seeds: Sequence[int], run: Run,
) -> list[list[T]]:  # fmt: skip
    """Run each setting with each seed, see sweep(). Return one list of results per setting."""
    settings = [*settings]
    results = iter(await _results(measure, [*product(settings, seeds)], run))
    return [[next(results) for _ in seeds] for _ in settings]


async def _results(
    measure: Callable[..., Awaitable[T]], jobs: Sequence[tuple[tuple[Any, ...], int]], run: Run
) -> list[T]:
    """Return one result per pair of a setting and a seed."""
    if not isinstance(run.clock, VirtualClock):
        return [await measure(*setting, replace(run, seed=seed)) for setting, seed in jobs]
    tasks = [
        Task(measure, setting, run.name, seed, run.keeps, run.snaplen, run.threads)
        for setting, seed in jobs
    ]
    return [outcome.result for outcome in _Sweep(tasks, run).outcomes()]


class _Sweep:
    """Runs of a sweep in virtual time, and their outcomes so far."""

    def __init__(self, tasks: list[Task], run: Run) -> None:
        self._tasks = tasks
        self._run = run
        self._outcomes: dict[int, Outcome] = {}
        self._cache = RunCache(run.sweep_options, run.progress.say)

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of all tasks. Tasks whose outcomes are not in the cache are executed.

        Raises the exception of the first run that failed.
        """
        # With --keep and --watch, all runs are executed. Cached runs have no captures, and they are
        # not visible.
        if not (self._run.sweep_options.again or self._run.keeps or self._run.publisher):
            self._find_cached()
        if len(self._outcomes) < len(self._tasks):
            self._execute()
        self._report()
        return [self._outcomes[number] for number in range(len(self._tasks))]

    def _find_cached(self) -> None:
        for number, task in enumerate(self._tasks):
            if (outcome := self._cache.find(task)) is not None:
                self._outcomes[number] = outcome
        if self._outcomes:
            self._run.progress.say(
                f"{len(self._outcomes)} of {len(self._tasks)} runs are from the cache (use "
                f"--again to repeat them)"
            )

    def _execute(self) -> None:
        todo = [number for number in range(len(self._tasks)) if number not in self._outcomes]
        folder = self._run.folder / "sweep"
        folder.mkdir(exist_ok=True)
        with contextlib.closing(self._start(todo, folder)) as finished:
            for number, serialized in finished:
                self._add(number, serialized)
                self._clear(folder / str(number))
                failed = [n for n, outcome in self._outcomes.items() if outcome.failure]
                if failed and all(n in self._outcomes for n in todo if n < min(failed)):
                    # the first failed run (in the order of tasks) is known, so no more runs are
                    # needed
                    return

    def _start(self, todo: list[int], folder: Path) -> Generator[tuple[int, bytes], None, None]:
        """Execute runs on this machine or on workers.

        Yield the number and the outcome of each finished run.
        """
        sweep_options, progress = self._run.sweep_options, self._run.progress
        if sweep_options.scheduler is not None:
            return cluster.outcomes(self._tasks, todo, sweep_options.scheduler, progress.say)
        jobs = min(sweep_options.jobs, len(todo))
        return pool.outcomes(
            self._tasks,
            todo,
            jobs,
            folder,
            progress.update_note,
            publisher=self._run.publisher,
        )

    def _add(self, number: int, serialized: bytes) -> None:
        try:
            outcome = self._outcomes[number] = deserialize(serialized)
        except NotPlainDataError as error:
            raise TestbedError(
                f"run {number + 1}: cannot read its result ({error}); import the modules of the "
                f"result's classes in the experiment's script"
            ) from None
        for program in outcome.programs:
            if not is_unchanged(program):
                raise TestbedError(
                    f"{program.path}: differs from the program of run {number + 1}; do not change "
                    "it during a run, and update the checkouts of workers"
                )
        if not outcome.failure:
            self._cache.add(self._tasks[number], serialized)
        self._run.progress.update(f"{len(self._outcomes)} of {len(self._tasks)} runs done")

    def _clear(self, folder: Path) -> None:
        """Remove the files of a run.

        With --keep, first move captures and logs to this run's folder.
        """
        for path in [*folder.iterdir()] if self._run.keeps else ():
            path.rename(self._run.folder / path.name)
        # the folder does not exist if a worker on another machine executed the run
        if folder.exists():
            shutil.rmtree(folder)

    def _report(self) -> None:
        """Report the lines, warnings and drops of all runs, in the order of the runs.

        Raises the exception of the first run that failed.
        """
        warned: set[str] = set()
        for _, outcome in sorted(self._outcomes.items()):
            # print each warning only once
            if outcome.warnings and outcome.warnings not in warned:
                print(outcome.warnings, end="", file=sys.stderr)
                warned.add(outcome.warnings)
            for line in outcome.lines:
                self._run.progress.say(line)
            self._run.drop_report.add(outcome.drop_report)
            self._run.origin.programs |= outcome.programs
            if outcome.failure is not None:
                raise error_reporting.RemoteError(outcome.failure)
