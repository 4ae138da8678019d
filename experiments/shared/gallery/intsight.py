"""Scenarios and numbers of IntSight's paper: topologies, flows, and entries of the switches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from controllers.connection import connections
from controllers.forwarding import forwarding_entries
from experiments.shared.int import on_bmv2
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import ParkingLot, Ring

# bytes of a frame without telemetry; relative deviation of packet intervals
FRAME_BYTES, JITTER = 1481, 0.1
TELEMETRY_BYTES = 33
EPOCH_SHIFT = 16
EPOCH_S = 2.0**EPOCH_SHIFT / 1e6
RATE_BPS, QUEUE = 100_000_000, 1125  # rate and queue length (packets) of links between switches
PACKET_US = 8e6 * (FRAME_BYTES + TELEMETRY_BYTES) / RATE_BPS
LATENCY_US, QUEUE_LIMIT = 15_625, 140  # from these values on, a switch is a contention point
BURST_PPS, BURST_S, BURST_START_S = 8310, 0.1, 30.0
SESSION = 500
BMV2_SLOWER = 10
LEAD_NS = 3_000_000_000  # time until the flows start
# published: number of packets at N3 in each epoch, and rate of the red flow in each second
EPOCHS_5C, PACKETS_5C = range(-4, 6), (331, 332, 329, 333, 668, 696, 331, 334, 335, 329)
SECONDS_6B = range(22, 42)
MBPS_6B = (30.0, 30.0, 30.0, 29.9, 28.7, 25.7, 24.9, 24.4, 24.5, 24.6, 25.0, 25.8, 26.6, 28.0,
           29.4, 30.1, 30.0, 30.0, 30.0, 29.9)  # fmt: skip
# Scenario, source, claim, number, accepted range, and field of the samples. bmv2 measures only the
# first row, and short runs measure the first five.
PUBLISHED = (
    ("figure 5", "Figure 5(b)", "flows with the published points", "5 of 5", (5, 5), "matching"),
    ("figure 5", "Figure 5(b)", "epochs with suspicion", "2", (2, 2), "suspicion"),
    ("figure 5", "Figure 5(b)", "epochs with contention", "2", (2, 2), "contention"),
    ("figure 5", "Figure 5(b)", "late packets of the red flow", "58", (58, 58), "late"),
    ("figure 6", "figure 6, data", "flows with the published points", "5 of 5", (5, 5), "matching"),
    ("figure 6", "figure 6, data", "epochs with contention", "210", (209, 211), "contention"),
    ("figure 6", "figure 6, data", "epochs below 25 Mbit/s", "59", (44, 74), "low"),
    ("figure 6", "Figure 6(b)", "epochs with loss", "155", (147, 163), "lossy"),
    ("figure 6", "Figure 6(b)", "bandwidth (Mbit/s), 28 to 32 s", "24.6", (24.1, 25.1), "mbps"),
    ("figure 6", "Figure 6(b)", "loss (%), 28 to 32 s", "17.7", (15.2, 20.2), "loss"),
)

Rate = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Limits:
    """Thresholds at which a switch sets the bits of contention and suspicion."""

    queue: int  # packets in the queue
    bytes: int  # bytes of a flow in an epoch


@dataclass(frozen=True)
class PathFlow:
    """Flow, its switches, its rate (Mbit/s) at a time (s), and its objectives (0: none)."""

    number: int
    source: str
    destination: str
    switches: tuple[str, ...]
    rate_mbps: Rate
    max_delay_us: int = 0
    min_bytes: int = 0  # minimum number of bytes in an epoch


@dataclass(frozen=True)
class Times:
    """Pattern of a flow: send times, relative to its start."""

    times_ns: NDArray[np.uint64]

    def due_ns(self, flow: Flow, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Return the send times."""
        return self.times_ns


def send_times(
    rate_mbps: Rate, start_s: float, end_s: float, rng: np.random.Generator
) -> NDArray[np.uint64]:
    """Return send times (ns from `start_s`) of packets with jittered intervals."""
    grid_s = np.arange(start_s, end_s, 1e-4)
    # number of packets until then
    sent = np.cumsum(rate_mbps(grid_s)) * 1e-4 * 1e6 / 8 / FRAME_BYTES
    due = np.cumsum(np.maximum(rng.normal(1, JITTER, int(sent[-1]) + 1), 0))
    return (1e9 * np.interp(due[due < sent[-1]], sent, grid_s - start_s)).astype(np.uint64)


def make_flows(
    paths: Mapping[str, PathFlow], start_s: float, end_s: float, seed: int, slower: int
) -> list[Flow]:
    """Return the flows. Rates are divided by `slower`."""
    found = []
    for path in paths.values():
        rng = np.random.default_rng([seed, path.number])
        due_ns = send_times(path.rate_mbps, start_s, end_s, rng)[::slower]
        rate_pps = len(due_ns) / (end_s - start_s)
        found.append(Flow(path.number, path.source, path.destination, rate_pps, len(due_ns),
                          FRAME_BYTES, pattern=Times(due_ns)))  # fmt: skip
    return found


async def configure(
    net: Network, switch: fy.Switch, paths: Mapping[str, PathFlow], limits: Limits
) -> None:
    """Insert the entries and the clone session of a switch."""
    number = int(switch.name[1:])
    node = fy.Action("set_node", number=number, latency_us=LATENCY_US, queue=limits.queue,
                       bytes=limits.bytes)  # fmt: skip
    flows = [
        fy.P4TableEntry(
            "flows",
            match=fy.Match({"hdr.ipv4.src_addr": net.host(path.source).IP(),
                            "hdr.ipv4.dst_addr": net.host(path.destination).IP()}),
            action=fy.Action("watch", flow=path.number,
                             is_first=int(switch.name == path.switches[0]),
                             is_last=int(switch.name == path.switches[-1]),
                             max_delay_us=path.max_delay_us, min_bytes=path.min_bytes),
        )
        for path in paths.values() if switch.name in path.switches
    ]  # fmt: skip
    await switch.insert([
        fy.P4CloneSessionEntry(SESSION, replicas=[net.port(switch.name, f"a{number}")]),
        *forwarding_entries(net, switch.name), *flows,
    ])  # fmt: skip
    await switch.modify([fy.P4TableEntry("limits", action=node, is_default_action=True)])


def steady(mbps: float) -> Rate:
    """Return a constant rate."""
    return lambda at_s: np.full(len(at_s), mbps)


def burst(at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rate of the orange flow of figure 5."""
    is_burst = (at_s >= BURST_START_S) & (at_s < BURST_START_S + BURST_S)
    return np.where(is_burst, BURST_PPS * 8 * FRAME_BYTES / 1e6, 15.0)


def wave(low: float, high: float, start_s: float, end_s: float) -> Rate:
    """Return a rate that rises to `high` in the middle between two times, and falls again."""

    def rate(at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        phase = np.clip((at_s - start_s) / (end_s - start_s), 0, 1)
        return low + (high - low) * (1 - np.cos(2 * np.pi * phase)) / 2

    return rate


def switches(first: int, last: int) -> tuple[str, ...]:
    """Return the names of consecutive switches."""
    step = 1 if last >= first else -1
    return tuple(f"s{number}" for number in range(first, last + step, step))


@dataclass(frozen=True)
class Scenario:
    """A published scenario; its times are in seconds of the published run."""

    topo: type[Topo]
    options: Mapping[str, int]
    paths: Mapping[str, PathFlow]
    points: Mapping[str, tuple[int, int]]  # published contention and suspicion points
    port: tuple[str, str]  # congested link: the switch that sends, and its neighbour
    span_s: tuple[float, float]  # start and end; the start is the start of an epoch
    short_s: tuple[float, float]  # start and end with --quick and in real time

    def make_topo(self, *, has_rates: bool) -> Topo:
        """Return the topology. Each switch has a host to which it sends its reports."""
        topo = self.topo(**self.options)
        if has_rates:
            topo.linkInfo(*self.port).update(rate_bps=RATE_BPS, queue_packets=QUEUE)
        for switch in topo.switches():
            topo.addLink(topo.addHost(f"a{switch[1:]}"), switch)
        return topo


SCENARIOS = {
    "figure 5": Scenario(
        ParkingLot, {"switches": 5},
        {"red": PathFlow(1, "h1", "h2", switches(1, 5), steady(15), max_delay_us=20_000),
         "blue": PathFlow(2, "x1", "x2", switches(1, 2), steady(15)),
         "teal": PathFlow(3, "x2", "x4", switches(2, 4), steady(15)),
         "green": PathFlow(4, "x3", "x4", switches(3, 4), steady(15)),
         "orange": PathFlow(5, "x3", "x5", switches(3, 5), burst)},
        {"red": (0b100, 0), "blue": (0, 0), "teal": (0b10, 0), "green": (1, 0),
         "orange": (1, 0b111)},
        ("s3", "s4"),
        (BURST_START_S - 15.24 * EPOCH_S, 31.0), (BURST_START_S - 7.24 * EPOCH_S, 30.7),
    ),
    "figure 6": Scenario(
        Ring, {"switches": 7, "hosts": 2},
        {"red": PathFlow(1, "h1", "h8", switches(1, 4), steady(30), min_bytes=204_800),
         "teal": PathFlow(2, "h2", "h5", switches(1, 3), wave(20, 30, 10, 50)),
         "green": PathFlow(3, "h3", "h6", switches(2, 3), wave(15, 30, 15, 45)),
         "orange": PathFlow(4, "h4", "h7", switches(2, 4), wave(10, 30, 20, 40)),
         "blue": PathFlow(5, "h11", "h9", switches(6, 5), steady(30))},
        {"red": (0b10, 0), "teal": (0b10, 0), "green": (1, 0), "orange": (1, 0), "blue": (0, 0)},
        ("s2", "s3"),
        (22.0, 42.0), (29.6, 30.6),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A scenario that has run."""

    net: Network
    limits: Limits
    start_s: float  # on the time axis of the published run; an epoch starts at this time
    unaccounted: int  # number of unaccounted frames


async def send(scenario: Scenario, program: str, run: Run, *, is_short: bool) -> Sent:
    """Run the flows of a scenario. On bmv2, rates are lower, and the queues have a rate."""
    is_bmv2 = run.target == "bmv2"
    slower = BMV2_SLOWER if is_bmv2 else 1
    start_s, end_s = scenario.short_s if is_short else scenario.span_s
    start_s -= np.random.default_rng(run.seed).uniform(0, 0.1) * EPOCH_S
    flows = make_flows(scenario.paths, start_s, end_s, run.seed, slower)
    limits = Limits(QUEUE_LIMIT // slower, round(RATE_BPS / 16 * EPOCH_S / slower))
    topo = scenario.make_topo(has_rates=not is_bmv2)
    with Network(topo, run, program=program, name=f"{scenario.topo.__name__}-{run.seed}") as net:
        if is_bmv2:
            rate_pps = round(1e6 / PACKET_US / slower)
            on_bmv2.limit_queues(net, scenario.paths["red"].switches, rate_pps, QUEUE)
        async with connections(net) as switches:
            for switch in switches.values():
                await configure(net, switch, scenario.paths, limits)
            epoch_ns = 1000 << EPOCH_SHIFT
            start_ns = (run.clock.now_ns() + LEAD_NS) // epoch_ns * epoch_ns
            async with Traffic(net, flows, start_ns) as traffic:
                records = await traffic.finish()
    accounting = PacketAccounting.from_network(net, records)
    return Sent(net, limits, start_s, accounting.unaccounted_frames)
