"""Runs of a sweep on the workers of a Dask scheduler. Workers may be on other machines.

Each worker has a checkout of the same code. Each run has its own virtual time and folder, so
results equal those of local runs. If a worker is killed, other workers repeat its runs.
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
    """Run tasks on the workers of a Dask scheduler. See telemark.sweep.pool.outcomes().

    If the generator is closed, the runs on the workers are cancelled.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise TestbedError(f"--scheduler: Dask is not installed; run {INSTALL}") from None
    worker = import_module("telemark.sweep.dask_worker")  # imports `distributed`
    with contextlib.closing(_connect(distributed, address)) as client:
        threads = client.nthreads()
        say(f"Dask at {address}: {len(threads)} workers, {sum(threads.values())} parallel runs")
        fingerprint = worker.CheckoutFingerprint.of(Path(sys.argv[0]).resolve(), code_files())
        futures = {
            client.submit(
                worker.run_task, pickle.dumps(tasks[number]), fingerprint, pure=False
            ): number
            for number in numbers
        }
        try:
            for future in distributed.as_completed(futures):
                yield futures[future], _result(future)
        finally:
            client.cancel([*futures])


def _connect(distributed: Any, address: str) -> Any:
    # suppress Dask's own messages, because errors are reported in one line
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        return distributed.Client(address, timeout=ANSWER_S)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        cause = " ".join(str(error).split()) or "no answer"
        raise TestbedError(
            f"--scheduler {address}: cannot connect to a Dask scheduler ({cause}); use the address "
            "that `dask scheduler` prints, e.g. tcp://127.0.0.1:8786"
        ) from None


def _result(future: Any) -> bytes:
    try:
        result: bytes = future.result()
    # an error of the scheduler, e.g. KilledWorker; errors of runs are in their outcomes
    except Exception as error:
        raise TestbedError(f"--scheduler: {' '.join(str(error).split())}") from None
    return result
