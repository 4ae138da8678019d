"""Loss by alternate marking: does the loss measured in each block equal the actual loss?

One flow per method crosses s1, s2 and s3. s1 marks the packets of each block of time with a colour,
and each switch counts packets on ingress and egress. The controller reads the counters of a block
half a block after the end of the block (RFC 9341; p4src/ampm). The links drop packets and log the
dropped packets. With step, double, multiplexed and hashed marking, the measured loss must equal the
loss in this log, in every complete block and on every segment. Pulse marking counts packets between
two pulses. Pulse marking must be exact if both pulses were delivered, because this experiment
reorders no packets. It must also detect lost pulses.

Claim: In every complete block and on every segment, measured loss equals actual loss, to the
packet.

Published: RFC 9341, sections 3.1 and 5: two counters of one colour count the same packets, so the
error is 0 packets if clock errors and delays stay within half a block.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import dataclasses
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from controllers.ampm.records import Point, pulse_loss
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, LimitError, Method, check_limits
from experiments.shared.ampm.error_bounds import Workload, machine_for
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    Outcome,
    Setting,
    Summary,
    add_block_option,
    add_common_options,
    check_total_loss,
    describe_noise,
    flow_count,
    measure,
    reject_if_disturbed,
    shortest_schedule,
    worst,
)
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds
from telemark.traffic.flows import Flow
from topologies.basic import Line

PATH = ("s1", "s2", "s3")
LINK_DELAY_US = 1000
MACHINE_US = 20_000  # max delay that a loaded machine may add in real time
SURE_TO_ARRIVE = 20  # min number of expected packets; the probability that none arrives is e^-20
METHODS = {
    "step": Method.STEP,
    "pulse": Method.PULSE,
    "double": Method.DOUBLE,
    "multiplexed": Method.MULTIPLEXED,
    "hashed": Method.STEP | Method.HASHED,
}

# A segment lies between two counting points. The first point counts the packets of the segment.
SEGMENTS = {
    "s1-s2": (Point("s1", "departures"), Point("s2", "arrivals")),
    "s2-s3": (Point("s2", "departures"), Point("s3", "arrivals")),
    "end to end": (Point("s1", "departures"), Point("s3", "departures")),
}


# Checks that can fail if the machine is loaded.
UNREAD = "unread blocks (per switch)"
GUARD = "guard time (us)"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method", choices=METHODS, nargs="+", default=[*METHODS], metavar="METHOD",
        help=f"methods, each with its own flow: {', '.join(METHODS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="+", metavar="PERCENT",
        help="loss ratio of each link between switches in percent (default: 0 0.1 1 5 10)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "each flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks per loss ratio and seed (default: 8)",
    )  # fmt: skip
    add_block_option(parser, 2**20)
    add_common_options(parser)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class BlockLoss:
    """Loss on one segment in one block, or between two consecutive pulses with pulse marking.

    A loss is None if it is unknown, because `read` is False (a switch could not be read) or because
    a pulse was lost. `packets` is the count at the first point of the segment.
    """

    seed: int
    loss_percent: float  # configured loss ratio of each link, in percent
    method: str
    segment: str
    block: int
    read: bool
    packets: int | None
    measured: int | None
    true: int | None

    @property
    def error(self) -> int | None:
        """Measured loss minus true loss, in packets."""
        return None if self.measured is None or self.true is None else self.measured - self.true


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    virtual = options.time == "virtual"
    options.loss = options.loss or ([0, 5] if options.quick else [0, 0.1, 1, 5, 10])
    options.blocks = options.blocks or (5 if options.quick else 8)
    options.seeds = options.seeds or (10 if virtual and not options.quick else 1)
    first = make_setting(options.loss[0], options.seed, options, Bounds(), Schedule(MIN_BLOCK_US))
    machine = await machine_for(Workload.of(first), MACHINE_US, options, run)
    bounds = machine.bounds(2 * LINK_DELAY_US)
    schedule = choose_schedule(options, bounds)
    losses: list[BlockLoss] = []
    checks: list[Check] = []
    settings = [(percent, options, bounds, schedule) for percent in options.loss]
    seeds = range(options.seed, options.seed + options.seeds)
    found = await sweep_seeds(measured, settings, seeds, run)
    for percent, runs in zip(options.loss, found, strict=True):
        here = [loss for _, of_run in runs for loss in of_run]
        losses += here
        summaries = [summary for summary, _ in runs]
        checks += make_checks(f"loss {percent:g} %", summaries, here, options)
    return Report(
        samples=[dataclasses.asdict(loss) for loss in losses],
        checks=checks,
        metrics=make_metrics(losses),
        figure=draw(losses, options),
        caption=caption(losses, options),
        tables=[summary_table(losses)],
    )


async def measured(
    percent: float, options: argparse.Namespace, bounds: Bounds, schedule: Schedule, run: Run
) -> tuple[Summary, list[BlockLoss]]:
    """Run one loss ratio with one seed."""
    setting = make_setting(percent, run.seed, options, bounds, schedule)
    outcome = await measure(setting, run)
    return outcome.summary(), [
        loss for flow, method in zip(setting.watched, options.method, strict=True)
        for loss in measure_losses(outcome, flow, run.seed, percent, method)
    ]  # fmt: skip


def choose_schedule(options: argparse.Namespace, bounds: Bounds) -> Schedule:
    """Return the schedule; raise TestbedError if blocks are too short for a method."""
    methods = [METHODS[name] for name in options.method]
    min_us = 2**19 if options.quick else 2**20
    options.block_us = options.block_us or max(min_us, shortest_schedule(methods, bounds).block_us)
    try:
        schedule = Schedule(options.block_us)
        for method in methods:
            check_limits(method, schedule, bounds)
    except (ValueError, LimitError) as error:
        raise TestbedError(f"--block-us {options.block_us}: {error}") from None
    return schedule


def make_setting(
    loss_percent: float, seed: int, options: argparse.Namespace, bounds: Bounds, schedule: Schedule
) -> Setting:
    """Return a setting with one flow per method; all flows cross the same links."""
    count = flow_count(options.rate, options.blocks, schedule)
    allow_total_loss = count * (1 - loss_percent / 100) ** 2 < SURE_TO_ARRIVE
    return Setting(
        name=f"loss-{loss_percent:g}-seed-{seed}",
        topo=Line(switches=len(PATH), loss_probability=loss_percent / 100, delay_us=LINK_DELAY_US),
        path=PATH,
        watched={
            Flow(
                number,
                "h1",
                "h2",
                rate_pps=options.rate,
                count=count,
                allow_total_loss=allow_total_loss,
            ): METHODS[method]
            for number, method in enumerate(options.method, start=1)
        },
        schedule=schedule,
        bounds=bounds,
        blocks=options.blocks,
        program=options.program,
    )


def measure_losses(
    outcome: Outcome, flow: Flow, seed: int, loss_percent: float, method: str
) -> list[BlockLoss]:
    """Return the loss of a flow in every complete block and on every segment."""
    losses = []
    for segment, (first, second) in SEGMENTS.items():
        lost = lost_sequences(outcome, flow, segment)
        for block in outcome.blocks:
            between = measure_pulse_loss if METHODS[method] == Method.PULSE else measure_colour_loss
            values = between(outcome, flow, (first, second), block, lost)
            losses.append(BlockLoss(seed, loss_percent, method, segment, block, *values))
    return losses


Values = tuple[bool, int | None, int | None, int | None]  # is read, packets, loss, true loss


def measure_colour_loss(
    outcome: Outcome, flow: Flow, segment: tuple[Point, Point], block: int, lost: NDArray[np.int64]
) -> Values:
    """Measure the loss of a block as the difference of two counters of its colour."""
    first, second = (outcome.record(flow, point, block) for point in segment)
    true = int(np.count_nonzero(outcome.truths[flow.id].block[lost] == block))
    if first is None or second is None:
        return False, None, None, true
    return True, first.packets, first.packets - second.packets, true


def measure_pulse_loss(
    outcome: Outcome, flow: Flow, segment: tuple[Point, Point], block: int, lost: NDArray[np.int64]
) -> Values:
    """Measure the loss between two pulses as the difference of two counter increments."""
    truth = outcome.truths[flow.id]
    came = truth.pulse & truth.passed(segment[0]) & truth.passed(segment[1])
    pulses = [np.flatnonzero(came & (truth.block == b)) for b in (block - 1, block)]
    true = None
    if all(len(found) == 1 for found in pulses):
        (before,), (here,) = pulses
        true = int(np.count_nonzero((lost > before) & (lost < here)))
    points = [[outcome.record(flow, p, b) for p in segment] for b in (block - 1, block)]
    (first, second), (later_first, later_second) = points
    if not (first and second and later_first and later_second):
        return False, None, None, true
    measured = pulse_loss((first, second), (later_first, later_second))
    packets = None if measured is None else later_first.pulse_count - first.pulse_count
    return True, packets, measured, true


def lost_sequences(outcome: Outcome, flow: Flow, segment: str) -> NDArray[np.int64]:
    """Return the sequence numbers of the packets that a segment lost.

    The numbers are from link logs or, for the whole path, from the receiver.
    """
    first, second = SEGMENTS[segment]
    if segment == "end to end":
        entered = np.flatnonzero(outcome.truths[flow.id].passed(first))
        return np.setdiff1d(entered, outcome.sent[flow.id].received["sequence"])
    return outcome.dropped[flow.id, first.switch, second.switch]


def make_checks(
    at: str, runs: list[Summary], losses: list[BlockLoss], options: argparse.Namespace
) -> list[Check]:
    """Check that blocks are exact, totals equal host counts and the accounting balances."""
    checks = []
    for number, method in enumerate(options.method, start=1):
        ours = [loss for loss in losses if loss.method == method]
        errors = [abs(loss.error) for loss in ours if loss.error is not None]
        is_pulse = METHODS[method] == Method.PULSE
        # with pulses, an error is known only if two consecutive pulses were delivered
        if not is_pulse or any(x.true is not None for x in ours):
            largest = max(errors, default=float("nan"))
            checks.append(Check(f"{at}, {method}: max loss error per block (packets)", largest, 0))
        if is_pulse:
            wrong = sum(x.read and (x.measured is None) != (x.true is None) for x in ours)
            checks.append(Check(f"{at}, {method}: undetected lost pulses", wrong, 0))
        else:
            checks += check_total_loss(f"{at}, {method}", runs, number, SEGMENTS["end to end"])
    incomplete = sum(len(run.incomplete) for run in runs)
    virtual = options.time == "virtual"
    allowed = 0 if virtual else options.blocks * len(runs) // 2
    checks += [
        Check(f"{at}: {UNREAD}", incomplete, 0, allowed),
        Check(f"{at}: {GUARD}", max(run.guard_us for run in runs), 0, options.block_us / 2),
        *worst(check for run in runs for check in run.checks(at)),
    ]
    return reject_if_disturbed(checks, (UNREAD, GUARD), describe_noise(runs), virtual=virtual)


def rates_by_seed(losses: list[BlockLoss], what: str) -> NDArray[np.float64]:
    """Return the `measured` or `true` loss of each seed, in percent of the packets."""
    rates = []
    for seed in sorted({loss.seed for loss in losses}):
        known = [x for x in losses if x.seed == seed and x.error is not None]
        packets = sum(x.packets or 0 for x in known)
        rates.append(100 * sum(getattr(x, what) for x in known) / max(packets, 1))
    return np.array(rates)


def grouped(losses: list[BlockLoss]) -> dict[tuple[float, str, str], list[BlockLoss]]:
    """Group block losses by loss ratio, method and segment."""
    groups: dict[tuple[float, str, str], list[BlockLoss]] = {}
    for loss in losses:
        groups.setdefault((loss.loss_percent, loss.method, loss.segment), []).append(loss)
    return groups


def make_metrics(losses: list[BlockLoss]) -> dict[str, object]:
    """Return loss ratios: mean and standard deviation over seeds, in percent."""
    metrics: dict[str, object] = {}
    for (loss_percent, method, segment), found in grouped(losses).items():
        rates = rates_by_seed(found, "measured")
        metrics[f"loss {loss_percent:g} %, {method}, {segment}"] = {
            "mean_percent": rates.mean(), "sd_percent": rates.std(), "runs": len(rates)
        }  # fmt: skip
    return metrics


def summary_table(losses: list[BlockLoss]) -> Table:
    """Return a table of measured and true end-to-end loss, with a row per loss ratio and method."""
    rows = []
    for (loss_percent, method, segment), found in grouped(losses).items():
        if segment != "end to end":
            continue
        known = [x for x in found if x.error is not None]
        total = [sum(getattr(x, what) for x in known) for what in ("packets", "measured", "true")]
        largest = max((abs(x.error or 0) for x in known), default=float("nan"))
        blocks = f"{len(known)} of {len(found)}"
        rows.append((f"{loss_percent:g} %", method, blocks, *total, largest))
    columns = ("link loss", "method", "blocks", "packets", "measured", "true", "max error")
    return table("End-to-end loss in all complete blocks (packets)", columns, rows)


def draw(losses: list[BlockLoss], options: argparse.Namespace) -> Figure:
    """Draw measured and configured end-to-end loss, and the errors of blocks if there are any."""
    errors = [loss.error for loss in losses if loss.error is not None]
    figure, panels = plots.figure(2 if any(errors) else 1)
    places = np.arange(len(options.loss))
    for axes in panels:
        axes.set_xticks(places, [f"{percent:g}" for percent in options.loss])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_xlabel("Configured loss per link (%)")
    draw_rates(panels[0], losses, options)
    if any(errors):
        draw_errors(panels[1], losses, options)
    else:
        plots.note(figure, f"Loss error: 0 packets in all {len(errors):,} blocks")
    return figure


def draw_rates(axes: Axes, losses: list[BlockLoss], options: argparse.Namespace) -> None:
    """Draw the loss measured by each method, with rings for ground truth."""
    places = np.arange(len(options.loss))
    configured = [100 * (1 - (1 - percent / 100) ** 2) for percent in options.loss]
    axes.hlines(configured, places - 0.45, places + 0.45, color="black", label="configured")
    groups = grouped(losses)
    for number, method in enumerate(options.method):
        x = places + 0.17 * (number - (len(options.method) - 1) / 2)
        ends = [groups[percent, method, "end to end"] for percent in options.loss]
        rates = [rates_by_seed(found, "measured") for found in ends]
        axes.errorbar(
            x, [r.mean() for r in rates], [r.std() for r in rates], linestyle="", label=method,
            color=plots.COLOURS[number], marker=plots.MARKERS[number],
        )  # fmt: skip
        true = [rates_by_seed(found, "true").mean() for found in ends]
        plots.ring(axes, x, true, label="" if number else "ground truth")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    axes.set_ylim(-0.03, 100)
    axes.set_ylabel("End-to-end loss (%)")
    plots.legend(axes, 4)


def draw_errors(axes: Axes, losses: list[BlockLoss], options: argparse.Namespace) -> None:
    """Draw the error of every block on every segment."""
    groups = grouped(losses)
    for number, method in enumerate(options.method):
        shift = 0.17 * (number - (len(options.method) - 1) / 2)
        for place, percent in enumerate(options.loss):
            errors = [
                loss.error for segment in SEGMENTS for loss in groups[percent, method, segment]
                if loss.error is not None
            ]  # fmt: skip
            x = place + shift + np.linspace(-0.05, 0.05, len(errors))
            axes.plot(x, errors, linestyle="", markersize=2, rasterized=True,
                      color=plots.COLOURS[number], marker=plots.MARKERS[number])  # fmt: skip
    axes.set_ylabel("Loss error per block (packets)")


def caption(losses: list[BlockLoss], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    text = (
        "End-to-end loss over two lossy links, measured with each method of alternate marking: "
        f"{options.blocks} blocks of {options.block_us / 1e6:.3g} s, "
        f"{plots.runs(options.seeds, options.time)}. "
        "Rings show ground truth, horizontal bars the expected loss of two links with the "
        "configured loss."
    )
    if any(loss.error for loss in losses):
        text = f"(a) {text} (b) Error of each block on each segment."
    return text


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
