"""Experiments and benchmarks refuse a run mode or target that they do not support."""

import argparse
import asyncio
import inspect
from pathlib import Path

import pytest
import scripts

from telemark.errors import TestbedError
from telemark.results.reference import EBPF_PREFIXES, PROCESSES

BENCHMARKS = scripts.EXPERIMENTS.parent / "benchmarks" / "speed"
NEED_REAL = [
    *(path for path in sorted(scripts.EXPERIMENTS.glob("*.py"))
      if path.stem.startswith((*PROCESSES, *EBPF_PREFIXES))),
    *(BENCHMARKS / f"{name}.py" for name in ("roce_region", "sai", "tcp_kernel")),
]  # fmt: skip
NEED_VIRTUAL = [
    *(scripts.EXPERIMENTS / f"{name}.py" for name in ("dta_prototype", "tna_published")),
    *(BENCHMARKS / f"{name}.py" for name in ("dta_packets", "ns3", "ns3_tcp", "one_switch",
                                             "sweeps", "threads", "tna", "virtual")),
]  # fmt: skip
NEED_MINIP4 = [
    *(path for path in NEED_REAL if path.stem not in ("int_collector", "roce_region",
                                                      "tcp_kernel")),
    *(scripts.EXPERIMENTS / f"{name}.py"
      for name in ("gallery_conquest", "int_overhead", "roce_prototype")),
    BENCHMARKS / "int_switch.py",
]  # fmt: skip


@pytest.mark.parametrize("path", NEED_REAL, ids=lambda path: path.stem)
def test_virtual_time_is_refused(path: Path) -> None:
    with pytest.raises(TestbedError, match=r"^--time virtual: .*; use --time real$"):
        start(path, time="virtual", target="minip4")


@pytest.mark.parametrize("path", NEED_VIRTUAL, ids=lambda path: path.stem)
def test_real_time_is_refused(path: Path) -> None:
    with pytest.raises(TestbedError, match=r"^--time real: .*; use --time virtual$"):
        start(path, time="real", target="minip4")


@pytest.mark.parametrize("path", NEED_MINIP4, ids=lambda path: path.stem)
def test_bmv2_is_refused(path: Path) -> None:
    with pytest.raises(TestbedError, match=r"^--target bmv2: .*; use --target minip4$"):
        start(path, time="real", target="bmv2")


def start(path: Path, **options: str) -> None:
    """Start an experiment, which may be a coroutine."""

    async def main() -> None:
        outcome = scripts.from_file(path).experiment(
            argparse.Namespace(**options, quick=True), None
        )
        if inspect.isawaitable(outcome):
            await outcome

    asyncio.run(main())
