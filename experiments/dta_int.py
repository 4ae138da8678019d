"""INT paths in DTA memory: how often does a query find the path of a flow, by bytes per flow?

Flows cross a fat tree. Each switch writes its id into their packets (INT-MD). The switch at the
edge removes INT and reports the path of a new flow in two ways: as one Key-Write report, and as one
postcard per hop. A translator writes N copies of both into the memory of a collector and overwrites
existing data. The more flows share the memory, the more paths are overwritten. Captures of the
arrivals at each switch are ground truth. The memory must equal a numpy model that knows the true
paths, byte by byte. The curves need more samples, which come from queries to a larger model. One
test compares all points with theory.

Claim: A query returns the true path or nothing, as often as theory predicts.

Published: DART (HotNets 2021), abstract: 99.9 % of queries for the paths of flows in a fat tree
succeed, with 300 bytes of memory per flow.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from collectors.dta.hashes import (
    BLANK,
    HOPS,
    Words,
    hop_checksums,
    slots,
    value_codes,
)
from collectors.dta.int_paths import WORDS, decode, encode
from collectors.dta.key_write import Store, slot
from collectors.dta.postcarding import CHUNK, Postcards
from collectors.dta.theory import mean_success
from collectors.roce.region import Region
from experiments.shared.dta import fabric
from experiments.shared.dta.fabric import SINK_PROGRAM, ArrivedReports, tracing
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

COPIES = (1, 2, 4, 8)
BYTES = (1200, 600, 300, 200, 150, 100, 64, 32)  # bytes of memory per flow
SLOTS = tuple(1 << power for power in range(8, 16))
SLOT_BYTES = 32  # a slot has a checksum and seven words, or a chunk of postcards
PACKETS = 2  # number of packets per flow
DART = (
    300,
    0.999,
    24,
)  # bytes per flow, success rate, bytes of a slot with five switches and a checksum
FLOOR = 1e-5  # smallest value in the figure
PODS, REAL_PODS = 4, 2  # number of pods of the fat tree


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slots", type=cli.power_of_two, metavar="N",
        help="slots of each store of the collector, a power of two (default: 4096; 512 with "
             "--quick and in real time)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "the first packets of flows")
    cli.add_program_option(parser, SINK_PROGRAM)
    cli.add_metrics_option(parser)


class Point(NamedTuple):
    """Results of queries for all flows that were sent before the query."""

    source: str  # "key-write", "postcards" or "model"
    copies: int
    bytes_per_flow: float
    queries: int
    right: int
    wrong: int

    @property
    def expected(self) -> float:
        """Return the fraction of flows whose path is in memory, by theory."""
        return float(mean_success(SLOT_BYTES / self.bytes_per_flow, self.copies))

    @property
    def chance(self) -> float:
        return binomial_p_value(self.right, self.queries, self.expected)


class Cost(NamedTuple):
    """Number of reports to the translator and of memory writes, per path."""

    source: str
    copies: int
    reports: float
    writes: float


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_real = options.time == "real"
    options.pods = REAL_PODS if is_real else PODS
    options.slots = options.slots or (512 if options.quick or is_real else 4096)
    if options.slots not in SLOTS:
        raise TestbedError(
            f"--slots {options.slots}: expected {SLOTS[0]} to {SLOTS[-1]}, because there is one "
            "flow per slot and each needs its own port"
        )
    some = COPIES[1:3] if options.quick else COPIES
    rng = np.random.default_rng(run.seed)
    points: list[Point] = []
    costs: list[Cost] = []
    exact: list[Check] = []
    few = some[:1] if options.quick and is_real else some
    users, limit = fabric.users(options.pods), flows_by_memory(options.slots)[-1]
    settings = [(copies, fabric.flows(users, limit, rng), options) for copies in few]
    for measured, cost, held in await sweep(traced, settings, run):
        points += measured
        costs += cost
        exact += held
    for copies in COPIES:
        points += modelled(copies, 1 << (16 if options.quick else 20), rng)
    return Report(
        samples=[{**point._asdict(), "expected": round(point.expected, 6)} for point in points],
        checks=[*exact, agreement_check("paths found", [point.chance for point in points])],
        metrics=make_metrics(points),
        figure=draw(points, costs),
        caption=caption(options),
        tables=[cost_table(costs)],
    )


async def traced(
    copies: int, keys: Words, options: argparse.Namespace, run: Run
) -> tuple[list[Point], list[Cost], list[Check]]:
    """Send flows over the fat tree in several parts; after each part, query all flows sent."""
    name = f"copies-{copies}"
    parts = flows_by_memory(options.slots)
    answers = []
    async with tracing(
        run, name, pods=options.pods, copies=copies, slots=options.slots, program=options.program
    ) as scene:
        kinds = {fabric.PATHS: slot(WORDS), fabric.CARDS: CHUNK}
        written = [Region(kind, options.slots, run.folder / file) for file, kind in kinds.items()]
        for first, end in pairwise([0, *parts]):
            await scene.send(keys[first:end], options.rate, PACKETS)
            answers.append((end, *asked(written, keys[:end], copies, len(scene.topo.routers))))
        writes = await scene.writes()
        translated = await scene.reports()
        memory = [region.bytes.copy() for region in written]
    for file in kinds:
        (run.folder / file).unlink()
    if run.target == "bmv2":
        fabric.reject_bmv2_drops(scene, translated)
    truth, reports = fabric.true_paths(scene, keys), fabric.arrived_reports(scene, keys)
    points = [
        Point(
            source,
            copies,
            options.slots * SLOT_BYTES / end,
            end,
            *count_answers(found, truth[:end]),
        )
        for end, *both in answers
        for source, found in zip(("key-write", "postcards"), both, strict=True)
    ]
    lengths = (truth >= 0).sum(axis=1)
    costs = [
        Cost("key-write", copies, len(reports.by_key_write) / len(keys), writes[0] / len(keys)),
        Cost("postcards", copies, reports.postcards / len(keys), writes[1] / len(keys)),
    ]
    lost = {
        "flows with a path length other than 1, 3 or 5 switches": (
            ~np.isin(lengths, (1, 3, 5))
        ).sum(),
        "bytes of memory that differ from the model": differing(
            memory, keys, truth, reports, copies
        ),
        "wrong answers": sum(point.wrong for point in points),
    }
    counts = {
        "paths reported by Key-Write": (len(reports.by_key_write), len(keys)),
        "hops reported by postcards": (reports.postcards, int(lengths.sum())),
        "writes of paths": (writes[0], copies * len(keys)),
        "writes of postcards": (writes[1], copies * len(keys)),
        **{what: (int(count), 0) for what, count in lost.items()},
    }
    held = [Check(f"{name}: {what}", *values) for what, values in counts.items()]
    return points, costs, [*held, *fabric.checks(scene, sum(writes))]


def flows_by_memory(count: int) -> list[int]:
    """Return the number of flows that share `count` slots, for each of BYTES."""
    return [count * SLOT_BYTES // size for size in BYTES]


def asked(
    regions: Sequence[Region], keys: Words, copies: int, switches: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Query the paths of flows in the memory of Key-Write, and then in that of Postcarding.

    Both results have shape (n, 5). Values are -1 after the end of a path, and for a query without
    result.
    """
    by_key_write, by_postcards = (region.records for region in regions)
    answers = Store(by_key_write).query(keys, copies)
    path = decode(answers.data)
    reports = np.where(answers.found[:, np.newaxis], path.nodes, -1)
    found = Postcards(by_postcards, range(1, switches + 1), copies).query(keys)
    return reports[:, :HOPS], np.where(found.is_known, found.values.astype(np.int64), -1)


def count_answers(found: NDArray[np.int64], truth: NDArray[np.int64]) -> tuple[int, int]:
    """Count correct and wrong query results for paths (n, 5)."""
    is_answered = (found >= 0).any(axis=1)
    is_right = (found == truth).all(axis=1)
    return int(is_right.sum()), int((is_answered & ~is_right).sum())


def differing(
    memory: Sequence[NDArray[np.uint8]], keys: Words, truth: NDArray[np.int64],
    reports: ArrivedReports, copies: int,
) -> int:  # fmt: skip
    """Count bytes of both stores that differ from a model with the true paths."""
    paths = [path[path >= 0] for path in truth]
    by_key_write = Region(slot(WORDS), len(memory[0]) // SLOT_BYTES)
    data = np.stack([encode(path) for path in paths])
    order = reports.by_key_write
    Store(by_key_write.records).write(keys[order], data[order], copies)
    by_postcards = Region(CHUNK, len(memory[1]) // SLOT_BYTES)
    codes = np.where(truth < 0, BLANK, value_codes_of(truth)) ^ hop_checksums(keys).T
    order = reports.by_postcards
    places = slots(keys[order], copies, len(by_postcards.records)).T.reshape(-1)
    by_postcards.records["hops"][places] = np.repeat(codes[order], copies, axis=0)
    models = by_key_write.bytes, by_postcards.bytes
    return sum(int((m != model).sum()) for m, model in zip(memory, models, strict=True))


def value_codes_of(nodes: NDArray[np.int64]) -> Words:
    """Return the value code of each hop (n, 5)."""
    return value_codes(nodes.astype(np.uint32).reshape(-1)).reshape(nodes.shape)


def modelled(copies: int, count: int, rng: np.random.Generator) -> list[Point]:
    """Query a model store of `count` slots for the paths of flows, for each of BYTES."""
    keys = fabric.flows(fabric.users(PODS), count, rng)
    # each flow has a different path
    data = np.tile(np.arange(count, dtype=np.uint32)[:, np.newaxis], WORDS)
    store, points = Store(Region(slot(WORDS), count).records), []
    for first, end in pairwise([0, *flows_by_memory(count)]):
        store.write(keys[first:end], data[first:end], copies)
        answers = store.query(keys[:end], copies)
        is_right = answers.found & (answers.data == data[:end]).all(axis=1)
        wrong = int((answers.found & ~is_right).sum())
        size = count * SLOT_BYTES / end
        points.append(Point("model", copies, size, end, int(is_right.sum()), wrong))
    return points


def make_metrics(points: Sequence[Point]) -> dict[str, float]:
    """Return the success rate at the published point of DART: by the model, and by theory."""
    size, _, slot_bytes = DART
    found = {
        f"answered_at_{size}_bytes_{p.copies}_copies": round(p.right / p.queries, 5)
        for p in points if p.source == "model" and round(p.bytes_per_flow) == size
    }  # fmt: skip
    theory = float(mean_success(slot_bytes / size, 4))
    return {**found, f"theory_with_{slot_bytes}_bytes_a_slot_4_copies": round(theory, 5)}


def cost_table(costs: Sequence[Cost]) -> Table:
    """Return a table of the cost per path, with a row per method and number of copies."""
    rows = [
        [cost.source, cost.copies, f"{cost.reports:.3f}", f"{cost.writes:.3f}"] for cost in costs
    ]
    return table("Cost per path", ("source", "copies", "reports", "writes"), rows)


def draw(points: Sequence[Point], costs: Sequence[Cost]) -> Figure:
    """Draw failed queries over memory per flow, and reports and writes per path over copies."""
    figure, (left, right) = plots.figure(2)
    draw_success(left, points)
    for number, (source, label) in enumerate(
        (("key-write", "Key-Write"), ("postcards", "postcards"))
    ):
        found = [cost for cost in costs if cost.source == source]
        copies, colour = [cost.copies for cost in found], plots.COLOURS[number]
        right.plot(copies, [cost.reports for cost in found], linestyle="", color=colour,
                   marker="o", label=f"reports, {label}")  # fmt: skip
        right.plot(copies, [cost.writes for cost in found], linestyle="", color=colour,
                   marker="+x"[number], label=f"writes, {label}")  # fmt: skip
    right.plot([1, 8], [1, 8], "k-", marker="", linewidth=0.8, label="theory: N")
    right.set(xlabel="Copies N", ylabel="Number per path", ylim=(0, 8.5))
    plots.legend(right, 2)
    return figure


def draw_success(axes: Axes, points: Sequence[Point]) -> None:
    """Draw failed queries of translator (open markers), model (filled) and theory (lines)."""
    sizes = np.geomspace(BYTES[-1], BYTES[0], 100)
    for number, copies in enumerate(COPIES):
        colour, marker = plots.COLOURS[number], plots.MARKERS[number]
        missing = 1 - mean_success(SLOT_BYTES / sizes, copies)
        axes.plot(sizes, missing, "-", color=colour, marker="", label=f"N = {copies}")
        for is_model in sorted({p.source == "model" for p in points if p.copies == copies})[::-1]:
            found = [p for p in points if p.copies == copies and (p.source == "model") == is_model]
            shares = [max(1 - p.right / p.queries, FLOOR) for p in found]
            axes.plot([p.bytes_per_flow for p in found], shares, linestyle="", color=colour,
                      marker=marker, fillstyle="full" if is_model else "none",
                      clip_on=False)  # fmt: skip
    size, answered, slot_bytes = DART
    missing = 1 - mean_success(slot_bytes / sizes, 4)
    axes.plot(sizes, missing, "k:", marker="", label=f"N = 4, slots of {slot_bytes} bytes")
    axes.plot([size], [1 - answered], "k*", markersize=9, label="published (DART)")
    axes.set(xscale="log", yscale="log", ylim=(FLOOR, 1))
    axes.set(xlabel="Memory per flow (bytes)", ylabel="Failed queries (ratio)")
    plots.legend(axes, 2)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Paths of flows over {options.pods} of 4 pods of a fat tree, in stores of "
        f"{options.slots:,} slots of {SLOT_BYTES} bytes written by a P4 translator (open markers), "
        f"and in a larger model (filled), with N copies; {plots.runs(1, options.time)}. (a) "
        "Fraction of queries that find no path; lines show theory. A marker at the border means "
        "that all paths were found. (b) Reports of a sink and memory writes per path."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
