"""Streaming statistics in eBPF: do errors agree with theory, and what is the CPU time per packet?

Packets of many flows pass through one program that computes all statistics simultaneously, in two
windows. In every run, sums and variance must be exact, and quantiles and k-medians must stay within
their bounds. Other statistics have random errors of a known distribution: the registers of
HyperLogLog have known values; rarity, similarity and samples have hypergeometric counts; the count
sketch is unbiased. Each run has new random flows, hashes and random numbers. One test compares the
means over all runs with theory. BPF_PROG_TEST_RUN generates the frames, so CPU times include no NIC
and no driver.

Claim: Sums and variance are exact, all bounds hold, and all random errors agree with theory.

Published: the standard error of HyperLogLog is 1.04 / sqrt(m) (Flajolet et al. 2007). The variance
of estimates of F2 is 2 (F2^2 - F4) / w (Alon, Matias, Szegedy 1996).
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ebpf.statistics import distinct, exact, norms, quantiles
from ebpf.statistics.metrics import publish
from ebpf.statistics.offer import load_stream, pin_to_core
from ebpf.statistics.program import Kept, Setting, Window, load_statistics
from ebpf.statistics.samples import SAMPLE, mean_distance, medians, wasserstein
from experiments.shared.xdp.settings import require_real_time
from experiments.shared.xdp.streams import Stream, random_flows, zipf
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, t_test_p_value
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.watch.display import Display, Series

FLOWS = 20_000
TIMES = (1, 2, 3)  # rarity for k is the fraction of flows that have exactly k packets
RANKS = (0, 1, 2, 4)  # ranks of HyperLogLog registers
QUANTILES = (0.01, 0.25, 0.5, 0.9, 0.99)  # quantiles that are compared with theory
CLUSTERS = 3
QUARTERS = 4
KEPT = Kept.ALL & ~Kept.COUNTERS & ~Kept.HEAVY_KEEPER
COSTS = {"packets, bytes, variance": Kept(0), "quantiles": Kept.QUANTILES,
         "sample": Kept.SAMPLES, "distinct": Kept.DISTINCT, "rarity, similarity": Kept.MINIMA,
         "norms": Kept.NORMS, "all": KEPT, "TopK: HeavyKeeper": Kept.HEAVY_KEEPER,
         "TopK: FREQUENT": Kept.COUNTERS}  # fmt: skip
# number of standard deviations; an error exceeds it with a probability of at most 1 / 9
CHEBYSHEV = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=cli.positive_int, metavar="N", help="default: 60")
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N", help="packets per run (default: 60000)"
    )
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help="rounds of the CPU time measurement (default: 11)",
    )  # fmt: skip
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Measured:
    """Results of one run: numbers of violations (expected: 0), and errors."""

    inexact: int  # number of wrong sums and variances
    beyond: int  # number of quantiles and medians out of their bounds
    far: int  # number of sketch rows with an error above CHEBYSHEV standard deviations
    # statistic -> (error, predicted standard deviation or NaN if unknown)
    errors: Mapping[str, tuple[float, float]]


class Point(NamedTuple):
    """Errors of one statistic over all runs."""

    statistic: str
    mean_error: float
    error: float  # rms error
    expected_error: float
    chance: float  # p-value of the mean error


def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_real_time(options)
    options.runs = max(options.runs or (15 if options.quick else 60), 2)
    options.packets = options.packets or (20_000 if options.quick else 60_000)
    options.rounds = max(options.rounds or (5 if options.quick else 11), 5)
    rng = np.random.default_rng(run.seed)
    measured = [once(number, options, rng, run) for number in range(options.runs)]
    points = [make_point(name, measured) for name in measured[0].errors]
    costs = cost(options, run.seed, rng)
    far = sum(each.far for each in measured) / len(measured) / norms.ROWS
    return Report(
        samples=[point._asdict() for point in points],
        checks=[
            Check("wrong sums and variances", sum(e.inexact for e in measured), 0),
            Check("quantiles and medians out of bounds", sum(e.beyond for e in measured), 0),
            Check("norms: fraction beyond 3 standard deviations, at most 1 / 9", far, 0, 1 / 9),
            agreement_check("errors", [point.chance for point in points]),
        ],
        metrics={f"{name}: ns per packet": float(np.median(each)) for name, each in costs.items()},
        figure=draw(points, costs),
        caption=caption(options),
    )


def once(number: int, options: argparse.Namespace, rng: np.random.Generator, run: Run) -> Measured:
    """Run one stream through the program in two windows, and return its results."""
    stream = zipf(options.packets, FLOWS, rng)
    stream = Stream(stream.numbers, random_flows(FLOWS, rng), quartered(options.packets, rng))
    half = options.packets // 2
    setting = Setting(KEPT, seed=run.seed * 1000 + number)
    with load_stream(stream.rows) as offer, load_statistics(setting) as statistics:
        windows = []
        for start, packets in ((0, half), (half, options.packets - half)):
            offer.through(statistics.at_xdp, packets, start)
            windows.append(statistics.flip())
            publish(run.metrics, windows[-1])
    whole = windows[0] + windows[1]
    if run.display is not None:
        show(run.display, whole, stream)
    sizes = stream.lengths.tolist()
    variance = exact.variance(sizes)
    inexact = int(whole.totals.bytes != sum(sizes)) + int(
        abs(float(whole.totals.variance) - variance) > 1e-9 * variance
    )
    return Measured(
        inexact, beyond(whole, stream.lengths), far_rows(whole, stream),
        {**of_sets(windows, stream, half), **of_sample(whole, stream)},
    )  # fmt: skip


def show(display: Display, whole: Window, stream: Stream) -> None:
    """Show counts of one run on the page of --watch."""
    assert whole.registers is not None
    now_ns, flows = time.monotonic_ns(), len(exact.counts(stream.numbers))
    for quantity, unit, measured, true in (
        ("packets per run", "packets", whole.totals.packets, len(stream.numbers)),
        ("bytes per run", "bytes", whole.totals.bytes, stream.lengths.sum()),
        ("distinct flows per run", "flows", whole.registers.estimate, flows),
    ):
        series = Series("eBPF", quantity, "XDP", unit)
        display.add(series, [(now_ns, measured)], [(now_ns, true)])


def quartered(packets: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return random lengths of packets. A length modulo 4 is the packet's quarter of the stream."""
    lengths = 4 * rng.integers(16, 378, size=packets) + np.arange(packets) * QUARTERS // packets
    return lengths.astype(np.int64)


def beyond(whole: Window, lengths: NDArray[np.int64]) -> int:
    """Return the number of quantiles and medians that are outside of their bounds."""
    assert whole.lengths is not None
    assert whole.sample is not None
    true = {part: exact.quantile(lengths, part) for part in QUANTILES}
    wrong = sum(
        abs(whole.lengths.quantile(part) - value) > quantiles.RELATIVE_ERROR * value
        for part, value in true.items()
    )
    found = mean_distance(lengths, medians(whole.sample.lengths, CLUSTERS))
    best = mean_distance(lengths, medians(lengths, CLUSTERS))
    excess = found - best
    return wrong + int(not -1e-9 <= excess <= 2 * wasserstein(whole.sample.lengths, lengths) + 1e-9)


def of_sets(
    windows: Sequence[Window], stream: Stream, half: int
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Return the errors of all statistics that describe the set of flows."""
    whole = windows[0] + windows[1]
    registers, minima, sketch = whole.registers, whole.minima, whole.sketch
    first, second = (window.minima for window in windows)
    assert registers is not None
    assert minima is not None
    assert sketch is not None
    assert first is not None
    assert second is not None
    flows = len(exact.counts(stream.numbers))
    found = {"distinct": (registers.estimate / flows - 1, distinct.STANDARD_ERROR)}
    for rank in RANKS:
        share = distinct.at_most(rank, flows)
        there = float((registers.ranks <= rank).mean())
        found[f"registers up to {rank}"] = (there - share, math.nan)
    for times in TIMES:
        rarity = exact.rarity(stream.numbers, times)
        spread = deviation(minima.used, rarity, flows)
        found[f"rarity of {times}"] = (minima.rarity(times) - rarity, spread)
    similarity = exact.similarity(stream.numbers[:half], stream.numbers[half:])
    spread = deviation(minima.used, similarity, flows)
    found["similarity"] = (first.similarity(second) - similarity, spread)
    f2 = exact.moment(stream.numbers, 2)
    row = math.sqrt(variance_of_f2(stream)) / f2
    found["F2, of a row"] = (float(sketch.of_rows[0]) / f2 - 1, row)
    found["F2, mean of rows"] = (float(sketch.of_rows.mean()) / f2 - 1, row / math.sqrt(norms.ROWS))
    return found


def deviation(drawn: int, share: float, of: int) -> float:
    """Return the sd of a fraction in a sample without replacement (hypergeometric)."""
    return math.sqrt(share * (1 - share) / drawn * (of - drawn) / (of - 1))


def variance_of_f2(stream: Stream) -> float:
    """Return the variance of the F2 estimate of one row, 2 (F2^2 - F4) / columns."""
    f2, f4 = (exact.moment(stream.numbers, power) for power in (2, 4))
    return 2 * (f2**2 - f4) / norms.COLUMNS


def far_rows(whole: Window, stream: Stream) -> int:
    """Return the number of sketch rows whose error exceeds CHEBYSHEV standard deviations."""
    assert whole.sketch is not None
    distances = np.abs(whole.sketch.of_rows - exact.moment(stream.numbers, 2))
    return int((distances > CHEBYSHEV * math.sqrt(variance_of_f2(stream))).sum())


def of_sample(whole: Window, stream: Stream) -> dict[str, tuple[float, float]]:
    """Return errors of the fraction of sampled packets from each quarter of the stream."""
    assert whole.sample is not None
    sampled = whole.sample.lengths
    spread = deviation(SAMPLE, 1 / QUARTERS, len(stream.numbers))
    return {
        f"sample, quarter {quarter + 1}": (
            float((sampled % QUARTERS == quarter).mean()
                  - (stream.lengths % QUARTERS == quarter).mean()), spread)
        for quarter in range(QUARTERS)
    }  # fmt: skip


def make_point(name: str, measured: Sequence[Measured]) -> Point:
    """Return the errors of a statistic over all runs, and the p-value of the mean error."""
    errors, deviations = np.array([each.errors[name] for each in measured]).T
    return Point(name, float(errors.mean()), float(np.sqrt((errors**2).mean())),
                 float(np.sqrt((deviations**2).mean())), t_test_p_value(errors, 0))  # fmt: skip


def cost(
    options: argparse.Namespace, seed: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:  # fmt: skip
    """Return the CPU time per packet in ns, minus the CPU time of an empty program.

    The keys are the statistics. Each value is an array of shape (rounds,).
    """
    stream = zipf(options.packets, FLOWS, rng)
    rows = stream.rows
    rows["length"] = 64
    found: dict[str, list[float]] = {name: [] for name in COSTS}
    with pin_to_core(), ExitStack() as stack:
        offer = stack.enter_context(load_stream(rows))
        programs = {name: stack.enter_context(load_statistics(Setting(kept, seed=seed)))
                for name, kept in COSTS.items()}  # fmt: skip
        for _ in range(options.rounds):
            empty = offer.through(None, len(rows))
            for name, statistics in programs.items():
                found[name].append(offer.through(statistics.at_xdp, len(rows)) - empty)
                statistics.flip()
    return {name: np.array(each) for name, each in found.items()}


def draw(points: Sequence[Point], costs: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Draw measured and theoretical errors, and CPU times."""
    figure, (left, right) = plots.figure(2)
    shown = [each for each in points if not math.isnan(each.expected_error)]
    places = np.arange(len(shown))
    left.plot([each.error for each in shown], places, linestyle="", label="measured")
    plots.ring(left, [each.expected_error for each in shown], places, "theory")
    left.set_yticks(places, [each.statistic for each in shown])
    left.set(xlabel="RMS error", xscale="log")
    ticks = [0.005, 0.01, 0.02, 0.05, 0.1]
    left.set_xticks(ticks, [*map(str, ticks)])
    left.minorticks_off()
    left.invert_yaxis()
    right.barh([*costs], [np.median(each) for each in costs.values()],
               xerr=[np.std(each) for each in costs.values()], color=plots.COLOURS[0])  # fmt: skip
    right.set(xlabel="CPU time per packet above\nan empty program (ns)")
    right.invert_yaxis()
    plots.legend(left, 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"BPF_PROG_TEST_RUN passes {options.packets:,} packets of {FLOWS:,} flows with Zipf sizes "
        f"to eBPF programs. (a) RMS errors over {options.runs} runs: relative errors for norms "
        "(F2) and distinct flows, absolute errors of fractions for all others. The F2 estimate of "
        f"one row has a large error if the two largest flows share one of its {norms.COLUMNS} "
        f"columns. (b) CPU times: medians and standard deviations over {options.rounds} "
        "interleaved rounds on one core, without a driver."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
