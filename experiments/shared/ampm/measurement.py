"""What AM-PM experiments share: watched flows over a path, block by block, and the truth."""

import argparse
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
from experiments.shared.ampm.pulses import blocks_without_one
from experiments.shared.ampm.stamps import Handling, read_handling, read_inside
from experiments.shared.ampm.truth import Interval, Truth, read_truths
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import InvalidRunError, TestbedError
from telemark.network import Network
from telemark.results.report import Check
from telemark.session import cli
from telemark.session.clock import RealClock
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

PROGRAM = "p4src/ampm/ampm.p4"
UDP = 17
LEAST_BLOCK_US = 2**18
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
    stamped: bool = False  # in real time: have switches log when they handled each packet
    program: str = PROGRAM


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is said of a run without its packets, which are megabytes: so much goes between
    processes."""

    blocks: range  # the complete ones
    reports: dict[int, BlockReport]  # of those, and of the partial ones before and after
    hosts_lost: dict[int, int]  # flow -> packets that were sent and not received
    guard_us: float  # that delays asked for (RFC 9341 section 5); one clock: A = 0
    waited_ns: int  # the longest that a packet was in a switch
    late_ns: int  # the most that a sender was behind its schedule
    marked_outside: int  # packets of watched flows that left the path with a mark
    pulses_wrong: int  # complete blocks in which the first switch did not choose the one pulse
    accounting: PacketAccounting

    def record(self, flow: Flow, point: Point, block: int) -> PointRecord | None:
        """What a point knows of a block; None: its switch could not be read."""
        return self.reports[block].records[flow.id][point]

    @property
    def incomplete(self) -> list[str]:
        """Why complete blocks are not, or not wholly, known."""
        return [problem for block in self.blocks for problem in self.reports[block].problems]

    def checks(self, prefix: str) -> list[Check]:
        """What must hold for every method: no mark leaves the domain, blocks have their pulses,
        switches forward whatever fits their queues, and the books balance."""
        refused = sum(
            drops[reason] for drops in self.accounting.dropped_by_switches.values()
            for reason in ("ingress_drops", "egress_drops", "no_port_drops")
        )  # fmt: skip
        return [
            Check(f"{prefix}: packets that a switch did not want to forward", refused, 0),
            Check(f"{prefix}: marked packets that left the path", self.marked_outside, 0),
            Check(f"{prefix}: blocks without the one pulse", self.pulses_wrong, 0),
            *self.accounting.checks(prefix),
        ]


@dataclass(frozen=True, kw_only=True)
class Outcome(Summary):
    """What was measured of the flows, and what is true of each packet."""

    sent: dict[int, FlowRecord]
    truths: dict[int, Truth]  # of the background too, whose blocks mean nothing
    dropped: dict[tuple[int, str, str], NDArray[np.int64]]  # flow, ends of a link -> sequences
    handling: dict[int, dict[str, Handling]]  # flow -> switch; nothing in virtual time
    inside: dict[int, dict[str, Interval]]  # flow -> switch; nothing but on bmv2

    def summary(self) -> Summary:
        """It, without its packets."""
        return Summary(**{each.name: getattr(self, each.name) for each in fields(Summary)})


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Options that mean the same in all these experiments."""
    parser.add_argument(
        "--seeds", type=cli.positive_int, metavar="N",
        help="runs of each case, from --seed on (default: 10 in virtual time, 1 in real time)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)


def add_block_option(parser: argparse.ArgumentParser, default_us: int) -> None:
    """`--block-us`, the length of all blocks."""
    parser.add_argument(
        "--block-us", type=cli.power_of_two, metavar="US",
        help="length L of a block, a power of two of microseconds "
        f"(default: {default_us}, or more)",
    )  # fmt: skip


def fitting(methods: Iterable[Method], bounds: Bounds) -> Schedule:
    """The shortest blocks with which all methods can bear these delays; 0.26 s at least."""
    schedule = Schedule(LEAST_BLOCK_US)
    while True:
        try:
            for method in methods:
                check_limits(method, schedule, bounds)
        except LimitError:
            schedule = Schedule(2 * schedule.block_us)
        else:
            return schedule


def flow_count(rate_pps: float, blocks: int, schedule: Schedule) -> int:
    """Packets of a flow that fills so many blocks, and half of one before and after.

    Raises TestbedError where that is none.
    """
    count = round(rate_pps * (blocks + 1) * schedule.block_us / 1e6)
    if not count:
        raise TestbedError(
            f"--rate {rate_pps:g}: no packet comes in {blocks + 1} blocks of {schedule.block_us} "
            "us; take a higher rate, longer blocks or more of them"
        )
    return count


def worst(checks: Iterable[Check]) -> list[Check]:
    """Of the checks of each name the one that came off worst: for the same claim in many runs."""
    found: dict[str, Check] = {}
    for check in checks:
        other = found.setdefault(check.name, check)
        if abs(check.measured - check.expected) > abs(other.measured - other.expected):
            found[check.name] = check
    return [*found.values()]


def judged(
    checks: Iterable[Check], spoilable: Sequence[str], why: str, *, virtual: bool
) -> list[Check]:
    """The checks as they are; in real time TestbedError where none but `spoilable` ones failed.

    Those (by their names' ends) are about what the machine did to the traffic or to a controller's
    readings, not about what was measured: then the run says nothing. `why`: see noise_of().
    """
    checks = [*checks]
    failed = [check for check in checks if not check.passed]
    if failed and not virtual and all(c.name.endswith(tuple(spoilable)) for c in failed):
        what = f"{failed[0].name}: {failed[0].measured:g}, expected {failed[0].expected:g}"
        allowed = f" +- {failed[0].tolerance:g}" if failed[0].tolerance else ""
        raise InvalidRunError(f"{what}{allowed}; {why}")
    return checks


def noise_of(runs: Iterable[Summary]) -> str:
    """What the machine did to the runs, as measured, in one line."""
    runs = [*runs]
    problems = [problem for run in runs for problem in run.incomplete]
    return _noise(max(run.waited_ns for run in runs), max(run.late_ns for run in runs), problems)


def noise(
    truths: Iterable[Truth], records: Iterable[FlowRecord], problems: Sequence[str] = ()
) -> str:
    """The same of flows of any experiment, and of what could not be read."""
    return _noise(_longest_wait_ns(truths), _latest_ns(records), problems)


def _noise(waited_ns: int, late_ns: int, problems: Sequence[str]) -> str:
    text = (
        f"packets were in a switch for up to {waited_ns / 1e6:.1f} "
        f"ms, senders up to {late_ns / 1e6:.1f} ms late"
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
    """Where captures show that a packet has got a point's stamp.

    A bmv2 stamps a packet some time after its panel captured the arrival: surely when it has left.
    """
    return Point(point.switch, "departures") if target == "bmv2" else point


def reject_late_packets(
    name: str, truth: Truth, point: Point, range_us: tuple[float, float], why: str
) -> None:
    """Raise TestbedError when packets took longer, or shorter, than a run's claims suppose.

    Which a machine does that stands still: from their sender's call until a point, in this range.
    """
    delays_ns = (truth.time_ns[point] - truth.sent_ns)[truth.passed(point)]
    if not len(delays_ns):
        return
    longest_us, min_us = delays_ns.max() / 1000, delays_ns.min() / 1000
    if not range_us[0] < min_us <= longest_us < range_us[1]:
        raise InvalidRunError(
            f"{name}: packets took up to {longest_us:.0f} us to {point.switch}, and "
            f"less than {range_us[1]:.0f} us are supposed; {why}"
        )


def _longest_in(truth: Truth, switch: str) -> int:
    arrived, left = (truth.time_ns[Point(switch, name)] for name in ("arrivals", "departures"))
    passed = truth.passed(Point(switch, "departures"))
    return int((left - arrived)[passed].max(initial=0))


def hosts_agree(
    at: str, runs: Sequence[Summary], flow: int, segment: tuple[Point, Point]
) -> list[Check]:
    """Loss of all blocks, the partial ones too, against the hosts' sequence numbers.

    Nothing, where a block is unknown.
    """
    measured = 0
    for report in (report for run in runs for report in run.reports.values()):
        first, last = (report.records[flow][point] for point in segment)
        if first is None or last is None:
            return []
        measured += first.packets - last.packets
    lost = sum(run.hosts_lost[flow] for run in runs)
    return [Check(f"{at}: packets lost in all, by the hosts' sequence numbers", measured, lost)]


async def measure(setting: Setting, run: Run) -> Outcome:
    """Build the network, watch the flows, send, and read block by block.

    Raises TestbedError when not a single block could be read: then something is wrong that will
    not pass, such as a dead switch, or a machine too slow for such blocks; and when packets took
    longer than their methods can bear, which a machine that stands still for a while does to them.
    """
    schedule = setting.schedule
    stamped = setting.stamped and isinstance(run.clock, RealClock)
    with Network(
        setting.topo, run, program=setting.program, name=setting.name,
        switch_options=cpu_ports(setting.topo), stamp_log=stamped,
    ) as net:  # fmt: skip
        async with Collector(
            watched_paths(net, setting), schedule, run.clock, bounds=setting.bounds
        ) as collector:
            await collector.watch()
            clock_errors_us = collector.clock_errors_us
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
        raise InvalidRunError(f"no block could be measured: {reports[blocks[0]].problems[0]}")
    truths = read_truths(
        net,
        dict.fromkeys(flows, setting.path),
        schedule,
        {**dict.fromkeys(setting.background, Method.PULSE), **setting.watched},
        sent,
    )
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
    net.discard()  # all that is wanted of it is known
    if setting.bounds is not None:
        _refuse_long_delays(setting, setting.bounds, outcome)
    return outcome


async def measure_seeded(setting: Setting, run: Run) -> Outcome:
    """measure() in a network that is named after the seed, too."""
    return await measure(replace(setting, name=f"{setting.name}-seed-{run.seed}"), run)


def _refuse_long_delays(setting: Setting, promised: Bounds, outcome: Outcome) -> None:
    first, last = Point(setting.path[0], "arrivals"), Point(setting.path[-1], "departures")
    for flow, method in setting.watched.items():
        truth = outcome.truths[flow.id]
        delays_ns = (truth.time_ns[last] - truth.time_ns[first])[truth.passed(last)]
        delay_us = float(delays_ns.max(initial=0)) / 1000
        try:
            check_limits(method, setting.schedule, Bounds(promised.clock_error_us, delay_us))
        except LimitError as error:
            raise InvalidRunError(str(error)) from None


def watched_paths(net: Network, setting: Setting) -> dict[WatchedFlow, list[Hop]]:
    """What the switches of a setting are to watch, and where."""
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
