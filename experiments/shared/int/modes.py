"""Overhead and measurements of INT modes and alternate marking on the same traffic."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collectors.int.application import Collector, Findings
from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, PointRecord, pulse_delay
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from controllers.connection import connections, cpu_ports
from controllers.int.domain import REPORT_PORT, Domain, configure
from controllers.int.grouping import Grouping, flush
from controllers.int.watch import Instruction, Mode, WatchedFlow
from experiments.shared.ampm.measurement import Setting, flow_count, watched_paths
from experiments.shared.int import on_bmv2
from experiments.shared.int.marking import bounds_on, mark, schedule_on
from experiments.shared.int.reports import OURS
from experiments.shared.int.truth import SwitchTransit, read, read_passages
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from telemark.traffic.patterns import Poisson
from topologies.basic import ParkingLot

PATH = ("s1", "s2", "s3", "s4", "s5")
LOSSY = ("s3", "s4")
RATE_BPS, DELAY_US, QUEUE = 20_000_000, 500, 1000
WATCHED_BYTES, CROSS_BYTES, CROSS_LOAD = 200, 1000, 0.7
GROUPED, GROUPING = "XD, grouped", Grouping()
MODES = {
    "MD": Mode.DATA, "MX": Mode.INSTRUCTIONS, "XD": Mode.EXPORT, GROUPED: Mode.EXPORT,
}  # fmt: skip
AMPM = "AM-PM"
# all other modes use --program
PROGRAMS = {AMPM: "p4src/ampm/ampm.p4", GROUPED: "p4src/int/grouped.p4"}
SENT_NS = 100_000_000  # max time until flushed reports have arrived
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """Overhead and measurements of one mode, and ground truth."""

    mode: str
    packets: NDArray[np.int64]  # number of packets of the flow on each link of the path
    bytes: NDArray[np.int64]  # number of bytes of these packets on each link
    unidentified: NDArray[np.int64]  # number of packets without an IPv4 identification on each link
    report_packets: int  # number of packets sent to the collector
    report_bytes: int  # number of bytes of the packets to the collector
    # the same, summed over all links on the path to the collector
    report_link_bytes: int
    lost: int  # packets of the flow that the lossy link lost
    lost_pulses: int  # lost packets that AM-PM marked as pulses
    truth: list[SwitchTransit]
    # On bmv2, for each switch and packet: time inside (us), and number of packets ahead.
    inside: list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None
    findings: Findings | None  # None for AM-PM
    blocks: list[BlockReport]  # empty for INT
    accounting: PacketAccounting

    @property
    def added(self) -> NDArray[np.int64]:
        """Bytes that telemetry added to packets, for each link."""
        return self.bytes - self.packets * WATCHED_BYTES

    @property
    def reported(self) -> dict[int, np.void]:
        """Statistics of each switch in the INT collector, by position on the path."""
        assert self.findings is not None
        return {
            int(hop["node"]) - 1: hop
            for flow in self.findings.flows for hop in flow["path"][: flow["hops"]]
        }  # fmt: skip

    @property
    def losses_detected(self) -> int:
        """Number of packets lost between s3 and s4, by AM-PM counters or by INT reports.

        INT-MD cannot detect loss, because no switch reports a lost packet.
        """
        if self.findings is None:
            left, arrived = Point(LOSSY[0], "departures"), Point(LOSSY[1], "arrivals")
            return sum(r[left].packets - r[arrived].packets for r in self.records)
        reported = {place: int(hop["latency_ns"]["count"]) for place, hop in self.reported.items()}
        near, far = (reported.get(PATH.index(switch), 0) for switch in LOSSY)
        return near - far

    @property
    def records(self) -> list[dict[Point, PointRecord]]:
        """AM-PM records of all blocks."""
        return [report.known_records(1) for report in self.blocks]

    @property
    def delays(self) -> int:
        """Number of measured hop latencies."""
        if self.findings is None:
            of_switches = [(Point(s, "arrivals"), Point(s, "departures")) for s in PATH]
            return sum(
                pulse_delay(r[first], r[second]).delay_us is not None
                for r in self.records for first, second in of_switches
            )  # fmt: skip
        return sum(int(hop["latency_ns"]["count"]) for hop in self.reported.values())

    @property
    def longest_queue(self) -> int | None:
        """Longest reported queue (packets); None if the mode does not report queues."""
        if self.findings is None:
            return None
        return max((int(hop["occupancy"]["max"]) for hop in self.reported.values()), default=0)

    @property
    def readouts(self) -> int:
        """Number of reports, or of switch readouts for AM-PM."""
        return self.findings.reports if self.findings else len(self.blocks) * len(PATH)


async def measure(mode: str, options: argparse.Namespace, run: Run) -> Found:
    """Send the same traffic through switches in this mode."""
    topo = ParkingLot(len(PATH), rate_bps=RATE_BPS, delay_us=DELAY_US, queue_packets=QUEUE)
    schedule, bounds = schedule_on(run.target), bounds_on(run.target)
    flows = make_flows(topo, options, schedule)
    stamped = options.time == "real" and run.target != "bmv2"
    with Network(
        topo, run, program=PROGRAMS.get(mode, options.program), switch_options=cpu_ports(topo),
        stamp_log=stamped, expected_drops=("ingress",) if mode == GROUPED else (),
    ) as net:  # fmt: skip
        port = net.port(*LOSSY)
        net.switch(LOSSY[0]).set_link(port, loss_probability=options.loss / 100)
        if net.has_panels:
            queue_pps = round(sum(flow.rate_pps for flow in flows[:2]) / CROSS_LOAD)
            on_bmv2.limit_queues(net, [*PATH, "h2"], queue_pps, QUEUE)
        collector = net.run_application("collector", Collector(OURS))
        if mode == AMPM:
            setting = Setting(
                "marked", topo, PATH, {flows[0]: Method.DOUBLE}, schedule, bounds, options.blocks
            )
            paths = watched_paths(net, setting)
            records, blocks = await mark(net, paths, flows, options.blocks, run)
        else:
            records, blocks = await report(net, flows, mode, run), []
    upstream = [*pairwise(reversed(PATH)), (PATH[0], "collector")]
    reports = [frames(net, *link, REPORT_PORT)["length"] for link in upstream]
    ours = [frames(net, *link, flows[0].port) for link in pairwise([*PATH, "h2"])]
    lost = read(net.capture(*LOSSY, "lost"))
    return Found(
        mode=mode,
        packets=np.array([len(each) for each in ours]),
        bytes=np.array([each["length"].sum() for each in ours]),
        unidentified=np.array([np.sum(each["identification"] == 0) for each in ours]),
        report_packets=len(reports[-1]),
        report_bytes=int(reports[-1].sum()),
        report_link_bytes=sum(int(lengths.sum()) for lengths in reports),
        lost=int(np.count_nonzero(lost["port"] == flows[0].port)),
        lost_pulses=count_lost_pulses(net, flows[0]) if mode == AMPM else 0,
        truth=read_passages(net, flows[0], PATH, stamped=stamped),
        inside=on_bmv2.read_transits(net, flows[0], PATH) if run.target == "bmv2" else None,
        findings=None if mode == AMPM else collector.result,
        blocks=blocks,
        accounting=PacketAccounting.from_network(net, records),
    )


async def report(
    net: Network, flows: Sequence[Flow], mode: str, run: Run
) -> dict[int, FlowRecord]:  # fmt: skip
    """Send all flows while INT reports the packets of the first flow."""
    domain = make_domain(net, flows[0], mode)
    async with connections(net) as switches:
        await configure(net, switches, domain)
        async with Traffic(net, flows) as traffic:
            records = await traffic.finish()
        if domain.grouping:
            await flush(switches.values())
            await run.clock.sleep_until(run.clock.now_ns() + SENT_NS)
        return records


def make_domain(net: Network, flow: Flow, mode: str) -> Domain:
    """Return the INT domain that reports a flow in the given mode."""
    watched = WatchedFlow(
        net.host("h1").IP(), net.host("h2").IP(), dst_port=flow.port, protocol=17,
        instructions=WANTED, mode=MODES[mode],
    )  # fmt: skip
    return Domain("collector", [watched], grouping=GROUPING if mode == GROUPED else None)


async def find_slowdown(options: argparse.Namespace, run: Run) -> float:
    """Return the factor by which rates must be lower than on minip4, for the most costly mode."""
    topo = ParkingLot(len(PATH))
    options.slower = 1.0
    flows = make_flows(topo, options, schedule_on(run.target))
    return await on_bmv2.slowdown(
        topo, PROGRAMS[GROUPED], lambda net: make_domain(net, flows[0], GROUPED), flows, run
    )


def make_flows(topo: ParkingLot, options: argparse.Namespace, schedule: Schedule) -> list[Flow]:
    """Return the watched flow and cross traffic; each cross flow shares one link with it."""
    watched_pps = options.rate / options.slower
    count = flow_count(watched_pps, options.blocks, schedule)
    rate_pps = CROSS_LOAD * RATE_BPS / options.slower / 8 / CROSS_BYTES
    crossing = max(round(rate_pps * count / watched_pps), 1)
    return [
        Flow(1, "h1", "h2", watched_pps, count, WATCHED_BYTES),
        *(Flow(number, *ends, rate_pps, crossing, CROSS_BYTES, pattern=Poisson())
          for number, ends in enumerate(topo.crossings, start=2)),
    ]  # fmt: skip


def count_lost_pulses(net: Network, flow: Flow) -> int:
    """Count the lost packets that AM-PM marked as pulses."""
    return int(np.count_nonzero(pcap.read_flow(net.capture(*LOSSY, "lost"), flow).dscp & 2))


def frames(net: Network, near: str, far: str, port: int) -> NDArray[np.void]:
    """Return the frames (FRAME) to this UDP port that a switch sent to a neighbour."""
    found = read(net.capture(near, far, "out"))
    return found[found["port"] == port]
