"""One network in which one telemetry method watches the traffic during the incidents."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from itertools import permutations

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, FlowPath, Hop, Method, Multipoint
from controllers.ampm.watch import WatchedFlow as MarkedFlow
from controllers.connection import connection, connections, cpu_ports
from controllers.int.domain import Domain, configure, entries
from controllers.int.watch import Instruction, Mode, WatchedFlow
from experiments.shared.ampm.error_bounds import MIN_WAIT_US
from experiments.shared.ampm.measurement import AHEAD_US, MIN_BLOCK_US
from experiments.shared.int.marking import BOUNDS, SCHEDULE
from experiments.shared.int.on_bmv2 import find_clocks, limit_queues
from experiments.shared.int.reports import KeepingCollector, Kept
from experiments.shared.oam.incidents import (
    AFTER_S,
    COLLECTOR,
    CROSS_SENDER,
    PACES,
    QUEUE,
    RECEIVER,
    SENDER,
    SINK_LEAF,
    SOURCE_LEAF,
    SPINES,
    Incident,
    Pace,
    Span,
    cause,
    cross_flows,
    data_flows,
    fabric,
    next_hop_setter,
    routes,
)
from experiments.shared.oam.truth import (
    IPV4,
    HostTraffic,
    PointTimes,
    ProbeRecord,
    Truth,
    read_probes,
    read_spines,
    read_truth,
)
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import RunningApplication
from telemark.apps.icmp import Ping
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import StampSender
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.session.clock import RealClock
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

PROGRAM = "p4src/int/with_ampm.p4"
UDP = 17
SWITCHES = (SOURCE_LEAF, *SPINES, SINK_LEAF)  # in the order in which marked packets meet them
PROBE_PORTS = range(40_000, 40_008)  # source ports of STAMP sessions
PING_ID = 1
# Time until traffic generators are ready, and time per probe application
READY_NS, PROBE_READY_NS = 1_500_000_000, 500_000_000
PROBES_END_S = 0.2  # probes stop this long before the data
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip

PING, STAMP_1, STAMP_8 = "ping", "STAMP, 1 session", "STAMP, 8 sessions"
SESSIONS = {STAMP_1: 1, STAMP_8: 8}
PROBES = (PING, *SESSIONS)
INT_MD, INT_MX, INT_XD = "INT-MD", "INT-MX", "INT-XD"
MODES = {INT_MD: Mode.DATA, INT_MX: Mode.INSTRUCTIONS, INT_XD: Mode.EXPORT}
ONE_BIT, TWO_BITS, MULTIPOINT = "AM-PM, 1 bit", "AM-PM, 2 bits", "AM-PM, multipoint"
MARKINGS = {ONE_BIT: Method.STEP, TWO_BITS: Method.DOUBLE, MULTIPOINT: Method.STEP | Method.HASHED}
ALL_FLOWS = 0  # number of the multipoint flow
IOAM_TRACE, IOAM_DEX = "IOAM trace", "IOAM DEX"
IN_PACKETS = (INT_MD, IOAM_TRACE)  # only the last switch reports
POSTCARDS = (INT_MX, INT_XD, IOAM_DEX)  # each switch reports each packet
QUICK_METHODS = (STAMP_1, INT_XD, ONE_BIT)
METHODS = (*PROBES, *MODES, IOAM_TRACE, IOAM_DEX, *MARKINGS)
# Blocks of alternate marking, which tolerate the clock error and the delay of each target
BLOCKS = {
    "minip4": (SCHEDULE, BOUNDS),
    "bmv2": (Schedule(2 * MIN_BLOCK_US), Bounds(2 * Bmv2Switch.clock_error_us, MIN_WAIT_US)),
}
MS = 1_000_000
# An incident may also affect packets that entered the fabric shortly before its start, and packets
# that enter after its end, while a queue drains. In real time, packets may wait in a switch longer.
MARGINS_NS = {"virtual": (5 * MS, 60 * MS), "minip4": (50 * MS, 60 * MS),
              "bmv2": (130 * MS, 130 * MS)}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One method, and the traffic and incidents that it watches."""

    method: str
    incidents: Sequence[Incident]
    probes_pps: float
    run: Run
    pace: Pace
    data: Sequence[Flow]
    cross: Sequence[Flow]
    lasts_s: float

    @classmethod
    def make(
        cls, method: str, incidents: Sequence[Incident], options: argparse.Namespace, run: Run
    ) -> "Setting":
        """Return the setting of a method."""
        pace = PACES[run.target]
        lasts_s = incidents[-1].end_s + pace.stretch * AFTER_S
        data = data_flows(options.flows, options.rate / pace.slower, lasts_s)
        return cls(method, incidents, options.probes, run, pace, data,
                   cross_flows(incidents, pace), lasts_s)  # fmt: skip

    @property
    def schedule(self) -> Schedule:
        """Blocks of alternate marking."""
        return BLOCKS[self.run.target][0]

    @property
    def is_stamped(self) -> bool:
        """Whether switches log the times of their send calls."""
        return isinstance(self.run.clock, RealClock)

    def network(self, program: str) -> Network:
        """Return the network."""
        topo = fabric()
        return Network(topo, self.run, program=program, switch_options=cpu_ports(topo),
                       stamp_log=self.is_stamped)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a method measured, and what is known about its network."""

    spans: Mapping[Incident, Span]
    # switch -> max clock error; only switches with clocks of their own (bmv2)
    clock_errors_us: Mapping[str, float]
    # flow id -> record; empty if hosts send frames
    sent: Mapping[int, FlowRecord] = field(default_factory=dict)
    kept: Kept | None = None  # reports of INT or IOAM
    blocks: Sequence[BlockReport] = ()  # block reports of AM-PM
    # UDP port or identifier -> record
    probes: Mapping[int, ProbeRecord] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome(Measured):
    """What a method measured, and ground truth."""

    method: str
    truth: Truth
    point_times: PointTimes  # times of probes, or else of data packets
    spines: Mapping[int, str]  # UDP port of a data flow -> its spine without incidents
    ports: Mapping[int, int]  # data flow -> its UDP port
    nodes: Mapping[int, str]  # INT node id -> switch
    egress: Mapping[tuple[str, int], str]  # switch, port -> neighbour
    # bytes of telemetry on all links between switches: in data, reports and probes
    added_bytes: int
    accounting: PacketAccounting
    schedule: Schedule  # blocks of AM-PM
    margins_ns: tuple[int, int]  # time before and after an incident during which it has effects


async def measure(setting: Setting) -> Outcome:
    """Run a method on IPv4 traffic."""
    with setting.network(PROGRAM) as net:
        collector = net.run_application(COLLECTOR, KeepingCollector())
        limit_cross_queues(net, setting)
        domain = _domain(net, setting.method)
        if setting.method in MARKINGS:
            measured = await _mark(net, domain, setting)
        else:
            measured, probes = await _send(net, domain, setting)
    if setting.method in MODES:
        measured = replace(measured, kept=collector.result)
    if setting.method in PROBES:
        results = {number: probe.result for number, probe in probes.items()}
        measured = replace(measured, probes=results)
    addresses = {host: ip_address(net.host(host).IP()).packed for host in (SENDER, CROSS_SENDER)}
    flows = [*setting.data, *setting.cross]
    return make_outcome(setting, net, HostTraffic(IPV4, addresses, flows), measured)


def make_outcome(
    setting: Setting, net: Network, traffic: HostTraffic, measured: Measured
) -> Outcome:
    """Add ground truth from captures to what a method measured."""
    truth, point_times = read_truth(net, traffic, measured.clock_errors_us, setting.schedule)
    longest_us = truth.delay_ns.max(initial=0) / 1000
    limit_us = BLOCKS[setting.run.target][1].delay_us
    if setting.method in MARKINGS and longest_us > limit_us:
        note_invalid(f"{setting.method}: a packet took {longest_us:.0f} us; blocks of alternate "
                     f"marking tolerate {limit_us:.0f} us")  # fmt: skip
    return Outcome(
        **vars(measured), method=setting.method, truth=truth,
        point_times=read_probes(net, measured.probes, stamped=setting.is_stamped)
        if measured.probes else point_times,
        spines=read_spines(point_times), ports={flow.id: flow.port for flow in setting.data},
        nodes=dict(enumerate(net.topo.switches(), start=1)),
        egress={
            (switch, net.port(switch, other)): other
            for switch in net.topo.switches() for other in net.neighbours(switch)
        },
        added_bytes=_added_bytes(net, traffic),
        accounting=PacketAccounting.from_network(net, measured.sent),
        schedule=setting.schedule,
        margins_ns=MARGINS_NS[setting.run.target if setting.is_stamped else "virtual"],
    )  # fmt: skip


def limit_cross_queues(net: Network, setting: Setting) -> None:
    """Limit the rate of the queues that cross traffic fills. On minip4, links limit the rate."""
    if net.has_panels:
        for spine in SPINES:
            limit_queues(net, (SOURCE_LEAF, spine), setting.pace.queue_pps, QUEUE)


async def _send(
    net: Network, domain: Domain, setting: Setting
) -> tuple[Measured, Mapping[int, RunningApplication]]:
    """Send all flows, and probes, during the incidents. Return also the applications of probes."""
    run, count = setting.run, SESSIONS.get(setting.method, 0)
    async with connections(net) as switches:
        clocks = await find_clocks(switches, run.clock) if net.has_panels else {}
        await configure(net, switches, domain, {name: us for name, (us, _) in clocks.items()})
        start_ns = run.clock.now_ns() + READY_NS + (count + 1) * PROBE_READY_NS
        probes = _probe(net, start_ns, setting)
        flows = [*setting.data, *setting.cross]
        async with Traffic(net, flows, start_ns=start_ns) as traffic:
            set_spine = next_hop_setter(net, switches[SOURCE_LEAF])
            spans = await cause(net, set_spine, setting.incidents, start_ns, run.clock)
            sent = await traffic.finish()
    errors_us = {name: error_us for name, (_, error_us) in clocks.items()}
    return Measured(spans=spans, clock_errors_us=errors_us, sent=sent), probes


def _probe(net: Network, start_ns: int, setting: Setting) -> dict[int, RunningApplication]:
    """Start ping, or STAMP sessions, whose packets leave at different times."""
    receiver = net.host(RECEIVER).IP()
    sessions = SESSIONS.get(setting.method, 1)
    interval_us = 1e6 * sessions / setting.probes_pps
    count = int((setting.lasts_s - PROBES_END_S) * 1e6 / interval_us)
    if setting.method == PING:
        ping = Ping(receiver, count=count, interval_us=interval_us, start_ns=start_ns,
                    identifier=PING_ID)  # fmt: skip
        return {PING_ID: net.run_application(SENDER, ping)}
    if setting.method not in SESSIONS:
        return {}
    net.run_application(RECEIVER, StampReflector())
    return {
        PROBE_PORTS[number]: net.run_application(SENDER, StampSender(
            receiver, count=count, interval_us=interval_us, ssid=number + 1,
            source_port=PROBE_PORTS[number],
            start_ns=start_ns + round(1e9 * number / setting.probes_pps),
        ))
        for number in range(sessions)
    }  # fmt: skip


def _domain(net: Network, method: str) -> Domain:
    """Return the INT domain. It also has the routes for the other methods."""
    watched = [
        WatchedFlow(net.host(SENDER).IP(), net.host(RECEIVER).IP(), protocol=UDP,
                    instructions=WANTED, mode=MODES[method])
    ] if method in MODES else []  # fmt: skip
    return Domain(COLLECTOR, watched, routes=routes(net))


def _marked_flows(
    net: Network, hops: Sequence[Hop], setting: Setting
) -> Mapping[MarkedFlow, FlowPath[Hop]]:
    """Return the watch list: each data flow, or all data flows as one multipoint flow."""
    ends, methods = (net.host(SENDER).IP(), net.host(RECEIVER).IP()), MARKINGS[setting.method]
    if setting.method == MULTIPOINT:
        first, *middle, last = hops
        whole = MarkedFlow(ALL_FLOWS, *ends, UDP, methods=methods)
        return {whole: Multipoint([first], [last], middle)}
    return {MarkedFlow(flow.id, *ends, UDP, dst_port=flow.port, methods=methods): hops
            for flow in setting.data}  # fmt: skip


async def _mark(net: Network, domain: Domain, setting: Setting) -> Measured:
    """Mark the data flows, send all flows during the incidents, and read all blocks."""
    run, (schedule, bounds) = setting.run, BLOCKS[setting.run.target]
    hops = [Hop(connection(net, name), entries(net, name, domain),
                net.switch(name).clock_offset_us) for name in SWITCHES]  # fmt: skip
    watched = _marked_flows(net, hops, setting)
    async with Collector(watched, schedule, run.clock, bounds=bounds) as collector:
        await collector.watch()
        first = schedule.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
        start_ns = 1000 * (schedule.start_us(first) + schedule.block_us // 2)
        count = round(1e6 * setting.lasts_s / schedule.block_us) + 2
        async with Traffic(net, [*setting.data, *setting.cross], start_ns=start_ns) as traffic:
            set_spine = next_hop_setter(net, hops[0].switch)
            caused = asyncio.create_task(
                cause(net, set_spine, setting.incidents, start_ns, run.clock)
            )
            blocks = [each async for each in collector.blocks(first, first + count)]
            spans = await caused
            sent = await traffic.finish()
    if problems := [problem for block in blocks for problem in block.problems]:
        note_invalid(problems[0])
    return Measured(
        spans=spans, clock_errors_us=collector.clock_errors_us, sent=sent,
        blocks=[block for block in blocks if block.complete],
    )  # fmt: skip


def _added_bytes(net: Network, traffic: HostTraffic) -> int:
    """Return the bytes that telemetry adds on links between switches, in both directions."""
    added = 0
    for near, far in permutations(net.topo.switches(), 2):
        if far in net.neighbours(near):
            path = net.capture(near, far, "out")
            own = [traffic.read(path, host) for host in traffic.addresses]
            added += own[0].total_bytes - sum(each.bytes for each in own)
    return added
