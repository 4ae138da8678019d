"""Measurement of a microburst in IntSight's chain of five switches with five flows.

Rates, frame sizes and paths of the flows, link rate and queue length are those of "IntSight:
Diagnosing SLO Violations with In-Band Network Telemetry" (CoNEXT 2020), experiments/e2edelay of
jonadmark/intsight-bmv2; host names differ.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from controllers.connection import connections
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.int.reports import KeepingCollector, Kept
from experiments.shared.int.truth import Queue, SwitchTransit, around, read_queue
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from topologies.basic import ParkingLot

SWITCHES = 5
RATE_BPS, DELAY_US, QUEUE = 100_000_000, 100, 1125
FRAME_BYTES, USUAL_BPS, BURST_BPS, BURST_S = 1481, 15e6, 106.632e6, 0.1
AFTER_S = 1.0  # duration after the burst
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
class Phases:
    """A sequence of rates: (seconds, packets/s); packet intervals vary around their mean."""

    phases: tuple[tuple[float, float], ...]

    @property
    def counts(self) -> list[int]:
        """Return the packets of each phase."""
        return [round(lasts_s * rate_pps) for lasts_s, rate_pps in self.phases]

    def due_ns(self, flow: Flow, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Return ascending offsets from the start of the flow; shape (count,)."""
        begins_s, parts = 0.0, []
        for (lasts_s, _), count in zip(self.phases, self.counts, strict=True):
            gaps = np.maximum(rng.normal(1, JITTER, count), 0)
            parts.append(begins_s + lasts_s * (np.cumsum(gaps) - gaps) / gaps.sum())
            begins_s += lasts_s
        return (1e9 * np.concatenate(parts)).astype(np.uint64)


def make_flows(options: argparse.Namespace) -> dict[str, Flow]:
    """Return the flows by colour, as IntSight names them."""
    found = {}
    for number, (name, (source, destination, *_)) in enumerate(PATHS.items(), start=1):
        rates_bps = USUAL_BPS, BURST_BPS if name == options.bursting else USUAL_BPS, USUAL_BPS
        lasts_s = options.before, BURST_S, AFTER_S
        pattern = Phases(tuple(
            (s, bps / 8 / FRAME_BYTES) for s, bps in zip(lasts_s, rates_bps, strict=True)
        ))  # fmt: skip
        found[name] = Flow(
            number, source, destination, USUAL_BPS / 8 / FRAME_BYTES, sum(pattern.counts),
            FRAME_BYTES, pattern=pattern,
        )  # fmt: skip
    return found


def flow_path(name: str) -> list[str]:
    """Return the switches on a flow's path."""
    *_, first, last = PATHS[name]
    return [f"s{number}" for number in range(first, last + 1)]


@dataclass(frozen=True)
class Outcome:
    """Reports and ground truth of each packet; flows by colour."""

    flows: dict[str, Flow]
    kept: Kept
    reported: dict[
        str, NDArray[np.void]
    ]  # OF_HOP, shape (packets, switches of the path), in the order of reports
    truth: dict[str, list[SwitchTransit]]  # at each switch of the path
    queues: dict[int, Queue]  # by node: towards the next switch
    ports: dict[int, int]  # by node: number of that port
    records: Mapping[int, FlowRecord]  # by the flows' ids
    burst_ns: int  # start, at the sender
    accounting: PacketAccounting


async def measure(options: argparse.Namespace, run: Run) -> Outcome:
    """Send all flows; return reports and ground truth."""
    topo = ParkingLot(SWITCHES, rate_bps=RATE_BPS, delay_us=DELAY_US, queue_packets=QUEUE)
    flows = make_flows(options)
    stamped = options.time == "real"
    with Network(topo, run, program=options.program, stamp_log=stamped) as net:
        collector = net.run_application("collector", KeepingCollector())
        watched = [
            WatchedFlow(net.host(flow.source).IP(), net.host(flow.destination).IP(), protocol=UDP,
                        dst_port=flow.port, instructions=WANTED)
            for flow in flows.values()
        ]  # fmt: skip
        async with connections(net) as switches:
            await configure(net, switches, Domain("collector", watched, mtu_bytes=MTU_BYTES))
            async with Traffic(net, [*flows.values()]) as traffic:
                records = await traffic.finish()
    queue = cache(lambda switch, after: read_queue(net, switch, after, stamped=stamped))
    pairs = [(number, f"s{number}", f"s{number + 1}") for number in range(1, SWITCHES)]
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
        accounting=PacketAccounting.from_network(net, records),
    )  # fmt: skip


def reported_by(kept: Kept, flow: Flow, hops: int) -> NDArray[np.void]:
    """Return OF_HOP, shape (reports, hops), ordered by sequence numbers of the last switch.

    This is the order of packets if no report is lost.
    """
    ours = (kept.reports["key"]["destination_port"] == flow.port) & (kept.reports["hops"] == hops)
    reports = kept.reports[ours][np.argsort(kept.groups["sequence"][ours], kind="stable")]
    return kept.hops[reports["first_hop"].astype(np.int64)[:, None] + np.arange(hops)]
