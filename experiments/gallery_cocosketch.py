"""CocoSketch: how accurate are the sizes of six partial keys from one sketch?

A trace with Zipf-distributed flow sizes passes one switch, which runs CocoSketch on the five fields
of a flow. The controller reads all buckets. From the buckets, the controller computes the sizes of
six keys: (1) all five fields, (2) both addresses, (3) source address and port, (4) destination
address and port, (5) source address, (6) destination address. The mean relative error of heavy
hitters is compared with the errors of two other methods: one Count-Min sketch per key, and one
Count sketch per key. All sketches of a method together have as much memory as CocoSketch.

Paper: Zhang, Liu, Wang, Yang, Li, Miao, Liu, Zhang and Jiang: CocoSketch: High-Performance
Sketch-based Measurement over Arbitrary Partial Key Query. SIGCOMM 2021.

Claim: Each bucket equals that of a model that uses the same random numbers, for basic and for
hardware-friendly CocoSketch. A bucket of the hardware-friendly version stores a flow with a
probability that equals the flow's share of the packets in the bucket. So the estimates of all
partial keys are unbiased.

Published: For six keys, CocoSketch is 10.4 times as accurate as single-key sketches.

Differences: The paper used CAIDA traces. This trace has Zipf sizes with exponent 1.1, and flows
share addresses. The memory (500 KB) and the threshold of heavy hitters (0.01 % of the packets) are
those of the authors' program. The Count-Min sketch and the Count sketch have no heap of heavy
hitters, but are queried for all keys.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from controllers.hash_functions import HashFunctions
from experiments.shared.gallery import traces
from experiments.shared.gallery.cocosketch import (
    PARTIAL_KEYS,
    compare_keys,
    full_keys,
    group,
    largest_flow_deviation,
    model,
    share_addresses,
)
from experiments.shared.gallery.switch import DESTINATION, SWITCH, one_switch
from telemark.accounting import pcap
from telemark.results import plots
from telemark.results.report import Check, Report, Reproduction
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

PROGRAM = "p4src/gallery/cocosketch.p4"
VARIANTS = {"basic": 2, "hardware-friendly": 1}  # variant -> number of arrays
BUCKET_BYTES = 17
# memory, packets and flows: for a full run, and for real time or --quick
MEMORY_KB, PACKETS, FLOWS = 500, 1_000_000, 400_000
SMALL_MEMORY_KB, SMALL_PACKETS, SMALL_FLOWS = 50, 100_000, 40_000
BMV2_PACKETS, SEEDS = 5_000, 5
PUBLISHED = 10.4  # published ratio: error of single-key sketches / error of CocoSketch
REASON = (
    "the number depends on the baselines. With this trace, the authors' program is 1.8 (Count "
    "sketch), 2.7 (Elastic Sketch), 3.5 (Count-Min), 21 (Space-Saving) and 21 (UnivMon) times as "
    "accurate as its baselines, 10.1 times on average"
)
MAX_STANDARD_ERRORS = 5  # a random sum deviates by more in one of two million runs


@dataclass(frozen=True)
class Sample:
    """Result of one run, for the first `keys` of the six keys."""

    variant: str
    seed: int
    keys: int
    recall: float  # recall of heavy hitters
    precision: float
    error: float  # mean relative error of the heavy hitters that were found
    count_min_error: float
    count_sketch_error: float


@dataclass(frozen=True)
class Result:
    """Result of one run."""

    samples: list[Sample]
    different: int  # number of buckets that differ from the model
    lost: int  # number of packets that the switch did not forward
    # deviation of the number of buckets that store their largest flow (standard errors)
    deviation: float
    # deviation of the mean of the switch's random numbers (standard errors)
    random_deviation: float


def add_options(parser: argparse.ArgumentParser) -> None:
    traces.add_options(parser)
    cli.add_program_option(parser, PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small = options.quick or options.time == "real"
    seeds = [run.seed + number for number in range(1 if is_small else SEEDS)]
    settings = [(variant, options) for variant in VARIANTS]
    results = [each for of in await sweep_seeds(measure, settings, seeds, run) for each in of]
    found = [sample for each in results for sample in each.samples]
    six = [each for each in found if each.variant == "basic" and each.keys == len(PARTIAL_KEYS)]
    published = Reproduction(
        "error of Count-Min sketches divided by that of CocoSketch, six keys", "abstract", "10.4",
        (10.35, 10.45), [each.count_min_error / each.error for each in six], REASON,
    )  # fmt: skip
    return Report(
        samples=[asdict(each) for each in found],
        checks=[
            Check("buckets that differ from the model", sum(each.different for each in results), 0),
            Check("buckets that hold their largest flow: deviation from the expected number "
                  "(standard errors)", max(abs(each.deviation) for each in results), 0,
                  MAX_STANDARD_ERRORS),
            Check("mean of the random numbers: deviation (standard errors)",
                  max(abs(each.random_deviation) for each in results), 0, MAX_STANDARD_ERRORS),
            Check("packets that the switch did not forward", sum(each.lost for each in results), 0),
            *published.checks(),
        ],
        figure=draw(found),
        caption=caption(options),
        reproductions=[published],
    )  # fmt: skip


async def measure(variant: str, options: argparse.Namespace, run: Run) -> Result:
    """Replay one trace, read the buckets, and compute the sizes of all keys."""
    is_small = options.quick or options.time == "real"
    packets = SMALL_PACKETS if is_small else PACKETS
    packets = BMV2_PACKETS if run.target == "bmv2" else packets
    stream = traces.trace(options, packets, SMALL_FLOWS if is_small else FLOWS, run.seed)
    if not options.pcap:
        stream = share_addresses(stream, run.seed)
    memory, arrays = (SMALL_MEMORY_KB if is_small else MEMORY_KB) * 1000, VARIANTS[variant]
    buckets = memory // (arrays * BUCKET_BYTES)
    functions = HashFunctions(arrays, run.seed)
    entries = functions.entries(
        [f"CocoSketchIngress.cocosketch.hash_{n}" for n in range(1, arrays + 1)]
    )
    async with one_switch(
        run, f"{variant}-{run.seed}", options.program, {"ARRAYS": arrays, "BUCKETS": buckets},
        entries,
    ) as running:  # fmt: skip
        await running.replay(stream)
        read = np.array([await running.read(n, buckets) for n in range(1, arrays + 1)])[:, :, :3]
    lost = running.lost()
    sent = pcap.read(running.net.capture(SWITCH, DESTINATION, "out")).bytes
    # the switch writes the random number of a packet into the source MAC address
    randoms = np.ascontiguousarray(sent[:, 8:12]).view(">u4")[:, 0]
    expected = model(stream, randoms, functions, arrays, buckets) if not lost else read
    sizes = group(zip(full_keys(stream), stream.counts.tolist(), strict=True), PARTIAL_KEYS[0])
    estimates = [(high << 64 | low, count) for low, high, count in read.reshape(-1, 3).tolist()]
    return Result(
        [Sample(variant, run.seed, keys, *scores)
         for keys, scores in enumerate(compare_keys(sizes, estimates, memory, run.seed), 1)],
        int((read != expected).any(axis=2).sum()), lost,
        largest_flow_deviation(stream, read[0], functions) if arrays == 1 else 0.0,
        float((randoms.mean() / 2**32 - 0.5) * np.sqrt(12 * len(randoms))),
    )  # fmt: skip


def draw(found: Sequence[Sample]) -> Figure:
    """Draw all errors, and the errors of single-key sketches divided by those of CocoSketch."""
    figure, (left, right) = plots.figure(2)
    numbers = range(1, len(PARTIAL_KEYS) + 1)

    def line(axes: Axes, label: str, variant: str, value: Callable[[Sample], float]) -> None:
        values = [[value(e) for e in found if (e.variant, e.keys) == (variant, n)] for n in numbers]
        plots.median_and_range(axes, numbers, values, label)

    line(left, "Count-Min", "basic", lambda each: each.count_min_error / each.error)
    line(left, "Count sketch", "basic", lambda each: each.count_sketch_error / each.error)
    plots.ring(left, [len(PARTIAL_KEYS)], [PUBLISHED], "published")
    for variant in VARIANTS:
        line(right, f"CocoSketch, {variant}", variant, lambda each: each.error)
    line(right, "Count-Min", "basic", lambda each: each.count_min_error)
    line(right, "Count sketch", "basic", lambda each: each.count_sketch_error)
    for axes in (left, right):
        axes.set(xlabel="Number of keys", xticks=numbers, yscale="log")
        plots.legend(axes, 2)
    left.set(ylabel="Error relative to CocoSketch")
    right.set(ylabel="Mean relative error")
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"CocoSketch in {options.time} time. (a) Mean relative error of heavy hitters with one "
        "sketch per key, divided by that of basic CocoSketch with the same memory; the ring is the "
        "published value. (b) Errors. Lines: median; bars: range of the seeds."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
