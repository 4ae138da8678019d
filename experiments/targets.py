"""The same network on minip4 and on bmv2: do both count and lose the same, and how fast are they?

A flow with double marking crosses s1, s2 and s3, over links that lose some of its packets. Program,
controller, rate and the links' dice are the same on both targets. So the very same packets must get
lost, every switch must have counted as many packets and bytes, and each block's loss and delay must
be what they really were. What differs is how long packets take.

Claim: On minip4 and bmv2 the very same packets are lost, and all counts are the same.

Published: nothing: bmv2 is v1model's reference, and what it does is the truth here.
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
from experiments.shared.ampm.delays import delays_of
from experiments.shared.ampm.error_bounds import Workload, machine_for
from experiments.shared.ampm.measurement import (
    LEAST_BLOCK_US,
    Outcome,
    Setting,
    add_common_options,
    fitting,
    flow_count,
    measure,
)
from telemark.errors import InvalidRunError
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.line import Line

TARGETS = ("minip4", "bmv2")
PATH = ("s1", "s2", "s3")
POINTS = [Point(switch, name) for switch in PATH for name in ("arrivals", "departures")]
LINKS = {
    "s1-s2": (Point("s1", "departures"), Point("s2", "arrivals")),
    "s2-s3": (Point("s2", "departures"), Point("s3", "arrivals")),
}
WHOLE = (POINTS[0], POINTS[-1])
LINK_DELAY_US = 1000
MACHINE_US = 60_000  # what a busy machine may add to a path of minip4's


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, default=5, metavar="PERCENT",
        help="loss of each link between switches (default: %(default)s)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "the flow, if bmv2 bears that")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks on each target (default: 20)",
    )  # fmt: skip
    add_common_options(parser)


@dataclass(frozen=True)
class Found:
    """What one target measured, and what is true."""

    target: str
    seed: int
    outcome: Outcome
    flow: Flow

    @property
    def counts(self) -> dict[Point, tuple[int, int]]:
        """Packets and bytes that each point counted in all blocks, the partial ones too."""
        records = [report.records[self.flow.id] for report in self.outcome.reports.values()]
        found = {}
        for point in POINTS:
            known = [record for of in records if (record := of[point]) is not None]
            found[point] = sum(r.packets for r in known), sum(r.bytes for r in known)
        return found

    @property
    def lost(self) -> dict[str, NDArray[np.int64]]:
        """The sequence numbers that each link dropped, by its own log; ascending."""
        return {
            name: np.sort(self.outcome.dropped[self.flow.id, first.switch, second.switch])
            for name, (first, second) in LINKS.items()
        }

    @property
    def took_us(self) -> NDArray[np.float64]:
        """What packets took from host to host."""
        received = self.outcome.sent[self.flow.id].received
        return np.asarray((received["received_ns"] - received["sent_ns"]) / 1000)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    on_bmv2 = replace(run, target=cli.available_target("bmv2", options.time))
    options.target = " and ".join(TARGETS)
    options.blocks = options.blocks or (5 if options.quick else 20)
    options.seeds = options.seeds or 1
    anyhow = setting_of(options, Schedule(LEAST_BLOCK_US), Bounds())
    machine = await machine_for(Workload.of(anyhow), MACHINE_US, options, on_bmv2)
    bounds = machine.bounds(len(LINKS) * LINK_DELAY_US)
    setting = setting_of(options, fitting([Method.DOUBLE], bounds), bounds)
    (flow,) = setting.watched
    found: list[Found] = []
    for seed in range(options.seed, options.seed + options.seeds):
        for target in TARGETS:
            # Of one name, so that the links' dice are the same; so each needs a folder of its own.
            folder = run.folder / f"{target}-{seed}"
            folder.mkdir()
            seeded = replace(run, target=target, folder=folder, seed=seed)
            outcome = await measure(setting, seeded)
            reject_unread(target, outcome)
            found.append(Found(target, seed, outcome, flow))
    return Report(
        samples=[row for each in found for row in rows_of(each)],
        checks=[*checks_of_both(found), *(c for each in found for c in checks_of(each))],
        metrics={"block_us": setting.schedule.block_us, **metrics_of(found)},
        figure=draw(found),
        caption=caption(setting, options),
        machine_columns=("measured_delay_us", "min_delay_us", "max_delay_us"),
        tables=[summary_table(found)],
    )


def reject_unread(target: str, outcome: Outcome) -> None:
    """Raise TestbedError where a switch could not be read: counts of some blocks say nothing."""
    for problem in (p for report in outcome.reports.values() for p in report.problems):
        raise InvalidRunError(f"{target}: {problem}")


def setting_of(options: argparse.Namespace, schedule: Schedule, bounds: Bounds) -> Setting:
    """One flow over lossy links."""
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


def rows_of(found: Found) -> list[dict[str, object]]:
    """Rows of samples.csv: loss and delay of each complete block."""
    outcome, flow = found.outcome, found.flow
    delays = {sample.block: sample for sample in delays_of(outcome, flow, Method.DOUBLE, WHOLE)}
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


def checks_of_both(found: Sequence[Found]) -> list[Check]:
    """What both targets must have alike: which packets were lost, and every count."""
    checks = []
    for ours, theirs in zip(found[::2], found[1::2], strict=True):
        at = f"seed {ours.seed}"
        for name in LINKS:
            differing = np.setxor1d(ours.lost[name], theirs.lost[name])
            what = f"{at}: packets that {name} dropped on one target alone"
            checks.append(Check(what, len(differing), 0))
        differ = [point for point in POINTS if ours.counts[point] != theirs.counts[point]]
        what = f"{at}: points that counted other packets or bytes on the other target"
        checks.append(Check(what, len(differ), 0))
    return checks


def checks_of(found: Found) -> list[Check]:
    """Each target for itself: every block's loss and delay right, and nothing unaccounted for."""
    at, rows = f"{found.target}, seed {found.seed}", rows_of(found)
    wrong = sum(row["measured_loss"] != row["true_loss"] for row in rows)
    counted = found.counts[POINTS[0]][0]
    return [
        Check(f"{at}: blocks whose loss is not what was lost", wrong, 0),
        Check(
            f"{at}: blocks whose delay is not what the packet took", count_delay_mismatches(rows), 0
        ),
        Check(f"{at}: packets counted of those that were sent", counted, found.flow.count),
        *found.outcome.checks(at),
    ]


def count_delay_mismatches(rows: Sequence[Mapping[str, Any]]) -> int:
    """Blocks whose delay lies outside of what it can have been by more than a microsecond, or that
    have one without a pulse that came through, or none with it."""
    wrong = 0
    for row in rows:
        least, delay, most = (row[f"{name}_delay_us"] for name in ("min", "measured", "max"))
        if delay is None or least is None:
            wrong += delay is not least
        else:
            wrong += not least - 1 <= delay <= most + 1
    return wrong


def metrics_of(found: Sequence[Found]) -> dict[str, object]:
    """What packets took on each target, us: percentiles."""
    return {target: statistics.percentiles(together(found, target)) for target in TARGETS}


def together(found: Sequence[Found], target: str) -> NDArray[np.float64]:
    """What packets took from host to host on a target, in all runs."""
    return np.concatenate([each.took_us for each in found if each.target == target])


def summary_table(found: Sequence[Found]) -> Table:
    """A row for each run."""
    rows = []
    for each in found:
        middle, late = np.percentile(each.took_us, [50, 99])
        counts = [each.counts[point][0] for point in POINTS]
        lost = sum(map(len, each.lost.values()))
        rows.append((each.target, each.seed, *counts, lost, float(middle), float(late)))
    columns = ("target", "seed", *(f"{p.switch} {p.name}" for p in POINTS), "lost by links",
               "median, us", "99th percentile, us")  # fmt: skip
    return table("Packets counted at each point, and what they took from host to host", columns,
                 rows)  # fmt: skip


def draw(found: Sequence[Found]) -> Figure:
    """Left: what every point counted. Right: what packets took."""
    figure, (left, right) = plots.figure(2)
    for number, target in enumerate(TARGETS):
        first = next(each for each in found if each.target == target)
        draw_counts(left, first, number)
        waited_ms = np.sort(together(found, target) - len(LINKS) * LINK_DELAY_US) / 1000
        share = np.linspace(0, 100, len(waited_ms))
        right.plot(waited_ms, share, marker="", color=plots.COLOURS[number], label=target)
    left.set_xticks(range(len(POINTS)), [f"{p.switch}\n{p.name[:3]}." for p in POINTS])
    left.set_ylabel("Packets counted")
    right.set_xscale("log")
    right.set_xlabel("From host to host, beyond the links' delay (ms)")
    right.set_ylabel("Packets (%)")
    for axes in (left, right):
        plots.legend(axes, 3)
    return figure


def draw_counts(axes: Axes, found: Found, number: int) -> None:
    """bmv2's in rings around minip4's."""
    counts = [found.counts[point][0] for point in POINTS]
    if number:
        plots.ring(axes, range(len(counts)), counts, label=found.target)
    else:
        axes.plot(counts, linestyle="", marker=plots.MARKERS[0], color=plots.COLOURS[0],
                  label=found.target)  # fmt: skip


def caption(setting: Setting, options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"The same flow of {options.rate:,} packets/s over three switches of each target, whose "
        f"links lose {options.loss:g} %, {plots.runs(options.seeds, 'real')}. (a) Packets that "
        "every point of the path counted: the same ones were lost. (b) How long packets took, "
        f"less the links' delay; blocks of {setting.schedule.block_us / 1e6:.3g} s."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
