"""How fast is virtual time, and how large may a network be? Leaf-spine fabrics of IPv4 routers.

The same 10,000 flows cross fabrics of 10 to 1,000 switches, whose controller fills their tables
over P4Runtime. A switch-hop is one packet through one switch: parsed, routed, queued, over a link
to the next node. Rates are by CPU time, so that a busy machine disturbs them less.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from controllers.connection import connection
from controllers.routing import routing_entries
from testbed import cli, plots
from testbed.books import Books
from testbed.errors import TestbedError
from testbed.isolation import Run
from testbed.network import Network
from testbed.results import Check, Report, table
from testbed.traffic import Flow, Traffic
from topologies.leaf_spine import LeafSpine

# Switches -> fabric: pods x (leaves + spines) + spines x cores.
FABRICS = {
    10: {"leaves": 6, "spines": 4},
    30: {"leaves": 20, "spines": 10},
    100: {"pods": 4, "leaves": 20, "spines": 4, "cores": 1},
    300: {"pods": 10, "leaves": 24, "spines": 5, "cores": 2},
    1000: {"pods": 20, "leaves": 40, "spines": 8, "cores": 5},
}
LINK = {"rate_bps": 10**11, "delay_us": 5}
RATE_PPS = 100  # of each flow


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--switches", type=int, choices=FABRICS, nargs="+", metavar="N",
        help=f"sizes to run, of {', '.join(map(str, FABRICS))} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, default=10_000, metavar="N",
        help="flows between random hosts (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N", help="of each flow (default: 100)"
    )


@dataclass(frozen=True)
class Size:
    """What one fabric took. Rates and costs are by CPU time, with one core."""

    switches: int
    set_up_s: float  # of the network and its tables
    packets: int  # received
    hops: int
    hops_per_s: float
    events_per_s: float
    ns_per_hop: float
    memory_mb: float  # of the whole process


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time != "virtual":
        raise TestbedError("this measures virtual time: add --time virtual")
    options.switches = sorted(options.switches or ([10, 100] if options.quick else FABRICS))
    options.packets = options.packets or (30 if options.quick else 100)
    sizes, checks = [], []
    for switches in options.switches:
        size, books = await measure(switches, options, run)
        sizes.append(size)
        checks += books.checks(f"{switches} switches")
        lost = Check(f"{switches} switches: packets lost", books.sent - books.received, 0)
        checks.append(lost)
    return Report(
        samples=[asdict(size) for size in sizes],
        checks=[*checks, *claims(sizes)],
        figure=draw(sizes, options.flows),
        tables=[summary(sizes)],
    )


async def measure(switches: int, options: argparse.Namespace, run: Run) -> tuple[Size, Books]:
    """Run one fabric."""
    began_s = time.process_time()
    topo = LeafSpine(**FABRICS[switches], **LINK)
    name = f"{switches}-switches"
    with Network(topo, run, program="p4src/routing/router.p4", name=name, capture=False) as net:
        for switch in topo.switches():
            async with connection(net, switch) as controller:
                entries = routing_entries(net, switch, topo.routes(switch))
                await controller.write([+entry for entry in entries])
        set_up_s = time.process_time() - began_s
        async with Traffic(net, flows_of(topo, options, run.seed), run.clock.now_ns()) as traffic:
            began_s, before = time.process_time(), net.plant.events
            records = await traffic.finish()
            took_s, events = time.process_time() - began_s, net.plant.events - before
            memory_mb = resident_mb()
    hops = sum(counters["engine"]["received"] for counters in net.counters.values())
    books = Books.of(net, records)
    return Size(
        switches, set_up_s, books.received, hops, hops / took_s, events / took_s,
        1e9 * took_s / hops, memory_mb,
    ), books  # fmt: skip


def flows_of(topo: LeafSpine, options: argparse.Namespace, seed: int) -> list[Flow]:
    """Flows between random pairs of hosts, that begin at random within one packet's time."""
    dice = np.random.default_rng(seed)
    hosts = topo.hosts()
    pairs = [dice.choice(len(hosts), 2, replace=False) for _ in range(options.flows)]
    starts_s = dice.random(options.flows) / RATE_PPS
    return [
        Flow(number, hosts[a], hosts[b], RATE_PPS, options.packets, after_s=float(start_s))
        for number, ((a, b), start_s) in enumerate(zip(pairs, starts_s, strict=True))
    ]


def resident_mb() -> float:
    """Memory of this process, in 10^6 bytes: /proc/self/statm, see proc(5)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def claims(sizes: list[Size]) -> list[Check]:
    """What issue and documentation promise. Expected values are limits: tolerances reach to 0."""
    smallest, largest = sizes[0], sizes[-1]
    return [
        Check("millions of hops a second, smallest fabric (at least 1)",
              min(smallest.hops_per_s / 1e6, 1), 1),
        Check("memory of the largest fabric, GB (below 8)", largest.memory_mb / 1e3, 0, 8),
        Check("set-up of the largest fabric, s (below 10)", largest.set_up_s, 0, 10),
    ]  # fmt: skip


def summary(sizes: list[Size]) -> object:
    return table(
        "Virtual time, one core",
        ("switches", "set-up, s", "packets", "hops/s", "events/s", "ns a hop", "memory, MB"),
        [
            (s.switches, s.set_up_s, s.packets, round(s.hops_per_s), round(s.events_per_s),
             s.ns_per_hop, round(s.memory_mb))
            for s in sizes
        ],
    )  # fmt: skip


def draw(sizes: list[Size], flows: int) -> Figure:
    """Left: events a second. Right: memory. Both against the number of switches."""
    figure, (left, right) = plots.figure(f"Virtual time: {flows:,} flows over a leaf-spine", 2)
    switches = [size.switches for size in sizes]
    left.plot(switches, [size.events_per_s / 1e6 for size in sizes], label="events")
    left.plot(switches, [size.hops_per_s / 1e6 for size in sizes], label="switch-hops")
    left.set_ylabel("Millions a second, on one core")
    left.set_ylim(bottom=0)
    left.legend()
    right.plot(switches, [size.memory_mb for size in sizes])
    right.set_ylabel("Memory of the whole process (MB)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(switches, [f"{number:,}" for number in switches])
        axes.minorticks_off()
        axes.set_xlabel("Switches")
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
