"""One network in which one telemetry method watches the traffic during the incidents."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
    next_hop_setter,
    routes,
)
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import RunningApplication
from telemark.apps.icmp import Ping, PingRecord
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import SessionRecord, StampSender
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic

PROGRAM = "p4src/int/with_ampm.p4"
UDP = 17
SWITCHES = (SOURCE_LEAF, *SPINES, SINK_LEAF)  # in the order in which marked packets meet them
PROBE_PORTS = range(40_000, 40_008)  # source ports of STAMP sessions
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
ONE_BIT, TWO_BITS = "AM-PM, 1 bit", "AM-PM, 2 bits"
MARKINGS = {ONE_BIT: Method.STEP, TWO_BITS: Method.DOUBLE}
IOAM_TRACE, IOAM_DEX = "IOAM trace", "IOAM DEX"
IN_PACKETS = (INT_MD, IOAM_TRACE)  # only the last switch reports
POSTCARDS = (INT_MX, INT_XD, IOAM_DEX)  # each switch reports each packet
QUICK_METHODS = (STAMP_1, INT_XD, ONE_BIT)
METHODS = (*PROBES, *MODES, IOAM_TRACE, IOAM_DEX, *MARKINGS)


@dataclass(frozen=True)
class Truth:
    """All data packets; the arrays have one element per packet."""

    sent_ns: NDArray[np.int64]
    delay_ns: NDArray[np.int64]  # -1: lost

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Return which packets were lost."""
        return self.delay_ns < 0


@dataclass(frozen=True)
class Outcome:
    """What a method measured, and ground truth. `start_ns` is the start of the traffic."""

    method: str
    start_ns: int
    truth: Truth
    spines: dict[int, str]  # UDP port of a data flow -> its spine without incidents
    pings: PingRecord | None
    sessions: list[SessionRecord]  # of STAMP
    kept: Kept | None  # of INT
    nodes: dict[int, str]  # INT node id -> switch
    egress: dict[tuple[str, int], str]  # switch, port -> neighbour
    blocks: list[BlockReport]  # of AM-PM
    added_bytes: int  # on all links between switches, in data, reports and probes
    accounting: PacketAccounting


async def measure(
    method: str, incidents: Sequence[Incident], options: argparse.Namespace, run: Run
) -> Outcome:
    """Run one method."""
    lasts_s = incidents[-1].end_s + 0.7
    data = data_flows(options.flows, options.rate, lasts_s)
    cross = cross_flows(incidents)
    topo = fabric()
    with Network(topo, run, program=PROGRAM, switch_options=cpu_ports(topo)) as net:
        kept = net.run_application(COLLECTOR, KeepingCollector())
        domain = _domain(net, method)
        sessions: list[RunningApplication] = []
        pings: list[RunningApplication] = []
        blocks: list[BlockReport] = []
        if method in MARKINGS:
            sent, blocks = await _mark(net, domain, [*data, *cross], incidents,
                                       method=MARKINGS[method], run=run)  # fmt: skip
        else:
            async with connections(net) as switches:
                await configure(net, switches, domain)
                count = SESSIONS.get(method, 0)
                start_ns = run.clock.now_ns() + READY_NS + (count + 1) * PROBE_READY_NS
                sessions = _probe(net, count, start_ns, lasts_s, options)
                if method == PING:
                    pings = [_ping(net, start_ns, lasts_s, options)]
                async with Traffic(net, [*data, *cross], start_ns=start_ns) as traffic:
                    set_spine = next_hop_setter(net, switches[SOURCE_LEAF])
                    await cause(net, set_spine, incidents, start_ns, run.clock)
                    sent = await traffic.finish()
    return Outcome(
        method=method,
        start_ns=min(int(sent[flow.id].sent["sent_ns"][0]) for flow in data),
        truth=_truth([sent[flow.id] for flow in data]),
        spines=_spines(net, data),
        pings=pings[0].result if pings else None,
        sessions=[each.result for each in sessions],
        kept=kept.result if method in MODES else None,
        nodes=dict(enumerate(topo.switches(), start=1)),
        egress=egress_ports(net),
        blocks=blocks,
        added_bytes=_added_bytes(net, [*data, *cross]),
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


def _ping(
    net: Network, start_ns: int, lasts_s: float, options: argparse.Namespace
) -> RunningApplication:
    """Start to send echo requests."""
    count = int((lasts_s - PROBES_END_S) * options.probes)
    return net.run_application(SENDER, Ping(
        net.host(RECEIVER).IP(), count=count, interval_us=1e6 / options.probes, start_ns=start_ns
    ))  # fmt: skip


def egress_ports(net: Network) -> dict[tuple[str, int], str]:
    """Return the neighbour at each port of each switch."""
    return {
        (switch, net.port(switch, other)): other
        for switch in net.topo.switches() for other in net.neighbours(switch)
    }  # fmt: skip


def _truth(records: Sequence[FlowRecord]) -> Truth:
    sent, delays = [], []
    for record in records:
        sent_ns = record.sent["sent_ns"].astype(np.int64)
        delay_ns = np.full(len(sent_ns), -1)
        place = np.searchsorted(record.sent["sequence"], record.received["sequence"])
        delay_ns[place] = record.received["received_ns"].astype(np.int64) - sent_ns[place]
        sent.append(sent_ns)
        delays.append(delay_ns)
    return Truth(np.concatenate(sent), np.concatenate(delays))


def _domain(net: Network, method: str) -> Domain:
    """Return the INT domain. It also has the routes for the other methods."""
    watched = [
        WatchedFlow(net.host(SENDER).IP(), net.host(RECEIVER).IP(), protocol=UDP,
                    instructions=WANTED, mode=MODES[method])
    ] if method in MODES else []  # fmt: skip
    return Domain(COLLECTOR, watched, routes=routes(net))


async def _mark(
    net: Network, domain: Domain, flows: Sequence[Flow], incidents: Sequence[Incident],
    *, method: Method, run: Run,
) -> tuple[dict[int, FlowRecord], list[BlockReport]]:  # fmt: skip
    """Mark the data flows, send all flows during the incidents, and read all blocks."""
    hops = [Hop(connection(net, name), entries(net, name, domain),
                net.switch(name).clock_offset_us) for name in SWITCHES]  # fmt: skip
    watched = {
        MarkedFlow(flow.id, net.host(SENDER).IP(), net.host(RECEIVER).IP(), UDP,
                   dst_port=flow.port, methods=method): hops
        for flow in flows if flow.source == SENDER
    }  # fmt: skip
    async with Collector(watched, SCHEDULE, run.clock, bounds=BOUNDS) as collector:
        await collector.watch()
        first = SCHEDULE.block_at(run.clock.now_ns() // 1000 + AHEAD_US) + 1
        start_ns = 1000 * (SCHEDULE.start_us(first) + SCHEDULE.block_us // 2)
        count = round(1e6 * (incidents[-1].end_s + 0.7) / SCHEDULE.block_us) + 2
        async with Traffic(net, flows, start_ns=start_ns) as traffic:
            set_spine = next_hop_setter(net, hops[0].switch)
            caused = asyncio.create_task(cause(net, set_spine, incidents, start_ns, run.clock))
            blocks = [each async for each in collector.blocks(first, first + count)]
            await caused
            sent = await traffic.finish()
    if problems := [problem for block in blocks for problem in block.problems]:
        note_invalid(problems[0])
    return sent, [block for block in blocks if block.complete]


def _spines(net: Network, data: Sequence[Flow]) -> dict[int, str]:
    """Return the spine to which the source leaf sends most packets of each flow."""
    counts = {}
    for spine in SPINES:
        ports = read(net.capture(SOURCE_LEAF, spine, "out"))["port"]
        counts[spine] = {flow.port: int(np.count_nonzero(ports == flow.port)) for flow in data}
    return {flow.port: max(SPINES, key=lambda each: counts[each][flow.port]) for flow in data}


def _added_bytes(net: Network, flows: Sequence[Flow]) -> int:
    """Return the bytes that telemetry adds on links between switches."""
    sizes = {flow.port: flow.size for flow in flows}
    added = 0
    for link in fabric_captures(net):
        own = [sizes.get(port, 0) for port in read(link)["port"].tolist()]
        added += int(pcap.read(link).length.sum()) - sum(own)
    return added


def fabric_captures(net: Network) -> list[Path]:
    """Return the captures of all links between switches, in both directions."""
    return [
        net.capture(near, far, "out") for near, far in permutations(net.topo.switches(), 2)
        if far in net.neighbours(near)
    ]  # fmt: skip
