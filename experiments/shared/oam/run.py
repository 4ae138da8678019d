"""One network in which one telemetry method watches the traffic during the incidents."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.watch import Hop, Method
from controllers.ampm.watch import WatchedFlow as MarkedFlow
from controllers.connection import connection, connections, cpu_ports
from controllers.int.domain import Domain, configure, entries
from controllers.int.watch import Instruction, Mode, WatchedFlow
from experiments.shared.ampm.measurement import AHEAD_US
from experiments.shared.int.marking import BOUNDS, SCHEDULE
from experiments.shared.int.reports import KeepingCollector, Kept
from experiments.shared.int.truth import read
from experiments.shared.oam.incidents import (
    COLLECTOR,
    RECEIVER,
    SENDER,
    SINK_LEAF,
    SOURCE_LEAF,
    SPINES,
    Incident,
    cause,
    cross_flows,
    data_flows,
    fabric,
    routes,
)
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import RunningApplication
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import SessionRecord, StampSender
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

PROGRAM = "p4src/int/with_ampm.p4"
UDP = 17
SWITCHES = (SOURCE_LEAF, *SPINES, SINK_LEAF)  # in the order in which marked packets meet them
PROBE_PORTS = range(40_000, 40_008)  # source ports of STAMP sessions
PROBES_END_S = 0.2  # probes stop this long before the data
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip

STAMP_1, STAMP_8 = "STAMP, 1 session", "STAMP, 8 sessions"
SESSIONS = {STAMP_1: 1, STAMP_8: 8}
INT_MD, INT_MX, INT_XD = "INT-MD", "INT-MX", "INT-XD"
MODES = {INT_MD: Mode.DATA, INT_MX: Mode.INSTRUCTIONS, INT_XD: Mode.EXPORT}
ONE_BIT, TWO_BITS = "AM-PM, 1 bit", "AM-PM, 2 bits"
MARKINGS = {ONE_BIT: Method.STEP, TWO_BITS: Method.DOUBLE}
METHODS = (*SESSIONS, *MODES, *MARKINGS)


@dataclass(frozen=True)
class Outcome:
    """What a method measured, and ground truth. `start_ns` is the start of the traffic."""

    method: str
    start_ns: int
    data: dict[int, FlowRecord]  # UDP port -> packets of a data flow
    spines: dict[int, str]  # UDP port -> spine of the flow without incidents
    sessions: list[SessionRecord]  # of STAMP
    kept: Kept | None  # of INT
    nodes: dict[int, str]  # INT node id -> switch
    egress: dict[tuple[str, int], str]  # switch, port -> neighbour
    blocks: list[BlockReport]  # of AM-PM
    added_bytes: int  # on all links between switches, in data, reports and probes
    accounting: PacketAccounting

    @property
    def packets(self) -> int:
        """Number of data packets that the sender sent."""
        return sum(len(record.sent) for record in self.data.values())


async def measure(
    method: str, incidents: Sequence[Incident], options: argparse.Namespace, run: Run
) -> Outcome:
    """Run one method."""
    lasts_s = incidents[-1].end_s + 0.7
    data = data_flows(options.flows, options.rate, lasts_s)
    cross = cross_flows(incidents)
    topo = fabric()
    with Network(topo, run, program=PROGRAM, switch_options=cpu_ports(topo)) as net:
        start_ns = run.clock.now_ns() + 1000 * AHEAD_US
        kept = net.run_application(COLLECTOR, KeepingCollector())
        sessions = _probe(net, SESSIONS.get(method, 0), start_ns, lasts_s, options)
        domain = _domain(net, method)
        if method in MARKINGS:
            sent, blocks = await _mark(net, domain, method, [*data, *cross], incidents, run)
        else:
            sent, blocks = await _observe(net, domain, [*data, *cross], incidents, start_ns, run)
    kept_reports = kept.result
    return Outcome(
        method=method,
        start_ns=min(int(sent[flow.id].sent["sent_ns"][0]) for flow in data),
        data={flow.port: sent[flow.id] for flow in data},
        spines=_spines(net, data),
        sessions=[each.result for each in sessions],
        kept=kept_reports if method in MODES else None,
        nodes=dict(enumerate(topo.switches(), start=1)),
        egress={(switch, net.port(switch, other)): other
                for switch in topo.switches() for other in net.neighbours(switch)},
        blocks=blocks,
        added_bytes=_added_bytes(net, data, cross),
        accounting=PacketAccounting.from_network(net, sent),
    )  # fmt: skip


def _probe(
    net: Network, sessions: int, start_ns: int, lasts_s: float, options: argparse.Namespace
) -> list[RunningApplication]:
    """Start STAMP sessions, whose packets leave at different times."""
    if not sessions:
        return []
    net.run_application(RECEIVER, StampReflector())
    interval_us = 1e6 * sessions / options.probes
    count = int((lasts_s - PROBES_END_S) * 1e6 / interval_us)
    return [
        net.run_application(SENDER, StampSender(
            net.host(RECEIVER).IP(), count=count, interval_us=interval_us, ssid=number + 1,
            source_port=PROBE_PORTS[number],
            start_ns=start_ns + round(1e9 * number / options.probes),
        ))
        for number in range(sessions)
    ]  # fmt: skip


def _domain(net: Network, method: str) -> Domain:
    """Return the INT domain. It also has the routes for the other methods."""
    watched = [
        WatchedFlow(net.host(SENDER).IP(), net.host(RECEIVER).IP(), protocol=UDP,
                    instructions=WANTED, mode=MODES[method])
    ] if method in MODES else []  # fmt: skip
    return Domain(COLLECTOR, watched, routes=routes(net))


async def _observe(
    net: Network, domain: Domain, flows: Sequence[Flow], incidents: Sequence[Incident],
    start_ns: int, run: Run,
) -> tuple[dict[int, FlowRecord], list[BlockReport]]:  # fmt: skip
    """Send all flows during the incidents."""
    async with connections(net) as switches:
        await configure(net, switches, domain)
        async with Traffic(net, flows, start_ns=start_ns) as traffic:
            await cause(net, switches[SOURCE_LEAF], incidents, start_ns, run.clock)
            return await traffic.finish(), []


async def _mark(
    net: Network, domain: Domain, method: str, flows: Sequence[Flow],
    incidents: Sequence[Incident], run: Run,
) -> tuple[dict[int, FlowRecord], list[BlockReport]]:  # fmt: skip
    """Mark the data flows, send all flows during the incidents, and read all blocks."""
    hops = [Hop(connection(net, name), entries(net, name, domain),
                net.switch(name).clock_offset_us) for name in SWITCHES]  # fmt: skip
    watched = {
        MarkedFlow(flow.id, net.host(SENDER).IP(), net.host(RECEIVER).IP(), UDP,
                   dst_port=flow.port, methods=MARKINGS[method]): hops
        for flow in flows if flow.source == SENDER
    }  # fmt: skip
    async with Collector(watched, SCHEDULE, run.clock, bounds=BOUNDS) as collector:
        await collector.watch()
        first = SCHEDULE.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
        start_ns = 1000 * (SCHEDULE.start_us(first) + SCHEDULE.block_us // 2)
        count = round(1e6 * (incidents[-1].end_s + 0.7) / SCHEDULE.block_us) + 2
        async with Traffic(net, flows, start_ns=start_ns) as traffic:
            leaf = hops[0].switch
            caused = asyncio.create_task(cause(net, leaf, incidents, start_ns, run.clock))
            blocks = [each async for each in collector.blocks(first, first + count)]
            await caused
            return await traffic.finish(), blocks


def _spines(net: Network, data: Sequence[Flow]) -> dict[int, str]:
    """Return the spine to which the source leaf sends most packets of each flow."""
    counts = {}
    for spine in SPINES:
        ports = read(net.capture(SOURCE_LEAF, spine, "out"))["port"]
        counts[spine] = {flow.port: int(np.count_nonzero(ports == flow.port)) for flow in data}
    return {flow.port: max(SPINES, key=lambda each: counts[each][flow.port]) for flow in data}


def _added_bytes(net: Network, data: Sequence[Flow], cross: Sequence[Flow]) -> int:
    """Return the bytes on links between switches that the traffic does not have by itself."""
    sizes = {flow.port: flow.size for flow in (*data, *cross)}
    added = 0
    for near, far in permutations(net.topo.switches(), 2):
        if far in net.neighbours(near):
            frames = read(net.capture(near, far, "out"))
            own = [sizes.get(port, 0) for port in frames["port"].tolist()]
            added += int(frames["length"].sum()) - sum(own)
    return added
