"""Loss by drop reports and by alternate marking: what does each find of what really was lost?

All packets of a flow cross five switches. Some are lost by the first link; others by an access
list, for want of a route, because their time to live runs out, or because a burst finds a queue
full, each at a switch of its own. The switches report what they drop (INT's drop reports), and mark
and count all packets by blocks of time (AM-PM). Nobody can report what a link loses. The same link
loses some of the reports, too: their numbers tell how many, if not of which packets. Truth are
captures: what came to a switch and did not leave it, or left one and did not come to the next.
Alternate marking must find just that in each block, and drop reports, with those that are known to
be lost, all that switches drop. On bmv2 rates are a 32nd and blocks longer; it shows its program no
packet that a full queue drops: alternate marking must find those, too, and no report may tell of
any.

Claim: Alternate marking finds each lost packet; drop reports find all that switches drop, and none
that links lose.

Published: Telemetry Report 2.0 (P4.org, 2020): a switch reports what it drops and why; reports have
numbers of 22 bits, so that lost ones show.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from experiments.shared.int.loss import (
    CAUSES,
    FULL,
    PROGRAM,
    SEGMENTS,
    Cause,
    Outcome,
    Reported,
    flows_of,
    marked_losses,
    measure,
    reported,
    true_losses,
)
from experiments.shared.int.marking import reject_rare, schedule_on
from experiments.shared.int.on_bmv2 import MANY_REPORTS_SLOWER
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow

METHODS = ("AM-PM", "drop reports", "with their gaps")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="+", metavar="PERCENT",
        help="of all packets, for each cause (default: 0 0.1 1 5 10)",
    )  # fmt: skip
    cli.add_rate_option(parser, 2000, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks of alternate marking, of 0.26 s, for each loss (default: 12)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)


@dataclass(frozen=True)
class Found:
    """One cause, at one configured loss: packets lost in each block, and what reports say."""

    loss_percent: float
    cause: Cause
    sent: int  # packets of the flow
    true: NDArray[np.int64]
    marked: NDArray[np.int64]
    reported: Reported

    @property
    def answers(self) -> tuple[int, int, int]:
        """Packets lost, by METHODS."""
        came = self.reported.came
        return int(self.marked.sum()), came, came + self.reported.in_gaps


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    reject_rare(options.rate)
    options.slower = MANY_REPORTS_SLOWER if run.target == "bmv2" else 1
    options.loss = options.loss or ([5] if options.quick else [0, 0.1, 1, 5, 10])
    options.blocks = options.blocks or (4 if options.quick else 12)
    runs = await sweep(measured, [(percent, options) for percent in options.loss], run)
    found = [each for here, _ in runs for each in here]
    checks = [check for _, held in runs for check in held]
    return Report(
        samples=[row for each in found for row in rows_of(each)],
        checks=checks,
        metrics={"lost_reports_without_gap": sum(each.reported.unseen for each in found)},
        figure=draw(found, options),
        caption=caption(options),
        tables=[summary_table(found)],
    )


async def measured(
    percent: float, options: argparse.Namespace, run: Run
) -> tuple[list[Found], list[Check]]:
    """One network, whose links lose so much."""
    rate_pps = options.rate / options.slower
    flows = flows_of(percent, rate_pps, options.blocks, schedule_on(run.target))
    outcome = await measure(flows, percent, options.blocks, options.program, run)
    found = found_of(percent, outcome, flows)
    return found, checks_of(f"loss {percent:g} %", outcome, found)


def found_of(percent: float, outcome: Outcome, flows: Mapping[Cause | None, Flow]) -> list[Found]:
    """What is found of each cause."""
    return [
        Found(percent, cause, sum(flow.count for flow in flows.values()),
              true_losses(outcome, cause.segment), marked_losses(outcome, cause.segment),
              reported(outcome, cause, flows))
        for cause in CAUSES
    ]  # fmt: skip


def checks_of(at: str, outcome: Outcome, found: Sequence[Found]) -> list[Check]:
    """All exact: each block of alternate marking, all reports, and the numbers of those lost."""
    errors = [marked_losses(outcome, s) - true_losses(outcome, s) for s in SEGMENTS]
    lost = sum(len(record.lost_sequences) for record in outcome.records.values())
    by_switches = [
        each for each in found
        if each.cause.reason and (outcome.reports_full_queues or each.cause is not FULL)
    ]  # fmt: skip
    missed = [
        int(each.true.sum()) - each.reported.came - each.reported.lost for each in by_switches
    ]
    unknown = [
        each.reported.lost - each.reported.unseen - each.reported.in_gaps for each in by_switches
    ]
    told = sum(each.reported.came for each in by_switches)
    silent = [
        each.reported.came for each in found if each.cause is FULL and each not in by_switches
    ]
    name = f"{at}, drop reports: "
    return [
        Check(f"{at}, AM-PM: largest error of a block, packets", abs(np.array(errors)).max(), 0),
        Check(f"{at}, AM-PM: packets lost in all, by the hosts' sequence numbers",
              sum(int(marked_losses(outcome, segment).sum()) for segment in SEGMENTS), lost),
        Check(name + "largest difference to what a switch dropped, packets",
              max(map(abs, missed)), 0),
        Check(name + "that name another port, reason or flow",
              sum(each.reported.wrong for each in by_switches), 0),
        Check(name + "of packets that no switch dropped", len(outcome.kept.reports) - told, 0),
        Check(name + "blocks in which they tell more than was dropped", sum(
            int(np.count_nonzero(each.reported.by_block > each.true)) for each in by_switches), 0),
        Check(name + "largest difference between gaps and what the link lost",
              max(map(abs, unknown)), 0),
        *(Check(name + "of full queues, of which bmv2 tells its program nothing", came, 0)
          for came in silent),
        *outcome.accounting.checks(at),
    ]  # fmt: skip


def rows_of(found: Found) -> list[dict[str, object]]:
    """A row for each block."""
    columns = (found.true.tolist(), found.marked.tolist(), found.reported.by_block.tolist())
    return [
        {"loss_percent": found.loss_percent, "cause": found.cause.name, "block": block,
         "true": true, "ampm": marked, "drop_reports": reports}
        for block, (true, marked, reports) in enumerate(zip(*columns, strict=True))
    ]  # fmt: skip


def summary_table(found: Sequence[Found]) -> Table:
    """A row for each loss and cause."""
    columns = ("loss", "cause", "lost, true", *METHODS, "lost reports without gap")
    rows = [
        (f"{each.loss_percent:g} %", each.cause.name, int(each.true.sum()), *each.answers,
         each.reported.unseen)
        for each in found
    ]  # fmt: skip
    return table("Packets lost, and what each method finds", columns, rows)


def draw(found: Sequence[Found], options: argparse.Namespace) -> Figure:
    """What each method says, in a ring that is the truth: of the link, and of all switches. And of
    the highest loss, cause by cause, how much of it is found."""
    figure, (link, switches, shares) = plots.figure(3)
    for axes, place, reasons in ((link, "on a link", False), (switches, "in switches", True)):
        chosen = [each for each in found if bool(each.cause.reason) == reasons]
        draw_losses(axes, chosen, options.loss)
        axes.annotate(f"lost {place}", (0.04, 0.95), xycoords="axes fraction", va="top")
    link.set_ylabel("Loss found (%)")
    draw_shares(shares, [each for each in found if each.loss_percent == max(options.loss)])
    figure.legend(*link.get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def draw_losses(axes: Axes, found: Sequence[Found], losses: Sequence[float]) -> None:
    """What is found, of all these causes together, beside what was configured."""
    places = np.arange(len(losses))
    here = [[each for each in found if each.loss_percent == percent] for percent in losses]
    sent = np.array([causes[0].sent for causes in here])
    answers = np.array([np.sum([each.answers for each in causes], axis=0) for causes in here])
    true = np.array([sum(int(each.true.sum()) for each in causes) for causes in here])
    for number, method in enumerate(METHODS):
        x = places + 0.25 * (number - 1)
        axes.plot(x, 100 * answers[:, number] / sent, linestyle="", label=method,
                  color=plots.COLOURS[number], marker=plots.MARKERS[number])  # fmt: skip
        plots.ring(axes, x, 100 * true / sent, label="" if number else "true")
    axes.set_xticks(places, [f"{percent:g}" for percent in losses])
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    axes.set_ylim(-0.03, 250)
    axes.set_xlabel("Loss configured, each cause (%)")


def draw_shares(axes: Axes, found: Sequence[Found]) -> None:
    """Of each cause's packets how many are found, in percent."""
    places = np.arange(len(found))
    for number in range(len(METHODS)):
        percent = [100 * each.answers[number] / max(each.true.sum(), 1) for each in found]
        axes.bar(places + 0.26 * (number - 1), percent, 0.24, color=plots.COLOURS[number])
    axes.set_xticks(places, [each.cause.name.replace(" ", "\n", 1) for each in found])
    axes.set_xlabel(f"Cause, at {found[0].loss_percent:g} %")
    axes.set_ylabel("Found, of what was lost (%)")


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        "What alternate marking and INT's drop reports find of the packets that one flow of "
        f"{options.rate:,} packets/s loses, {plots.runs(1, options.time)}: (a) by a link, (b) in "
        f"{sum(1 for cause in CAUSES if cause.reason)} switches together, each for a reason of its "
        "own, in percent of all packets; a ring is the truth, by captures. The link loses as many "
        "of the reports, which gaps in their numbers tell. (c) Of each cause what is found, at the "
        "highest loss."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
