"""Sonata: by how much do queries in the switch reduce the tuples for the stream processor?

Five queries run on one switch: new TCP connections, SSH brute force, superspreader, port scan and
DDoS. A plan sets filter, distinct, reduce and threshold of each query in the switch. The switch
reports keys that reach the threshold, and tuples for which its tables have no place. DuckDB runs
the rest of each query over the reports. Each query is refined in three windows: the first counts /8
prefixes, the second /16 prefixes, and the third /32 prefixes. The second and the third window count
only addresses in prefixes that the previous window has found. The same attacks are in all windows.

Paper: Gupta, Harrison, Canini, Feamster, Rexford and Willinger: Sonata: Query-Driven Streaming
Network Telemetry. SIGCOMM 2018.

Claim: In each window, the keys and counts of all queries equal those of the same queries over the
trace. The answers equal those of queries without refinement.

Published: Sonata reduces the workload of the stream processor by as much as seven orders of
magnitude.

Differences: The paper used traces of an ISP backbone; this trace is synthetic, with one attack per
query. The plan is fixed, not optimized for the trace. The switch stores reports in a log, which the
controller reads after each window.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from controllers.hash_functions import HashFunctions
from experiments.shared.gallery.sonata import make_frames, plan, queries, windows
from experiments.shared.gallery.stream_processor import ARRAYS, StreamProcessor, addresses, compare
from experiments.shared.gallery.switch import DESTINATION, SOURCE, one_switch
from telemark.results import plots
from telemark.results.report import Check, Report, Reproduction
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

PROGRAM = "p4src/gallery/sonata.p4"
LOG = 1 << 14  # number of reports that fit into the log


class Size(NamedTuple):
    """Size of the tables and of the traces."""

    cells: int  # number of cells in an array
    background: Sequence[int]  # number of packets per window without attacks, for each run
    attack: int  # number of packets of an attack per window
    threshold: int


FULL = Size(1 << 17, (10_000, 50_000, 200_000), 3_000, 1_000)
SMALL = Size(1 << 11, (2_000, 10_000), 600, 200)  # for real time or --quick; these tables overflow
BMV2 = Size(1 << 7, (500,), 120, 30)
SEEDS = 5
PUBLISHED = 1e7
REASON = (
    "the best queries need six tuples for any number of packets, so the reduction is proportional "
    "to the number of packets (see the figure), and this run has less than a million packets"
)


@dataclass(frozen=True)
class Sample:
    """Result of one query in one run, summed over all windows."""

    query: str
    background: int
    seed: int
    packets: int
    tuples: int  # number of tuples for the stream processor: reports, and counts that it reads
    matching: int  # number of packets that match the filter
    different: int  # number of keys of all windows whose count differs from the trace
    wrong: int  # number of answers that are missing or not in the trace
    answers: int

    @property
    def reduction(self) -> float:
        """Packets per tuple that the stream processor needs."""
        return self.packets / max(1, self.tuples)


@dataclass(frozen=True)
class Result:
    """Result of one run."""

    samples: list[Sample]
    lost: int  # number of packets that the switch did not forward
    unlogged: int  # number of reports without a place in the log


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_program_option(parser, PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    size = choose_size(options, run)
    seeds = [run.seed + number for number in range(SEEDS if size == FULL else 1)]
    settings = [(background, size, options) for background in size.background]
    results = [each for of in await sweep_seeds(measure, settings, seeds, run) for each in of]
    found = [sample for each in results for sample in each.samples]
    largest = [each for each in found if each.background == size.background[-1]]
    published = Reproduction(
        "packets divided by tuples for the stream processor, best query", "abstract",
        "seven orders of magnitude", (PUBLISHED, 10 * PUBLISHED),
        [max(e.reduction for e in largest if e.seed == seed) for seed in seeds], REASON,
    )  # fmt: skip
    return Report(
        samples=[asdict(each) for each in found],
        checks=[
            Check("keys whose count differs from the trace", sum(e.different for e in found), 0),
            Check("answers that differ from exact ones", sum(each.wrong for each in found), 0),
            Check("queries without an answer", sum(not each.answers for each in found), 0),
            Check("reports without a place in the log", sum(each.unlogged for each in results), 0),
            Check("packets that the switch did not forward", sum(each.lost for each in results), 0),
            *published.checks(),
        ],
        figure=draw(found),
        caption=f"Sonata in {options.time} time. (a) Packets, packets that match the filter, and "
        "tuples for the stream processor, with the largest trace. (b) Packets divided by tuples; "
        "the line is the published value. Markers: median of the seeds.",
        reproductions=[published],
    )  # fmt: skip


def choose_size(options: argparse.Namespace, run: Run) -> Size:
    """Return the size of a run."""
    is_small = options.quick or options.time == "real"
    return BMV2 if run.target == "bmv2" else SMALL if is_small else FULL


async def measure(background: int, size: Size, options: argparse.Namespace, run: Run) -> Result:
    """Run five queries over three windows."""
    wanted, traces = queries(size.threshold), windows(background, size.attack, run.seed)
    functions = HashFunctions(len(wanted) * len(ARRAYS), run.seed)
    instances = [f"query_{n}.{array}" for n in range(1, len(wanted) + 1) for array in ARRAYS]
    found: list[list[dict[int, int]]] = []  # index: window, query; content: key -> count
    tuples = np.zeros(len(wanted), int)
    processor = StreamProcessor(functions, size.cells, LOG)
    async with one_switch(
        run, f"{background}-{run.seed}", options.program, {"CELLS": size.cells, "LOG": LOG},
        functions.entries([f"SonataIngress.{each}.hash_function" for each in instances]),
    ) as running:  # fmt: skip
        for window, trace in enumerate(traces, 1):
            entries = [
                entry
                for number, query in enumerate(wanted)
                for entry in plan(query, number + 1, window,
                                  addresses(query, found[-1][number]) if found else None)
            ]  # fmt: skip
            await running.switch.insert(entries)
            hosts = (running.net.host(name).MAC() for name in (SOURCE, DESTINATION))
            await running.send(make_frames(trace, *hosts))
            await running.switch.delete(entries)
            results = await processor.finish_window(running.switch, wanted)
            found.append([counts for counts, _ in results])
            tuples += [number for _, number in results]
    samples = [
        Sample(
            query.name, background, run.seed, sum(len(each.numbers) for each in traces),
            int(tuples[number]), *compare(query, traces, [each[number] for each in found]),
        )
        for number, query in enumerate(wanted)
    ]  # fmt: skip
    return Result(samples, running.lost(), max(0, processor.reports - LOG))


def draw(found: Sequence[Sample]) -> Figure:
    """Draw tuples per query, and the reduction by number of packets."""
    figure, (left, right) = plots.figure(2)
    sizes = sorted({each.background for each in found})
    names = list(dict.fromkeys(each.query for each in found))

    def medians(name: str, query: str, size: int) -> float:
        values = [getattr(e, name) for e in found if (e.query, e.background) == (query, size)]
        return float(np.median(values))

    series = {"packets": "packets", "matching": "match the filter", "tuples": "Sonata"}
    for name, label in series.items():
        left.plot([medians(name, query, sizes[-1]) for query in names], names, "o", label=label)
    left.set(xlabel="Tuples for the stream processor", xscale="log")
    for query in names:
        points = [[medians(name, query, n) for n in sizes] for name in ("packets", "reduction")]
        right.plot(*points, "o-", label=query)
    right.axhline(PUBLISHED, color="black", linestyle=":", label="published")
    right.set(xlabel="Packets", ylabel="Packets per tuple", xscale="log", yscale="log")
    right.xaxis.set_minor_formatter(NullFormatter())
    for axes in (left, right):
        plots.legend(axes, 2)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
