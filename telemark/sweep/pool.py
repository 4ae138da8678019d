"""A pool of processes on this machine, forked from this one: each does one run after another.

concurrent.futures has a pool, too; but of that all processes end when one is killed.
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
from telemark.sweep.serving import GRACE_S, serve
from telemark.sweep.task import Task
from telemark.sweep.worker_death import TRIES, give_up, oom_kills

_FORK = multiprocessing.get_context("fork")


class _Worker:
    """A process, and the number of the task that it is at."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._oom_kills = oom_kills()
        self.connection, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=serve, args=(theirs, os.getpid()), daemon=True)
        with isolation.uninterrupted():
            self._process.start()
        theirs.close()

    def give(self, number: int, task: Task, place: Path) -> None:
        self.number = number
        with contextlib.suppress(BrokenPipeError):  # it was killed: what is read next tells
            self.connection.send((pickle.dumps(task), place))

    def death(self) -> tuple[int | None, int]:
        """Return how the process died, once its connection has ended: see give_up()."""
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
    tell: Callable[[str], None],
) -> Generator[tuple[int, bytes], None, None]:  # fmt: skip
    """Do the tasks of these numbers, at most `jobs` at once; yields them as they are done.

    Each with its Outcome, packed. A process that is killed costs the run that it was at, which
    another one does again. Raises give_up() where that happens too often. What the runs' files
    are lies in `folder` / number. No process is left, whatever ends this.
    """
    todo, killed = deque(numbers), Counter[int]()
    workers: list[_Worker] = []
    try:
        while todo or any(worker.number is not None for worker in workers):
            idle = [worker for worker in workers if worker.number is None]
            while todo and (idle or len(workers) < jobs):
                if not idle:
                    workers.append(_Worker())
                worker = idle.pop() if idle else workers[-1]
                number = todo.popleft()
                worker.give(number, tasks[number], folder / str(number))
            busy = {worker.connection: worker for worker in workers if worker.number is not None}
            for worker in (busy[ready] for ready in wait([*busy])):  # type: ignore[index]
                assert worker.number is not None
                try:
                    said = worker.connection.recv()
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
                if isinstance(said, str):
                    tell(said)
                else:
                    number, worker.number = worker.number, None
                    yield number, said
    finally:
        for worker in workers:
            worker.end()
