"""Alternate marking beside INT, or in its place: flows are marked in blocks, and these are read."""

from collections.abc import Mapping, Sequence
from math import ceil

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.session import Edge
from controllers.ampm.watch import Bounds, Hop, WatchedFlow
from experiments.shared.ampm.measurement import AHEAD_US, MIN_BLOCK_US
from telemark.errors import InvalidRunError, TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

SCHEDULE, BOUNDS = Schedule(MIN_BLOCK_US), Bounds(0, 50_000)


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
    async with Collector(watched, SCHEDULE, run.clock, bounds=BOUNDS) as collector:
        await collector.watch()
        first = SCHEDULE.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
        start_us = SCHEDULE.start_us(first) + SCHEDULE.block_us // 2
        async with Traffic(net, flows, start_ns=1000 * start_us) as traffic:
            reports = [b async for b in collector.blocks(first, first + blocks + 2)]
            records = await traffic.finish()
    for problem in (problem for report in reports for problem in report.problems):
        raise InvalidRunError(problem)
    return records, reports
