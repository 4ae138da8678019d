"""Count-min sketch: how large are its errors, and do they stay within the theoretical bound?

This is a template: copy this script, p4src/count_min/ and controllers/count_min.py, and edit the
copies. Hosts send flows of different sizes over a leaf-spine fabric. The switches count the packets
of each flow in sketches. The sum of the sketches of all spines counts all N packets. Theory
(Cormode and Muthukrishnan 2005): a sketch has e / eps counters per row and ln(1 / delta) rows. No
estimate is below the true value, and an estimate exceeds it by more than eps N with a probability
of at most delta.

Claim: No estimate is below ground truth, and errors above eps N are as rare as theory says.

Published: Cormode and Muthukrishnan on count-min sketches (2005): an estimate exceeds the true
value by more than eps N with a probability of at most delta = e^-rows.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import finsy as fy
import numpy as np
from matplotlib.figure import Figure

from controllers.connection import connections, cpu_ports
from controllers.count_min import ROWS, CountMin
from controllers.routing import routing_entries
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.capacity_probe import probe
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow, Traffic
from topologies.leaf_spine import LeafSpine

DELTA = math.exp(-ROWS)
UDP = 17


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flows", type=cli.positive_int, default=100, metavar="N",
                        help="default: %(default)s")  # fmt: skip
    cli.add_rate_option(parser, 1000, "each flow")


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    if run.target == "bmv2":  # bmv2 has a limited capacity
        async with network(0.1, "probe", run) as (net, _, _):
            capacity = await probe(net, make_flows(net.topo, options, run.seed), run)
        options.rate = capacity.rate(options.rate)
    samples, checks = [], []
    many = (0.1, 0.05) if options.quick else (0.5, 0.2, 0.1, 0.05, 0.02)
    for eps, (found, accounting) in zip(
        many, await sweep(measure, [(eps, options) for eps in many], run), strict=True
    ):
        errors = np.array([sample["estimate"] - sample["packets"] for sample in found])
        above = np.mean(errors > eps * sum(sample["packets"] for sample in found))
        # By theory, at most a fraction DELTA of all flows exceeds the bound; chance may add five
        # standard deviations.
        limit = DELTA + 5 * math.sqrt(DELTA * (1 - DELTA) / len(found))
        checks += [
            Check(f"eps {eps:g}: estimates below ground truth", int((errors < 0).sum()), 0),
            Check(f"eps {eps:g}: fraction with an error above eps N", above, 0, limit),
            *accounting.checks(f"eps {eps:g}"),
        ]
        samples += found
    caption = (
        f"Error of count-min sketch estimates, normalized to the number N of all packets, "
        f"{plots.runs(1, options.time)}."
    )
    return Report(samples, checks, figure=draw(samples), caption=caption)


@asynccontextmanager
async def network(
    eps: float, name: str, run: Run
) -> AsyncIterator[tuple[Network, Mapping[str, fy.Switch], CountMin]]:
    """Build a network; yield the network, connections to its switches, and their sketch."""
    topo = LeafSpine(leaves=4, spines=2)
    sketch = CountMin(math.ceil(math.e / eps), run.seed)
    with Network(
        topo, run, program="p4src/count_min/count_min.p4", defines={"WIDTH": sketch.width},
        name=name, switch_options=cpu_ports(topo), capture=False,
    ) as net:  # fmt: skip
        async with connections(net) as switches:
            for switch in switches.values():
                entries = routing_entries(net, switch.name, topo.routes(switch.name))
                await switch.write([+entry for entry in entries])
                await switch.write([~entry for entry in sketch.entries()])
            yield net, switches, sketch


async def measure(
    eps: float, options: argparse.Namespace, run: Run
) -> tuple[list[dict[str, Any]], PacketAccounting]:
    """Run one network; return a sample per flow and the packet accounting."""
    async with network(eps, f"eps-{eps:g}", run) as (net, switches, sketch):
        spines = [name for name, place in net.topo.places.items() if place.tier == "spine"]
        flows = make_flows(net.topo, options, run.seed)
        async with Traffic(net, flows) as traffic:
            records = await traffic.finish()
        counters = np.sum([await sketch.read(switches[name]) for name in spines], axis=0)
        samples = []
        for flow in flows:
            src_addr, dst_addr = net.host(flow.source).IP(), net.host(flow.destination).IP()
            places = sketch.places(src_addr, dst_addr, UDP, flow.source_port, flow.port)
            samples.append({
                "eps": eps, "width": sketch.width, "flow": flow.id,
                "packets": len(records[flow.id].sent),
                "estimate": sketch.estimate(counters, places),
            })  # fmt: skip
    return samples, PacketAccounting.from_network(net, records)


def make_flows(topo: LeafSpine, options: argparse.Namespace, seed: int) -> list[Flow]:
    """Return flows between random hosts; flow n has 1 / n times as many packets as the first flow.

    The first flow lasts two seconds.
    """
    rng = np.random.default_rng(seed)
    flows = []
    for n in range(1, options.flows + 1):
        source, destination = rng.choice(topo.hosts(), 2, replace=False)
        count = math.ceil(2 * options.rate / n)
        flows.append(Flow(n, source, destination, options.rate, count, after_s=rng.random()))
    return flows


def draw(samples: Sequence[dict[str, Any]]) -> Figure:
    """Draw the error over the sketch width, and the bound by theory."""
    figure, (axes,) = plots.figure()
    widths = sorted({sample["width"] for sample in samples})
    errors = [[s["estimate"] - s["packets"] for s in samples if s["width"] == w] for w in widths]
    total = sum(sample["packets"] for sample in samples) / len(widths)
    axes.plot(widths, [max(e) / total for e in errors], label="max")
    axes.plot(widths, [np.mean(e) / total for e in errors], label="mean")
    axes.plot(widths, math.e / np.array(widths), "k-", label="theory (bound)")
    axes.set(xlabel="Counters per row, w", ylabel="Error (normalized to N)", xscale="log")
    axes.set_yscale("log", nonpositive="mask")
    axes.set_xticks(widths, widths)
    axes.minorticks_off()
    plots.legend(axes, columns=3)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
