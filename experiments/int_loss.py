"""INT drop reports and alternate marking: how much of the packet loss does each method detect?

All packets of a flow cross five switches. The first link loses some packets. Each switch drops
other packets for its own reason: an access list, a missing route, an expired TTL, or a queue that a
burst has filled. The switches report the packets that they drop (INT drop reports). The switches
also mark and count all packets in blocks of time (AM-PM). No switch can report losses on a link.
The same link also loses some of the reports. Gaps in their sequence numbers show how many reports
are missing, but not for which packets. Captures are ground truth: they show packets that entered a
switch but did not leave it, and packets that left a switch but did not reach the next one.
Alternate marking must find exactly these packets in each block. Drop reports and detected gaps
together must find all packets that switches drop. On bmv2, a capacity probe determines the lower
rates, and blocks are longer. A program on bmv2 does not see packets that full queues drop, so
alternate marking must find these packets and drop reports must not.

Claim: Alternate marking finds each lost packet. Drop reports find all packets that switches drop
and no packets that links lose.

Published: Telemetry Report 2.0 (P4.org, 2020): a switch reports each dropped packet and the reason.
Reports have 22-bit sequence numbers, so that lost reports can be detected.
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
    find_slowdown,
    make_flows,
    marked_losses,
    measure,
    reported,
    true_losses,
)
from experiments.shared.int.marking import reject_rare, schedule_on
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow

METHODS = ("AM-PM", "drop reports", "drop reports and gaps")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="+", metavar="PERCENT",
        help="loss ratios in percent, for every cause of loss (default: 0 0.1 1 5 10)",
    )  # fmt: skip
    cli.add_rate_option(parser, 2000, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks of alternate marking (0.26 s each) per loss ratio (default: 12)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Found:
    """Lost packets per block and their reports, for one cause at one configured loss ratio."""

    loss_percent: float
    cause: Cause
    sent: int  # number of packets of the flow
    true: NDArray[np.int64]
    marked: NDArray[np.int64]
    reported: Reported

    @property
    def answers(self) -> tuple[int, int, int]:
        """Number of lost packets according to each of METHODS."""
        arrived = self.reported.arrived
        return int(self.marked.sum()), arrived, arrived + self.reported.in_gaps


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    reject_rare(options.rate)
    options.slower = await find_slowdown(options.rate, options.program, run)
    options.loss = options.loss or ([5] if options.quick else [0, 0.1, 1, 5, 10])
    options.blocks = options.blocks or (4 if options.quick else 12)
    runs = await sweep(measured, [(percent, options) for percent in options.loss], run)
    found = [each for here, _ in runs for each in here]
    checks = [check for _, held in runs for check in held]
    return Report(
        samples=[row for each in found for row in make_rows(each)],
        checks=checks,
        metrics={"lost_reports_without_gap": sum(each.reported.unseen for each in found)},
        figure=draw(found, options),
        caption=caption(options),
        tables=[summary_table(found)],
    )


async def measured(
    percent: float, options: argparse.Namespace, run: Run
) -> tuple[list[Found], list[Check]]:
    """Run one network with this loss ratio."""
    rate_pps = options.rate / options.slower
    flows = make_flows(percent, rate_pps, options.blocks, schedule_on(run.target))
    outcome = await measure(flows, percent, options.blocks, options.program, run)
    found = collect_results(percent, outcome, flows)
    return found, make_checks(f"loss {percent:g} %", outcome, found)


def collect_results(
    percent: float, outcome: Outcome, flows: Mapping[Cause | None, Flow]
) -> list[Found]:
    """Return the results for each cause."""
    return [
        Found(percent, cause, sum(flow.count for flow in flows.values()),
              true_losses(outcome, cause.segment), marked_losses(outcome, cause.segment),
              reported(outcome, cause, flows))
        for cause in CAUSES
    ]  # fmt: skip


def make_checks(at: str, outcome: Outcome, found: Sequence[Found]) -> list[Check]:
    """Check that the losses of each block, the drop reports and the gaps are exact."""
    errors = [marked_losses(outcome, s) - true_losses(outcome, s) for s in SEGMENTS]
    lost = sum(len(record.lost_sequences) for record in outcome.records.values())
    by_switches = [
        each for each in found
        if each.cause.reason and (outcome.reports_full_queues or each.cause is not FULL)
    ]  # fmt: skip
    missed = [
        int(each.true.sum()) - each.reported.arrived - each.reported.lost for each in by_switches
    ]
    unknown = [
        each.reported.lost - each.reported.unseen - each.reported.in_gaps for each in by_switches
    ]
    arrived = sum(each.reported.arrived for each in by_switches)
    unreported = [
        each.reported.arrived for each in found if each.cause is FULL and each not in by_switches
    ]
    name = f"{at}, drop reports: "
    return [
        Check(f"{at}, AM-PM: max loss error per block (packets)", abs(np.array(errors)).max(), 0),
        Check(f"{at}, AM-PM: total lost packets",
              sum(int(marked_losses(outcome, segment).sum()) for segment in SEGMENTS), lost),
        Check(name + "max error per cause (packets)",
              max(map(abs, missed)), 0),
        Check(name + "wrong port, reason or flow (reports)",
              sum(each.reported.wrong for each in by_switches), 0),
        Check(name + "reports of packets not dropped", len(outcome.kept.reports) - arrived, 0),
        Check(name + "blocks with more reports than drops", sum(
            int(np.count_nonzero(each.reported.by_block > each.true)) for each in by_switches), 0),
        Check(name + "max error of gaps per cause (reports)",
              max(map(abs, unknown)), 0),
        *(Check(name + "reports of full queues on bmv2", count, 0) for count in unreported),
        *outcome.accounting.checks(at),
    ]  # fmt: skip


def make_rows(found: Found) -> list[dict[str, object]]:
    """Return a row per block."""
    columns = (found.true.tolist(), found.marked.tolist(), found.reported.by_block.tolist())
    return [
        {"loss_percent": found.loss_percent, "cause": found.cause.name, "block": block,
         "true": true, "ampm": marked, "drop_reports": reports}
        for block, (true, marked, reports) in enumerate(zip(*columns, strict=True))
    ]  # fmt: skip


def summary_table(found: Sequence[Found]) -> Table:
    """Return a table with a row per loss ratio and cause."""
    columns = ("loss", "cause", "ground truth", *METHODS, "lost reports without gap")
    rows = [
        (f"{each.loss_percent:g} %", each.cause.name, int(each.true.sum()), *each.answers,
         each.reported.unseen)
        for each in found
    ]  # fmt: skip
    return table("Lost packets, ground truth and detected by each method", columns, rows)


def draw(found: Sequence[Found], options: argparse.Namespace) -> Figure:
    """Draw detected and true loss on the link and in switches, and detected fractions by cause."""
    figure, (link, switches, shares) = plots.figure(3)
    for axes, place, reasons in ((link, "on a link", False), (switches, "in switches", True)):
        chosen = [each for each in found if bool(each.cause.reason) == reasons]
        draw_losses(axes, chosen, options.loss)
        axes.annotate(f"lost {place}", (0.04, 0.95), xycoords="axes fraction", va="top")
    link.set_ylabel("Detected loss (%)")
    draw_shares(shares, [each for each in found if each.loss_percent == max(options.loss)])
    figure.legend(*link.get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def draw_losses(axes: Axes, found: Sequence[Found], losses: Sequence[float]) -> None:
    """Draw the sum of the detected losses of some causes over the configured loss."""
    places = np.arange(len(losses))
    here = [[each for each in found if each.loss_percent == percent] for percent in losses]
    sent = np.array([causes[0].sent for causes in here])
    answers = np.array([np.sum([each.answers for each in causes], axis=0) for causes in here])
    true = np.array([sum(int(each.true.sum()) for each in causes) for causes in here])
    for number, method in enumerate(METHODS):
        x = places + 0.25 * (number - 1)
        axes.plot(x, 100 * answers[:, number] / sent, linestyle="", label=method,
                  color=plots.COLOURS[number], marker=plots.MARKERS[number])  # fmt: skip
        plots.ring(axes, x, 100 * true / sent, label="" if number else "ground truth")
    axes.set_xticks(places, [f"{percent:g}" for percent in losses])
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    axes.set_ylim(-0.03, 250)
    axes.set_xlabel("Configured loss per cause (%)")


def draw_shares(axes: Axes, found: Sequence[Found]) -> None:
    """Draw the percentage of lost packets that each method detects, by cause."""
    places = np.arange(len(found))
    for number in range(len(METHODS)):
        percent = [100 * each.answers[number] / max(each.true.sum(), 1) for each in found]
        axes.bar(places + 0.26 * (number - 1), percent, 0.24, color=plots.COLOURS[number])
    axes.set_xticks(places, [each.cause.name.replace(" ", "\n", 1) for each in found])
    axes.set_xlabel(f"Cause (at {found[0].loss_percent:g} % loss)")
    axes.set_ylabel("Detected losses (%)")


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    late = ""
    if options.time == "real":
        late = " In real time, the full queue also drops packets that the machine delays."
    return (
        "Packet loss detected by alternate marking and by INT drop reports, for one flow of "
        f"{options.rate:,} packets/s, {plots.runs(1, options.time)}: (a) on a link, (b) in "
        f"{sum(1 for cause in CAUSES if cause.reason)} switches together, each for a different "
        f"reason, in percent of all packets; rings are ground truth, from captures.{late} The link "
        "also loses reports, which gaps in sequence numbers reveal. (c) Percentage of detected "
        "losses by cause, at the highest loss."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
