"""The clocks wrap after 2^48 us, in the middle of a measurement: results do not change."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from virtual_networks import COMPILED

from controllers.ampm.records import Point, mean_delay, pulse_delay, sample_delays
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Method
from controllers.readout import CLOCK_BITS
from experiments.shared.ampm.measurement import Outcome, Setting, flow_count, measure
from telemark.backends.virtual.clock import VirtualClock
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import Line

PATH = ("s1", "s2", "s3")
SCHEDULE = Schedule(2**17)
L = SCHEDULE.block_us
BLOCKS = 6
DELAY_US = 1000
RATE_PPS = 2000
METHODS = [
    Method.STEP,
    Method.PULSE,
    Method.DOUBLE,
    Method.MULTIPLEXED,
    Method.STEP | Method.HASHED,
]
FIRST, LAST = Point("s1", "departures"), Point("s3", "arrivals")


def measure_from(start_us: int, folder: Path) -> tuple[Outcome, dict[Flow, Method]]:
    """Measure all methods in one run, starting at this time of the common clock."""
    count = flow_count(RATE_PPS, BLOCKS, SCHEDULE)
    flows = {
        Flow(number, "h1", "h2", rate_pps=RATE_PPS, count=count): methods
        for number, methods in enumerate(METHODS)
    }
    clock = VirtualClock()

    async def main() -> Outcome:
        await clock.sleep_until(1000 * start_us)
        topo = Line(loss_probability=0.05, delay_us=DELAY_US)
        bounds = Bounds(delay_us=2 * DELAY_US)
        setting = Setting("wrap", topo, PATH, flows, SCHEDULE, bounds, BLOCKS)
        run = Run("test", folder, 1, clock=clock, programs=COMPILED)
        return await measure(setting, run)

    return clock.run(main()), flows


@pytest.mark.parametrize("blocks_before", [-20, 3, 4, 5, 6], ids=lambda n: f"{n} blocks before")
def test_everything_is_exact_over_the_wrap(blocks_before: int, tmp_path: Path) -> None:
    """All results are exact, whether the clocks wrap before or during the measurement.

    The first block begins four blocks (half a second) after the start of the clock.
    """
    start_us = (1 << CLOCK_BITS) - (4 + blocks_before) * L
    outcome, flows = measure_from(start_us, tmp_path)
    assert outcome.incomplete == []
    assert outcome.marked_outside == 0
    wrap = 1 << (CLOCK_BITS - SCHEDULE.block_shift)
    assert (wrap in outcome.blocks) == (blocks_before > 0)
    sampled = 0  # number of sampled packets in all blocks; all of one block may be lost
    for flow, methods in flows.items():
        truth = outcome.truths[flow.id]
        for near, far in pairwise(PATH):
            points = Point(near, "departures"), Point(far, "arrivals")
            lost = truth.lost(*points, outcome.blocks)
            assert lost.sum() > 20
            if methods == Method.PULSE:  # loss between two pulses
                continue
            for block, true in zip(outcome.blocks, lost, strict=True):
                known = [outcome.record(flow, point, block) for point in points]
                assert known[0].packets - known[1].packets == true  # type: ignore[union-attr]
        for block in outcome.blocks:
            first, last = (outcome.record(flow, point, block) for point in (FIRST, LAST))
            assert first is not None
            assert last is not None
            if methods & (Method.PULSE | Method.MULTIPLEXED):
                of_block = truth.pulse & (truth.block == block)
                assert of_block.sum() == first.pulses == 1
                came = bool((of_block & truth.passed(LAST)).any())
                delay = pulse_delay(first, last)
                assert delay.delay_us == (2 * DELAY_US if came else None), delay
            if methods & Method.HASHED:
                delays, _ = sample_delays(first, last)
                assert set(delays.values()) <= {2 * DELAY_US}
                sampled += len(delays)
            if methods == Method.STEP:
                both = truth.passed(FIRST), truth.passed(LAST)
                means = [
                    np.mean(truth.time_ns[p][b & (truth.block == block)] / 1000)
                    for p, b in zip((FIRST, LAST), both, strict=True)
                ]
                found = mean_delay(first, last).delay_us
                assert found == pytest.approx(means[1] - means[0], abs=1.1)
    assert sampled >= len(outcome.blocks)
