"""Blocks collected in virtual time are complete, except where the test injected a fault."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest
from block_scene import (
    BOUNDS,
    LINK_DELAY_US,
    METHODS,
    PATH,
    PROGRAM,
    SCHEDULE,
    UDP,
    Scene,
    Setting,
    check_known,
    collect,
    expected_records,
    hops,
    unknown,
)
from virtual_networks import virtually

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point
from controllers.ampm.watch import Bounds, LimitError, Method, WatchedFlow
from controllers.connection import cpu_ports
from experiments.shared.ampm.truth import read_truths
from telemark.errors import InvalidRunError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line


@pytest.mark.parametrize("methods", METHODS)
def test_every_block_is_complete_and_exact_when_nothing_happens(
    methods: Method, tmp_path: Path
) -> None:
    scene = virtually(tmp_path, lambda run: collect(run, Setting(methods)))
    assert [report.problems for report in scene.reports] == [[]] * 6
    for report in scene.reports:
        for point, expected in expected_records(scene, methods, report.block).items():
            record = asdict(report.records[7][point])
            # With PULSE, packets have no colour. Each point assigns a packet to the block in which
            # it arrives.
            keys = expected if methods is not Method.PULSE else ("pulses", "pulse_us")
            assert {key: record[key] for key in keys} == {key: expected[key] for key in keys}
    pulses = [r.records[7][Point("s1", "departures")].pulses for r in scene.reports]
    assert pulses == [int(bool(methods & (Method.PULSE | Method.MULTIPLEXED)))] * 6
    samples = [len(r.records[7][Point("s3", "departures")].samples) for r in scene.reports]
    assert (sum(samples) > 6) == (Method.HASHED in methods)


def test_a_controller_that_is_late_knows_nothing_of_that_block(tmp_path: Path) -> None:
    async def dawdle(scene: Scene, block: int) -> None:
        if block == 2:
            await asyncio.sleep(1.6 * SCHEDULE.block_us / 1e6)  # beyond the end of block 4

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 8, dawdle)))
    for name in PATH:
        assert unknown(scene, name) == [3, 5]
    assert "us after its counters stopped being stable" in scene.reports[3].problems[0]
    # virtual time has no load, so the message must not blame the machine
    assert "machine" not in scene.reports[3].problems[0]
    with pytest.raises(InvalidRunError, match="us after its counters"):
        scene.reports[3].known_records(7)
    check_known(scene, Method.STEP)


@pytest.mark.parametrize(("guards", "lost"), [(1.5, []), (0.5, [3, 5])])
def test_counters_are_read_a_guard_before_the_next_block_of_their_colour(
    guards: float, lost: list[int], tmp_path: Path
) -> None:
    """Counters are valid until one guard time before the next block of the same colour starts.

    Later, they may already contain early packets of that block, so the records are unknown.
    """

    async def dawdle(scene: Scene, block: int) -> None:
        if block == 2:
            end_us = SCHEDULE.start_us(scene.first + 5) - guards * BOUNDS.guard_us
            await scene.run.clock.sleep_until(round(1000 * end_us))

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 8, dawdle)))
    assert unknown(scene, "s2") == lost


def test_limits_of_methods_are_checked(tmp_path: Path) -> None:
    setting = Setting(Method.MULTIPLEXED, bounds=Bounds(delay_us=SCHEDULE.block_us / 4))
    with pytest.raises(LimitError, match="multiplexed marking is exact only if"):
        virtually(tmp_path, lambda run: collect(run, setting))


def test_flows_of_both_directions_are_collected_together(tmp_path: Path) -> None:
    """One collector collects the records of flows in both directions.

    Each flow has its own path. The collector reads only counters.
    """

    async def main(run: Run) -> tuple[Network, list[BlockReport], list[Flow]]:
        topo = Line(loss_probability=0.05, delay_us=LINK_DELAY_US)
        with Network(topo, run, program=PROGRAM, switch_options=cpu_ports(topo)) as net:
            path = hops(net)
            flows = [
                Flow(n, *(("h1", "h2") if n % 2 else ("h2", "h1")), rate_pps=500, count=300)
                for n in range(1, 9)
            ]
            watch = {
                WatchedFlow(
                    flow.id, net.host(flow.source).IP(), net.host(flow.destination).IP(), UDP,
                    dst_port=flow.port, methods=METHODS[flow.id % 5],
                ): path if flow.id % 2 else path[::-1]
                for flow in flows
            }  # fmt: skip
            async with Collector(
                watch, SCHEDULE, run.clock, bounds=BOUNDS, records=()
            ) as collector:
                await collector.watch()
                first = SCHEDULE.block_at(run.clock.now_ns() // 1000) + 3
                async with Traffic(net, flows, 1000 * SCHEDULE.start_us(first)) as traffic:
                    reports = [r async for r in collector.blocks(first, first + 4)]
                    records = await traffic.finish()
        return net, reports, flows, records

    net, reports, flows, records = virtually(tmp_path, main)
    paths = {flow: PATH if flow.id % 2 else PATH[::-1] for flow in flows}
    truths = read_truths(net, paths, SCHEDULE, Method.STEP, records)
    for flow in flows:
        if METHODS[flow.id % 5] in (Method.PULSE, Method.MULTIPLEXED):
            continue  # truths are for STEP; the first test covers these methods
        blocks = range(reports[0].block, reports[-1].block + 1)
        for point in reports[0].records[flow.id]:
            counted = [report.records[flow.id][point].packets for report in reports]
            assert counted == truths[flow.id].packets(point, blocks).tolist()
        assert sum(r.records[flow.id][Point("s2", "arrivals")].packets for r in reports) > 200
