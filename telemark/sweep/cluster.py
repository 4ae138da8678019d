"""Runs of a sweep on the workers of a Dask scheduler: other processes, or other machines.

A worker has a checkout of the same code. It does each run in a time and a folder of its
own, as here: so the bytes are the same. What a killed worker was at, others get.
"""

import contextlib
import logging
import pickle
import sys
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from telemark.errors import TestbedError
from telemark.sweep.run_cache import code_files
from telemark.sweep.task import Task

ANSWER_S = 30
INSTALL = ".venv/bin/python -m pip install -e '.[cluster]'"


def outcomes(
    tasks: Sequence[Task], numbers: Sequence[int], address: str, say: Callable[[str], None]
) -> Generator[tuple[int, bytes], None, None]:
    """As telemark.sweep.pool.outcomes(), by the workers of the scheduler at this address.

    Whatever ends this, the workers end its runs.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise TestbedError(f"--scheduler needs Dask: {INSTALL}") from None
    worker = import_module("telemark.sweep.dask_worker")  # which imports that, too
    with contextlib.closing(_connected(distributed, address)) as client:
        threads = client.nthreads()
        say(f"Dask at {address}: {sum(threads.values())} runs at once, by {len(threads)} workers")
        fingerprint = worker.CheckoutFingerprint.of(Path(sys.argv[0]).resolve(), code_files())
        futures = {
            client.submit(worker.do, pickle.dumps(tasks[number]), fingerprint, pure=False): number
            for number in numbers
        }
        try:
            for future in distributed.as_completed(futures):
                yield futures[future], _result(future)
        finally:
            client.cancel([*futures])


def _connected(distributed: Any, address: str) -> Any:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says, we do: in one line
    try:
        return distributed.Client(address, timeout=ANSWER_S)
    except (OSError, ValueError) as error:  # of which its TimeoutError is one
        why = " ".join(str(error).split()) or "no answer"
        raise TestbedError(
            f"--scheduler {address}: no Dask scheduler answers there ({why}); expected an address "
            "such as tcp://127.0.0.1:8786, which `dask scheduler` prints"
        ) from None


def _result(future: Any) -> bytes:
    try:
        result: bytes = future.result()
    except Exception as error:  # the scheduler's, not a run's: KilledWorker, say
        raise TestbedError(f"--scheduler: {' '.join(str(error).split())}") from None
    return result
