"""minip4 and bmv2: do both targets count and lose the same packets, and how fast are they?

A flow with double marking crosses s1, s2 and s3 over lossy links. Program, controller, rate and the
seeds of the links are the same on both targets. So the same packets must be lost, every switch must
count the same packets and bytes, and the loss and delay of each block must equal ground truth. Only
the delay of packets may differ.

Claim: On minip4 and bmv2, the same packets are lost, and all counts are equal.

Published: nothing: bmv2 is the reference implementation of v1model, and its results are ground
truth here.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Method
from experiments.shared.ampm.delays import measure_delays
from experiments.shared.ampm.error_bounds import Workload, machine_for
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    Outcome,
    Setting,
    add_common_options,
    flow_count,
    measure,
    shortest_schedule,
)
from telemark.errors import note_invalid
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import Line

TARGETS = ("minip4", "bmv2")
PATH = ("s1", "s2", "s3")
POINTS = [Point(switch, name) for switch in PATH for name in ("arrivals", "departures")]
LINKS = {
    "s1-s2": (Point("s1", "departures"), Point("s2", "arrivals")),
    "s2-s3": (Point("s2", "departures"), Point("s3", "arrivals")),
}
WHOLE = (POINTS[0], POINTS[-1])
LINK_DELAY_US = 1000
MACHINE_US = 60_000  # delay that a loaded machine may add to a minip4 path


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, default=5, metavar="PERCENT",
        help="loss of each link between switches (default: %(default)s)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "the flow, or less if bmv2 cannot sustain it")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks per target (default: 20)",
    )  # fmt: skip
    add_common_options(parser)


@dataclass(frozen=True)
class TargetRun:
    """Measurements and ground truth of one target."""

    target: str
    seed: int
    outcome: Outcome
    flow: Flow

    @property
    def counts(self) -> dict[Point, tuple[int, int]]:
        """Packets and bytes that each point counted in all blocks, including partial ones."""
        records = [report.records[self.flow.id] for report in self.outcome.reports.values()]
        found = {}
        for point in POINTS:
            known = [record for of in records if (record := of[point]) is not None]
            found[point] = sum(r.packets for r in known), sum(r.bytes for r in known)
        return found

    @property
    def lost(self) -> dict[str, NDArray[np.int64]]:
        """Sequence numbers that each link dropped, according to its log, in ascending order."""
        return {
            name: np.sort(self.outcome.dropped[self.flow.id, first.switch, second.switch])
            for name, (first, second) in LINKS.items()
        }

    @property
    def delays_us(self) -> NDArray[np.float64]:
        """Host-to-host delays."""
        received = self.outcome.sent[self.flow.id].received
        return np.asarray((received["received_ns"] - received["sent_ns"]) / 1000)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    on_bmv2 = replace(run, target=cli.available_target("bmv2", options.time))
    options.target = " and ".join(TARGETS)
    options.blocks = options.blocks or (5 if options.quick else 20)
    options.seeds = options.seeds or 1
    anyhow = make_setting(options, Schedule(MIN_BLOCK_US), Bounds())
    machine = await machine_for(Workload.of(anyhow), MACHINE_US, options, on_bmv2)
    bounds = machine.bounds(len(LINKS) * LINK_DELAY_US)
    setting = make_setting(options, shortest_schedule([Method.DOUBLE], bounds), bounds)
    (flow,) = setting.watched
    found: list[TargetRun] = []
    for seed in range(options.seed, options.seed + options.seeds):
        for target in TARGETS:
            # The same network name gives links the same seeds; therefore use separate folders.
            folder = run.folder / f"{target}-{seed}"
            folder.mkdir()
            seeded = replace(run, target=target, folder=folder, seed=seed)
            outcome = await measure(setting, seeded)
            reject_unread(target, outcome)
            found.append(TargetRun(target, seed, outcome, flow))
    return Report(
        samples=[row for each in found for row in make_rows(each)],
        checks=[*compare_targets(found), *(c for each in found for c in make_checks(each))],
        metrics={"block_us": setting.schedule.block_us, **make_metrics(found)},
        figure=draw(found),
        caption=caption(setting, options),
        machine_columns=("measured_delay_us", "min_delay_us", "max_delay_us"),
        tables=[summary_table(found)],
    )


def reject_unread(target: str, outcome: Outcome) -> None:
    """Make the run inconclusive if a switch could not be read: its counts would be incomplete."""
    problems = [p for report in outcome.reports.values() for p in report.problems]
    if problems:
        note_invalid(f"{target}: {problems[0]}")


def make_setting(options: argparse.Namespace, schedule: Schedule, bounds: Bounds) -> Setting:
    """Return one flow over lossy links."""
    count = flow_count(options.rate, options.blocks, schedule)
    return Setting(
        name="line",
        topo=Line(switches=len(PATH), loss_probability=options.loss / 100, delay_us=LINK_DELAY_US),
        path=PATH,
        watched={Flow(1, "h1", "h2", options.rate, count): Method.DOUBLE},
        schedule=schedule,
        bounds=bounds,
        blocks=options.blocks,
        stamped=True,
        program=options.program,
    )


def make_rows(found: TargetRun) -> list[dict[str, object]]:
    """Return rows of samples.csv: loss and delay of each complete block."""
    outcome, flow = found.outcome, found.flow
    delays = {
        sample.block: sample for sample in measure_delays(outcome, flow, Method.DOUBLE, WHOLE)
    }
    rows = []
    for number, block in enumerate(outcome.blocks):
        first, last = (outcome.record(flow, point, block) for point in WHOLE)
        delay = delays.get(block)
        true_us = delay.true_us if delay else None
        within_us = delay.within_us if delay else 0.0
        rows.append(
            {
                "target": found.target,
                "seed": found.seed,
                "block": number,
                "measured_loss": first.packets - last.packets if first and last else None,
                "true_loss": int(outcome.truths[flow.id].lost(*WHOLE, range(block, block + 1))[0]),
                "measured_delay_us": delay.measured_us if delay else None,
                "min_delay_us": None if true_us is None else true_us - within_us,
                "max_delay_us": None if true_us is None else true_us + within_us,
            }
        )
    return rows


def compare_targets(found: Sequence[TargetRun]) -> list[Check]:
    """Check that both targets have the same lost packets and the same counts."""
    checks = []
    for ours, theirs in zip(found[::2], found[1::2], strict=True):
        at = f"seed {ours.seed}"
        for name in LINKS:
            differing = np.setxor1d(ours.lost[name], theirs.lost[name])
            what = f"{at}: packets dropped by {name} on one target only"
            checks.append(Check(what, len(differing), 0))
        differ = [point for point in POINTS if ours.counts[point] != theirs.counts[point]]
        what = f"{at}: points with different counts on both targets"
        checks.append(Check(what, len(differ), 0))
    return checks


def make_checks(found: TargetRun) -> list[Check]:
    """Check each target: loss and delay of every block, and the packet accounting."""
    at, rows = f"{found.target}, seed {found.seed}", make_rows(found)
    wrong = sum(row["measured_loss"] != row["true_loss"] for row in rows)
    counted = found.counts[POINTS[0]][0]
    return [
        Check(f"{at}: blocks with wrong loss", wrong, 0),
        Check(f"{at}: blocks with wrong delay", count_delay_mismatches(rows), 0),
        Check(f"{at}: packets counted at the first point", counted, found.flow.count),
        *found.outcome.checks(at),
    ]


def count_delay_mismatches(rows: Sequence[Mapping[str, Any]]) -> int:
    """Count blocks whose delay is out of its true range by more than a microsecond.

    Also counts blocks with a delay but no delivered pulse, and blocks with a pulse but no delay.
    """
    wrong = 0
    for row in rows:
        low, delay, high = (row[f"{name}_delay_us"] for name in ("min", "measured", "max"))
        if delay is None or low is None:
            wrong += delay is not low
        else:
            wrong += not low - 1 <= delay <= high + 1
    return wrong


def make_metrics(found: Sequence[TargetRun]) -> dict[str, object]:
    """Return percentiles of the delays on each target, in us."""
    return {target: statistics.percentiles(all_delays_us(found, target)) for target in TARGETS}


def all_delays_us(found: Sequence[TargetRun], target: str) -> NDArray[np.float64]:
    """Return the host-to-host delays on a target, in all runs."""
    return np.concatenate([each.delays_us for each in found if each.target == target])


def summary_table(found: Sequence[TargetRun]) -> Table:
    """Return a table with a row per run."""
    rows = []
    for each in found:
        middle, late = np.percentile(each.delays_us, [50, 99])
        counts = [each.counts[point][0] for point in POINTS]
        lost = sum(map(len, each.lost.values()))
        rows.append((each.target, each.seed, *counts, lost, float(middle), float(late)))
    columns = ("target", "seed", *(f"{p.switch} {p.name}" for p in POINTS), "lost by links",
               "median (us)", "p99 (us)")  # fmt: skip
    return table("Packets counted at each point, and host-to-host delay", columns,
                 rows)  # fmt: skip


def draw(found: Sequence[TargetRun]) -> Figure:
    """Draw the counts of every point (left) and the CDF of delays (right)."""
    figure, (left, right) = plots.figure(2)
    for number, target in enumerate(TARGETS):
        first = next(each for each in found if each.target == target)
        draw_counts(left, first, number)
        waited_ms = np.sort(all_delays_us(found, target) - len(LINKS) * LINK_DELAY_US) / 1000
        right.plot(
            waited_ms,
            np.linspace(0, 1, len(waited_ms)),
            marker="",
            color=plots.COLOURS[number],
            label=target,
        )
    left.set_xticks(range(len(POINTS)), [f"{p.switch}\n{p.name[:3]}." for p in POINTS])
    left.set_ylabel("Packets counted")
    right.set_xscale("log")
    right.set_xlabel("Host-to-host delay without link delay (ms)")
    right.set_ylabel("CDF")
    for axes in (left, right):
        plots.legend(axes, 3)
    return figure


def draw_counts(axes: Axes, found: TargetRun, number: int) -> None:
    """Draw bmv2's counts as rings around minip4's."""
    counts = [found.counts[point][0] for point in POINTS]
    if number:
        plots.ring(axes, range(len(counts)), counts, label=found.target)
    else:
        axes.plot(counts, linestyle="", marker=plots.MARKERS[0], color=plots.COLOURS[0],
                  label=found.target)  # fmt: skip


def caption(setting: Setting, options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"The same flow of {options.rate:,} packets/s over three switches of each target, with "
        f"{options.loss:g} % loss per link, {plots.runs(options.seeds, 'real')}. (a) Packets "
        "counted at every point of the path. (b) Host-to-host delay without link delay; blocks of "
        f"{setting.schedule.block_us / 1e6:.3g} s."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
