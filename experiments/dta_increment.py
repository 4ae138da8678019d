"""DTA Key-Increment: how large are the errors of counters in memory, and do they agree with theory?

A host reports counts of flows. Flow n has 1 / n of the count of the first flow. A translator adds
each count to one counter in each of N rows with RDMA FETCH ADD. The estimate for a key is the min
of its counters. The estimate is too large if other flows also use all of these counters. The memory
written by the translator must equal a numpy model, counter by counter. No estimate may be below
ground truth. Theory bounds the errors (Cormode and Muthukrishnan 2005). For keys that were never
counted, theory also gives the whole distribution of errors. One test compares the errors over many
sets of counters with this distribution.

Claim: No estimate is below ground truth, the fraction of estimates above the bound is at most that
of theory, and errors have the distribution of theory.

Published: Cormode and Muthukrishnan (2005): an estimate exceeds the true value by more than eps N
with probability at most delta.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from collectors.dta.hashes import Words
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.packets import KeyIncrement
from collectors.dta.theory import error_bound, error_exceeds
from collectors.roce.region import Region
from controllers.dta.manager.fabric import Area
from controllers.dta.stores import CounterStore
from controllers.dta.translator import CounterSession
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import PROGRAM, checks, translating
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, t_test_p_value
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

ROWS = (1, 2, 4, 8)
SLOTS = (64, 128, 256, 512)  # numbers of slots per row
SHOWN = 64  # number of slots per row for the drawn distribution
# errors in the figure, normalized to the sum of all counts
LEVELS = (0, 0.005, 0.01, 0.02, 0.04, 0.08)
FLOWS, LARGEST = 300, 600
ABSENT = 2000  # number of keys per set that were never counted
SEEN = 30  # min expected number of estimates above an error level, for a normal approximation
FILE = "counters"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sets", type=cli.positive_int, metavar="N",
        help="sets of counters for the test of theory (default: 300)",
    )  # fmt: skip
    cli.add_rate_option(parser, 2000, "reports")
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


class Point(NamedTuple):
    """Fraction of keys whose error exceeds a level, among keys that were never counted.

    The fraction is over several sets of counters.
    """

    rows: int
    slots: int
    above: float  # error, normalized to the sum of all counts
    measured: float  # fraction of estimates with a larger error
    expected: float
    chance: float  # p-value of `measured`


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.sets = max(options.sets or (40 if options.quick else 300), 2)
    rng = np.random.default_rng(run.seed)
    sizes = np.ceil(LARGEST / np.arange(1, FLOWS + 1)).astype(np.int64)
    settings = [(rows, random_keys(FLOWS, rng), sizes, options)
                for rows in ((1, 4) if options.quick else ROWS)]  # fmt: skip
    exact = await sweep(translated, settings, run)
    points, too_far = [], []
    for slots in (SHOWN,) if options.quick else SLOTS:
        for rows in ROWS:
            found, part = modelled(rows, slots, sizes, options.sets, rng)
            points += found
            too_far.append(part)
    return Report(
        samples=[point._asdict() for point in points],
        checks=[
            *(check for of_rows in exact for check in of_rows),
            Check("estimates above the bound (normalized to theory)", max(too_far), 0, 1),
            agreement_check("errors", [point.chance for point in points]),
        ],
        metrics={"flows": FLOWS, "counted": int(sizes.sum())},
        figure=draw(points, sizes),
        caption=caption(options, int(sizes.sum())),
    )


def random_keys(count: int, rng: np.random.Generator) -> Words:
    """Return random keys as an array of shape (count, 4)."""
    return rng.integers(1 << 32, size=(count, 4), dtype=np.uint32)


async def translated(
    rows: int, keys: Words, sizes: NDArray[np.int64], options: argparse.Namespace, run: Run
) -> list[Check]:
    """Check that the counters of the P4 translator equal the model, with two reports per flow."""
    name = f"rows-{rows}"
    addends = sizes.astype(np.uint64)
    halves = np.stack([addends // np.uint64(2), addends - addends // np.uint64(2)])
    area = Area(COUNTER, rows * SHOWN, partial(CounterStore, SHOWN, rows), CounterSession, FILE)
    async with translating(run, name, [area], options.program) as running:
        for half in halves:
            report = KeyIncrement(redundancy=rows)
            addend = (half >> np.uint64(32), half & np.uint64(0xFFFFFFFF))
            sent = filled(report, [*keys.T, *addend], sequence=np.arange(len(keys)))
            await running.send(sent, options.rate)
        region = Region(COUNTER, rows * SHOWN, run.folder / FILE)
        model = Region(COUNTER, rows * SHOWN)
        Counters(model.records, rows).add(keys, addends, rows)
        wrong = int((region.records != model.records).sum())
        below = int((Counters(region.records, rows).estimate(keys, rows) < addends).sum())
    (run.folder / FILE).unlink()
    return [
        Check(f"{name}: counters that differ from the model", wrong, 0),
        Check(f"{name}: estimates below ground truth", below, 0),
        *checks(name, running.net, 2 * len(sizes) * rows),
    ]


def modelled(
    rows: int, slots: int, sizes: NDArray[np.int64], sets: int, rng: np.random.Generator
) -> tuple[list[Point], float]:
    """Return errors over `sets` sets of counters, and how often estimates exceed their bound.

    The latter is normalized to the largest rate that theory allows.
    """
    total = int(sizes.sum())
    levels = [int(level * total) for level in LEVELS]
    bound, limit = error_bound(rows, slots, total)
    above = np.empty((sets, len(levels)))
    too_far = []
    for number in range(sets):
        counters = Counters(Region(COUNTER, rows * slots).records, rows)
        keys = random_keys(len(sizes), rng)
        counters.add(keys, sizes.astype(np.uint64), rows)
        errors = counters.estimate(random_keys(ABSENT, rng), rows)
        above[number] = [(errors > level).mean() for level in levels]
        own = counters.estimate(keys, rows) - sizes.astype(np.uint64)
        too_far.append((own > bound).mean())
    # rounded, because the last digits depend on the CPU's vector instructions
    expected = error_exceeds(sizes, slots, rows, levels[-1])[levels].round(12)
    points = [
        Point(rows, slots, part, float(each.mean()), float(theory), t_test_p_value(each, theory))
        for part, each, theory in zip(LEVELS, above.T, expected, strict=True)
        if min(theory, 1 - theory) * sets * slots > SEEN
    ]
    return points, float(np.mean(too_far)) / limit


def draw(points: Sequence[Point], sizes: NDArray[np.int64]) -> Figure:
    """Draw the distribution of errors, and errors over the number of counters."""
    figure, (left, right) = plots.figure(2)
    total = int(sizes.sum())
    for number, rows in enumerate(ROWS):
        colour, marker = plots.COLOURS[number], plots.MARKERS[number]
        shown = [p for p in points if (p.rows, p.slots) == (rows, SHOWN)]
        theory = error_exceeds(sizes, SHOWN, rows, int(LEVELS[-1] * total))
        left.plot(np.arange(len(theory)) / total, theory, "-", color=colour, marker="")
        left.plot([p.above for p in shown], [p.measured for p in shown], linestyle="",
                  color=colour, marker=marker, label=f"N = {rows}")  # fmt: skip
        draw_widths(right, [p for p in points if (p.rows, p.above) == (rows, LEVELS[2])], number)
    for axes, label in ((left, "Error (normalized to sum of counts)"), (right, "Counters per row")):
        axes.set_yscale("log", nonpositive="mask")
        axes.set(xlabel=label, ylim=(1e-5, 1.5))
    left.set_ylabel("Fraction with larger error (CCDF)")
    right.set_ylabel(f"Fraction with error above {LEVELS[2]:g}")
    plots.legend(left, 4)
    return figure


def draw_widths(axes: Axes, points: Sequence[Point], number: int) -> None:
    """Draw how many estimates exceed one error level, for each number of slots per row."""
    widths = [p.slots for p in points]
    colour = plots.COLOURS[number]
    axes.plot(widths, [p.expected for p in points], "-", color=colour, marker="")
    axes.plot(widths, [p.measured for p in points], linestyle="", color=colour,
              marker=plots.MARKERS[number])  # fmt: skip
    axes.set_xscale("log", base=2)


def caption(options: argparse.Namespace, total: int) -> str:
    """Return the caption of the figure."""
    return (
        f"Errors of estimates for keys that were never counted, in {options.sets} sets of counters "
        f"with {FLOWS} flows and {total:,} counts; lines show theory. The counters of a P4 "
        f"translator equal the model, {plots.runs(1, options.time)}. (a) Distribution of errors "
        f"with N rows of {SHOWN} counters. (b) Fraction of estimates above one error level, over "
        "the number of counters per row. Errors that are too rare for a test have no point."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
