"""DTA Sketch-Merge: does the merged sketch equal that of all traffic, with the errors of theory?

Reporters count flows of different sizes in count-min sketches of four rows. Each reporter counts
its own part of the packets and sends its sketch column by column. For each column number, a
translator adds the columns of all reporters. The translator writes eight sums at a time, after all
reporters have sent these columns. The memory of the collector must contain the sketch of all
packets, counter by counter. Estimates are never below ground truth. With w columns, the error
exceeds e / w of all packets with a probability of at most e^-4 (Cormode and Muthukrishnan 2005). If
the hash functions of the rows are independent, theory predicts the number of errors above half of 1
/ w for a given sketch. One test compares all points with this number.

Published: Cormode and Muthukrishnan (2005): an estimate exceeds the true value by more than eps N
with probability at most delta.

Claim: The memory contains the sum of all sketches, and errors agree with the theory of count-min
sketches.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from collectors.dta.hashes import Words, slots
from collectors.dta.packets import SketchMerge
from collectors.dta.sketch_merge import COLUMN, ROWS, estimate, read
from controllers.dta.batching import NEIGHBOURS, SketchStore
from controllers.dta.manager.fabric import Area
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import PROGRAM, checks, translating
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

WIDTHS = (16, 32, 64, 128, 256)
REPORTERS = (1, 2, 4, 8)
FLOWS = 2000
PACKETS = 20_000  # packets of the largest flow; flow n has 1 / n of them (Zipf's law)
ABSENT = 4000  # number of keys that were never counted, so that the estimate is the error
BOUND = math.exp(-ROWS)
SOME = 0.5  # error that many keys exceed, normalized to 1 / w of all packets


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_rate_option(parser, 5000, "reports")
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Found:
    """Estimates for flows and for keys that were never counted, in packets."""

    width: int
    reporters: int
    wrong: int  # number of wrong counters of the merged sketch
    requests: int
    total: int  # number of packets
    errors: NDArray[np.int64]  # estimate minus ground truth of each flow
    absent: NDArray[np.int64]
    counters: NDArray[np.uint32]  # counters of the merged sketch, (rows, columns)

    def beyond(self, part: float) -> int:
        """Return the number of absent keys with an error above part / w of all packets."""
        return int((self.absent > part * self.total / self.width).sum())

    def expected_beyond(self, part: float) -> float:
        """Return the expected fraction of absent keys with an error above part / w of all packets.

        The hash functions are assumed to be independent.
        """
        return float(np.prod((self.counters > part * self.total / self.width).mean(axis=1)))


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small = options.quick or options.time == "real"
    rng = np.random.default_rng(run.seed)
    cases = [(width, 4) for width in (WIDTHS[:3] if is_small else WIDTHS)]
    cases += [(64, reporters) for reporters in REPORTERS if reporters != 4]
    settings = [(width, counted(reporters, rng), options) for width, reporters in cases]
    measured = await sweep(measure, settings, run)
    found = [case for case, _ in measured]
    held = [check for _, exact in measured for check in exact]
    chances = [binomial_p_value(each.beyond(SOME), ABSENT, each.expected_beyond(SOME))
               for each in found]  # fmt: skip
    return Report(
        samples=[make_sample(each) for each in found],
        checks=[*held, agreement_check("errors", chances)],
        figure=draw(found),
        caption=caption(options),
    )


class Counted(NamedTuple):
    """Keys of flows and then of absent flows, shape (n, 4), and packets by flow and reporter."""

    keys: Words
    shares: NDArray[np.int64]


def counted(reporters: int, rng: np.random.Generator) -> Counted:
    """Return random keys, and split the packets of each flow at random among reporters."""
    keys = rng.integers(1 << 32, size=(FLOWS + ABSENT, 4), dtype=np.uint32)
    sizes = np.ceil(PACKETS / np.arange(1, FLOWS + 1)).astype(np.int64)
    shares = [rng.multinomial(size, [1 / reporters] * reporters) for size in sizes]
    return Counted(keys, np.stack(shares))


async def measure(
    width: int, given: Counted, options: argparse.Namespace, run: Run
) -> tuple[Found, list[Check]]:
    """Count packets, send reports, and query the merged sketch."""
    keys, sizes, reporters = given.keys, given.shares.sum(axis=1), given.shares.shape[1]
    name = f"{width}-columns-of-{reporters}"
    sketches = np.stack([count_min(keys[:FLOWS], of_one, width) for of_one in given.shares.T])
    store = partial(_store, width, reporters)
    async with translating(
        run, name, [Area(COLUMN, width, store)], options.program, reporters
    ) as running:  # fmt: skip
        await running.send(columns(sketches), options.rate)
        requests = await running.requests()
    merged = read(running.net.applications[0].result.records[0])
    whole = count_min(keys[:FLOWS], sizes, width)
    found = Found(
        width, reporters, int((merged != whole).sum()), requests, int(sizes.sum()),
        estimate(merged, keys[:FLOWS]).astype(np.int64) - sizes,
        estimate(merged, keys[FLOWS:]).astype(np.int64), merged,
    )  # fmt: skip
    where = f"{width} columns of {reporters}"
    return found, [
        Check(f"{where}: counters that differ from the sum", found.wrong, 0),
        Check(f"{where}: estimates below ground truth", int((found.errors < 0).sum()), 0),
        Check(f"{where}: fraction of errors above e / w", found.beyond(math.e) / ABSENT, 0, BOUND),
        *checks(name, running.net, width // NEIGHBOURS),
    ]


def _store(width: int, reporters: int, sessions: range) -> SketchStore:
    return SketchStore(width, reporters, session=sessions[0])


def count_min(keys: Words, counts: NDArray[np.int64], width: int) -> NDArray[np.uint32]:
    """Return the sketch (rows, columns) of keys (n, 4) with these counts."""
    counters = np.zeros((ROWS, width), np.uint32)
    for row, places in zip(counters, slots(keys, ROWS, width), strict=True):
        np.add.at(row, places, counts.astype(np.uint32))
    return counters


def columns(sketches: NDArray[np.uint32]) -> list[bytes]:
    """Return the reports, column by column, of sketches (reporters, rows, columns)."""
    reporters, _, width = sketches.shape
    column, reporter = (each.ravel() for each in np.indices((width, reporters)))
    rows = sketches.transpose(2, 0, 1).reshape(-1, ROWS)
    return filled(SketchMerge(), [column, *rows.T], sequence=column, reporter=reporter)


def make_sample(found: Found) -> dict[str, object]:
    """Return a row of samples.csv for a case."""
    return {
        "columns": found.width, "reporters": found.reporters, "packets": found.total,
        "reports": found.width * found.reporters, "requests": found.requests,
        "mean_error": round(float(found.absent.mean()), 3),
        "max_error": int(found.absent.max()), "beyond": found.beyond(SOME),
        "expected_beyond": round(found.expected_beyond(SOME) * ABSENT, 3),
    }  # fmt: skip


def draw(found: Sequence[Found]) -> Figure:
    """Plot errors against the sketch width, and writes per report against the reporter count."""
    figure, (left, right) = plots.figure(2)
    by_width = sorted((each for each in found if each.reporters == 4), key=lambda e: e.width)
    widths = np.array([each.width for each in by_width])
    for what, label in ((np.max, "max"), (np.mean, "mean")):
        errors = [what(each.absent) / each.total for each in by_width]
        left.plot(widths, errors, linestyle="", label=label)
    left.plot(widths, math.e / widths, "k-", marker="",
              label=r"theory: e / w (for $\geq 1 - e^{-4}$ of keys)")  # fmt: skip
    left.set(
        xlabel="Columns, w", ylabel="Error (normalized to packets)", xscale="log", yscale="log"
    )
    left.set_xticks(widths, widths)
    left.minorticks_off()
    by_reporters = sorted((each for each in found if each.width == 64), key=lambda e: e.reporters)
    numbers = np.array([each.reporters for each in by_reporters])
    writes = [each.requests / each.width / each.reporters for each in by_reporters]
    right.plot(numbers, writes, linestyle="", label="measured")
    right.plot(numbers, 1 / (NEIGHBOURS * numbers), "k-", marker="", label="theory: 1 / (8 K)")
    right.set(xlabel="Reporters, K", ylabel="Memory writes per report", xscale="log", yscale="log")
    right.set_xticks(numbers, numbers)
    right.set_yticks(writes, [f"1/{round(1 / each)}" for each in writes])
    right.minorticks_off()
    plots.legend(left, 2)
    plots.legend(right, 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Count-min sketches of {FLOWS:,} flows with Zipf sizes, from several reporters, merged by "
        f"a P4 translator, {plots.runs(1, options.time)}. (a) Sketches of four reporters: errors "
        f"of {ABSENT:,} keys that were never counted. (b) Sketches of 64 columns: requests that "
        "the collector executed."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
