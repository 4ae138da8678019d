"""Alternate marking in INT experiments, in addition to INT or instead of it."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import ceil

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.session import Edge
from controllers.ampm.watch import Bounds, Hop, WatchedFlow
from experiments.shared.ampm.error_bounds import MIN_WAIT_US
from experiments.shared.ampm.measurement import AHEAD_US, MIN_BLOCK_US
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.errors import InvalidRunError, TestbedError, note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

SCHEDULE, BOUNDS = Schedule(MIN_BLOCK_US), Bounds(0, 50_000)
# The clock offset of bmv2 is known to 2 ms. The max queueing delay is the same as in AM-PM
# experiments.
BMV2_SCHEDULE = Schedule(4 * MIN_BLOCK_US)
BMV2_BOUNDS = Bounds(Bmv2Switch.clock_error_us, MIN_WAIT_US)


def schedule_on(target: str) -> Schedule:
    """Return the marking schedule that suits the clock error and queueing delay of a target."""
    return BMV2_SCHEDULE if target == "bmv2" else SCHEDULE


def bounds_on(target: str) -> Bounds:
    """Return the bounds of the clock error and the delay of a target."""
    return BMV2_BOUNDS if target == "bmv2" else BOUNDS


def reject_rare(rate_pps: float) -> None:
    """Raise TestbedError for a rate at which some blocks have no packet in their middle half."""
    min_pps = 2e6 / SCHEDULE.block_us
    if rate_pps < min_pps:
        raise TestbedError(
            f"--rate {rate_pps:g}: alternate marking needs a packet in the middle half of each "
            f"block of {SCHEDULE.block_us / 1e6:.2f} s; use at least {ceil(min_pps)}"
        )


async def mark(
    net: Network, watched: Mapping[WatchedFlow, Sequence[Hop | Edge]], flows: Sequence[Flow],
    blocks: int, run: Run,
) -> tuple[dict[int, FlowRecord], list[BlockReport]]:  # fmt: skip
    """Send flows for `blocks` blocks plus half a block before and after, and read all blocks.

    If a switch could not be read in time, the run is inconclusive, and only the longest sequence of
    complete blocks is returned. Raises InvalidRunError if no block is complete.
    """
    schedule, bounds = schedule_on(run.target), bounds_on(run.target)
    async with Collector(
        watched, schedule, run.clock, bounds=bounds, metrics=run.metrics
    ) as collector:
        await collector.watch()
        first = schedule.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
        start_us = schedule.start_us(first) + schedule.block_us // 2
        async with Traffic(net, flows, start_ns=1000 * start_us) as traffic:
            reports = [b async for b in collector.blocks(first, first + blocks + 2)]
            records = await traffic.finish()
    problems = [problem for report in reports for problem in report.problems]
    if problems:
        note_invalid(problems[0])
        reports = _longest_stretch(reports)
        if not reports:
            raise InvalidRunError(problems[0])
    return records, reports


def _longest_stretch(reports: Sequence[BlockReport]) -> list[BlockReport]:
    """Return the longest sequence of consecutive complete blocks."""
    stretches = [[*group] for is_complete, group in groupby(reports, lambda each: each.complete)
                 if is_complete]  # fmt: skip
    return max(stretches, key=len, default=[])
