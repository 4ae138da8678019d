"""Multipoint alternate marking: where does traffic over many paths lose packets, at what cost?

Half of the hosts of a leaf-spine fabric and of a fat-tree send to the other half, and each flow
takes one of several paths (ECMP). All flows together are measured as one multipoint flow. The
controller partitions the fabric into clusters, and computes the loss of each cluster from the
counters at its borders. The experiment compares this with two alternatives: counters only at the
edge of the fabric (end-to-end), and a watch-list entry for every flow, which gives the loss of each
link (link-by-link). One link loses more packets than the others.

Claim: The loss of each cluster and block is exact. The number of counters does not depend on the
number of flows, while link-by-link monitoring needs counters in proportion to it.

Published: RFC 9342 defines the clusters (section 5) and the delay per cluster (section 7). It has
no measurements.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from rich.table import Table

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point, mean_delay, sample_delays
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Multipoint, WatchedFlow
from controllers.connection import cpu_ports
from controllers.tables import reconcile
from experiments.shared.ampm.error_bounds import Workload, machine_for
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    add_block_option,
    add_common_options,
    flow_count,
    noise,
    reject_if_disturbed,
    reject_late_packets,
    send_and_read,
    shortest_schedule,
    worst,
)
from experiments.shared.ampm.multipoint import (
    ALL,
    FABRICS,
    METHODS,
    UNKNOWN,
    Plan,
    graph_of,
    halves,
    make_hops,
    make_plan,
    make_topo,
    measured_losses,
    read_paths,
    true_delays_ns,
    true_losses,
)
from experiments.shared.ampm.truth import Truth, read_truths
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow
from telemark.traffic.patterns import Poisson
from topologies.leaf_spine import LeafSpine

PROGRAM = "p4src/ampm/routed.p4"
FLOWS = {  # (time mode or target, --quick) -> default numbers of flows
    ("virtual", False): [8, 32, 128],
    ("virtual", True): [8, 32],
    ("real", False): [8, 32],
    ("real", True): [8],
    ("bmv2", False): [8],
    ("bmv2", True): [8],
}
# kind of monitoring -> whether delays are also measured
MONITORING = {"end-to-end": False, "clusters": False, "clusters+delay": True, "link-by-link": False}
# --quick -> min block length in real time, in which the controller must read 20 switches
REAL_BLOCK_US = {False: 2**20, True: 2**19}
LOSS = 0.005  # loss ratio of all links except the bad one
HOPS = 4  # max number of links between switches on a path
LINK_US = 2000  # max delay of a link, with jitter
NOISE_US = 50_000  # max delay that a loaded machine may add in real time
RESOLUTION_US = 1.0
# Packets of all flows in the complete blocks. One of 64 is a delay sample, and 1 % or more are lost
# in one of the clusters, so the checks of delays have values with a probability above 0.999.
MIN_PACKETS = 640
MAX_TOTAL_LOSS = 1e-9  # a flow may lose all packets if this is more probable
LINES: tuple[Any, ...] = ("-", "--")  # line style of each fabric
UNREAD = "unread blocks (per switch)"  # check that can fail on a loaded machine


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fabrics", choices=FABRICS, nargs="+", metavar="NAME",
        help=f"fabrics to measure, from {', '.join(FABRICS)} (default: all; on bmv2, or with "
        "--quick in real time, leaf-spine)",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, nargs="+", metavar="N",
        help="flows per network (default: 8 32 128 in virtual time, 8 32 in real time, fewer with "
        "--quick and on bmv2)",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=cli.positive_float, default=100, metavar="PPS",
        help="rate per flow in packets/s (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", type=cli.probability, default=0.05, metavar="P",
        help="loss ratio of the bad link (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--blocks", type=cli.positive_int, default=4, metavar="N",
        help="complete blocks per run (default: %(default)s)",
    )  # fmt: skip
    add_block_option(parser, MIN_BLOCK_US)
    add_common_options(parser)
    cli.add_metrics_option(parser)
    parser.set_defaults(program=PROGRAM)


@dataclass(frozen=True)
class Case:
    """One network, and how it is monitored."""

    fabric: str
    flows: int
    monitoring: str

    @property
    def name(self) -> str:
        """Name of the case in checks."""
        return f"{self.fabric}, {self.flows} flows, {self.monitoring}"


@dataclass(frozen=True)
class Delays:
    """Errors of the delays per cluster and block."""

    mean_us: NDArray[np.float64]  # errors of means in blocks without loss in the cluster
    lossy_mean: NDArray[np.float64]  # errors of means in other blocks, normalized to theory
    sample_us: NDArray[np.float64]  # errors of hashed samples
    unmatched: int  # hashed samples whose time matches no packet


@dataclass(frozen=True)
class Measurement:
    """Results of one run: losses compared with ground truth, and the cost of monitoring."""

    case: Case
    seed: int
    packets: int  # packets sent in complete blocks
    inputs: list[str]  # switches at the inputs of each cluster, as text
    links: list[int]  # links of each cluster
    between: list[bool]  # whether each cluster is between switches
    measured: NDArray[np.int64]  # losses with shape (clusters, blocks)
    truth: NDArray[np.int64]
    switches: int  # number of switches that measure
    entries: int  # watch-list entries of all switches
    cells: int  # counters, and register cells for delays, that are read per block
    link_ends: int  # ends of all links between switches that the flows may pass
    bytes_per_block: float
    delays: Delays | None
    problems: list[str]
    noise: str  # message about effects of machine load on the run
    accounting: PacketAccounting

    @property
    def known(self) -> int:
        """Number of known loss values."""
        return int(np.count_nonzero(self.measured != UNKNOWN))

    @property
    def wrong(self) -> int:
        """Number of known loss values that differ from ground truth."""
        return int(np.count_nonzero((self.measured != self.truth) & (self.measured != UNKNOWN)))


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual = options.time == "virtual"
    kind = options.time if options.target != "bmv2" else "bmv2"
    options.flows = sorted(options.flows or FLOWS[kind, options.quick])
    few = kind == "bmv2" or (options.quick and not is_virtual)
    options.fabrics = options.fabrics or (["leaf-spine"] if few else [*FABRICS])
    options.seeds = options.seeds or ((2 if options.quick else 10) if is_virtual else 1)
    fabric = options.fabrics[-1]
    topo = make_topo(fabric, LOSS, options.loss)
    sent = make_flows(topo, options.flows[-1], options, Schedule(MIN_BLOCK_US))
    watching = partial(watch_all, fabric=fabric, topo=topo, flows=sent)
    machine = await machine_for(Workload(topo, watching, sent), NOISE_US, options, run)
    bounds = machine.bounds(HOPS * LINK_US)
    min_us = MIN_BLOCK_US if is_virtual else REAL_BLOCK_US[options.quick]
    # The controller reads a block between two guard times (A + D). Blocks made for twice the delay
    # leave at least the time D for the many readout packets, and D is long on bmv2.
    readable = replace(bounds, delay_us=2 * bounds.delay_us)
    options.block_us = options.block_us or max(
        min_us, shortest_schedule([METHODS], readable).block_us
    )
    reject_few_packets(options)
    cases = [Case(*each) for each in product(options.fabrics, options.flows, MONITORING)]
    settings = [
        (case, options.seed + number, bounds, options)
        for case in cases
        for number in range(options.seeds)
    ]
    found = await sweep(measure, settings, run)
    return Report(
        samples=[row for m in found for row in make_rows(m)],
        checks=reject_if_disturbed(
            [
                *worst(check for m in found for check in make_checks(m, virtual=is_virtual)),
                *(check_lossy_means(found) if is_virtual else []),
            ],
            [UNREAD],
            next((m.noise for m in found if m.problems), ""),
            virtual=is_virtual,
        ),
        metrics=make_metrics(found),
        figure=draw(found, options),
        caption=caption(found, options),
        tables=[summary_table(found)],
    )


def reject_few_packets(options: argparse.Namespace) -> None:
    """Raise TestbedError if the checks of delays, in virtual time, may have nothing to test."""
    packets = options.flows[0] * options.rate * options.blocks * options.block_us / 1e6
    if options.time == "virtual" and packets < MIN_PACKETS:
        raise TestbedError(
            f"{packets:.0f} packets in {options.blocks} blocks of {options.block_us} us: expected "
            f"at least {MIN_PACKETS} in virtual time, for samples of delays; use more flows, a "
            "higher rate, or longer or more blocks"
        )


def watch_all(
    net: Network, fabric: str, topo: LeafSpine, flows: Sequence[Flow]
) -> Mapping[WatchedFlow, Multipoint[Hop]]:
    """Return the watch list of a network whose switches all measure, for the capacity probe."""
    return make_plan("clusters", fabric, topo, net, flows).watched(make_hops(net))


async def measure(
    case: Case, seed: int, bounds: Bounds, options: argparse.Namespace, run: Run
) -> Measurement:
    """Measure the loss of all clusters of one network."""
    run.progress.update(f"{case.name}, seed {seed}")
    run = replace(run, seed=seed)
    topo = make_topo(case.fabric, LOSS, options.loss)
    schedule = Schedule(options.block_us)
    flows = make_flows(topo, case.flows, options, schedule)
    graph = graph_of(topo, flows)
    with Network(
        topo, run, program=options.program, switch_options=cpu_ports(topo),
        name=f"{case.fabric}-{case.flows}-{case.monitoring}-{seed}",
    ) as net:  # fmt: skip
        hops = make_hops(net)
        plan = make_plan(case.monitoring, case.fabric, topo, net, flows)
        async with AsyncExitStack() as stack:
            for other in sorted(hops.keys() - plan.measuring):
                await reconcile(
                    await stack.enter_async_context(hops[other].switch), hops[other].entries
                )
            collector = await stack.enter_async_context(
                Collector(
                    plan.watched(hops), schedule, run.clock, bounds=bounds,
                    records=None if MONITORING[case.monitoring] else (), metrics=run.metrics,
                )
            )  # fmt: skip
            await collector.watch()
            before, cells = collector.read_bytes, collector.cells_per_block
            reports, records = await send_and_read(collector, net, flows, options, run)
            # blocks() also reads two blocks before the first
            bytes_per_block = (collector.read_bytes - before) / (len(reports) + 2)
    paths = read_paths(net, graph, topo, flows)
    truths = read_truths(net, paths, schedule, METHODS, records)
    complete = reports[1:-1]
    blocks = range(complete[0].block, complete[-1].block + 1)
    problems = [problem for report in complete for problem in report.problems]
    why = noise(truths.values(), records.values(), problems)
    reject_noise(truths, schedule, why)
    delays = (
        measure_delays(plan, truths, complete, schedule.block_us)
        if MONITORING[case.monitoring]
        else None
    )
    result = Measurement(
        case, seed,
        packets=sum(
            int(t.packets(Point(t.path[0], "departures"), blocks).sum()) for t in truths.values()
        ),
        inputs=[" ".join(point.switch for point in c.inputs) for c in plan.clusters],
        links=[len(c.links) for c in plan.clusters],
        between=[all(a.switch != b.switch for a, b in c.links) for c in plan.clusters],
        measured=measured_losses(plan, graph, complete),
        truth=true_losses(plan.clusters, truths.values(), blocks),
        switches=len(plan.measuring),
        entries=sum(len(names) for ends in plan.switches.values() for names in ends),
        cells=cells,
        link_ends=sum(2 for a, following in graph.items() for b in following
                      if a.switch != b.switch),
        bytes_per_block=bytes_per_block,
        delays=delays,
        problems=problems,
        noise=why,
        accounting=PacketAccounting.from_network(net, records),
    )  # fmt: skip
    net.discard()
    return result


def make_flows(
    topo: LeafSpine, count: int, options: argparse.Namespace, schedule: Schedule
) -> list[Flow]:
    """Return flows from one half of the hosts to the other half, spread evenly over all hosts."""
    senders, receivers = halves(topo)
    packets = flow_count(options.rate, options.blocks, schedule)
    return [
        Flow(number + 1, senders[number % len(senders)],
             receivers[(number + number // len(senders)) % len(receivers)],
             options.rate, packets, pattern=Poisson(),
             allow_total_loss=options.loss**packets > MAX_TOTAL_LOSS)
        for number in range(count)
    ]  # fmt: skip


def reject_noise(truths: Mapping[int, Truth], schedule: Schedule, why: str) -> None:
    """Make the run inconclusive if packets took longer than the method tolerates."""
    for number, truth in truths.items():
        end = Point(truth.path[-1], "departures")
        range_us = -float("inf"), schedule.block_us / 2
        reject_late_packets(f"flow {number}", truth, end, range_us, why)


def mean_sd_us(sent: int, received: int, block_us: int) -> float:
    """Return the predicted sd of the error of the mean delay, if the lost packets are random.

    The send times of packets are uniform in the block. See docs/reference/alternate-marking.md.
    """
    return block_us * math.sqrt((sent - received) / (12 * sent * received))


def measure_delays(
    plan: Plan, truths: Mapping[int, Truth], reports: Sequence[BlockReport], block_us: int
) -> Delays:
    """Compare the delays of each cluster and block with ground truth.

    A sample is compared with the packets that passed the input at the time of the sample.
    """
    exact: list[float] = []
    lossy: list[float] = []
    samples: list[float] = []
    unmatched = 0
    for report, cluster in product([r for r in reports if r.complete], plan.clusters):
        first, second = cluster.records(report.known_records(ALL))
        times_ns, delays_ns = true_delays_ns(cluster, truths.values(), report.block)
        measured_us = mean_delay(first, second).delay_us
        if measured_us is not None and len(delays_ns):
            error_us = measured_us - delays_ns.mean() / 1000
            if first.packets == second.packets:
                exact.append(error_us)
            elif first.packets > second.packets:
                lossy.append(error_us / mean_sd_us(first.packets, second.packets, block_us))
        for time_us, delay_us in sample_delays(first, second)[0].items():
            near = np.abs(times_ns / 1000 - time_us) <= RESOLUTION_US
            unmatched += not near.any()
            errors_us = delay_us - delays_ns[near] / 1000
            if len(errors_us):
                samples.append(errors_us[np.abs(errors_us).argmin()])
    return Delays(np.array(exact), np.array(lossy), np.array(samples), unmatched)


def make_rows(m: Measurement) -> list[dict[str, object]]:
    """Return rows of samples.csv, one per cluster."""
    return [
        {
            "fabric": m.case.fabric,
            "flows": m.case.flows,
            "monitoring": m.case.monitoring,
            "seed": m.seed,
            "packets": m.packets,
            "switches": m.switches,
            "watch_list_entries": m.entries,
            "cells_per_block": m.cells,
            "bytes_per_block": m.bytes_per_block,
            "inputs": inputs,
            "links": links,
            "lost": int(truth.sum()),
            "wrong_blocks": int(np.count_nonzero((measured != truth) & (measured != UNKNOWN))),
        }
        for inputs, links, measured, truth in zip(
            m.inputs, m.links, m.measured, m.truth, strict=True
        )
    ]


def make_checks(m: Measurement, *, virtual: bool) -> list[Check]:
    """Check that every loss value is exact, and in virtual time also the delays."""
    at = m.case.name
    checks = [
        Check(f"{at}: wrong loss values (cluster, block)", m.wrong, 0),
        Check(f"{at}: {UNREAD}", len(m.problems), 0),
        *m.accounting.checks("all runs"),
    ]
    if m.delays is not None and virtual:
        for name, errors_us in (("mean", m.delays.mean_us), ("sample", m.delays.sample_us)):
            largest_us = float(np.abs(errors_us).max()) if len(errors_us) else math.nan
            checks.append(
                Check(f"{at}: max error of {name} delay (us)", largest_us, 0, RESOLUTION_US)
            )
        checks.append(Check(f"{at}: timestamps matching no packet", m.delays.unmatched, 0))
    return checks


def check_lossy_means(found: Sequence[Measurement]) -> list[Check]:
    """Check the mean square error of mean delays in blocks with loss, normalized to theory."""
    errors = np.concatenate([m.delays.lossy_mean for m in found if m.delays is not None])
    square = float(np.mean(errors**2)) if len(errors) else math.nan
    low, high = statistics.mean_square_bounds(max(len(errors), 1))
    name = "mean delays in blocks with loss: mean square error (normalized to theory)"
    return [Check(name, square, 1, high - 1 if square > 1 else 1 - low)]


def by_case(found: Sequence[Measurement]) -> dict[Case, list[Measurement]]:
    """Group runs by case."""
    cases: dict[Case, list[Measurement]] = {}
    for m in found:
        cases.setdefault(m.case, []).append(m)
    return cases


def make_metrics(found: Sequence[Measurement]) -> dict[str, object]:
    """Return the cost and the results of each case."""
    return {
        case.name: {
            "measuring_switches": runs[0].switches,
            "watch_list_entries": runs[0].entries,
            "cells_per_block": runs[0].cells,
            "bytes_per_block": float(np.mean([m.bytes_per_block for m in runs])),
            "ends_of_links": runs[0].link_ends,
            "clusters_between_switches": sum(runs[0].between),
            "max_links_per_cluster": max(runs[0].links),
            "loss_values": sum(m.known for m in runs),
            "wrong": sum(m.wrong for m in runs),
            **delay_metrics([m.delays for m in runs if m.delays is not None]),
        }
        for case, runs in by_case(found).items()
    }


def delay_metrics(delays: Sequence[Delays]) -> dict[str, object]:
    """Return percentiles of the absolute errors of delays; nothing if no delay was measured."""
    return {
        f"{name}_error_us": statistics.percentiles(np.abs(np.concatenate(errors)))
        for name, errors in (
            ("mean", [d.mean_us for d in delays]),
            ("sample", [d.sample_us for d in delays]),
        )
        if errors
    }


def summary_table(found: Sequence[Measurement]) -> Table:
    """Return a table with a row per case."""
    rows = [
        (
            case.fabric, case.flows, case.monitoring, runs[0].switches, runs[0].entries,
            runs[0].cells, float(np.mean([m.bytes_per_block for m in runs])),
            max(runs[0].links), sum(m.known for m in runs), sum(m.wrong for m in runs),
        )
        for case, runs in by_case(found).items()
    ]  # fmt: skip
    columns = ("fabric", "flows", "monitoring", "switches", "entries", "cells per block",
               "bytes per block", "links per cluster", "loss values", "wrong")  # fmt: skip
    return table("Cost of monitoring, and loss values", columns, rows)


def draw(found: Sequence[Measurement], options: argparse.Namespace) -> Figure:
    """Draw the cost of each kind of monitoring (left) and the loss of each cluster (right)."""
    figure, (left, right) = plots.figure(2, height_in=2.8)
    draw_cost(left, found, options)
    fabric = options.fabrics[-1]
    shown = Case(fabric, options.flows[-1], "clusters")
    draw_losses(right, by_case(found)[shown])
    return figure


def draw_cost(axes: Axes, found: Sequence[Measurement], options: argparse.Namespace) -> None:
    """Draw the number of cells that are read per block, over the number of flows."""
    cases = by_case(found)
    handles = []
    for number, monitoring in enumerate(MONITORING):
        style: dict[str, Any] = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number]}
        for fabric, line in zip(options.fabrics, LINES, strict=False):
            cells = [cases[Case(fabric, flows, monitoring)][0].cells for flows in options.flows]
            axes.plot(options.flows, cells, linestyle=line, **style)
        handles.append(Line2D([], [], linestyle="", label=monitoring, **style))
    for fabric, line in zip(options.fabrics, LINES, strict=False):
        handles.append(Line2D([], [], color="0.3", linestyle=line, marker="", label=fabric))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(options.flows, [str(flows) for flows in options.flows])
    axes.minorticks_off()
    axes.set_xlim(0.7 * options.flows[0], 1.4 * options.flows[-1])
    axes.set_xlabel("Flows")
    axes.set_ylabel("Cells read per block")
    plots.legend(axes, 3, handles)


def draw_losses(axes: Axes, runs: Sequence[Measurement]) -> None:
    """Draw the lost packets of each cluster between switches, measured and ground truth."""
    shown = sorted(
        np.flatnonzero(runs[0].between), key=lambda row: int(runs[0].inputs[row].split()[0][1:])
    )
    measured = sum(np.where(m.measured == UNKNOWN, 0, m.measured)[shown].sum(1) for m in runs)
    truth = sum(m.truth[shown].sum(1) for m in runs)
    places = np.arange(len(shown))
    axes.bar(places, truth, color="0.8", label="ground truth")
    axes.plot(places, measured, linestyle="", color=plots.COLOURS[0], label="measured")
    labels = [runs[0].inputs[row].replace(" ", ", ") for row in shown]
    axes.set_xticks(places, labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_xlabel("Cluster of the links that leave these switches")
    axes.set_ylabel("Lost packets")
    plots.legend(axes, 2)


def caption(found: Sequence[Measurement], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    fabric = options.fabrics[-1]
    a, b = FABRICS[fabric].bad_link
    return (
        f"Multipoint alternate marking, {plots.count(options.seeds, 'run')} in {options.time} "
        "time. (a) Counters, and register cells for delays, that the controller reads per block. "
        "With clusters, these numbers do not depend on the number of flows. (b) Lost packets of "
        "all runs in each cluster of links between switches, "
        f"{fabric} with {options.flows[-1]} flows; the link "
        f"{a}-{b} loses {100 * options.loss:g} % of the packets, all other links "
        f"{100 * LOSS:g} %. {sum(m.known for m in found):,} loss values were measured, "
        f"one per cluster and block; {sum(m.wrong for m in found):,} of them were wrong."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
