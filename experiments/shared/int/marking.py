"""Alternate marking beside INT, or in its place: flows are marked in blocks, and these are read."""

from collections.abc import Mapping, Sequence
from math import ceil

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.session import Edge
from controllers.ampm.watch import Bounds, Hop, WatchedFlow
from experiments.shared.ampm.error_bounds import LEAST_WAIT_US
from experiments.shared.ampm.measurement import AHEAD_US, LEAST_BLOCK_US
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.errors import InvalidRunError, TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

SCHEDULE, BOUNDS = Schedule(LEAST_BLOCK_US), Bounds(0, 50_000)
# On bmv2: its clocks are known to 2 ms, and packets may wait as long as in AM-PM's experiments.
BMV2_SCHEDULE = Schedule(4 * LEAST_BLOCK_US)
BMV2_BOUNDS = Bounds(Bmv2Switch.clock_error_us, LEAST_WAIT_US)


def schedule_on(target: str) -> Schedule:
    """Return the blocks that a target's clocks and waits allow."""
    return BMV2_SCHEDULE if target == "bmv2" else SCHEDULE


def bounds_on(target: str) -> Bounds:
    """Return what a target promises of clocks and delays."""
    return BMV2_BOUNDS if target == "bmv2" else BOUNDS


def reject_rare(rate_pps: float) -> None:
    """Raise TestbedError for a rate at which some blocks have no pulse: it is a packet of their
    middle half."""
    least = 2e6 / SCHEDULE.block_us
    if rate_pps < least:
        raise TestbedError(
            f"--rate {rate_pps:g}: alternate marking needs a packet in the middle half of each "
            f"block of {SCHEDULE.block_us / 1e6:.2f} s: take at least {ceil(least)}"
        )


async def mark(
    net: Network, watched: Mapping[WatchedFlow, Sequence[Hop | Edge]], flows: Sequence[Flow],
    blocks: int, run: Run,
) -> tuple[dict[int, FlowRecord], list[BlockReport]]:  # fmt: skip
    """Send flows that fill so many blocks, and half of one before and after, and read all of these.

    Raises TestbedError where a switch could not be read in time.
    """
    schedule, bounds = schedule_on(run.target), bounds_on(run.target)
    async with Collector(watched, schedule, run.clock, bounds=bounds) as collector:
        await collector.watch()
        first = schedule.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
        start_us = schedule.start_us(first) + schedule.block_us // 2
        async with Traffic(net, flows, start_ns=1000 * start_us) as traffic:
            reports = [b async for b in collector.blocks(first, first + blocks + 2)]
            records = await traffic.finish()
    for problem in (problem for report in reports for problem in report.problems):
        raise InvalidRunError(problem)
    return records, reports
