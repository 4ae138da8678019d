"""Virtual time: the event loop in which time passes only while every task waits for it."""

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

START_NS = 1_000_000_000  # programs may take a timestamp of 0 for "never"
SLICE_EVENTS = 2_000_000  # then signals are looked at, and progress is told


class Simulation(Protocol):
    """What lives in virtual time beside the tasks."""

    def advance(self, until_ns: int | None, max_events: int) -> bool:
        """Let things happen until then (None: until a controller is needed).

        False: nothing will ever happen. Afterwards `now_ns` tells how far it came.
        """
        ...

    @property
    def now_ns(self) -> int: ...


class VirtualClock:
    """The clock of a network in virtual time, of its controllers, and of asyncio.

    run() runs a coroutine in an event loop of its own. When all tasks wait, for this clock, for a
    timer of asyncio or for a message of a switch, the network's events up to the earliest such
    time are run, and then the tasks that waited for it, in the order in which they began to wait.
    So tasks run at frozen instants, and always in the same order.
    """

    def __init__(self) -> None:
        self._now_ns = START_NS
        self._began_s = time.monotonic()
        self.on_progress: Callable[[], None] = lambda: None  # called from time to time
        self._simulation: Simulation | None = None
        self._numbers = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_ns(self) -> int:
        """Nanoseconds of virtual time; the first network starts at 1 s."""
        return self._now_ns if self._simulation is None else self._simulation.now_ns

    async def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns` exactly, after all events up to then; at once when it has passed."""
        time_ns = math.ceil(time_ns)  # it may have come from a sum with floats
        if time_ns <= self.now_ns():
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (time_ns, next(self._numbers), future))
        await future

    def attach(self, world: Simulation) -> None:
        """Let a network live in this time. Raises TestbedError when there is one already."""
        if self._simulation is not None:
            raise TestbedError("virtual time has room for one network at a time")
        self._simulation = world

    def detach(self) -> None:
        """Time goes on from where the network ended."""
        if self._simulation is not None:
            self._now_ns = self._simulation.now_ns
            self._simulation = None

    def __str__(self) -> str:
        virtual_s = (self.now_ns() - START_NS) / 1e9
        return f"{virtual_s:.1f} s of virtual time in {time.monotonic() - self._began_s:.1f} s"

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """In place of asyncio.run()."""
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
        """Go on to what comes first: a sleeper, asyncio's timer, or a message of a switch."""
        while self._sleepers and self._sleepers[0][2].cancelled():
            heapq.heappop(self._sleepers)
        times = [] if timer_ns is None else [timer_ns]
        if self._sleepers:
            times.append(self._sleepers[0][0])
        until_ns = min(times, default=None)
        happens = False
        if self._simulation is not None:
            happens = self._simulation.advance(until_ns, SLICE_EVENTS)
        elif until_ns is not None:
            self._now_ns = until_ns
        if not happens and until_ns is None:
            raise TestbedError("virtual time stands still: all tasks wait, and none for the clock")
        self.on_progress()
        now_ns = self.now_ns()
        while self._sleepers and self._sleepers[0][0] <= now_ns:
            future = heapq.heappop(self._sleepers)[2]
            if not future.cancelled():
                future.set_result(None)


class _Loop(asyncio.SelectorEventLoop):
    """asyncio's loop, with a clock that is not the machine's."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.threads = 0  # calls that run in threads: they take no virtual time
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds of virtual time."""
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
        self.threads += 1  # a thread of its own waits for the others
        try:
            await super().shutdown_default_executor(*arguments)
        finally:
            self.threads -= 1

    async def subprocess_exec(self, *_arguments: Any, **_options: Any) -> Any:
        raise TestbedError("a process cannot take part in virtual time: use --time real")

    subprocess_shell = subprocess_exec


class _Selector(selectors.DefaultSelector):
    """Where the loop would wait for real time to pass, virtual time does."""

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
    """Cancel what still runs, as asyncio.run() does."""
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
