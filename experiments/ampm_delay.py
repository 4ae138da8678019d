"""Delay by alternate marking: does each method measure the delay of the marked packets exactly?

One flow per method crosses the link between s1 and s2. The link has a delay of 0.1 to 500 ms. Block
lengths fit the delay, which means that clock error plus delay (A + D) is below the limit of each
method. Then background traffic loads the link for some blocks, so that delays have a distribution.
Finally the link loses packets, and the methods must detect lost pulses. The mean delay method
compares the mean time of sent packets with the mean time of received packets. Under loss it has an
error of known variance. In virtual time, ground truth is exact to the nanosecond. In real time,
hosts and switches read the clock before and after each send call. The readings bound the time of a
packet. Every delay and every timestamp must lie within the bounds.

Claim: Each method measures the delay of the packets that it observes.

Published: RFC 9341, section 3.2: the first packet of a block, or a packet marked for this purpose,
gives one delay per block; the mean of all packets is robust against reordering, but not exact
under loss.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from controllers.ampm.records import Point
from experiments.shared.ampm.delay_cases import Case, Results, Row, split_by_kind
from experiments.shared.ampm.delays import (
    ESTIMATORS,
    METHODS,
    check_options,
    check_samples_are_fair,
    measure_delays,
    true_delays_us,
)
from experiments.shared.ampm.error_bounds import Machine, Workload, machine_for
from experiments.shared.ampm.measurement import (
    Setting,
    add_common_options,
    describe_noise,
    flow_count,
    measure,
    reject_if_disturbed,
    worst,
)
from experiments.shared.ampm.stamps import Times, order_checks, steps, width_metrics
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds
from telemark.traffic.flows import Flow
from telemark.traffic.patterns import Poisson
from topologies.basic import Dumbbell

PATH = ("s1", "s2")
WHOLE = (Point("s1", "arrivals"), Point("s2", "departures"))
RATE_BPS, QUEUE, BACKGROUND_BYTES = 10_000_000, 64, 1000  # rate and queue of the link under load
MACHINE_US = 60_000  # max delay that a loaded machine may add in real time
# name of a check that fails if a loaded machine reads blocks late
UNREAD = "blocks with a delay"
RESOLUTION_US = 1  # max error of a difference of two timestamps with this resolution


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--delay-ms", type=cli.positive_float, nargs="+", metavar="MS",
        help="link delays (default: 0.1 1 10 100 500)",
    )  # fmt: skip
    parser.add_argument(
        "--load", type=cli.probability, default=0.8, metavar="SHARE",
        help="background load in the case with load, as a fraction of the link rate (default: "
        "%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="*", metavar="PERCENT",
        help="link loss ratios (default: 1 5)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "each flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks per run, at least 2 with background load (default: 6)",
    )  # fmt: skip
    add_common_options(parser)
    cli.add_metrics_option(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    virtual = options.time == "virtual"
    options.delay_ms = options.delay_ms or ([1] if options.quick else [0.1, 1, 10, 100, 500])
    options.loss = ([5] if options.quick else [1, 5]) if options.loss is None else options.loss
    options.blocks = options.blocks or (4 if options.quick else 6)
    check_options(options)
    options.seeds = options.seeds or (10 if virtual and not options.quick else 1)
    heaviest = max(make_cases(options, Machine()), key=lambda case: case.load)
    load = Workload.of(make_setting(heaviest, options.seed, options))
    machine = await machine_for(load, MACHINE_US, options, run)
    settings = [(case, options) for case in make_cases(options, machine)]
    seeds = range(options.seed, options.seed + options.seeds)
    found = [Results.of(runs) for runs in await sweep_seeds(measured, settings, seeds, run)]
    return Report(
        samples=[row.as_dict() for results in found for row in results.rows],
        checks=reject_if_disturbed(
            [
                *(check for results in found for check in make_checks(results, options)),
                *check_stamp_order(found),
            ],
            [UNREAD],
            describe_noise(summary for results in found for summary in results.summaries),
            virtual=virtual,
        ),
        metrics={results.case.name: make_metrics(results) for results in found},
        figure=draw(found, options),
        caption=caption(found, options),
        tables=[summary_table(found)],
    )


def make_cases(options: argparse.Namespace, machine: Machine) -> list[Case]:
    """Return all cases: first the link delays, then the load step, then the loss ratios."""
    queue_us = QUEUE * BACKGROUND_BYTES * 8e6 / RATE_BPS
    cases = [
        Case(f"delay {ms:g} ms", 1000 * ms, machine.bounds(1000 * ms)) for ms in options.delay_ms
    ]
    if options.load:
        bounds = machine.bounds(1000 + queue_us)
        cases.append(Case(f"load {options.load:g}", 1000, bounds, load=options.load))
    return cases + [
        Case(f"loss {percent:g} %", 1000, machine.bounds(1000), loss=percent / 100)
        for percent in options.loss
    ]


def make_setting(case: Case, seed: int, options: argparse.Namespace) -> Setting:
    """Return a setting with one flow per method over the link."""
    link: dict[str, float] = {"delay_us": case.delay_us, "loss_probability": case.loss}
    if case.load:
        link |= {"rate_bps": RATE_BPS, "queue_packets": QUEUE}
    count = flow_count(options.rate, options.blocks, case.schedule)
    spacing_s = 1 / options.rate / len(METHODS)
    return Setting(
        name=f"{case.name}-seed-{seed}".replace(" ", "-").replace("%", "percent"),
        topo=Dumbbell(**link),
        path=PATH,
        watched={
            # Flows start at different times. Otherwise packets of the last flow would always queue
            # last.
            Flow(n, "h1", "h2", options.rate, count, after_s=n * spacing_s): methods
            for n, methods in enumerate(METHODS, start=1)
        },
        schedule=case.schedule,
        bounds=case.bounds,
        blocks=options.blocks,
        background=make_background(case, options) if case.load else (),
        stamped=True,
        program=options.program,
    )


def make_background(case: Case, options: argparse.Namespace) -> list[Flow]:
    """Return the traffic that loads the link in the second half of the blocks."""
    free_bps = case.load * RATE_BPS - len(METHODS) * options.rate * 64 * 8
    rate_pps = max(free_bps / 8 / BACKGROUND_BYTES, 1)
    loaded, block_s = options.blocks // 2, case.schedule.block_us / 1e6
    after_s = (0.5 + options.blocks - loaded) * block_s
    count = max(round(rate_pps * loaded * block_s), 1)
    return [Flow(100, "h3", "h4", rate_pps, count, BACKGROUND_BYTES, after_s=after_s,
                 pattern=Poisson())]  # fmt: skip


async def measured(case: Case, options: argparse.Namespace, run: Run) -> Results:
    """Run one case with one seed."""
    setting = make_setting(case, run.seed, options)
    outcome = await measure(setting, run)
    loaded_from = outcome.blocks.stop - setting.blocks // 2 if case.load else math.inf
    rows, true_us = [], []
    for flow, methods in setting.watched.items():
        rows += [
            Row(case, run.seed, sample, sample.block >= loaded_from)
            for sample in measure_delays(outcome, flow, methods, WHOLE)
        ]
        block = outcome.truths[flow.id].block
        within = (block >= loaded_from) & (block < outcome.blocks.stop)
        min_us, max_us = (bound[within] for bound in true_delays_us(outcome, flow, *WHOLE))
        of_flow_us = (min_us + max_us) / 2
        true_us.append(of_flow_us[~np.isnan(of_flow_us)])
    stamped = [outcome] if outcome.handling else []
    return Results(case, rows, [outcome.summary()], stamped, np.concatenate(true_us))


def make_checks(results: Results, options: argparse.Namespace) -> list[Check]:
    """Check that delays are exact, lost pulses are detected, and samples are representative."""
    case, virtual = results.case, options.time == "virtual"
    checks = []
    for estimator in ESTIMATORS:
        samples = [row.sample for row in results.rows if row.sample.estimator == estimator]
        outside = results.outside_us(estimator)
        if estimator == "mean" and case.loss:
            checks.append(mean_error_variance_check(results, options))
        elif len(outside):
            name = f"{case.name}, {estimator}: max error (us)"
            checks.append(Check(name, outside.max(), 0, RESOLUTION_US))
        if estimator != "hashed" and not case.loss:
            wanted = options.blocks * options.seeds
            name = f"{case.name}, {estimator}: {UNREAD}"
            checks.append(Check(name, len(outside), wanted, 0 if virtual else wanted // 2))
        if estimator == "hashed":
            wrong = sum(s.true_us is None for s in samples)
            name = f"{case.name}, hashed: timestamps matching no packet"
            checks.append(Check(name, wrong, 0))
        if estimator in ("pulse", "double", "multiplexed"):
            wrong = sum((s.measured_us is None) != (s.true_us is None) for s in samples)
            checks.append(Check(f"{case.name}, {estimator}: undetected lost pulses", wrong, 0))
    if case.load:
        checks += check_samples_are_fair(
            case.name, [row.sample for row in results.rows if row.loaded], results.true_us
        )
    return [*checks, *worst(c for s in results.summaries for c in s.checks(case.name))]


def check_stamp_order(found: Sequence[Results]) -> list[Check]:
    """Check that all timestamps of each packet are in causal order (only in real time)."""
    pairs: dict[str, list[tuple[Times, Times]]] = {}
    for results in found:
        for outcome in results.stamped:
            for flow, handling in outcome.handling.items():
                of_flow = steps(outcome.truths[flow], handling, [results.case.delay_us])
                for what, pair in of_flow.items():
                    pairs.setdefault(what, []).append(pair)
    return order_checks(pairs)


def mean_error_variance_check(results: Results, options: argparse.Namespace) -> Check:
    """Check the mean square error of measured mean delays, normalized to the variance by theory."""
    errors = results.errors_us("mean") / mean_sd_us(results.case, options)
    square = float(np.mean(errors**2)) if len(errors) else float("nan")
    low, high = statistics.mean_square_bounds(max(len(errors), 1))
    name = f"{results.case.name}, mean: mean square error (normalized to theory)"
    return Check(name, square, 1, high - 1 if square > 1 else 1 - low)


def mean_sd_us(case: Case, options: argparse.Namespace) -> float:
    """Return the predicted sd of the error of the mean delay under loss.

    The result is L sqrt(p / (12 n (1 - p))), with block length L, loss ratio p and n packets per
    block.
    """
    packets = options.rate * case.schedule.block_us / 1e6
    return case.schedule.block_us * math.sqrt(case.loss / (12 * packets * (1 - case.loss)))


def make_metrics(results: Results) -> dict[str, object]:
    """Return percentiles of errors, of measured delays and of true delays."""
    metrics: dict[str, object] = {
        "block_us": results.case.schedule.block_us,
        "true_us": statistics.percentiles(results.true_us),
    }
    metrics |= width_metrics(results.widths_us)
    for estimator in ESTIMATORS:
        measured = [
            row.sample.measured_us for row in results.rows
            if row.sample.estimator == estimator and row.sample.measured_us is not None
        ]  # fmt: skip
        metrics[estimator] = {
            "delays": len(measured),
            "measured_us": statistics.percentiles(np.array(measured)),
            "error_us": statistics.percentiles(results.errors_us(estimator)),
        }
    return metrics


def summary_table(found: Sequence[Results]) -> Table:
    """Return a table with a row per case and estimator."""
    rows = []
    for results in found:
        for estimator in ESTIMATORS:
            outside = results.outside_us(estimator)
            found_us = statistics.percentiles(outside)
            length_s = f"{results.case.schedule.block_us / 1e6:.2f}"
            shown = [found_us.get(name, math.nan) for name in ("p50", "p99", "max")]
            rows.append((results.case.name, length_s, estimator, len(outside), *shown))
    columns = ("case", "L (s)", "estimator", "delays", "p50", "p99", "max")
    return table("Delay error (us)", columns, rows)


def draw(found: Sequence[Results], options: argparse.Namespace) -> Figure:
    """Draw a panel per kind of case: errors by delay, delays under load, mean under loss."""
    by_delay, loaded, lossy = split_by_kind(found)
    exact = all(r.outside_us(e).max(initial=0) == 0 for r in by_delay for e in ESTIMATORS)
    has_widths = any(len(widths) for r in by_delay for widths in r.widths_us.values())
    drawings = [partial(draw_distribution, results=r) for r in loaded]
    if lossy:
        drawings.append(partial(draw_mean, found=lossy, options=options))
    if has_widths or not exact or not drawings:
        drawings.insert(0, partial(draw_errors, found=by_delay, exact=exact))
    figure, panels = plots.figure(len(drawings))
    for axes, drawing in zip(panels, drawings, strict=True):
        drawing(axes)
    if exact:
        count = sum(len(r.outside_us(e)) for r in by_delay for e in ESTIMATORS)
        plots.note(figure, f"Idle link, all methods: all {count:,} delays without error")
    return figure


def draw_errors(axes: Axes, found: Sequence[Results], exact: bool) -> None:
    """Draw the max error for each link delay and, in real time, the timestamp uncertainty."""
    for number, estimator in enumerate([] if exact else ESTIMATORS):
        x = [r.case.delay_us / 1000 * 1.08 ** (number - 2.5) for r in found]
        y = [r.outside_us(estimator).max(initial=0) for r in found]
        axes.plot(x, y, linestyle="", label=estimator,
                  color=plots.COLOURS[number], marker=plots.MARKERS[number])  # fmt: skip
    if not exact:
        axes.axhline(RESOLUTION_US, color="black", linestyle="--", label="resolution")
    draw_widths(axes, found)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=-0.1)
    axes.set_xscale("log")
    delays_ms = [r.case.delay_us / 1000 for r in found]
    axes.set_xticks(delays_ms, [f"{delay_ms:g}" for delay_ms in delays_ms])
    axes.minorticks_off()
    axes.set_xlim(0.5 * min(delays_ms), 2 * max(delays_ms))
    axes.set_xlabel("Link delay (ms)")
    axes.set_ylabel("Timestamp uncertainty (µs)" if exact else "Max error and uncertainty (µs)")
    plots.legend(axes, 1 if exact else 2)


def draw_widths(axes: Axes, found: Sequence[Results]) -> None:
    """Draw the median timestamp uncertainty in real time, with error bars up to p99."""
    x = np.array([r.case.delay_us / 1000 for r in found])
    for number, name in enumerate(found[0].widths_us):
        # There is nothing to draw if no packet arrives.
        widths_us = [np.percentile(r.widths_us[name], [50, 99]) if len(r.widths_us[name])
                     else [np.nan, np.nan] for r in found]  # fmt: skip
        middle, wide = np.array(widths_us).T
        axes.errorbar(
            x * 1.12 ** (2 * number - 1), middle, [0 * middle, wide - middle],
            linestyle="", marker="os"[number], color=("black", "0.5")[number], label=name,
        )  # fmt: skip


def draw_distribution(axes: Axes, results: Results) -> None:
    """Draw CDFs under load: true delays of all packets, and delays measured by each method."""
    groups = {
        "mean": ("mean",),
        "pulses": ("pulse", "double", "multiplexed"),
        "hashed": ("hashed",),
    }
    x = np.sort(results.true_us) / 1000
    axes.plot(x, np.arange(1, len(x) + 1) / len(x), color="black", marker="",
              label=f"all ({len(x):,})", rasterized=True)  # fmt: skip
    for number, (label, estimators) in enumerate(groups.items()):
        x = np.sort([
            row.sample.measured_us / 1000 for row in results.rows if row.loaded
            and row.sample.estimator in estimators and row.sample.measured_us is not None
        ])  # fmt: skip
        axes.step(x, np.arange(1, len(x) + 1) / len(x), where="post", marker="",
                  color=plots.COLOURS[number], label=f"{label} ({len(x):,})")  # fmt: skip
    axes.set_xlim(0, 1.2 * np.percentile(results.true_us, 99.5) / 1000)
    axes.set_xlabel(f"Delay at load {results.case.load:g} (ms)")
    axes.set_ylabel("CDF")
    plots.legend(axes, 2)


def draw_mean(axes: Axes, found: Sequence[Results], options: argparse.Namespace) -> None:
    """Draw errors of the mean delay under loss and the standard deviation in theory."""
    for place, results in enumerate(found):
        law_us = mean_sd_us(results.case, options)
        errors_us = results.errors_us("mean")
        spread = np.linspace(-0.15, 0.15, len(errors_us))
        axes.plot(place + spread, errors_us, linestyle="", markersize=2, color=plots.COLOURS[1],
                  marker=plots.MARKERS[1], label="" if place else "measured")  # fmt: skip
        axes.errorbar([place + 0.28], [0], [law_us], color="black", marker="",
                      label="" if place else "theory: ±1 sd")  # fmt: skip
    axes.set_xticks(range(len(found)), [f"{100 * r.case.loss:g}" for r in found])
    axes.set_xlim(-0.5, len(found) - 0.5)
    axes.set_xlabel("Link loss (%)")
    axes.set_ylabel("Error of the mean delay (µs)")
    plots.legend(axes, 2)


def caption(found: Sequence[Results], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    by_delay, _, _ = split_by_kind(found)
    delays = ", ".join(f"{r.case.delay_us / 1000:g}" for r in by_delay)
    enclosed = (
        "Two clock readings bound each timestamp. The difference between them (p50 to p99) is the "
        "uncertainty of ground truth. "
    )
    return (
        f"Delay by alternate marking, compared with ground truth: "
        f"{plots.count(options.seeds, 'run')} in {options.time} time, on an idle link of "
        f"{delays} ms, under load, and with loss. {enclosed if options.time == 'real' else ''}"
        "Under load, pulses and hashed samples have the delay distribution of all packets, and "
        "block means vary less. The mean delay is wrong in blocks with lost packets and exact in "
        "all others."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
