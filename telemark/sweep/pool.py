"""Pool of forked processes on this machine. They execute the runs of a sweep.

If a process dies, the pool continues; the pool of concurrent.futures does not.
"""

import contextlib
import multiprocessing
import os
import pickle
import shutil
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from telemark.backends.real import isolation
from telemark.sweep.task import Task
from telemark.sweep.worker_process import GRACE_S, TRIES, give_up, oom_kills, serve
from telemark.watch.publisher import Publisher

_FORK = multiprocessing.get_context("fork")


class _Worker:
    """Process of the pool, and the number of its current task."""

    def __init__(self, publisher: Publisher | None) -> None:
        self.number: int | None = None
        self._oom_kills = oom_kills()
        self.connection, theirs = _FORK.Pipe()
        self._process = _FORK.Process(
            target=serve, args=(theirs, os.getpid(), publisher), daemon=True
        )
        with isolation.uninterrupted():
            self._process.start()
        theirs.close()

    def assign(self, number: int, task: Task, folder: Path) -> None:
        self.number = number
        # the process was killed; the next recv() fails
        with contextlib.suppress(BrokenPipeError):
            self.connection.send((pickle.dumps(task), folder))

    def death(self) -> tuple[int | None, int]:
        """Return the arguments for give_up(). The process must have died."""
        self._process.join(GRACE_S)
        return self._process.exitcode, self._oom_kills

    def end(self) -> None:
        self._process.terminate()
        self._process.join(GRACE_S)
        self._process.kill()
        self._process.join()
        self.connection.close()


def outcomes(
    tasks: Sequence[Task], numbers: Sequence[int], jobs: int, folder: Path,
    report_progress: Callable[[str], None], *, publisher: Publisher | None = None,
) -> Generator[tuple[int, bytes], None, None]:  # fmt: skip
    """Execute tasks, at most `jobs` in parallel. Yield (index, serialized Outcome) for each.

    `numbers` are the indices of the tasks to execute. The files of a run are in `folder` / index.
    If a process is killed, a new process repeats the run. If this happens TRIES times, the error of
    give_up() is raised. If the generator is closed, all processes end.
    """
    todo, killed = deque(numbers), Counter[int]()
    workers: list[_Worker] = []
    try:
        while todo or any(worker.number is not None for worker in workers):
            idle = [worker for worker in workers if worker.number is None]
            while todo and (idle or len(workers) < jobs):
                if not idle:
                    workers.append(_Worker(publisher))
                worker = idle.pop() if idle else workers[-1]
                number = todo.popleft()
                worker.assign(number, tasks[number], folder / str(number))
            busy = {worker.connection: worker for worker in workers if worker.number is not None}
            for worker in (busy[ready] for ready in wait([*busy])):  # type: ignore[index]
                assert worker.number is not None
                try:
                    message = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    death = worker.death()
                    workers.remove(worker)
                    worker.end()
                    killed[worker.number] += 1
                    if killed[worker.number] >= TRIES:
                        raise give_up(f"run {worker.number + 1}: ", *death) from None
                    shutil.rmtree(folder / str(worker.number), ignore_errors=True)
                    todo.appendleft(worker.number)
                    continue
                if isinstance(message, str):
                    report_progress(message)
                else:
                    number, worker.number = worker.number, None
                    yield number, message
    finally:
        for worker in workers:
            worker.end()
