"""What experiments call: each run of a sweep, on all cores or machines, and what became of it."""

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
from telemark.sweep.run_cache import Kept, is_as_it_was
from telemark.sweep.task import Outcome, Task, unpacked

if TYPE_CHECKING:  # typing has these from Python 3.11 on
    from typing_extensions import TypeVarTuple, Unpack

    Setting = TypeVarTuple("Setting")

T = TypeVar("T")


async def sweep(
    measure: "Callable[[Unpack[Setting], Run], Awaitable[T]]",
    settings: "Iterable[tuple[Unpack[Setting]]]", run: Run,
) -> list[T]:  # fmt: skip
    """`await measure(*setting, run)` of each setting, in their order.

    In real time one after the other. In virtual time each is a run of its own, with a folder, and
    a time that begins at 1 s: so what it returns depends on `setting` and `run.seed` alone.
    `measure` is a function of a module, and changes nothing that it is given: in virtual time it
    may run in another process, or have run before (`run.sweep_options`). So it returns plain data:
    None, numbers, strings, bytes, lists, tuples, sets, dicts, ranges, enums, numpy arrays and
    scalars, and dataclasses and named tuples of these. TestbedError names a field that is not.
    Raises what a run raised, of the first one that failed.
    """
    return await _done(measure, [(setting, run.seed) for setting in settings], run)


async def sweep_seeds(
    measure: "Callable[[Unpack[Setting], Run], Awaitable[T]]",
    settings: "Iterable[tuple[Unpack[Setting]]]",
    seeds: Sequence[int], run: Run,
) -> list[list[T]]:  # fmt: skip
    """As sweep(), of each setting with each seed: a list for each setting, by the seeds."""
    settings = [*settings]
    found = iter(await _done(measure, [*product(settings, seeds)], run))
    return [[next(found) for _ in seeds] for _ in settings]


async def _done(
    measure: Callable[..., Awaitable[T]], jobs: Sequence[tuple[tuple[Any, ...], int]], run: Run
) -> list[T]:
    """The same of pairs of a setting and a seed."""
    if not isinstance(run.clock, VirtualClock):
        return [await measure(*setting, replace(run, seed=seed)) for setting, seed in jobs]
    tasks = [
        Task(measure, setting, run.name, seed, run.keeps, run.snaplen, run.threads)
        for setting, seed in jobs
    ]
    return [outcome.result for outcome in _Sweep(tasks, run).outcomes()]


class _Sweep:
    """The runs of a sweep in virtual time, and what is known of them so far."""

    def __init__(self, tasks: list[Task], run: Run) -> None:
        self._tasks = tasks
        self._run = run
        self._outcomes: dict[int, Outcome] = {}
        self._kept = Kept(run.sweep_options, run.progress.say)

    def outcomes(self) -> list[Outcome]:
        """Of all tasks; what is not known yet is done. Raises what a run raised."""
        if not (self._run.sweep_options.again or self._run.keeps):  # captures are not kept there
            self._find()
        if len(self._outcomes) < len(self._tasks):
            self._do()
        self._tell()
        return [self._outcomes[number] for number in range(len(self._tasks))]

    def _find(self) -> None:
        for number, task in enumerate(self._tasks):
            if (outcome := self._kept.find(task)) is not None:
                self._outcomes[number] = outcome
        if self._outcomes:
            self._run.progress.say(
                f"{len(self._outcomes)} of {len(self._tasks)} runs were done before, and nothing "
                "that they depend on has changed (--again does them anew)"
            )

    def _do(self) -> None:
        todo = [number for number in range(len(self._tasks)) if number not in self._outcomes]
        folder = self._run.folder / "sweep"
        folder.mkdir(exist_ok=True)
        with contextlib.closing(self._spread(todo, folder)) as done:
            for number, packed in done:
                self._take(number, packed)
                self._clear(folder / str(number))
                failed = [n for n, outcome in self._outcomes.items() if outcome.failure]
                if failed and all(n in self._outcomes for n in todo if n < min(failed)):
                    return  # the first that failed, whatever came first

    def _spread(self, todo: list[int], folder: Path) -> Generator[tuple[int, bytes], None, None]:
        """Runs of these numbers with their outcomes, as they are done, wherever that is."""
        sweep_options, progress = self._run.sweep_options, self._run.progress
        if sweep_options.scheduler is not None:
            return cluster.outcomes(self._tasks, todo, sweep_options.scheduler, progress.say)
        jobs = min(sweep_options.jobs, len(todo))
        return pool.outcomes(self._tasks, todo, jobs, folder, progress.update_note)

    def _take(self, number: int, packed: bytes) -> None:
        try:
            outcome = self._outcomes[number] = unpacked(packed)
        except NotPlainDataError as error:
            raise TestbedError(
                f"run {number + 1}: its result cannot be read here ({error}); have the script "
                "of the experiment import the modules whose classes it returns"
            ) from None
        for program in outcome.programs:
            if not is_as_it_was(program):
                raise TestbedError(
                    f"{program.path} is another program here than where run {number + 1} was done: "
                    "it has changed meanwhile, or that worker's is"
                )
        if not outcome.failure:
            self._kept.add(self._tasks[number], packed)
        self._run.progress.update(f"{len(self._outcomes)} of {len(self._tasks)} runs done")

    def _clear(self, place: Path) -> None:
        """Captures and logs of a run: kept as if it had been this one's, or removed."""
        for path in [*place.iterdir()] if self._run.keeps else ():
            path.rename(self._run.folder / path.name)
        if place.exists():  # here, and not with a worker
            shutil.rmtree(place)

    def _tell(self) -> None:
        """What runs said and did not deliver, in their order; raises what the first one raised."""
        warned: set[str] = set()
        for _, outcome in sorted(self._outcomes.items()):
            if outcome.warnings and outcome.warnings not in warned:  # of one program, by each
                print(outcome.warnings, end="", file=sys.stderr)
                warned.add(outcome.warnings)
            for line in outcome.said:
                self._run.progress.say(line)
            self._run.drop_report.add(outcome.drop_report)
            self._run.origin.programs |= outcome.programs
            if outcome.failure is not None:
                raise error_reporting.RemoteError(outcome.failure)
