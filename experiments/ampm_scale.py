"""Alternate marking at scale: how do flows, switches and block length load the controller?

The network is a mobile operator's backhaul (RFC 8321 section 5.1): cells send flows over an access
switch and an aggregation switch to the core, where all flows meet. The switches use step marking.
Every switch counts the packets of every flow, and the controller reads all counters of each block
with one request per switch. The experiment measures the CPU time of this readout and the shortest
possible block, and checks that the loss of each flow on each link is exact.

Claim: The loss of each flow, block and link is exact, with 1,000 flows and 100 switches.

Published: RFC 8321, section 5.1: the network of Telecom Italia has up to 1,000 flows per router and
blocks of 5 minutes.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from controllers.ampm.collector import Collector
from controllers.ampm.records import Record
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Method
from controllers.connection import cpu_ports
from experiments.shared.ampm.error_bounds import Workload, machine_for
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    add_block_option,
    add_common_options,
    flow_count,
    noise,
    reject_if_disturbed,
    send_and_read,
    shortest_schedule,
    worst,
)
from experiments.shared.ampm.scale import (
    BACKHAULS,
    UNKNOWN,
    make_topo,
    measured_losses,
    read_ground_truth,
    reject_noise,
    true_losses,
    watch_list,
)
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError, take_notes
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow
from telemark.traffic.patterns import Poisson
from topologies.leaf_spine import Backhaul

DEFAULTS = {  # (time mode or target, --quick) -> default numbers of switches and flows
    ("virtual", False): ([20, 100, 1000], [10, 100, 1000]),
    ("virtual", True): ([20, 100], [10, 100]),
    ("real", False): ([20], [100, 1000]),
    ("real", True): ([20], [30]),
    ("bmv2", False): ([5, 20], [30, 100]),
    ("bmv2", True): ([5], [30]),
}
BOUNDS = Bounds(delay_us=2000)
NOISE_US = 50_000  # max delay that a loaded machine may add in real time
IDLE_BLOCKS = 3  # blocks that are read to measure the cost of a readout without traffic
CARRIERS_BLOCK_S = 300  # block length of Telecom Italia, RFC 8321 section 5.1
REPEATED_SWITCHES = 20  # max size of networks that run with several seeds
UNREAD = "unread blocks (per switch)"  # check that can fail on a loaded machine

# Types of readout. Loss needs only the counters. Double marking also has records of pulses.
READINGS: dict[str, Collection[Record] | None] = {"counters": (), "all records": None}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--switches", type=int, choices=BACKHAULS, nargs="+", metavar="N",
        help=f"network sizes in switches, from {', '.join(map(str, BACKHAULS))} (default: 20 100 "
        "1000 in virtual time, else 20); networks with more than 20 switches run once",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, nargs="+", metavar="N",
        help="flows per network (default: 10 100 1000 in virtual time, else 100 1000)",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=cli.positive_float, default=5, metavar="PPS",
        help="rate per flow in packets/s (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--blocks", type=cli.positive_int, default=4, metavar="N",
        help="complete blocks per run (default: %(default)s)",
    )  # fmt: skip
    add_block_option(parser, 2**21)
    add_common_options(parser)


@dataclass(frozen=True)
class Load:
    """CPU time and duration of a readout of one block by the controller."""

    cpu_s: float
    elapsed_s: float  # 0 in virtual time, because controllers take no virtual time

    @property
    def shortest_block_s(self) -> float:
        """Shortest block for which the readout ends before the next block of the same colour."""
        return 2 * (max(self.cpu_s, self.elapsed_s) + BOUNDS.guard_us / 1e6)


@dataclass(frozen=True)
class Measurement:
    """Results of one network: losses compared with ground truth, and the cost of readouts."""

    switches: int
    flows: int
    seed: int
    packets: int  # packets sent in complete blocks
    lost: int  # number of lost packets, as measured by alternate marking
    values: int  # number of loss values, one per flow, block and segment
    wrong: int  # number of loss values that differ from ground truth
    problems: list[str]
    noise: str  # message about effects of machine load on the run
    set_up_s: float  # CPU time
    loads: Mapping[str, Load]
    accounting: PacketAccounting


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual = options.time == "virtual"
    kind = options.time if options.target != "bmv2" else "bmv2"
    switches, flows = DEFAULTS[kind, options.quick]
    options.switches = sorted(options.switches or switches)
    options.flows = sorted(options.flows or flows)
    topo = make_topo(max(options.switches))
    sent = make_flows(topo, max(options.flows), options, Schedule(MIN_BLOCK_US))
    load = Workload(topo, partial(watch_list, topo=topo, flows=sent), sent)
    machine = await machine_for(load, NOISE_US, options, run)
    bounds = machine.bounds(BOUNDS.delay_us)
    min_us = 2**19 if options.quick else 2**21
    options.block_us = options.block_us or max(
        min_us, shortest_schedule([Method.DOUBLE], bounds).block_us
    )
    options.seeds = options.seeds or ((1 if options.quick else 10) if is_virtual else 1)
    settings = [
        (size, options.seed + number, bounds, options)
        for size in product(options.switches, options.flows)
        for number in range(options.seeds if size[0] <= REPEATED_SWITCHES else 1)
    ]
    found = [each for each in await sweep(attempt, settings, run) if each is not None]
    return Report(
        samples=[row for m in found for row in make_rows(m)],
        checks=reject_if_disturbed(
            worst(check for m in found for check in make_checks(m)),
            [UNREAD],
            next((m.noise for m in found if m.problems), ""),
            virtual=is_virtual,
        ),
        metrics=make_metrics(found),
        figure=draw(found, options),
        caption=caption(found, options),
        machine_columns=("set_up_s", "cpu_s", "elapsed_s"),
        tables=[summary_table(found)],
    )


async def attempt(
    size: tuple[int, int], seed: int, bounds: Bounds, options: argparse.Namespace, run: Run
) -> Measurement | None:
    """Call measure(). In real time, return None if the network is too large for this machine."""
    run.progress.update(what := f"{size[0]} switches, {size[1]} flows, seed {seed}")
    if options.time == "virtual" or size == (options.switches[0], options.flows[0]):
        return await measure(size, bounds, options, replace(run, seed=seed))
    try:
        with take_notes(None):  # the runs of other sizes stay conclusive
            return await measure(size, bounds, options, replace(run, seed=seed))
    except TestbedError as error:
        run.progress.say(f"{what}: skipped on this machine: {error}")
        return None


async def measure(
    size: tuple[int, int], bounds: Bounds, options: argparse.Namespace, run: Run
) -> Measurement:
    """Measure the loss of all flows of one network, then the cost of readouts without traffic.

    `size` is (number of switches, number of flows).
    """
    began_s = time.process_time()
    switches, count = size
    topo = make_topo(switches)
    schedule = Schedule(options.block_us)
    with Network(
        topo, run, program=options.program, name=f"{switches}-{count}-{run.seed}",
        switch_options=cpu_ports(topo),
    ) as net:  # fmt: skip
        flows = make_flows(topo, count, options, schedule)
        watched = watch_list(net, topo, flows)
        loads: dict[str, Load] = {}
        for what, registers in READINGS.items():
            async with Collector(
                watched, schedule, run.clock, bounds=bounds, records=registers
            ) as collector:
                if not loads:
                    await collector.watch()
                    set_up_s = time.process_time() - began_s
                    reports, records = await send_and_read(collector, net, flows, options, run)
                loads[what] = await measure_load(collector, run)
    blocks = range(reports[0].block, reports[-1].block + 1)
    truths = read_ground_truth(net, topo, records, schedule)
    problems = [problem for report in reports[1:-1] for problem in report.problems]
    why = noise(truths.values(), records.values(), problems)
    reject_noise(truths, schedule, why)
    truth = true_losses(truths, blocks)
    packets, measured = measured_losses(topo, flows, reports)
    return Measurement(
        switches, count, run.seed,
        packets=int(packets[:, 1:-1].sum()),
        lost=int(measured[:, -1, 1:-1].sum()),
        values=measured[:, :, 1:-1].size,
        wrong=int(np.count_nonzero(((measured != truth) & (measured != UNKNOWN))[:, :, 1:-1])),
        problems=problems,
        noise=why,
        set_up_s=set_up_s,
        loads=loads,
        accounting=PacketAccounting.from_network(net, records),
    )  # fmt: skip


async def measure_load(collector: Collector, run: Run) -> Load:
    """Measure the cost of a readout without traffic, as the median over several blocks."""
    first = collector.schedule.block_at(run.clock.now_ns() // 1000) + 2
    cpu_s, elapsed_s = [], []
    async for report in collector.blocks(first, first + IDLE_BLOCKS):
        cpu_s.append(time.process_time())
        elapsed_s.append(
            run.clock.now_ns() / 1e9 - collector.schedule.reading_us(report.block) / 1e6
        )
    return Load(float(np.median(np.diff(cpu_s))), float(np.median(elapsed_s)))


def make_flows(
    topo: Backhaul, count: int, options: argparse.Namespace, schedule: Schedule
) -> list[Flow]:
    """Return flows from cells to the core; the flows are spread evenly over all cells."""
    cells = list(topo.paths)
    packets = flow_count(options.rate, options.blocks, schedule)
    return [
        Flow(number, cells[number % len(cells)], topo.server, options.rate, packets,
             pattern=Poisson())
        for number in range(count)
    ]  # fmt: skip


def make_rows(m: Measurement) -> list[dict[str, object]]:
    """Return rows of samples.csv, one per type of readout."""
    return [
        {
            "switches": m.switches,
            "flows": m.flows,
            "seed": m.seed,
            "packets": m.packets,
            "lost": m.lost,
            "loss_values": m.values,
            "wrong": m.wrong,
            "set_up_s": m.set_up_s,
            "reading": what,
            "cpu_s": load.cpu_s,
            "elapsed_s": load.elapsed_s,
        }
        for what, load in m.loads.items()
    ]


def make_checks(m: Measurement) -> list[Check]:
    """Check that every loss value is known and exact, and that the accounting balances."""
    at = f"{m.switches} switches, {m.flows} flows"
    return [
        Check(f"{at}: wrong loss values (flow, block, segment)", m.wrong, 0),
        Check(f"{at}: {UNREAD}", len(m.problems), 0),
        *m.accounting.checks("all runs"),
    ]


def by_size(found: Sequence[Measurement]) -> dict[tuple[int, int], list[Measurement]]:
    """Group runs by size; the key is (switches, flows)."""
    sizes: dict[tuple[int, int], list[Measurement]] = {}
    for m in found:
        sizes.setdefault((m.switches, m.flows), []).append(m)
    return sizes


def mean_load(runs: Sequence[Measurement], what: str) -> Load:
    """Return the mean readout cost over some runs."""
    loads = [m.loads[what] for m in runs]
    return Load(
        float(np.mean([load.cpu_s for load in loads])),
        float(np.mean([load.elapsed_s for load in loads])),
    )


def make_metrics(found: Sequence[Measurement]) -> dict[str, object]:
    """Return the mean cost per block for each size."""
    return {
        f"{switches} switches, {flows} flows": {
            what: {"shortest_block_s": load.shortest_block_s, **asdict(load)}
            for what in READINGS
            for load in [mean_load(runs, what)]
        }
        for (switches, flows), runs in by_size(found).items()
    }


def summary_table(found: Sequence[Measurement]) -> Table:
    """Return a table with a row per size."""
    rows = [
        (
            *size,
            sum(m.values for m in runs),
            sum(m.wrong for m in runs),
            float(np.mean([m.set_up_s for m in runs])),
            *(mean_load(runs, what).cpu_s for what in READINGS),
            *(mean_load(runs, what).shortest_block_s for what in READINGS),
        )
        for size, runs in by_size(found).items()
    ]
    columns = ("switches", "flows", "loss values", "wrong", "set-up (CPU s)",
               *(f"{what}: CPU s per block" for what in READINGS),
               *(f"{what}: shortest L (s)" for what in READINGS))  # fmt: skip
    return table("Loss values and the cost of reading them", columns, rows)


def draw(found: Sequence[Measurement], options: argparse.Namespace) -> Figure:
    """Draw the CPU time per block (left) and the CPU utilization over the block length (right)."""
    figure, (left, right) = plots.figure(2, height_in=2.8)
    lengths_s = np.geomspace(0.1, 2 * CARRIERS_BLOCK_S, 50)
    max_flows = max(m.flows for m in found)
    for number, switches in enumerate(options.switches):
        style: dict[str, Any] = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number]}
        for what, line in zip(READINGS, ("-", "--"), strict=True):
            costs: dict[
                int, list[float]
            ] = {}  # results by number of flows; sizes that this machine cannot run are missing
            for m in found:
                if m.switches == switches:
                    costs.setdefault(m.flows, []).append(m.loads[what].cpu_s)
            left.errorbar(
                list(costs), [np.mean(c) for c in costs.values()],
                [np.std(c) for c in costs.values()],
                linestyle=line, label=f"{switches:,} switches, {what}", **style,
                markerfacecolor="white" if line == "--" else style["color"],
            )  # fmt: skip
            if max_flows in costs:
                share = 100 * np.mean(costs[max_flows]) / lengths_s
                right.plot(lengths_s, share, color=style["color"], linestyle=line, marker="")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
    low, high = left.get_ylim()  # after set_yscale(), which changes the limits
    left.set_ylim(low / 2, 2 * high)  # show at least a decade, even for few sizes
    left.set_xlabel("Flows (over 3 switches each)")
    left.set_ylabel("CPU time per block (s)")
    right.axhline(50, color="black", linestyle=":", label="half a block")
    right.axvline(CARRIERS_BLOCK_S, color="0.5", linestyle="-.", label="block length of RFC 8321")
    right.set_xlabel("Block length (s)")
    right.set_ylabel(f"CPU utilization, {max_flows:,} flows (%)")
    for axes in (left, right):
        plots.legend(axes, 2)
    return figure


def caption(found: Sequence[Measurement], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    once = " (one run for networks of more than 20 switches)" if options.seeds > 1 else ""
    return (
        f"CPU time of the AM-PM controller, {plots.runs(options.seeds, options.time)}{once}. (a) "
        "CPU time per readout of one block of all flows, for counters only (enough to measure "
        "loss) or for all records. (b) Utilization of one core over the block length; RFC 8321 "
        f"reports blocks of {CARRIERS_BLOCK_S // 60} min. {sum(m.values for m in found):,} loss "
        f"values were measured, one per flow, block and segment; {sum(m.wrong for m in found):,} "
        "of them were wrong."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
