"""Speed of virtual time and memory of networks, for leaf-spine fabrics of IPv4 routers.

The same 10,000 flows cross three-tier fabrics of 10 to 1,000 switches. A controller fills the
tables over P4Runtime. A switch-hop is one packet through one switch, which parses, routes and
queues it and sends it over a link to the next node. All sizes run in each round, and results are
medians over rounds. Rates are per CPU time, but other load on the machine still competes for cache
and memory.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mininet.topo import Topo

from benchmarks.speed.shared.claims import AtMost, claims_table, ratios
from benchmarks.speed.shared.pipeline import FRAMES, cost_ns, frame
from controllers.connection import connection
from controllers.routing import routing_entries
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Lpm
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.backends.virtual.network import VirtualBackend
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, Table, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.patterns import Poisson
from topologies.leaf_spine import LeafSpine

# number of switches -> fabric, which has pods * (leaves + spines) + spines * cores switches
FABRICS = {
    10: {"pods": 2, "leaves": 2, "spines": 2, "cores": 1},
    30: {"pods": 3, "leaves": 6, "spines": 3, "cores": 1},
    100: {"pods": 4, "leaves": 20, "spines": 4, "cores": 1},
    300: {"pods": 10, "leaves": 24, "spines": 5, "cores": 2},
    1000: {"pods": 20, "leaves": 40, "spines": 8, "cores": 5},
}
ROUTER = "p4src/routing/router.p4"
LINK = {"rate_bps": 10**11, "delay_us": 5}
RATE_PPS = 100  # packets/s of each flow
ROUNDS, QUICK_ROUNDS = 5, 1
LOAD, FRAME_BYTES, LINE_BPS = 0.5, 1000, 10**9  # load of the queue that is compared with theory


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--switches", type=int, choices=FABRICS, nargs="+", metavar="N",
        help=f"fabric sizes: {', '.join(map(str, FABRICS))} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, default=10_000, metavar="N",
        help="flows between random hosts (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N", help="packets per flow (default: 100)"
    )
    parser.add_argument(
        "--rounds", type=cli.positive_int, default=ROUNDS, metavar="N",
        help="runs of each size (default: %(default)s; 1 with --quick)",
    )  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """Results of one run of one fabric; rates and costs are per CPU time of one core."""

    round: int
    switches: int
    set_up_s: float  # set-up time of the network and its tables
    packets: int  # number of received packets
    hops: int
    hops_per_s: float
    events_per_s: float
    ns_per_hop: float
    memory_mb: float  # memory of the whole process


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    sizes = sorted(options.switches or ([10, 100] if options.quick else FABRICS))
    options.packets = options.packets or (30 if options.quick else 100)
    alone, alone_ns = make_pipeline(), []
    samples: list[Sample] = []
    checks: list[Check] = []
    rounds = QUICK_ROUNDS if options.quick else options.rounds
    for number in range(rounds):
        alone_ns.append(cost_ns(alone, FRAMES, 100))
        for switches in sizes:
            sample, accounting = await measure(number, switches, options, run)
            samples.append(sample)
            name = f"{switches} switches, round {number + 1}"
            checks += [check for check in accounting.checks(name) if not check.passed]
            checks.append(Check(f"{name}: packets lost", accounting.sent - accounting.received, 0))
    promised = [] if options.quick else claims(samples, alone_ns)
    promised.append(await queueing(options, run))
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=[*checks, *promised],
        metrics={
            "median ns per hop": {n: median(samples, n, "ns_per_hop") for n in sizes},
            "median ns per packet, pipeline alone": statistics.median(alone_ns),
        },
        figure=draw(samples),
        caption=f"Virtual time: {options.flows:,} flows over a leaf-spine fabric on one core; "
        f"median, minimum and maximum of {plots.count(rounds, 'round')}. (a) Rates of events and "
        "of switch-hops per CPU time. (b) Memory.",
        tables=[summary(samples), claims_table(promised)],
    )


async def measure(
    number: int, switches: int, options: argparse.Namespace, run: Run
) -> tuple[Sample, PacketAccounting]:
    """Run one fabric."""
    began_s = time.process_time()
    topo = LeafSpine(**FABRICS[switches], **LINK)
    name = f"{switches}-switches-{number}"
    with Network(topo, run, program=ROUTER, name=name, capture=False) as net:
        assert isinstance(net.backend, VirtualBackend)
        for switch in topo.switches():
            async with connection(net, switch) as controller:
                entries = routing_entries(net, switch, topo.routes(switch))
                await controller.write([+entry for entry in entries])
        set_up_s = time.process_time() - began_s
        flows, start_ns = make_flows(topo, options, run.seed), run.clock.now_ns()
        async with Traffic(net, flows, start_ns) as traffic:
            began_s, before = time.process_time(), net.backend.events
            await run.clock.sleep_until(start_ns + round(1e9 * options.packets / RATE_PPS) + 10**8)
            took_s, events = time.process_time() - began_s, net.backend.events - before
            records = await traffic.finish()
            memory = resident_mb()
    hops = sum(counters["engine"]["received"] for counters in net.counters.values())
    accounting = PacketAccounting.from_network(net, records)
    return Sample(
        number, switches, set_up_s, accounting.received, hops, hops / took_s, events / took_s,
        1e9 * took_s / hops, memory,
    ), accounting  # fmt: skip


class Line(Topo):
    """Two hosts and one switch with a slow link to the second host."""

    def build(self) -> None:
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch)
        self.addLink(switch, self.addHost("h2"), rate_bps=LINE_BPS, queue_packets=10**6)


async def queueing(options: argparse.Namespace, run: Run) -> Check:
    """Compare the mean waiting time with M/D/1 (Pollaczek-Khinchine).

    By theory it is load / (2 (1 - load)) service times.
    """
    count, service_ns = (10**5 if options.quick else 10**6), FRAME_BYTES * 8 * 1e9 / LINE_BPS
    with Network(Line(), run, program=ROUTER, name="queue", capture=False) as net:
        async with connection(net, "s1") as controller:
            await controller.write([+entry for entry in routing_entries(net, "s1", [])])
        rate_pps = LOAD / service_ns * 1e9
        flow = Flow(1, "h1", "h2", rate_pps, count, FRAME_BYTES, pattern=Poisson())
        async with Traffic(net, [flow], run.clock.now_ns()) as traffic:
            received = (await traffic.finish())[1].received
    if len(received) < count:
        raise TestbedError(f"the M/D/1 queue lost {count - len(received)} packets")
    wait_ns = np.mean(received["received_ns"] - received["sent_ns"]) - service_ns
    expected_ns = LOAD / (2 * (1 - LOAD)) * service_ns
    off = 100 * abs(wait_ns / expected_ns - 1)
    # The mean of fewer packets has a larger random error.
    return AtMost("mean M/D/1 waiting time: error, %, at most", off, 3 if options.quick else 1)


def make_flows(topo: LeafSpine, options: argparse.Namespace, seed: int) -> list[Flow]:
    """Return flows between random pairs of hosts, with random starts within one packet interval."""
    rng = np.random.default_rng(seed)
    hosts = topo.hosts()
    pairs = [rng.choice(len(hosts), 2, replace=False) for _ in range(options.flows)]
    starts_s = rng.random(options.flows) / RATE_PPS
    return [
        Flow(number, hosts[a], hosts[b], RATE_PPS, options.packets, after_s=float(start_s))
        for number, ((a, b), start_s) in enumerate(zip(pairs, starts_s, strict=True))
    ]


def resident_mb() -> float:
    """Return the memory of this process in MB (10^6 bytes), from statm in proc(5)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def median(samples: list[Sample], switches: int, what: str) -> float:
    return statistics.median(getattr(s, what) for s in samples if s.switches == switches)


def memory_mb(samples: list[Sample], switches: int) -> float:
    """Return the min memory over rounds.

    In later rounds, memory includes that of larger fabrics.
    """
    return min(sample.memory_mb for sample in samples if sample.switches == switches)


def make_pipeline() -> Callable[[int], object]:
    """Return a function that runs FRAMES packets through the router pipeline n times."""
    engine = Engine(compile_p4(ROUTER).bmv2_json)
    routing = "RouterIngress.routing"
    engine.table_add(f"{routing}.routes", [Lpm(0x0A000000, 8)], f"{routing}.send", [2, 2])
    frames = [frame(0x0A000000 + number) for number in range(FRAMES)]
    assert all(engine.process(1, each, 0) for each in frames[:100])  # frames are forwarded
    return lambda rounds: engine.repeat(1, frames, rounds, 0)


def claims(samples: list[Sample], alone_ns: Sequence[float]) -> list[Check]:
    """Return the claims. Costs are compared within rounds, because other load affects them equally.

    `alone_ns` is for each round the CPU time per packet of the pipeline without I/O.
    """
    sizes = sorted({sample.switches for sample in samples})
    smallest, largest = sizes[0], sizes[-1]
    small_ns, large_ns = (
        [s.ns_per_hop for s in samples if s.switches == size] for size in (smallest, largest)
    )

    memory = memory_mb(samples, largest) / memory_mb(samples, smallest)
    return [
        AtMost.of_rounds(f"cost per hop, {smallest} switches / pipeline alone, at most",
                         ratios(small_ns, alone_ns), 6),
        AtMost.of_rounds(f"cost per hop, {largest} switches / {smallest} switches, at most",
                         ratios(large_ns, small_ns), 1.5),
        AtMost(f"memory, {largest} switches / {smallest} switches, at most", memory, 3),
    ]  # fmt: skip


def summary(samples: list[Sample]) -> Table:
    columns = ("switches", "set-up, s", "hops/packet", "hops/s", "events/s", "ns/hop",
               "min - max", "memory, MB")  # fmt: skip
    rows = []
    for size in sorted({sample.switches for sample in samples}):
        ours = [sample for sample in samples if sample.switches == size]
        costs = [sample.ns_per_hop for sample in ours]
        hops_per_s, events_per_s = (
            round(median(samples, size, what)) for what in ("hops_per_s", "events_per_s")
        )
        rows.append((
            size, median(samples, size, "set_up_s"), ours[0].hops / ours[0].packets, hops_per_s,
            events_per_s, statistics.median(costs), f"{min(costs):.0f} - {max(costs):.0f}",
            round(memory_mb(samples, size)),
        ))  # fmt: skip
    return table("Virtual time on one core: medians over rounds", columns, rows)


def draw(samples: list[Sample]) -> Figure:
    """Draw the event rate (left) and the memory (right) over the number of switches."""
    figure, (left, right) = plots.figure(2)
    switches = sorted({sample.switches for sample in samples})
    for what, label in (("events_per_s", "events"), ("hops_per_s", "switch-hops")):
        of_sizes = [[getattr(s, what) / 1e6 for s in samples if s.switches == n] for n in switches]
        draw_rounds(left, switches, of_sizes, label)
    left.set_ylabel("Rate (millions/s)")
    left.set_ylim(bottom=0)
    plots.legend(left, 2)
    right.plot(switches, [memory_mb(samples, size) for size in switches])
    right.set_ylabel("Memory of the process (MB)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        scale_by_switches(axes, switches)
    return figure


def draw_rounds(
    axes: Axes, xs: Sequence[float], values: Sequence[Sequence[float]], label: str
) -> None:
    """Draw the median over rounds at each x, with minimum and maximum."""
    middle = [statistics.median(rounds) for rounds in values]
    low = [m - min(rounds) for m, rounds in zip(middle, values, strict=True)]
    high = [max(rounds) - m for m, rounds in zip(middle, values, strict=True)]
    axes.errorbar(xs, middle, yerr=[low, high], label=label)


def scale_by_switches(axes: Axes, sizes: Sequence[int]) -> None:
    """Set a logarithmic x axis for fabrics of these sizes."""
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("Switches")


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
