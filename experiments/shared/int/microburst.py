"""Measurement of a microburst in IntSight's chain of five switches with five flows.

The rates, frame sizes and paths of the flows, the link rate and the queue length are from
"IntSight: Diagnosing SLO Violations with In-Band Network Telemetry" (CoNEXT 2020),
experiments/e2edelay of jonadmark/intsight-bmv2. Host names differ.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.int import on_bmv2
from experiments.shared.int.end_to_end import Interval
from experiments.shared.int.live import show_queues
from experiments.shared.int.reports import KeepingCollector, Kept
from experiments.shared.int.truth import Queue, SwitchTransit, around, read_queue
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from topologies.basic import ParkingLot

SWITCHES = 5
RATE_BPS, DELAY_US, QUEUE = 100_000_000, 100, 1125
FRAME_BYTES, USUAL_BPS, BURST_BPS = 1481, 15e6, 106.632e6
BMV2_QUEUE_PPS = 9000  # on bmv2 the queues have a rate, as in IntSight; links are not the limit
JITTER = 0.1  # relative standard deviation of packet intervals
UDP = 17
PATHS = {
    "red": ("h1", "h2", 1, 5), "blue": ("x1", "x2", 1, 2), "teal": ("x2", "x4", 2, 4),
    "green": ("x3", "x4", 3, 4), "orange": ("x3", "x5", 3, 5),
}  # fmt: skip
"""Source and destination of each flow, and its first and last switch."""
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
          | Instruction.INGRESS_TIME)  # fmt: skip
MTU_BYTES = 1700  # between switches, with INT


@dataclass(frozen=True)
class Scale:
    """Rates and durations. On bmv2, rates are divided by `slower`, and durations are longer."""

    slower: float = 1.0
    burst_s: float = 0.1
    after_s: float = 1.0  # duration of traffic after the burst
    # max delay of the red flow from its first to its last switch, as in IntSight
    late_us: float = 20_000

    @classmethod
    def for_bmv2(cls, slower: float) -> "Scale":
        """Return the scale for bmv2, with a longer burst and longer delays."""
        return cls(slower, burst_s=1.0, after_s=3.0, late_us=10 * cls.late_us)


@dataclass(frozen=True)
class Phases:
    """Traffic pattern of phases (seconds, packets/s) with jittered packet intervals."""

    phases: tuple[tuple[float, float], ...]

    @property
    def counts(self) -> list[int]:
        """Return the number of packets in each phase."""
        return [round(lasts_s * rate_pps) for lasts_s, rate_pps in self.phases]

    def due_ns(self, flow: Flow, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Return the send times of packets: ascending offsets from the start; shape (count,)."""
        begins_s, parts = 0.0, []
        for (lasts_s, _), count in zip(self.phases, self.counts, strict=True):
            gaps = np.maximum(rng.normal(1, JITTER, count), 0)
            parts.append(begins_s + lasts_s * (np.cumsum(gaps) - gaps) / gaps.sum())
            begins_s += lasts_s
        return (1e9 * np.concatenate(parts)).astype(np.uint64)


def make_flows(options: argparse.Namespace, scale: Scale) -> dict[str, Flow]:
    """Return the flows by colour; the colours are the names of the flows in IntSight."""
    found = {}
    for number, (name, (source, destination, *_)) in enumerate(PATHS.items(), start=1):
        rates_bps = USUAL_BPS, BURST_BPS if name == options.bursting else USUAL_BPS, USUAL_BPS
        lasts_s = options.before, scale.burst_s, scale.after_s
        pattern = Phases(tuple(
            (s, bps / 8 / FRAME_BYTES / scale.slower)
            for s, bps in zip(lasts_s, rates_bps, strict=True)
        ))  # fmt: skip
        found[name] = Flow(
            number, source, destination, USUAL_BPS / 8 / FRAME_BYTES / scale.slower,
            sum(pattern.counts), FRAME_BYTES, pattern=pattern,
        )  # fmt: skip
    return found


def flow_path(name: str) -> list[str]:
    """Return the switches on a flow's path."""
    *_, first, last = PATHS[name]
    return [f"s{number}" for number in range(first, last + 1)]


@dataclass(frozen=True)
class Outcome:
    """Reports and ground truth of each packet; flows by colour.

    On bmv2, captures on both sides of a switch give bounds. A packet gets its timestamps while it
    is in the switch. The queue contains at most the packets that are ahead of it in the switch.
    """

    flows: dict[str, Flow]
    kept: Kept
    reported: dict[
        str, NDArray[np.void]
    ]  # OF_HOP, shape (packets, switches of the path), in the order of reports
    truth: dict[str, list[SwitchTransit]]  # colour -> transit of each switch on the path
    queues: dict[int, Queue]  # node id -> queue towards the next switch
    ports: dict[int, int]  # node id -> number of the port towards the next switch
    records: Mapping[int, FlowRecord]  # flow id -> record
    burst_ns: int  # start of the burst at the sender
    accounting: PacketAccounting
    scale: Scale
    clock_errors_us: dict[str, float]  # switch -> bound of the clock error on bmv2; empty on minip4

    def longest(self, node: int) -> int:
        """Return the max length of the queue towards the next switch, from captures."""
        return int(self.lengths(node).max())

    def lengths(self, node: int) -> NDArray[np.int64]:
        """Return the length of the queue that each packet to the next switch met."""
        queue = self.queues[node]
        return queue.max_queued if self.clock_errors_us else queue.min_queued

    def stamped_ns(
        self, switch: str, arrived_ns: NDArray[np.int64], left_ns: NDArray[np.int64]
    ) -> Interval:
        """Return the bounds of a switch's timestamps of packets."""
        if not self.clock_errors_us:
            return arrived_ns, arrived_ns
        error_ns = round(1000 * self.clock_errors_us[switch])
        return arrived_ns - error_ns, left_ns + error_ns

    def arrival_us(self, switch: str, of: SwitchTransit) -> Interval:
        """Return the bounds of the ingress time of each packet."""
        low_ns, high_ns = self.stamped_ns(switch, of.arrived_ns, of.left_ns)
        return low_ns // 1000, high_ns // 1000

    def delay_us(self, name: str) -> Interval:
        """Return the bounds of the packet delays of a flow, from its first to its last switch."""
        first, last = self.truth[name][0], self.truth[name][-1]
        if not self.clock_errors_us:
            exact_us = last.left_ns // 1000 - first.arrived_ns // 1000
            return exact_us, exact_us
        ends = flow_path(name)
        early_ns, late_ns = self.stamped_ns(ends[0], first.arrived_ns, first.left_ns)
        low_ns, high_ns = self.stamped_ns(ends[-1], last.arrived_ns, last.left_ns)
        return (low_ns - late_ns) // 1000, (high_ns - early_ns) // 1000 + 1


async def find_scale(options: argparse.Namespace, run: Run) -> Scale:
    """Return the scale; on bmv2 a probe with the rates of the burst determines it."""
    if run.target != "bmv2":
        return Scale()
    peak_pps = {name: (BURST_BPS if name == options.bursting else USUAL_BPS) / 8 / FRAME_BYTES
                for name in PATHS}  # fmt: skip
    flows = {
        name: Flow(number, source, destination, peak_pps[name], round(peak_pps[name]), FRAME_BYTES)
        for number, (name, (source, destination, *_)) in enumerate(PATHS.items(), start=1)
    }
    return Scale.for_bmv2(
        await on_bmv2.slowdown(
            ParkingLot(SWITCHES), options.program, lambda net: make_domain(net, flows),
            [*flows.values()], run, max_delay_us=on_bmv2.INT_DELAY_US,
        )
    )  # fmt: skip


def make_domain(net: Network, flows: Mapping[str, Flow]) -> Domain:
    """Return the INT domain, which reports all flows."""
    watched = [
        WatchedFlow(net.host(flow.source).IP(), net.host(flow.destination).IP(), protocol=UDP,
                    dst_port=flow.port, instructions=WANTED)
        for flow in flows.values()
    ]  # fmt: skip
    return Domain("collector", watched, mtu_bytes=MTU_BYTES)


async def measure(options: argparse.Namespace, scale: Scale, run: Run) -> Outcome:
    """Send all flows; return reports and ground truth.

    On bmv2, the queues of the switch have a rate, because INT does not report the queues of links.
    """
    is_bmv2 = run.target == "bmv2"
    link = {} if is_bmv2 else {"rate_bps": RATE_BPS, "queue_packets": QUEUE}
    topo = ParkingLot(SWITCHES, delay_us=DELAY_US, **link)
    flows, clocks = make_flows(options, scale), {}
    stamped = options.time == "real" and not is_bmv2
    with Network(
        topo, run, program=options.program, stamp_log=stamped, switch_options=cpu_ports(topo)
    ) as net:
        if is_bmv2:
            queue_pps = round(BMV2_QUEUE_PPS / scale.slower)
            on_bmv2.limit_queues(net, topo.switches(), queue_pps, QUEUE)
        collector = net.run_application("collector", KeepingCollector())
        async with connections(net) as switches:
            if is_bmv2:
                clocks = await on_bmv2.find_clocks(switches, run.clock)
            offsets_us = {name: offset_us for name, (offset_us, _) in clocks.items()}
            await configure(net, switches, make_domain(net, flows), offsets_us)
            async with Traffic(net, [*flows.values()]) as traffic:
                records = await traffic.finish()
    # makes the run inconclusive if bmv2 dropped packets
    accounting = PacketAccounting.from_network(net, records)

    @cache
    def queue(switch: str, after: str) -> Queue:
        if is_bmv2:
            return on_bmv2.read_queue(net, switch, after)
        return read_queue(net, switch, after, stamped=stamped)

    pairs = [(number, f"s{number}", f"s{number + 1}") for number in range(1, SWITCHES)]
    if run.display is not None:
        show_queues(run.display, {f"{near} to {far}": queue(near, far) for _, near, far in pairs})
    return Outcome(
        flows=flows,
        kept=collector.result,
        reported={name: reported_by(collector.result, flow, len(flow_path(name)))
              for name, flow in flows.items()},
        truth={name: [queue(switch, after).passage(flow)
                      for _, switch, after in around(flow, flow_path(name))]
               for name, flow in flows.items()},
        queues={node: queue(switch, after) for node, switch, after in pairs},
        ports={node: net.port(switch, after) for node, switch, after in pairs},
        records={number: r for number, r in records.items() if isinstance(r, FlowRecord)},
        burst_ns=traffic.start_ns + round(1e9 * options.before),
        accounting=accounting,
        scale=scale,
        clock_errors_us={name: error_us for name, (_, error_us) in clocks.items()},
    )  # fmt: skip


def reported_by(kept: Kept, flow: Flow, hops: int) -> NDArray[np.void]:
    """Return OF_HOP records, shape (reports, hops), in the order of the last switch's reports.

    If no report is lost, this is the order of packets.
    """
    ours = (kept.reports["key"]["destination_port"] == flow.port) & (kept.reports["hops"] == hops)
    reports = kept.reports[ours][np.argsort(kept.groups["sequence"][ours], kind="stable")]
    return kept.hops[reports["first_hop"].astype(np.int64)[:, None] + np.arange(hops)]
