"""What AM-PM experiments share: watched flows over a path, block by block, and the truth."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from _truth import Truth, read_truths
from mininet.topo import Topo
from numpy.typing import NDArray

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point, PointRecord
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from testbed import capture
from testbed.books import Books
from testbed.errors import TestbedError
from testbed.isolation import Run
from testbed.network import Network
from testbed.results import Check
from testbed.traffic import Flow, FlowRecord, Traffic

UDP = 17
AHEAD_US = 500_000  # from the start of the traffic programs to the first block


@dataclass(frozen=True)
class Setting:
    """One network, and what is measured there.

    Flows of `flow_count()` packets begin and end in the middle of a block. So they fill the
    `blocks` blocks between these two: those are the complete ones, whatever comes out.
    """

    name: str
    topo: Topo
    path: Sequence[str]  # switches, the first one first
    watched: Mapping[Flow, Method]
    schedule: Schedule
    bounds: Bounds | None  # None: beyond what is promised, and so what comes out is not checked
    blocks: int
    background: Sequence[Flow] = ()
    program: str = "p4src/ampm/ampm.p4"


@dataclass(frozen=True)
class Outcome:
    """What was measured of the flows, and what is true."""

    blocks: range  # the complete ones
    reports: dict[int, BlockReport]  # of those, and of the partial ones before and after
    sent: dict[int, FlowRecord]
    truths: dict[int, Truth]
    dropped: dict[tuple[int, str, str], NDArray[np.int64]]  # flow, ends of a link -> sequences
    marked_outside: int  # packets of watched flows that left the path with a mark
    books: Books

    def record(self, flow: Flow, point: Point, block: int) -> PointRecord | None:
        """What a point knows of a block; None: its switch could not be read."""
        return self.reports[block].records[flow.id][point]

    @property
    def incomplete(self) -> list[str]:
        """Why complete blocks are not, or not wholly, known."""
        return [problem for block in self.blocks for problem in self.reports[block].problems]

    def checks(self, prefix: str) -> list[Check]:
        """What must hold for every method: no mark leaves the domain, and the books balance."""
        return [
            Check(f"{prefix}: marked packets that left the path", self.marked_outside, 0),
            *self.books.checks(prefix),
        ]


def flow_count(rate_pps: float, blocks: int, schedule: Schedule) -> int:
    """Packets of a flow that fills so many blocks, and half of one before and after."""
    return round(rate_pps * (blocks + 1) * schedule.block_us / 1e6)


def worst(checks: Iterable[Check]) -> list[Check]:
    """Of the checks of each name the one that came off worst: for the same claim in many runs."""
    found: dict[str, Check] = {}
    for check in checks:
        other = found.setdefault(check.name, check)
        if abs(check.measured - check.expected) > abs(other.measured - other.expected):
            found[check.name] = check
    return [*found.values()]


async def measure(run: Run, setting: Setting) -> Outcome:
    """Build the network, watch the flows, send, and read block by block.

    Raises TestbedError when not a single block could be read: then something is wrong that will
    not pass, such as a dead switch, or a machine too slow for such blocks.
    """
    schedule = setting.schedule
    with Network(
        setting.topo, run, program=setting.program, name=setting.name,
        switch_options=cpu_ports(setting.topo),
    ) as net:  # fmt: skip
        async with Collector(
            _watched(net, setting), schedule, run.clock, bounds=setting.bounds
        ) as collector:
            await collector.watch()
            first = schedule.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
            blocks = range(first + 1, first + 1 + setting.blocks)
            start_us = schedule.start_us(first) + schedule.block_us // 2
            flows = [*setting.watched, *setting.background]
            async with Traffic(net, flows, start_ns=1000 * start_us) as traffic:
                reports = {}
                async for report in collector.blocks(first, blocks.stop):
                    reports[report.block] = report
                    run.progress.update(
                        f"{setting.name}: block {len(reports)} of {len(blocks) + 2}"
                    )
                    for problem in report.problems:
                        run.progress.say(f"{setting.name}: {problem}")
                sent = await traffic.finish()
    if not any(reports[block].complete for block in blocks):
        raise TestbedError(f"no block could be measured: {reports[blocks[0]].problems[0]}")
    outcome = _outcome(net, setting, blocks, reports, sent)
    shutil.rmtree(net.folder)  # captures are large, and all that is wanted of them is known
    return outcome


def _watched(net: Network, setting: Setting) -> dict[WatchedFlow, list[Hop]]:
    path = [Hop(connection(net, name), forwarding_entries(net, name)) for name in setting.path]
    return {
        WatchedFlow(
            flow.id, net.host(flow.source).IP(), net.host(flow.destination).IP(), UDP,
            dst_port=flow.port, methods=methods,
        ): path
        for flow, methods in setting.watched.items()
    }  # fmt: skip


def _outcome(
    net: Network, setting: Setting, blocks: range, reports: dict[int, BlockReport],
    sent: dict[int, FlowRecord],
) -> Outcome:  # fmt: skip
    flows = [*setting.watched]
    dropped = {}
    for near, far in pairwise(setting.path):
        lost = capture.read_flows(net.capture(near, far, "lost"), flows)
        dropped |= {(number, near, far): frames.sequence for number, frames in lost.items()}
    delivered = [
        capture.read_flow(net.capture(setting.path[-1], flow.destination, "out"), flow)
        for flow in flows
    ]
    paths = dict.fromkeys(flows, setting.path)
    return Outcome(
        blocks,
        reports,
        sent,
        read_truths(net, paths, setting.schedule, setting.watched),
        dropped,
        int(sum(np.count_nonzero(frames.dscp) for frames in delivered)),
        Books.of(net, sent),
    )
