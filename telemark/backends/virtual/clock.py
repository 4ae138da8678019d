"""Virtual clock, and an asyncio event loop whose time advances only while all tasks wait."""

import asyncio
import heapq
import itertools
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from telemark.errors import TestbedError

T = TypeVar("T")

START_NS = 1_000_000_000  # not 0, because 0 means "never" in the timestamps of some P4 programs
SLICE_EVENTS = 2_000_000  # number of events between checks for signals and progress reports


class Simulation(Protocol):
    """Simulation whose time the clock advances while all tasks wait."""

    def advance(self, until_ns: int | None, max_events: int) -> bool:
        """Process events until a point in time, or at most `max_events` events.

        If `until_ns` is None, process events until a controller must react.

        After the call, `now_ns` is the time that was reached. Returns False if there are no more
        events.
        """
        ...

    @property
    def now_ns(self) -> int: ...


class VirtualClock:
    """Virtual clock that a network, its controllers and asyncio share.

    run() executes a coroutine in its own event loop. A task waits for a time of this clock, for an
    asyncio timer, or for a message of a switch. When all tasks wait, the clock processes the
    network's events up to the earliest of these times. Then it wakes the tasks that are due, in the
    order in which they began to wait. Time does not advance while tasks run, and the order of tasks
    is deterministic.
    """

    def __init__(self) -> None:
        self._now_ns = START_NS
        self._began_s = time.monotonic()
        self.on_progress: Callable[[], None] = lambda: None  # called between slices of events
        self._simulation: Simulation | None = None
        self._numbers = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_ns(self) -> int:
        """Return nanoseconds of virtual time; the first network starts at 1 s."""
        return self._now_ns if self._simulation is None else self._simulation.now_ns

    async def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns`, after all events up to that time.

        If that time has passed, return immediately.
        """
        time_ns = math.ceil(time_ns)  # the argument may be a float
        if time_ns <= self.now_ns():
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (time_ns, next(self._numbers), future))
        await future

    def attach(self, world: Simulation) -> None:
        """Attach a simulation. Raises TestbedError if another simulation is attached."""
        if self._simulation is not None:
            raise TestbedError(
                "virtual time: only one network at a time; leave the `with` block "
                "of the first network"
            )
        self._simulation = world

    def detach(self) -> None:
        """Detach the simulation; the clock keeps its time."""
        if self._simulation is not None:
            self._now_ns = self._simulation.now_ns
            self._simulation = None

    def __str__(self) -> str:
        virtual_s = (self.now_ns() - START_NS) / 1e9
        return f"{virtual_s:.1f} s of virtual time in {time.monotonic() - self._began_s:.1f} s"

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine like asyncio.run()."""
        loop = _Loop(self)
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(main)
        finally:
            try:
                _cancel_all(loop)
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.run_until_complete(loop.shutdown_default_executor())
            finally:
                asyncio.set_event_loop(None)
                loop.close()

    def advance(self, timer_ns: int | None) -> None:
        """Advance time until a task must run.

        A task must run when a sleep ends, when an asyncio timer is due, or when a switch sends a
        message.
        """
        while self._sleepers and self._sleepers[0][2].cancelled():
            heapq.heappop(self._sleepers)
        times = [] if timer_ns is None else [timer_ns]
        if self._sleepers:
            times.append(self._sleepers[0][0])
        until_ns = min(times, default=None)
        has_events = False
        if self._simulation is not None:
            has_events = self._simulation.advance(until_ns, SLICE_EVENTS)
        elif until_ns is not None:
            self._now_ns = until_ns
        if not has_events and until_ns is None:
            raise TestbedError("virtual time stands still: no task waits for the clock, no events")
        self.on_progress()
        now_ns = self.now_ns()
        while self._sleepers and self._sleepers[0][0] <= now_ns:
            future = heapq.heappop(self._sleepers)[2]
            if not future.cancelled():
                future.set_result(None)


class _Loop(asyncio.SelectorEventLoop):
    """asyncio event loop that uses the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        # number of calls that run in threads; virtual time does not advance during these calls
        self.threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return seconds of virtual time."""
        return self.clock.now_ns() / 1e9

    def run_in_executor(  # type: ignore[override]  # typeshed's signature needs Python 3.11
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: object) -> None:
        self.threads -= 1

    async def shutdown_default_executor(self, *arguments: Any) -> None:
        self.threads += 1  # virtual time waits for the call
        try:
            await super().shutdown_default_executor(*arguments)
        finally:
            self.threads -= 1

    async def subprocess_exec(self, *_arguments: Any, **_options: Any) -> Any:
        raise TestbedError("processes are not available in virtual time; use --time real")

    subprocess_shell = subprocess_exec


class _Selector(selectors.DefaultSelector):
    """Selector that advances virtual time; asyncio's own selector would wait."""

    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._loop.threads:
            return super().select(None)
        clock = self._loop.clock
        clock.advance(None if timeout is None else clock.now_ns() + math.ceil(timeout * 1e9))
        return []


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all running tasks, like asyncio.run()."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            loop.call_exception_handler(
                {"message": "error in a task at the end", "exception": task.exception()}
            )
