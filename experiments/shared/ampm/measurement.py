"""Measurement of watched flows over a path: results and ground truth of each block."""

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point, PointRecord
from controllers.ampm.schedule import Schedule, guard_us
from controllers.ampm.watch import Bounds, Hop, LimitError, Method, WatchedFlow, check_limits
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from experiments.shared.ampm.live import LiveBlocks
from experiments.shared.ampm.pulses import blocks_without_one
from experiments.shared.ampm.stamps import Handling, read_handling, read_inside
from experiments.shared.ampm.truth import Interval, Truth, read_truths
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError, note_invalid
from telemark.network import Network
from telemark.results.report import Check
from telemark.session import cli
from telemark.session.clock import RealClock
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

PROGRAM = "p4src/ampm/ampm.p4"
UDP = 17
MIN_BLOCK_US = 2**18
START_US = 40_000  # start-up time of the processes of one flow, in real time
AHEAD_US = 500_000  # time from the start of the traffic generators to the first block


@dataclass(frozen=True)
class Setting:
    """Configuration of one network and its measurement.

    A flow of `flow_count()` packets begins and ends in the middle of a block. It fills the `blocks`
    blocks in between, which are called complete blocks. Which blocks are complete does not depend
    on the results.
    """

    name: str
    topo: Topo
    path: Sequence[str]  # names of the switches, in order
    watched: Mapping[Flow, Method]
    schedule: Schedule
    # None for a run outside of guaranteed bounds, whose delays are not checked
    bounds: Bounds | None
    blocks: int
    background: Sequence[Flow] = ()
    stamped: bool = False  # in real time, switches log the times at which they handle each packet
    program: str = PROGRAM


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Results of a run, without data of single packets. Processes can exchange a Summary."""

    blocks: range  # the complete blocks
    reports: dict[
        int, BlockReport
    ]  # reports of the complete blocks and of the partial blocks before and after
    hosts_lost: dict[int, int]  # flow -> number of packets that were sent but not received
    # guard time that the delays require (RFC 9341 section 5), with A = 0 (one clock)
    guard_us: float
    waited_ns: int  # max time of a packet in a switch
    late_ns: int  # max time by which a sender was behind its schedule
    marked_outside: int  # number of packets of watched flows that left the path with a mark
    pulses_wrong: int  # number of complete blocks without exactly one pulse at the first switch
    accounting: PacketAccounting

    def record(self, flow: Flow, point: Point, block: int) -> PointRecord | None:
        """Return the record of a block at a point; None if the switch could not be read."""
        return self.reports[block].records[flow.id][point]

    @property
    def incomplete(self) -> list[str]:
        """Reasons why complete blocks are unknown or partly unknown."""
        return [problem for block in self.blocks for problem in self.reports[block].problems]

    def checks(self, prefix: str) -> list[Check]:
        """Return the checks that apply to every method.

        The checks are that no mark leaves the domain, that every block has one pulse, that switches
        drop packets only when a queue is full, and that the packet accounting balances.
        """
        dropped = sum(
            drops[reason] for drops in self.accounting.dropped_by_switches.values()
            for reason in ("ingress_drops", "egress_drops", "no_port_drops")
        )  # fmt: skip
        return [
            Check(f"{prefix}: packets dropped by switches", dropped, 0),
            Check(f"{prefix}: marked packets off path", self.marked_outside, 0),
            Check(f"{prefix}: blocks without exactly one pulse", self.pulses_wrong, 0),
            *self.accounting.checks(prefix),
        ]


@dataclass(frozen=True, kw_only=True)
class Outcome(Summary):
    """Measurements of all flows, and ground truth of each packet."""

    sent: dict[int, FlowRecord]
    truths: dict[int, Truth]  # includes background flows, whose blocks have no meaning
    # (flow, both ends of a link) -> sequence numbers of lost packets
    dropped: dict[tuple[int, str, str], NDArray[np.int64]]
    handling: dict[int, dict[str, Handling]]  # flow -> switch -> handling; empty in virtual time
    inside: dict[int, dict[str, Interval]]  # flow -> switch -> bounds of timestamps; only on bmv2

    def summary(self) -> Summary:
        """Return the outcome without the data of single packets."""
        return Summary(**{each.name: getattr(self, each.name) for each in fields(Summary)})


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add options that AM-PM experiments share."""
    parser.add_argument(
        "--seeds", type=cli.positive_int, metavar="N",
        help="runs per case (default: 10 in virtual time, 1 in real time)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)


def add_block_option(parser: argparse.ArgumentParser, default_us: int) -> None:
    """Add `--block-us`, the block length."""
    parser.add_argument(
        "--block-us", type=cli.power_of_two, metavar="US",
        help=f"block length L in microseconds, a power of two (default: at least {default_us})",
    )  # fmt: skip


def shortest_schedule(methods: Iterable[Method], bounds: Bounds) -> Schedule:
    """Return the schedule with the shortest blocks (at least 0.26 s) that suit all methods."""
    schedule = Schedule(MIN_BLOCK_US)
    while True:
        try:
            for method in methods:
                check_limits(method, schedule, bounds)
        except LimitError:
            schedule = Schedule(2 * schedule.block_us)
        else:
            return schedule


def flow_count(rate_pps: float, blocks: int, schedule: Schedule) -> int:
    """Return the number of packets that fill `blocks` blocks plus half a block before and after.

    Raises TestbedError if the number is 0.
    """
    count = round(rate_pps * (blocks + 1) * schedule.block_us / 1e6)
    if not count:
        raise TestbedError(
            f"--rate {rate_pps:g}: {blocks + 1} blocks of {schedule.block_us} us have no packet; "
            "use a higher rate, or longer or more blocks"
        )
    return count


def worst(checks: Iterable[Check]) -> list[Check]:
    """Return for each name the worst check, because many runs check the same claim."""
    found: dict[str, Check] = {}
    for check in checks:
        other = found.setdefault(check.name, check)
        is_worse = abs(check.measured - check.expected) > abs(other.measured - other.expected)
        if is_worse or math.isnan(check.measured):
            found[check.name] = check
    return [*found.values()]


def reject_if_disturbed(
    checks: Iterable[Check], spoilable: Sequence[str], why: str, *, virtual: bool
) -> list[Check]:
    """Return the checks; in real time the run is inconclusive if only `spoilable` checks fail.

    `spoilable`: suffixes of the names of checks that also fail if the machine disturbs traffic or
    makes readouts late. `why` is the text from describe_noise().
    """
    checks = [*checks]
    failed = [check for check in checks if not check.passed]
    if failed and not virtual and all(c.name.endswith(tuple(spoilable)) for c in failed):
        what = f"{failed[0].name}: {failed[0].measured:g}, expected {failed[0].expected:g}"
        allowed = f" +- {failed[0].tolerance:g}" if failed[0].tolerance else ""
        note_invalid(f"{what}{allowed}; {why}")
    return checks


def describe_noise(runs: Iterable[Summary]) -> str:
    """Return one line that describes how the machine disturbed the runs."""
    runs = [*runs]
    problems = [problem for run in runs for problem in run.incomplete]
    return _noise(max(run.waited_ns for run in runs), max(run.late_ns for run in runs), problems)


def noise(
    truths: Iterable[Truth], records: Iterable[FlowRecord], problems: Sequence[str] = ()
) -> str:
    """Return one line that describes disturbed flows and unread blocks, for any experiment."""
    return _noise(_longest_wait_ns(truths), _latest_ns(records), problems)


def _noise(waited_ns: int, late_ns: int, problems: Sequence[str]) -> str:
    text = (
        f"packets spent up to {waited_ns / 1e6:.1f} ms in a switch and senders were up to "
        f"{late_ns / 1e6:.1f} ms late"
    )
    return f"{text}; {problems[0]}" if problems else text


def _longest_wait_ns(truths: Iterable[Truth]) -> int:
    return max(_longest_in(truth, switch) for truth in truths for switch in truth.path)


def _latest_ns(records: Iterable[FlowRecord]) -> int:
    return max((record.largest_lag_ns for record in records), default=0)


def _guard_us(records: Iterable[FlowRecord]) -> float:
    delays_us = [
        (record.received["received_ns"] - record.received["sent_ns"]) / 1000
        for record in records
        if len(record.received)
    ]
    guards_us = (guard_us(0, float(delay.mean()), float(delay.std())) for delay in delays_us)
    return max(guards_us, default=0.0)


def stamped_by(point: Point, target: str) -> Point:
    """Return the first point whose capture shows that a packet was already timestamped at `point`.

    bmv2 timestamps a packet after the panel switch (minip4, between bmv2 and the links) has
    captured the arrival and before the packet leaves.
    """
    return Point(point.switch, "departures") if target == "bmv2" else point


def reject_late_packets(
    name: str, truth: Truth, point: Point, range_us: tuple[float, float], why: str
) -> None:
    """Make the run inconclusive if delays are outside of the range that its claims assume.

    A stall of the machine causes such delays. A delay is the time from the send call to the passage
    of the point.
    """
    delays_ns = (truth.time_ns[point] - truth.sent_ns)[truth.passed(point)]
    if not len(delays_ns):
        return
    longest_us, min_us = delays_ns.max() / 1000, delays_ns.min() / 1000
    if not range_us[0] < min_us <= longest_us < range_us[1]:
        note_invalid(
            f"{name}: packets took up to {longest_us:.0f} us to {point.switch}; the limit is "
            f"{range_us[1]:.0f} us; {why}"
        )


def _longest_in(truth: Truth, switch: str) -> int:
    arrived, left = (truth.time_ns[Point(switch, name)] for name in ("arrivals", "departures"))
    passed = truth.passed(Point(switch, "departures"))
    return int((left - arrived)[passed].max(initial=0))


def check_total_loss(
    at: str, runs: Sequence[Summary], flow: int, segment: tuple[Point, Point]
) -> list[Check]:
    """Compare the total loss of all blocks, including partial ones, with losses seen by hosts.

    Returns no check if a block is unknown.
    """
    measured = 0
    for report in (report for run in runs for report in run.reports.values()):
        first, last = (report.records[flow][point] for point in segment)
        if first is None or last is None:
            return []
        measured += first.packets - last.packets
    lost = sum(run.hosts_lost[flow] for run in runs)
    return [Check(f"{at}: total lost packets", measured, lost)]


async def measure(setting: Setting, run: Run) -> Outcome:
    """Build the network, watch the flows, send, and read block by block.

    The run is inconclusive if no block could be read, for example because a switch died or because
    the machine is too slow for the block length. The run is also inconclusive if packets took
    longer than their methods tolerate, for example because the machine stalled.
    """
    schedule = setting.schedule
    stamped = setting.stamped and isinstance(run.clock, RealClock)
    with Network(
        setting.topo, run, program=setting.program, name=setting.name,
        switch_options=cpu_ports(setting.topo), stamp_log=stamped,
    ) as net:  # fmt: skip
        async with Collector(
            watched_paths(net, setting), schedule, run.clock, bounds=setting.bounds,
            metrics=run.metrics,
        ) as collector:  # fmt: skip
            await collector.watch()
            clock_errors_us = collector.clock_errors_us
            live = None
            if run.display is not None:
                live = LiveBlocks(run.display, setting.watched, setting.path, schedule)
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
                    if live is not None:
                        live.show(report)
                sent = await traffic.finish()
    if not any(reports[block].complete for block in blocks):
        note_invalid(f"no block could be read: {reports[blocks[0]].problems[0]}")
    truths = read_truths(
        net,
        dict.fromkeys(flows, setting.path),
        schedule,
        {**dict.fromkeys(setting.background, Method.PULSE), **setting.watched},
        sent,
    )
    if live is not None:
        live.show_truth(truths, range(first, blocks.stop + 1))
    outcome = Outcome(
        blocks=blocks,
        reports=reports,
        hosts_lost={flow: len(record.lost_sequences) for flow, record in sent.items()},
        guard_us=_guard_us(sent.values()),
        waited_ns=_longest_wait_ns(truths.values()),
        late_ns=_latest_ns(sent.values()),
        sent=sent,
        truths=truths,
        dropped=_dropped(net, setting),
        handling=read_handling(net, flows, setting.path) if stamped else {},
        inside=read_inside(net, flows, setting.path, clock_errors_us) if net.has_panels else {},
        marked_outside=_marked_outside(net, setting),
        pulses_wrong=sum(
            blocks_without_one(net, truths[flow.id], method, schedule, blocks)
            for flow, method in setting.watched.items()
        ),
        accounting=PacketAccounting.from_network(net, sent),
    )
    net.discard()  # captures of this network are no longer needed
    if setting.bounds is not None:
        _reject_long_delays(setting, setting.bounds, outcome)
    return outcome


async def measure_seeded(setting: Setting, run: Run) -> Outcome:
    """Call measure() for a network whose name contains the seed."""
    return await measure(replace(setting, name=f"{setting.name}-seed-{run.seed}"), run)


def _reject_long_delays(setting: Setting, promised: Bounds, outcome: Outcome) -> None:
    first, last = Point(setting.path[0], "arrivals"), Point(setting.path[-1], "departures")
    for flow, method in setting.watched.items():
        truth = outcome.truths[flow.id]
        delays_ns = (truth.time_ns[last] - truth.time_ns[first])[truth.passed(last)]
        delay_us = float(delays_ns.max(initial=0)) / 1000
        try:
            check_limits(method, setting.schedule, Bounds(promised.clock_error_us, delay_us))
        except LimitError as error:
            note_invalid(str(error))


def watched_paths(net: Network, setting: Setting) -> dict[WatchedFlow, list[Hop]]:
    """Return the watched flows of a setting and their paths."""
    path = [
        Hop(connection(net, name), forwarding_entries(net, name), net.switch(name).clock_offset_us)
        for name in setting.path
    ]
    return {
        WatchedFlow(
            flow.id, net.host(flow.source).IP(), net.host(flow.destination).IP(), UDP,
            dst_port=flow.port, methods=methods,
        ): path
        for flow, methods in setting.watched.items()
    }  # fmt: skip


def _dropped(net: Network, setting: Setting) -> dict[tuple[int, str, str], NDArray[np.int64]]:
    dropped: dict[tuple[int, str, str], NDArray[np.int64]] = {}
    for near, far in pairwise(setting.path):
        lost = pcap.read_flows(net.capture(near, far, "lost"), [*setting.watched])
        dropped |= {(number, near, far): frames.sequence for number, frames in lost.items()}
    return dropped


def _marked_outside(net: Network, setting: Setting) -> int:
    delivered = [
        pcap.read_flow(net.capture(setting.path[-1], flow.destination, "out"), flow)
        for flow in setting.watched
    ]
    return int(sum(np.count_nonzero(frames.dscp) for frames in delivered))


async def send_and_read(
    collector: Collector, net: Network, flows: Sequence[Flow], options: argparse.Namespace, run: Run
) -> tuple[list[BlockReport], dict[int, FlowRecord]]:
    """Send many flows, starting and ending in the middle of a block, and read the blocks."""
    schedule = collector.schedule
    starting_us = START_US * len(flows) if options.time == "real" else 0
    first = schedule.block_at(run.clock.now_ns() // 1000 + starting_us) + 3
    start_us = schedule.start_us(first) + schedule.block_us // 2
    async with Traffic(net, flows, start_ns=1000 * start_us) as traffic:
        reports = [report async for report in collector.blocks(first, first + options.blocks + 1)]
        return reports, await traffic.finish()
