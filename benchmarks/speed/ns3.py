"""Virtual time compared with ns-3 for the same fabrics, flows and packets.

The fabrics are leaf-spine fabrics of IPv4 routers as in virtual.py. ns-3 gets the same nodes,
links, routes and flows. Both simulators must deliver every packet over the same number of routers.
Rates are per CPU time of the simulation. The benchmark needs ns-3: either the Debian package or,
better, your own optimised build.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.speed.shared.ns3 import Ns3
from benchmarks.speed.virtual import (
    FABRICS,
    LINK,
    RATE_PPS,
    Sample,
    add_options,
    draw_rounds,
    make_flows,
    measure,
    scale_by_switches,
)
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, Table, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import HEADERS_BYTES, Flow
from topologies.leaf_spine import LeafSpine

SOURCE = Path(__file__).parent / "cpp" / "fabric.cc"
LIBRARIES = ("ns3-core", "ns3-network", "ns3-internet", "ns3-point-to-point")
# link rate in bit/s and link delay in ns; in virtual time, host links have no rate
HOST_LINK = (10**11, 0)


@dataclass(frozen=True)
class Outcome:
    """Results of one run of ns-3 for one fabric."""

    received: int
    hops: int
    set_up_s: float
    took_s: float
    memory_mb: float
    has_log: int  # 1 if ns-3 was compiled with logging, else 0


@dataclass(frozen=True)
class Pair:
    """One run of one fabric in both simulators; rates are per CPU time of one core."""

    round: int
    switches: int
    packets: int
    hops: int
    minip4_hops_per_s: float
    ns3_hops_per_s: float
    times: float  # rate of minip4 divided by the rate of ns-3
    minip4_memory_mb: float
    ns3_memory_mb: float
    minip4_set_up_s: float
    ns3_set_up_s: float


def parse_outcome(output: str) -> Outcome:
    """Parse the scenario output, in which each line is a name and a number. Raises TestbedError."""
    try:
        values = {name: float(value) for name, value in map(str.split, output.splitlines())}
        whole = {name: int(values.pop(name)) for name in ("received", "hops", "has_log")}
        return Outcome(**whole, **values)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        raise TestbedError(f"ns-3: cannot parse its output: {output[:200]!r}") from None


def describe(topo: LeafSpine, flows: list[Flow]) -> Iterator[str]:
    """Yield the input lines of cpp/fabric.cc: nodes, links, routes, flows."""
    numbers = {name: number for number, name in enumerate([*topo.switches(), *topo.hosts()])}
    addresses = {host: topo.nodeInfo(host)["ip"].split("/")[0] for host in topo.hosts()}
    yield from ("router" for _ in topo.switches())
    yield from (f"host {addresses[host]}" for host in topo.hosts())
    for one, other in topo.links():
        rate_bps, delay_ns = HOST_LINK
        if one not in addresses and other not in addresses:
            rate_bps, delay_ns = LINK["rate_bps"], 1000 * LINK["delay_us"]
        yield f"link {numbers[one]} {numbers[other]} {rate_bps} {delay_ns}"
        for host, leaf in ((one, other), (other, one)):
            if host in addresses:
                yield f"route {numbers[host]} 0.0.0.0 0 {numbers[leaf]}"
                yield f"route {numbers[leaf]} {addresses[host]} 32 {numbers[host]}"
    for switch in topo.switches():
        for prefix, next_hops in topo.routes(switch):
            address, _, length = prefix.partition("/")
            hops = " ".join(str(numbers[hop]) for hop in next_hops)
            yield f"route {numbers[switch]} {address} {length} {hops}"
    for flow in flows:
        yield (
            f"flow {numbers[flow.source]} {numbers[flow.destination]} {round(1e9 * flow.after_s)} "
            f"{round(1e9 / RATE_PPS)} {flow.count} {flow.size - HEADERS_BYTES}"
        )


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    ns3 = Ns3(run.folder, SOURCE, LIBRARIES)
    sizes = sorted(options.switches or ([10, 100] if options.quick else FABRICS))
    options.packets = options.packets or (30 if options.quick else 100)
    pairs: list[Pair] = []
    checks: list[Check] = []
    rounds = 1 if options.quick else options.rounds
    for number in range(rounds):
        for switches in sizes:
            ours, accounting = await measure(number, switches, options, run)
            run.progress.update(f"{switches} switches in ns-3")
            topo = LeafSpine(**FABRICS[switches], **LINK)
            theirs = parse_outcome(
                ns3.run("\n".join(describe(topo, make_flows(topo, options, run.seed))))
            )
            name = f"{switches} switches, round {number + 1}"
            checks += [
                Check(f"{name}: packets received", ours.packets, accounting.sent),
                Check(f"{name}: packets received in ns-3", theirs.received, ours.packets),
                Check(f"{name}: hops in ns-3", theirs.hops, ours.hops),
            ]
            pairs.append(pair(ours, theirs))
    kind = "with logging compiled in: slower" if theirs.has_log else "optimised"
    return Report(
        samples=[asdict(each) for each in pairs],
        checks=checks,
        metrics={
            "ns-3": f"{ns3.version}, {kind}",
            "times ns-3": {n: statistics.median(select(pairs, n, "times")) for n in sizes},
        },
        figure=draw(pairs),
        caption=f"{options.flows:,} flows over a leaf-spine fabric, in minip4 and ns-3 "
        f"{ns3.version} ({kind}), on one core; median, minimum and maximum of "
        f"{plots.count(rounds, 'round')}.",
        tables=[summary(pairs, f"minip4 in virtual time and ns-3 {ns3.version} ({kind})")],
    )


def pair(ours: Sample, theirs: Outcome) -> Pair:
    """Combine the results of both simulators for one fabric in one round."""
    rate = theirs.hops / theirs.took_s
    return Pair(
        ours.round, ours.switches, ours.packets, ours.hops, ours.hops_per_s, rate,
        ours.hops_per_s / rate, ours.memory_mb, theirs.memory_mb, ours.set_up_s, theirs.set_up_s,
    )  # fmt: skip


def select(pairs: list[Pair], switches: int, what: str) -> list[float]:
    """Return the values of one column for one fabric size."""
    return [getattr(each, what) for each in pairs if each.switches == switches]


def summary(pairs: list[Pair], title: str) -> Table:
    """Return a table of medians.

    Memory is the min over rounds: later rounds include larger fabrics.
    """
    columns = ("switches", "million hops", "minip4, hops/s", "ns-3, hops/s", "times",
               "min - max", "minip4, MB", "ns-3, MB", "set-up, s", "ns-3, s")  # fmt: skip
    rows = []
    for size in sorted({each.switches for each in pairs}):
        middle = {what: statistics.median(select(pairs, size, what)) for what in
                  ("minip4_hops_per_s", "ns3_hops_per_s", "times", "minip4_set_up_s",
                   "ns3_set_up_s", "hops")}  # fmt: skip
        times = select(pairs, size, "times")
        rows.append((
            size, middle["hops"] / 1e6, round(middle["minip4_hops_per_s"]),
            round(middle["ns3_hops_per_s"]), middle["times"],
            f"{min(times):.1f} - {max(times):.1f}",
            round(min(select(pairs, size, "minip4_memory_mb"))),
            round(min(select(pairs, size, "ns3_memory_mb"))), middle["minip4_set_up_s"],
            middle["ns3_set_up_s"],
        ))  # fmt: skip
    return table(f"{title}: hops/s of CPU time of one core, medians of the rounds", columns, rows)


def draw(pairs: list[Pair]) -> Figure:
    """Draw the hop rates of both simulators against the number of switches."""
    figure, (axes,) = plots.figure()
    sizes = sorted({each.switches for each in pairs})
    for what, label in (("minip4_hops_per_s", "minip4"), ("ns3_hops_per_s", "ns-3")):
        rates = [[rate / 1e6 for rate in select(pairs, size, what)] for size in sizes]
        draw_rounds(axes, sizes, rates, label)
    scale_by_switches(axes, sizes)
    axes.set_yscale("log")
    axes.set_ylabel("Switch-hop rate (millions/s)")
    plots.legend(axes, 2)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
