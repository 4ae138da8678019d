"""Collecting blocks in virtual time: complete, or unknown in the very part that something hit."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point, pulse_delay
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from testbed.isolation import Run
from testbed.network import Network
from testbed.traffic import Flow, FlowRecord, Traffic
from testbed.virtual_clock import VirtualClock
from topologies.line import Line

PROGRAM = "p4src/ampm/ampm.p4"
PATH = ("s1", "s2", "s3")
LINK_DELAY_US = 1000
BOUNDS = Bounds(delay_us=2 * LINK_DELAY_US)
SCHEDULE = Schedule(2**17)
RATE_PPS = 2000
UDP = 17


@dataclass
class Scene:
    """A line of three switches, a flow over it, and what may be done to them meanwhile."""

    net: Network
    run: Run
    first: int
    collector: Collector
    reports: list[BlockReport] = field(default_factory=list)
    record: FlowRecord | None = None


def virtually(folder: Path, main: Callable[[Run], Awaitable[Any]]) -> Any:
    clock = VirtualClock()
    return clock.run(main(Run("test", folder, 1, clock=clock)))  # type: ignore[arg-type]


def hops(net: Network) -> list[Hop]:
    return [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]


def watched(net: Network, methods: Method) -> WatchedFlow:
    return WatchedFlow(
        7, net.host("h1").IP(), net.host("h2").IP(), UDP, dst_port=5001, methods=methods
    )


Disturb = Callable[[Scene, int], Awaitable[None]]


async def collect(run: Run, methods: Method, blocks: int, disturb: Disturb | None = None) -> Scene:
    """Reports of `blocks` full blocks; `disturb` is called after each, with the block's number."""
    topo = Line(loss=0.05, delay_us=LINK_DELAY_US)
    with Network(topo, run, program=PROGRAM, switch_options=cpu_ports(topo)) as net:
        collector = Collector(
            {watched(net, methods): hops(net)}, SCHEDULE, run.clock, bounds=BOUNDS
        )
        async with collector:
            await collector.watch()
            first = SCHEDULE.block_at(run.clock.now_ns() // 1000) + 3
            scene = Scene(net, run, first, collector)
            start_ns = 1000 * (SCHEDULE.start_us(first) - SCHEDULE.block_us // 4)
            count = RATE_PPS * (blocks + 1) * SCHEDULE.block_us // 1_000_000
            flow = Flow(1, "h1", "h2", rate_pps=RATE_PPS, count=count)
            async with Traffic(net, [flow], start_ns) as traffic:
                async for report in collector.blocks(first, first + blocks - 1):
                    scene.reports.append(report)
                    if disturb is not None:
                        await disturb(scene, report.block - first)
                scene.record = (await traffic.finish())[flow.id]
    return scene


METHODS = [
    Method.STEP,
    Method.PULSE,
    Method.DOUBLE,
    Method.MULTIPLEXED,
    Method.STEP | Method.HASHED,
]


@pytest.mark.parametrize("methods", METHODS)
def test_every_block_is_complete_when_nothing_happens(methods: Method, tmp_path: Path) -> None:
    scene = virtually(tmp_path, lambda run: collect(run, methods, 6))
    assert [report.problems for report in scene.reports] == [[]] * 6
    for report in scene.reports:
        points = report.records[7]
        assert list(points) == [Point(s, p) for s in PATH for p in ("arrivals", "departures")]
        counts = [record.packets for record in points.values()]
        assert counts[0] == counts[1] == pytest.approx(RATE_PPS * SCHEDULE.block_us / 1e6, abs=1)
        assert all(earlier >= later > 200 for earlier, later in pairwise(counts))
        first, last = points[Point("s1", "departures")], points[Point("s3", "departures")]
        assert first.bytes == 64 * first.packets
        if methods & (Method.PULSE | Method.MULTIPLEXED) and last.pulses:
            assert pulse_delay(first, last).delay_us == 2 * LINK_DELAY_US
    samples = [len(r.records[7][Point("s3", "departures")].samples) for r in scene.reports]
    assert (sum(samples) > 6) == (Method.HASHED in methods)


def unknown(scene: Scene, switch: str) -> list[int]:
    """The blocks, from the first one, of which a switch's records are unknown; both or neither."""
    known = [[r.records[7][Point(switch, p)] for p in ("arrivals", "departures")]
             for r in scene.reports]  # fmt: skip
    assert all((a is None) == (b is None) for a, b in known)
    return [number for number, (a, _) in enumerate(known) if a is None]


def test_a_switch_that_restarted_is_filled_again(tmp_path: Path) -> None:
    """Its part of that block and of the one under way is unknown; the next ones are right."""

    async def restart(scene: Scene, block: int) -> None:
        if block == 2:
            await restart_switch(scene.net, "s2")

    scene = virtually(tmp_path, lambda run: collect(run, Method.DOUBLE, 8, restart))
    print([r.problems for r in scene.reports])
    assert unknown(scene, "s2") == [3, 4]
    assert unknown(scene, "s1") == unknown(scene, "s3") == []


async def restart_switch(net: Network, name: str) -> None:
    """As a process that is started again: nothing is left of entries, counters and connections."""
    switch = net.plant._running[net.switch(name).node]  # type: ignore[attr-defined]
    engine = switch._make_engine(switch._program.bmv2_json)
    switch._install(engine)
    switch.device.adopt(switch._program.p4info, switch._program.blob, engine)
