"""A link that TCP fills: its queue under three ways to tell senders of it, and what it carries."""

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
from experiments.shared.tcp.probes import ProbeReader, Sent, probe, read_sent, reported_by
from experiments.shared.tcp.queue import Met, read_met
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import AnyRecord, Flow, Traffic
from telemark.traffic.tcp import TcpFlow, TcpRecord
from topologies.basic import Dumbbell

RATE_BPS, DELAY_US, QUEUE = 10_000_000, 1000, 40
FRAME_BYTES, SEGMENT_BYTES, ACK_BYTES = 1514, 1448, 66
BETWEEN = "s1", "s2"  # the switches at both ends of the link
SETTLED_S = 2.0  # slow start is over
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
UDP_BPS, UDP_BYTES = 3_000_000, 1000
PROBED_S = 0.05


@dataclass(frozen=True)
class Kind:
    """A way to tell a sender that it sends too much."""

    congestion: str
    ecn: bool


KINDS = {"drops": Kind("reno", False), "ECN": Kind("reno", True), "DCTCP": Kind("dctcp", True)}
"""Reno, told by a full queue or by marks; and DCTCP."""


def product_packets() -> float:
    """Delay times rate: what is on its way beside the queue, of whole frames."""
    packet_s = 8 * FRAME_BYTES / RATE_BPS
    return (2 * DELAY_US / 1e6 + packet_s + 8 * ACK_BYTES / RATE_BPS) / packet_s


def kinds_of(options: argparse.Namespace) -> dict[str, Kind]:
    """Those that hosts know: in real time DCTCP is a module of the kernel, which not all have."""
    if options.time == "virtual":
        return KINDS
    there = AVAILABLE.read_text().split()
    return {name: kind for name, kind in KINDS.items() if kind.congestion in there}


@contextlib.asynccontextmanager
async def network(
    options: argparse.Namespace, run: Run, name: str, program: str, pairs: int
) -> AsyncIterator[tuple[Network, dict[str, fy.Switch]]]:
    """A dumbbell whose switches forward, and connections to them."""
    topo = Dumbbell(pairs, rate_bps=RATE_BPS, delay_us=DELAY_US, queue_packets=QUEUE)
    stamped = is_stamped(options)
    with Network(topo, run, program=program, name=name, stamp_log=stamped) as net:
        async with connections(net) as switches:
            for switch in switches.values():
                await switch.write([+entry for entry in lpm_entries(net, switch.name)])
            yield net, switches


def is_stamped(options: argparse.Namespace) -> bool:
    """Whether switches tell when they took packets in: where that takes time, and they can."""
    return options.time == "real" and options.target == "minip4"


# --- queues -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One flow over the link."""

    met: Met
    record: TcpRecord
    dropped: int  # by the switch, for the queue was full
    start_ns: int
    accounting: PacketAccounting

    @property
    def settled(self) -> Met:
        """Without slow start."""
        return self.met.between(self.start_ns + 1e9 * SETTLED_S, np.inf)

    def share(self) -> float:
        """Of what the link can carry, once slow start is over: what the receiver got."""
        received = self.record.received
        late = received[received["time_ns"] >= self.start_ns + 1e9 * SETTLED_S]
        if len(late) < 2:
            return float("nan")
        took_ns = int(late["time_ns"][-1]) - int(late["time_ns"][0])
        bytes_ = int(late["bytes"][-1]) - int(late["bytes"][0])
        return 8e9 * bytes_ / took_ns / (RATE_BPS * SEGMENT_BYTES / FRAME_BYTES)


async def fill(options: argparse.Namespace, run: Run, name: str, kind: Kind) -> Outcome:
    """Let one flow take all that it gets."""
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
    met = read_met(net, "s1", "h1", "s2", stamped=is_stamped(options))
    net.discard()
    dropped = accounting.dropped_by_switches["s1"]["queue_drops"]
    return Outcome(met, record, dropped, traffic.start_ns, accounting)


# --- what the link carries ----------------------------------------------------------------------


@dataclass(frozen=True)
class Monitored:
    """What probes told of the link, from the second one on, and what is true."""

    told: NDArray[np.void]
    sent: Sent
    probes: int  # that were sent
    link: tuple[int, int]  # number of the first switch, and of its port
    start_ns: int
    accounting: PacketAccounting

    @property
    def reported_bps(self) -> NDArray[np.float64]:
        """What the port sent between two probes, by what the second one tells."""
        us = self.told["cur_time"] - self.told["last_time"]
        return 8e6 * self.told["byte_cnt"] / us

    @property
    def since_s(self) -> NDArray[np.float64]:
        """When the second probe of each pair left, since traffic began."""
        return (self.sent.left_ns - self.start_ns) / 1e9


def flows_of(duration_s: float) -> list[Flow | TcpFlow]:
    """A steady flow, and one of TCP that takes the rest in the second of three parts."""
    pps = UDP_BPS / 8 / UDP_BYTES
    return [
        Flow(1, "h1", "h2", pps, round(pps * duration_s), UDP_BYTES),
        TcpFlow(2, "h3", "h4", duration_s=duration_s / 3, after_s=duration_s / 3),
    ]


async def monitor(options: argparse.Namespace, run: Run) -> Monitored:
    """Probe the link while its load changes."""
    program = options.monitor_program
    async with network(options, run, "monitor", program, 3) as (net, switches):
        for number, switch in enumerate(switches.values(), start=1):
            await switch.write([~probe_entry(number)])
        way = [net.port(*BETWEEN), net.port("s2", "h6")]
        reader = net.run_application("h6", ProbeReader())
        async with Traffic(net, flows_of(options.duration)) as traffic:
            count = int(options.duration / PROBED_S)
            times_ns = [traffic.start_ns + round(1e9 * PROBED_S * n) for n in range(count)]
            frames = [probe(number, way, net.host("h5").MAC()) for number in range(count)]
            net.send_frames("h5", times_ns, frames)
            records: Mapping[int, AnyRecord] = await traffic.finish()
    told = reported_by(reader.result, hop=0)
    return Monitored(
        told[1:], read_sent(net, "s1", "h5", "s2"), count, (1, way[0]), traffic.start_ns,
        PacketAccounting.from_network(net, records),
    )  # fmt: skip
