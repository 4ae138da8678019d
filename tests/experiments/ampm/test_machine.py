"""A capacity probe determines rate and delay bounds, and these determine the block length."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripts import module

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Method
from telemark.backends.virtual.clock import VirtualClock
from telemark.capacity_probe import CapacityEstimate
from telemark.session.clock import RealClock
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import Line

machine = module("experiments.shared.ampm.error_bounds")
measurement = module("experiments.shared.ampm.measurement")
WATCHED, BACKGROUND = (Flow(number, "h1", "h2", 1000, 1000) for number in (1, 2))
SETTING = measurement.Setting(
    "x", Line(), ("s1", "s2", "s3"), {WATCHED: Method.STEP}, Schedule(2**18), Bounds(), 4,
    background=[BACKGROUND],
)  # fmt: skip


def machine_on(target: str, time: str, folder: Path) -> tuple[Any, argparse.Namespace]:
    clock: Any = VirtualClock() if time == "virtual" else RealClock()
    run = Run("test", folder, 1, target=target, clock=clock)
    options = argparse.Namespace(time=time, rate=1000, program="x.p4")
    workload = machine.Workload.of(SETTING)
    return clock.run(machine.machine_for(workload, 20_000, options, run)), options


@pytest.mark.parametrize(("time", "noise_us"), [("real", 20_000), ("virtual", 0)])
def test_minip4_needs_no_probe(time: str, noise_us: float, tmp_path: Path) -> None:
    found, options = machine_on("minip4", time, tmp_path)
    assert found.bounds(2000) == Bounds(0, 2000 + noise_us)
    assert options.rate == 1000


class Collector:
    """Stand-in for a collector. It collects nothing."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass

    async def __aenter__(self) -> "Collector":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def watch(self) -> None:
        pass


@pytest.mark.parametrize(
    ("capacity", "rate", "wait_us", "block_us"),
    [
        (CapacityEstimate(1, 700), 1000, 150_000, 2**20),
        (CapacityEstimate(1 / 4, 60_000), 250, 240_000, 2**21),
        (CapacityEstimate(1 / 2, 99_000), 500, 396_000, 2**21),
    ],
)
def test_bmv2_is_asked(
    capacity: CapacityEstimate,
    rate: int,
    wait_us: int,
    block_us: int,
    request: pytest.FixtureRequest,
) -> None:
    sent = []

    async def probe(_net: Any, flows: Any, _run: Run) -> CapacityEstimate:
        sent.extend(flows)
        return capacity

    monkeypatch = request.getfixturevalue("monkeypatch")
    net = SimpleNamespace(discard=lambda: None)
    monkeypatch.setattr(machine, "Network", lambda *_, **__: nullcontext(net))
    monkeypatch.setattr(machine, "Collector", Collector)
    monkeypatch.setattr(machine, "watched_paths", lambda *_, **__: {})
    monkeypatch.setattr(machine, "probe", probe)
    found, options = machine_on("bmv2", "real", request.getfixturevalue("tmp_path"))
    assert sent == [WATCHED, BACKGROUND]
    assert options.rate == rate
    assert found.bounds(2000) == Bounds(4000, 2000 + wait_us)
    assert (
        measurement.shortest_schedule([Method.MULTIPLEXED], found.bounds(2000)).block_us == block_us
    )
