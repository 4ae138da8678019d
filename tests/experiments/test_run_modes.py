"""Experiments and benchmarks that need real time, or virtual time, refuse the other run mode."""

import argparse
import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import scripts

from telemark.errors import TestbedError
from telemark.results.reference import EBPF_PREFIXES, PROCESSES

BENCHMARKS = scripts.EXPERIMENTS.parent / "benchmarks" / "speed"
NEED_REAL = [
    *(path for path in sorted(scripts.EXPERIMENTS.glob("*.py"))
      if path.stem.startswith((*PROCESSES, *EBPF_PREFIXES))),
    *(BENCHMARKS / f"{name}.py" for name in ("roce_region", "tcp_kernel")),
]  # fmt: skip
NEED_VIRTUAL = [
    *(scripts.EXPERIMENTS / f"{name}.py" for name in ("dta_prototype", "tna_published")),
    *(BENCHMARKS / f"{name}.py" for name in ("dta_packets", "ns3", "ns3_tcp", "one_switch",
                                             "sweeps", "threads", "tna", "virtual")),
]  # fmt: skip
CASES = [
    *((path, "virtual", "real") for path in NEED_REAL),
    *((path, "real", "virtual") for path in NEED_VIRTUAL),
]


@pytest.mark.parametrize(("path", "time", "other"), CASES, ids=[path.stem for path, *_ in CASES])
def test_the_other_run_mode_is_refused(path: Path, time: str, other: str) -> None:
    experiment = scripts.from_file(path).experiment
    options = argparse.Namespace(time=time, target="minip4", quick=True)
    with pytest.raises(TestbedError, match=rf"^--time {time}: .*; use --time {other}$"):
        asyncio.run(started(experiment, options))


async def started(experiment: Callable[..., object], options: argparse.Namespace) -> None:
    """Start an experiment, which may be a coroutine."""
    outcome = experiment(options, None)
    if inspect.isawaitable(outcome):
        await outcome
