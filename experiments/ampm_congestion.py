"""Congestion by alternate marking: do loss and delay of one flow show when a link is congested?

This experiment repeats the evaluation of the AM-PM talk: one monitored flow and background traffic
share the link between s1 and s2. The background traffic has phases: none, some, more than the link
capacity, none. The experiment measures loss and delay of the monitored flow in each block and
compares both values with ground truth. Captures of all frames show how long the link was busy with
earlier frames after the pulse arrived at s1. The queueing delay of the pulse in s1 must equal this
time (or the time that s1 needed to receive the pulse, if that is longer).

Claim: Loss and delay of one flow rise together when its link is congested. Both rise in the
congested blocks, and by the same amount as in ground truth.

Published: "Time-Muxed Parsing in Marking-based Network Telemetry" (SYSTOR 2019): its evaluation
shows one value of loss and delay per period for one flow. Loss and delay rise when load is added to
a path with 5 % loss and 0.5 s of delay.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Method
from experiments.shared.ampm.delays import measure_delays
from experiments.shared.ampm.error_bounds import Machine, Workload, machine_for
from experiments.shared.ampm.links import Link, taken_in
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    Outcome,
    Setting,
    Summary,
    add_common_options,
    check_total_loss,
    describe_noise,
    flow_count,
    measure_seeded,
    reject_if_disturbed,
    shortest_schedule,
    worst,
)
from experiments.shared.ampm.truth import NEVER
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds
from telemark.traffic.flows import Flow
from telemark.traffic.patterns import Poisson
from topologies.basic import Dumbbell

METHODS = {"double": Method.DOUBLE, "multiplexed": Method.MULTIPLEXED}
PATH = ("s1", "s2")
ARRIVED, SENT, DONE = Point("s1", "arrivals"), Point("s1", "departures"), Point("s2", "departures")
RATE_BPS, QUEUE, BACKGROUND_BYTES, WATCHED_BYTES = 10_000_000, 64, 1000, 64
LINK_DELAY_US = 1000
EMPTY_US = LINK_DELAY_US + WATCHED_BYTES * 8e6 / RATE_BPS  # delay over an idle link
FULL_QUEUE_US = QUEUE * BACKGROUND_BYTES * 8e6 / RATE_BPS
MACHINE_US = 60_000  # max delay that a loaded machine may add in real time
RESOLUTION_US = 1

# Checks that can fail if the machine is loaded, because load changes the traffic or makes readouts
# late.
UNREAD = "unread blocks"
CALM_LOSS = "unloaded blocks with loss"
NO_PULSE = "unloaded blocks without a delay"
CALM_WAIT = "unloaded blocks with more than the link delay"
NO_LOSS = "congested blocks without loss"
SHORT_WAIT = "congested blocks with less than half the delay of a full queue"
SPOILABLE = (UNREAD, CALM_LOSS, NO_PULSE, CALM_WAIT, NO_LOSS, SHORT_WAIT)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method", choices=METHODS, default="multiplexed",
        help="how the monitored flow is marked (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--load", type=cli.positive_float, nargs="+", default=[0.6, 1.5], metavar="SHARE",
        help="background load of each loaded phase, as a fraction of the link rate; a phase "
        "without load is added before the first and after the last (default: 0.6 1.5)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "the monitored flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="blocks per phase, at least 2 (default: 5)",
    )  # fmt: skip
    add_common_options(parser)
    cli.add_metrics_option(parser)


# At this load or more, the first packets of a block fill the queue. The probability that none of
# MANY_PACKETS packets meets a full queue is below 1 in 1000. At lower loads, some blocks may show
# no congestion. With MANY_PACKETS per block, there is also a packet in each 1/32 of a block, which
# is the length of the pulse window of multiplexed marking.
CONGESTED_LOAD, MANY_PACKETS = 1.3, 40


@dataclass(frozen=True)
class Period:
    """Measurements and ground truth of one block.

    A measured value is None if it is unknown, or if the pulse was lost.
    """

    seed: int
    block: int  # number of the block; the first complete block is 0
    load: float  # background load, as a fraction of the link rate
    packets: int  # packets of the monitored flow that s1 received
    measured_loss: int | None
    true_loss: int
    measured_delay_us: float | None
    true_delay_us: float | None
    # difference between the measured delay and the range of the true delay
    outside_us: float | None
    waited_us: float | None  # measured queueing delay in s1
    busy_us: (
        float | None
        # time after the arrival of the pulse until s1 had processed the pulse and the link had sent
        # all earlier frames, from captures
    )


@dataclass(frozen=True)
class RunResult:
    """Results of one run, without its packets."""

    summary: Summary
    periods: list[Period]
    dropped_early: int  # packets that s1 dropped though its queue had room


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    virtual = options.time == "virtual"
    options.seeds = options.seeds or (10 if virtual and not options.quick else 1)
    options.blocks = max(options.blocks or (3 if options.quick else 5), 2)
    anyhow = make_setting(options, Schedule(MIN_BLOCK_US), Bounds())
    machine = await machine_for(Workload.of(anyhow), MACHINE_US, options, run)
    bounds = machine.bounds(LINK_DELAY_US + FULL_QUEUE_US)
    schedule = shortest_schedule([METHODS[options.method]], bounds)
    setting = make_setting(options, schedule, bounds)
    (flow,) = setting.watched
    seeds = range(options.seed, options.seed + options.seeds)
    (found,) = await sweep_seeds(measured, [(setting, options)], seeds, run)
    periods = [period for each in found for period in each.periods]
    return Report(
        samples=[dataclasses.asdict(period) for period in periods],
        checks=make_checks(found, flow, options, machine),
        metrics={"block_us": schedule.block_us, "full_queue_us": FULL_QUEUE_US},
        figure=draw(periods, options, schedule),
        caption=caption(options),
        tables=[summary_table(periods)],
    )


async def measured(setting: Setting, options: argparse.Namespace, run: Run) -> RunResult:
    """Run the experiment with one seed."""
    outcome = await measure_seeded(setting, run)
    (flow,) = setting.watched
    return RunResult(outcome.summary(), make_periods(outcome, flow, run.seed, options),
                 sum(dropped_with_room(outcome)))  # fmt: skip


def phase_loads(options: argparse.Namespace) -> list[float]:
    """Return the background load of each phase."""
    return [0.0, *options.load, 0.0]


def make_setting(options: argparse.Namespace, schedule: Schedule, bounds: Bounds) -> Setting:
    """Return the monitored flow, and a background flow for each loaded phase."""
    blocks = options.blocks * len(phase_loads(options))
    phase_s = options.blocks * schedule.block_us / 1e6
    background = []
    for number, load in enumerate(phase_loads(options)):
        rate_pps = load * RATE_BPS / 8 / BACKGROUND_BYTES
        if rate_pps:
            after_s = 0.5 * schedule.block_us / 1e6 + number * phase_s
            count = max(round(rate_pps * phase_s), 1)
            background.append(
                Flow(100 + number, "h3", "h4", rate_pps, count, BACKGROUND_BYTES,
                     after_s=after_s, pattern=Poisson())
            )  # fmt: skip
    count = flow_count(options.rate, blocks, schedule)
    return Setting(
        name="congestion",
        topo=Dumbbell(rate_bps=RATE_BPS, queue_packets=QUEUE, delay_us=LINK_DELAY_US),
        path=PATH,
        watched={Flow(1, "h1", "h2", options.rate, count, WATCHED_BYTES): METHODS[options.method]},
        schedule=schedule,
        bounds=bounds,
        blocks=blocks,
        background=background,
        stamped=True,
        program=options.program,
    )


def make_periods(
    outcome: Outcome, flow: Flow, seed: int, options: argparse.Namespace
) -> list[Period]:
    """Return the measured and true values of loss and delay of every complete block."""
    truth = outcome.truths[flow.id]
    methods = METHODS[options.method]
    whole, in_s1 = (
        {sample.block: sample for sample in measure_delays(outcome, flow, methods, (ARRIVED, end))}
        for end in (DONE, SENT)
    )
    link = Link.of(outcome, PATH[0], RATE_BPS)
    taken_ns = taken_in(outcome, flow.id, PATH[0])
    periods = []
    for number, block in enumerate(outcome.blocks):
        first, last = outcome.record(flow, ARRIVED, block), outcome.record(flow, DONE, block)
        known = first is not None and last is not None
        pulse = np.flatnonzero(truth.pulse & (truth.block == block))
        busy_us = None
        if len(pulse):
            came, taken = (int(times[pulse[0]]) for times in (truth.time_ns[ARRIVED], taken_ns))
            busy_us = (max(link.free_ns(taken), taken) - came) / 1000
        delay, waited = whole.get(block), in_s1.get(block)
        period = range(block, block + 1)
        periods.append(
            Period(
                seed,
                number,
                phase_loads(options)[number // options.blocks],
                int(truth.packets(ARRIVED, period)[0]),
                first.packets - last.packets if first and last and known else None,
                int(truth.lost(ARRIVED, DONE, period)[0]),
                delay.measured_us if delay else None,
                delay.true_us if delay else None,
                delay.outside_us if delay else None,
                waited.measured_us if waited else None,
                busy_us,
            )
        )
    return periods


def dropped_with_room(outcome: Outcome) -> list[int]:
    """Return, for each flow, how many packets s1 dropped while its queue was not full."""
    link = Link.of(outcome, PATH[0], RATE_BPS)
    found = []
    for number, truth in outcome.truths.items():
        taken_ns = taken_in(outcome, number, PATH[0])
        dropped = taken_ns[(taken_ns != NEVER) & ~truth.passed(SENT)]
        found.append(int(np.count_nonzero(link.waiting(dropped) < QUEUE)))
    return found


def make_checks(
    runs: Sequence[RunResult], flow: Flow, options: argparse.Namespace, machine: Machine
) -> list[Check]:
    """Check that measurements are exact and that they show congestion only in congested blocks."""
    virtual = options.time == "virtual"
    summaries = [each.summary for each in runs]
    periods = [period for each in runs for period in each.periods]
    losses = [abs(p.measured_loss - p.true_loss) for p in periods if p.measured_loss is not None]
    outside = known_values(periods, "outside_us")
    calm = [p for p in periods if is_calm(p, options)]
    congested = [p for p in periods if p.load >= CONGESTED_LOAD and p.packets >= MANY_PACKETS]
    half_us = LINK_DELAY_US + FULL_QUEUE_US / 2
    slack_us = max(machine.delay_us, RESOLUTION_US)
    # max number of blocks that a loaded machine may disturb
    few = 0 if virtual else len(periods) // 10 * 5
    delays = {id(p): p.measured_delay_us for p in periods if p.measured_delay_us is not None}
    found = [
        ("max loss error per block (packets)", max(losses, default=float("nan")), 0, 0),
        ("max delay error (us)", max(outside, default=float("nan")), 0, RESOLUTION_US),
        (UNREAD, len(periods) - len(losses), 0, few),
        (CALM_LOSS, sum((p.measured_loss or 0) > 0 for p in calm), 0, 0),
        (NO_LOSS, sum(p.measured_loss == 0 for p in congested), 0, 0),
        (NO_PULSE, sum(id(p) not in delays for p in calm if p.packets >= MANY_PACKETS), 0, few),
        (CALM_WAIT, sum(delays.get(id(p), 0) > EMPTY_US + slack_us for p in calm), 0, 0),
        (SHORT_WAIT, sum(delays.get(id(p), half_us) < half_us for p in congested), 0, 0),
        ("packets dropped by s1 while its queue was not full",
         sum(each.dropped_early for each in runs), 0, 0),
    ]  # fmt: skip
    if (
        options.target != "bmv2"
    ):  # A program on bmv2 does not see the queue of the link (docs/reference/targets.md).
        wrong = sum(
            abs(p.waited_us - (p.busy_us or 0)) > RESOLUTION_US for p in periods
            if p.waited_us is not None
        )  # fmt: skip
        found.append(("pulses with a wrong queueing delay in s1", wrong, 0, 0))
    checks = [
        *(Check(*check) for check in found),
        *check_total_loss("congestion", summaries, flow.id, (ARRIVED, DONE)),
        *worst(check for summary in summaries for check in summary.checks("congestion")),
    ]
    return reject_if_disturbed(checks, SPOILABLE, describe_noise(summaries), virtual=virtual)


def is_calm(period: Period, options: argparse.Namespace) -> bool:
    """Return whether a block starts with an empty queue.

    The queue is empty if neither the block nor the previous block has background traffic.
    """
    before = phase_loads(options)[max(period.block - 1, 0) // options.blocks]
    return not period.load and not before


def summary_table(periods: Sequence[Period]) -> Table:
    """Return a table with a row per block and means over all seeds."""
    rows = []
    for block in sorted({period.block for period in periods}):
        ours = [period for period in periods if period.block == block]
        rows.append(
            (block, ours[0].load,
             *(known_mean(ours, name) for name in ("packets", "measured_loss", "true_loss",
                                                "measured_delay_us", "true_delay_us")))
        )  # fmt: skip
    columns = ("block", "load", "packets", "measured loss", "true loss", "measured delay (us)",
               "true delay (us)")  # fmt: skip
    return table("Monitored flow: loss (packets) and delay, mean over seeds", columns, rows)


def known_values(periods: Sequence[Period], name: str) -> list[float]:
    return [value for p in periods if (value := getattr(p, name)) is not None]


def known_mean(periods: Sequence[Period], name: str) -> float:
    values = known_values(periods, name)
    return float(np.mean(values)) if values else float("nan")


def draw(periods: Sequence[Period], options: argparse.Namespace, schedule: Schedule) -> Figure:
    """Draw loss and delay of each block, and the background load."""
    figure, (loss, delay) = plots.figure(2)
    for axes, measured, true, scale in (
        (loss, "measured_loss", "true_loss", 100 * 1e6 / (options.rate * schedule.block_us)),
        (delay, "measured_delay_us", "true_delay_us", 1e-3),
    ):
        series(axes, periods, measured, scale)
        series(axes, periods, true, scale)
        top = 1.15 * axes.get_ylim()[1]
        axes.set_ylim(-0.03 * top, top)
        shade(axes, options)
        axes.set_xlabel(f"Block (of {schedule.block_us / 1e6:.3g} s)")
        plots.legend(axes, 3)
    loss.set_ylabel("Packet loss (%)")
    delay.set_ylabel("One-way delay (ms)")
    return figure


def series(axes: Axes, periods: Sequence[Period], name: str, scale: float) -> None:
    """Draw measured values as points, with error bars over seeds. Draw ground truth as rings."""
    blocks = sorted({period.block for period in periods})
    values = [known_values([p for p in periods if p.block == block], name) for block in blocks]
    means = [scale * float(np.mean(v)) if v else float("nan") for v in values]
    spread = [scale * float(np.std(v)) if v else 0.0 for v in values]
    x = [block + 0.5 for block in blocks]
    if name.startswith("true"):
        plots.ring(axes, x, means, label="ground truth")
    else:
        axes.errorbar(x, means, spread, color=plots.COLOURS[0], marker=plots.MARKERS[0],
                      label="measured")  # fmt: skip


def shade(axes: Axes, options: argparse.Namespace) -> None:
    """Shade the phases by background load, as a fraction of the link rate."""
    for number, load in enumerate(phase_loads(options)):
        start, end = number * options.blocks, (number + 1) * options.blocks
        axes.axvspan(start, end, color=plots.COLOURS[1], alpha=min(0.3 * load, 0.6), lw=0)
        axes.text((start + end) / 2, 0.98, f"load {load:g}", ha="center", va="top", fontsize=7,
                  transform=axes.get_xaxis_transform())  # fmt: skip
    blocks = options.blocks * len(phase_loads(options))
    axes.set_xticks(range(0, blocks + 1, options.blocks))
    axes.set_xlim(0, blocks)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    real = (
        " In real time, the machine adds to some delays. Ground truth is then an interval between "
        "two clock readings, and the ring shows the middle of the interval."
    )
    return (
        f"Loss (a) and one-way delay (b) per block of one flow with {options.method} marking: "
        f"{plots.runs(options.seeds, options.time)}. Background traffic loads the shared link in "
        f"the shaded blocks (numbers: load as a fraction of the link rate). The queue of the link "
        f"holds {QUEUE} packets of any size and is still full when the load ends. Blocks whose "
        f"pulse was lost have no delay."
        f"{real if options.time == 'real' else ''}"
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
