"""Measurement of a TCP bottleneck link: queue lengths with three congestion signals, and rate."""

import argparse
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.connection import connections
from controllers.forwarding import lpm_entries, probe_entry
from experiments.shared.tcp.probes import ProbeReader, Sent, matched, probe, read_sent, reported_by
from experiments.shared.tcp.queue import QueueTrace, read_trace
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import AnyRecord, Flow, Traffic
from telemark.traffic.tcp import TcpFlow, TcpRecord
from topologies.basic import Dumbbell

RATE_BPS, DELAY_US, QUEUE = 10_000_000, 1000, 40
FRAME_BYTES, SEGMENT_BYTES, ACK_BYTES = 1514, 1448, 66
BETWEEN = "s1", "s2"  # switches at both ends of the link
SETTLED_S = 2.0  # time at which slow start has ended
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
UDP_BPS, UDP_BYTES = 3_000_000, 1000
PROBED_S = 0.05


@dataclass(frozen=True)
class Kind:
    """Congestion signal: congestion control algorithm, with or without ECN."""

    congestion: str
    ecn: bool


KINDS = {"drops": Kind("reno", False), "ECN": Kind("reno", True), "DCTCP": Kind("dctcp", True)}
"""Congestion signals: Reno with loss, Reno with ECN marks, and DCTCP."""


def product_packets() -> float:
    """Return the bandwidth-delay product, in whole frames."""
    packet_s = 8 * FRAME_BYTES / RATE_BPS
    return (2 * DELAY_US / 1e6 + packet_s + 8 * ACK_BYTES / RATE_BPS) / packet_s


def available_kinds(options: argparse.Namespace) -> dict[str, Kind]:
    """Return the congestion signals that hosts support (DCTCP needs a module of the kernel)."""
    if options.time == "virtual":
        return KINDS
    there = AVAILABLE.read_text().split()
    return {name: kind for name, kind in KINDS.items() if kind.congestion in there}


@contextlib.asynccontextmanager
async def network(
    options: argparse.Namespace, run: Run, name: str, program: str, pairs: int
) -> AsyncIterator[tuple[Network, dict[str, fy.Switch]]]:
    """Build a dumbbell of forwarding switches; yield it with connections to the switches."""
    topo = Dumbbell(pairs, rate_bps=RATE_BPS, delay_us=DELAY_US, queue_packets=QUEUE)
    stamped = is_stamped(options)
    with Network(topo, run, program=program, name=name, stamp_log=stamped) as net:
        async with connections(net) as switches:
            for switch in switches.values():
                await switch.write([+entry for entry in lpm_entries(net, switch.name)])
            yield net, switches


def is_stamped(options: argparse.Namespace) -> bool:
    """Return whether switches have a stamp log (in real time, if supported)."""
    return options.time == "real" and options.target == "minip4"


# --- queues -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Result of one flow over the link."""

    trace: QueueTrace
    record: TcpRecord
    dropped: int  # number of packets that the switch dropped because the queue was full
    start_ns: int
    accounting: PacketAccounting

    @property
    def settled(self) -> QueueTrace:
        """Queue trace after slow start."""
        return self.trace.between(self.start_ns + 1e9 * SETTLED_S, np.inf)

    def share(self) -> float:
        """Return the link utilization after slow start, from received bytes."""
        received = self.record.received
        late = received[received["time_ns"] >= self.start_ns + 1e9 * SETTLED_S]
        if len(late) < 2:
            return float("nan")
        took_ns = int(late["time_ns"][-1]) - int(late["time_ns"][0])
        bytes_ = int(late["bytes"][-1]) - int(late["bytes"][0])
        return 8e9 * bytes_ / took_ns / (RATE_BPS * SEGMENT_BYTES / FRAME_BYTES)


async def fill(options: argparse.Namespace, run: Run, name: str, kind: Kind) -> Outcome:
    """Run one flow that fills the link."""
    flow = TcpFlow(1, "h1", "h2", duration_s=options.duration, congestion=kind.congestion,
                   ecn=kind.ecn)  # fmt: skip
    async with (
        network(options, run, name.lower(), options.ecn_program, 1) as (net, _),
        Traffic(net, [flow]) as traffic,
    ):
        records = await traffic.finish()
    record = records[1]
    assert isinstance(record, TcpRecord)
    accounting = PacketAccounting.from_network(net, records)
    trace = read_trace(net, "s1", "h1", "s2", stamped=is_stamped(options))
    net.discard()
    dropped = accounting.dropped_by_switches["s1"]["queue_drops"]
    return Outcome(trace, record, dropped, traffic.start_ns, accounting)


# --- load of the link ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Monitored:
    """Data of all delivered probes except the first, and ground truth of the same probes."""

    delivered: int  # number of delivered probes
    reported: NDArray[np.void]
    sent: Sent
    probes: int  # number of sent probes
    link: tuple[int, int]  # number of the first switch and number of its port
    start_ns: int
    accounting: PacketAccounting

    @property
    def reported_bps(self) -> NDArray[np.float64]:
        """Rate of the port between two probes, according to the second probe."""
        us = self.reported["cur_time"] - self.reported["last_time"]
        return 8e6 * self.reported["byte_cnt"] / us

    @property
    def since_s(self) -> NDArray[np.float64]:
        """Departure time of the second probe of each pair, since the start of traffic."""
        return (self.sent.left_ns - self.start_ns) / 1e9


def make_flows(duration_s: float) -> list[Flow | TcpFlow]:
    """Return a constant UDP flow, and a TCP flow that fills the link in the second third."""
    pps = UDP_BPS / 8 / UDP_BYTES
    return [
        Flow(1, "h1", "h2", pps, round(pps * duration_s), UDP_BYTES),
        TcpFlow(2, "h3", "h4", duration_s=duration_s / 3, after_s=duration_s / 3),
    ]


async def monitor(options: argparse.Namespace, run: Run) -> Monitored:
    """Send probes while the load of the link changes."""
    program = options.monitor_program
    async with network(options, run, "monitor", program, 3) as (net, switches):
        for number, switch in enumerate(switches.values(), start=1):
            await switch.write([~probe_entry(number)])
        way = [net.port(*BETWEEN), net.port("s2", "h6")]
        reader = net.run_application("h6", ProbeReader())
        async with Traffic(net, make_flows(options.duration)) as traffic:
            count = int(options.duration / PROBED_S)
            times_ns = [traffic.start_ns + round(1e9 * PROBED_S * n) for n in range(count)]
            frames = [probe(number, way, net.host("h5").MAC()) for number in range(count)]
            net.send_frames("h5", times_ns, frames)
            records: Mapping[int, AnyRecord] = await traffic.finish()
    reported = reported_by(reader.result, hop=0)
    return Monitored(
        len(reported), *matched(reported, read_sent(net, "s1", "h5", "s2")), count, (1, way[0]),
        traffic.start_ns,
        PacketAccounting.from_network(net, records),
    )  # fmt: skip
