"""Paths by INT into memory: does a query find the path of each flow, and for how many bytes a flow?

Flows cross a fat tree. Each switch writes its number into their packets (INT-MD); the switch at the
edge takes that off, and tells the path of a flow that is new: by Key-Write, and hop by hop by
postcards. A translator writes both into a collector's memory, N copies each, over whatever lies
there: the more flows share it, the likelier is a path gone. Truth are captures of what came to each
switch. Memory must be, byte by byte, that of a model in numpy that is told the true paths; of a
larger model as many flows are asked for as a curve needs. All points are held against theory in one
test.

Claim: Of each flow the true path is in memory or nothing is, as often as theory has it.

Published: DART (HotNets 2021), abstract: 99.9 % of queries for the paths of flows in a fat tree
find them, with 300 bytes of memory a flow.
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
from controllers.roce.running import require_minip4
from experiments.shared.dta import fabric
from experiments.shared.dta.fabric import SINK_PROGRAM, Told, tracing
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

COPIES = (1, 2, 4, 8)
BYTES = (1200, 600, 300, 200, 150, 100, 64, 32)  # of memory a flow
SLOTS = tuple(1 << power for power in range(8, 16))
SLOT_BYTES = 32  # both of a checksum and seven words, and of a chunk of postcards
PACKETS = 2  # of a flow
DART = (300, 0.999, 24)  # bytes a flow, answered; a slot of five switches and a checksum
LEAST = 1e-5  # share, in the figure
PODS, REAL_PODS = 4, 2  # of the fat tree


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slots", type=cli.power_of_two, metavar="N",
        help="of each of the collector's stores, a power of two (default: 4096; with --quick and "
             "in real time 512)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "first packets of flows")
    cli.add_program_option(parser, SINK_PROGRAM)


class Point(NamedTuple):
    """Queries for all flows so far."""

    by: str  # key-write, postcards or model
    copies: int
    bytes_per_flow: float
    queries: int
    right: int
    wrong: int

    @property
    def expected(self) -> float:
        """The share of flows whose path is there, by theory."""
        return float(mean_success(SLOT_BYTES / self.bytes_per_flow, self.copies))

    @property
    def chance(self) -> float:
        return binomial_p_value(self.right, self.queries, self.expected)


class Cost(NamedTuple):
    """Of a path: reports that the translator takes, and writes to memory that it asks for."""

    by: str
    copies: int
    reports: float
    writes: float


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_minip4(run)
    is_real = options.time == "real"
    options.pods = REAL_PODS if is_real else PODS
    options.slots = options.slots or (512 if options.quick or is_real else 4096)
    if options.slots not in SLOTS:
        raise TestbedError(
            f"--slots {options.slots}: expected {SLOTS[0]} to {SLOTS[-1]}, since as many flows are "
            "sent, each from a port of its own"
        )
    some = COPIES[1:3] if options.quick else COPIES
    rng = np.random.default_rng(run.seed)
    points: list[Point] = []
    costs: list[Cost] = []
    exact: list[Check] = []
    few = some[:1] if options.quick and is_real else some
    users, most = fabric.users(options.pods), flows_by_memory(options.slots)[-1]
    settings = [(copies, fabric.flows(users, most, rng), options) for copies in few]
    for measured, cost, held in await sweep(traced, settings, run):
        points += measured
        costs += cost
        exact += held
    for copies in COPIES:
        points += modelled(copies, 1 << (16 if options.quick else 20), rng)
    return Report(
        samples=[{**point._asdict(), "expected": round(point.expected, 6)} for point in points],
        checks=[*exact, agreement_check("paths found", [point.chance for point in points])],
        metrics=metrics_of(points),
        figure=draw(points, costs),
        caption=caption(options),
        tables=[cost_table(costs)],
    )


async def traced(
    copies: int, keys: Words, options: argparse.Namespace, run: Run
) -> tuple[list[Point], list[Cost], list[Check]]:
    """Flows over the fat tree, and after each part of them a query for all so far."""
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
        memory = [region.bytes.copy() for region in written]
    for file in kinds:
        (run.folder / file).unlink()
    truth, told = fabric.true_paths(scene, keys), fabric.told(scene, keys)
    points = [
        Point(by, copies, options.slots * SLOT_BYTES / end, end, *judged(found, truth[:end]))
        for end, *both in answers
        for by, found in zip(("key-write", "postcards"), both, strict=True)
    ]
    lengths = (truth >= 0).sum(axis=1)
    costs = [
        Cost("key-write", copies, len(told.by_key_write) / len(keys), writes[0] / len(keys)),
        Cost("postcards", copies, told.postcards / len(keys), writes[1] / len(keys)),
    ]
    lost = {
        "flows whose paths do not have 1, 3 or 5 switches": (~np.isin(lengths, (1, 3, 5))).sum(),
        "bytes of memory that are not the model's": differing(memory, keys, truth, told, copies),
        "wrong answers": sum(point.wrong for point in points),
    }
    counts = {
        "paths told by Key-Write": (len(told.by_key_write), len(keys)),
        "paths told by postcards": (told.postcards, int(lengths.sum())),
        "writes of paths": (writes[0], copies * len(keys)),
        "writes of postcards": (writes[1], copies * len(keys)),
        **{what: (int(count), 0) for what, count in lost.items()},
    }
    held = [Check(f"{name}: {what}", *values) for what, values in counts.items()]
    return points, costs, [*held, *fabric.checks(scene, sum(writes))]


def flows_by_memory(count: int) -> list[int]:
    """How many flows share `count` slots when each has so many BYTES."""
    return [count * SLOT_BYTES // size for size in BYTES]


def asked(
    regions: Sequence[Region], keys: Words, copies: int, switches: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The paths that are found of flows, (n, 5) each: in the store of paths, and of postcards.

    -1 behind a path's end, and where nothing is found.
    """
    by_key_write, by_postcards = (region.records for region in regions)
    answers = Store(by_key_write).query(keys, copies)
    path = decode(answers.data)
    told = np.where(answers.found[:, np.newaxis], path.nodes, -1)
    found = Postcards(by_postcards, range(1, switches + 1), copies).query(keys)
    return told[:, :HOPS], np.where(found.is_known, found.values.astype(np.int64), -1)


def judged(found: NDArray[np.int64], truth: NDArray[np.int64]) -> tuple[int, int]:
    """How many paths (n, 5) were answered, rightly and wrongly."""
    is_answered = (found >= 0).any(axis=1)
    is_right = (found == truth).all(axis=1)
    return int(is_right.sum()), int((is_answered & ~is_right).sum())


def differing(
    memory: Sequence[NDArray[np.uint8]], keys: Words, truth: NDArray[np.int64], told: Told,
    copies: int,
) -> int:  # fmt: skip
    """Bytes of the two stores that are not as the true paths make them, told in this order."""
    paths = [path[path >= 0] for path in truth]
    by_key_write = Region(slot(WORDS), len(memory[0]) // SLOT_BYTES)
    data = np.stack([encode(path) for path in paths])
    order = told.by_key_write
    Store(by_key_write.records).write(keys[order], data[order], copies)
    by_postcards = Region(CHUNK, len(memory[1]) // SLOT_BYTES)
    codes = np.where(truth < 0, BLANK, value_codes_of(truth)) ^ hop_checksums(keys).T
    order = told.by_postcards
    places = slots(keys[order], copies, len(by_postcards.records)).T.reshape(-1)
    by_postcards.records["hops"][places] = np.repeat(codes[order], copies, axis=0)
    models = by_key_write.bytes, by_postcards.bytes
    return sum(int((m != model).sum()) for m, model in zip(memory, models, strict=True))


def value_codes_of(nodes: NDArray[np.int64]) -> Words:
    """Of each hop (n, 5)."""
    return value_codes(nodes.astype(np.uint32).reshape(-1)).reshape(nodes.shape)


def modelled(copies: int, count: int, rng: np.random.Generator) -> list[Point]:
    """What a store of `count` slots answers that is told the paths of as many flows."""
    keys = fabric.flows(fabric.users(PODS), count, rng)
    data = np.tile(np.arange(count, dtype=np.uint32)[:, np.newaxis], WORDS)  # each another path
    store, points = Store(Region(slot(WORDS), count).records), []
    for first, end in pairwise([0, *flows_by_memory(count)]):
        store.write(keys[first:end], data[first:end], copies)
        answers = store.query(keys[:end], copies)
        is_right = answers.found & (answers.data == data[:end]).all(axis=1)
        wrong = int((answers.found & ~is_right).sum())
        size = count * SLOT_BYTES / end
        points.append(Point("model", copies, size, end, int(is_right.sum()), wrong))
    return points


def metrics_of(points: Sequence[Point]) -> dict[str, float]:
    """At what DART published: the model's share of answers, and theory with a slot of DART's."""
    size, _, slot_bytes = DART
    found = {
        f"answered_at_{size}_bytes_{p.copies}_copies": round(p.right / p.queries, 5)
        for p in points if p.by == "model" and round(p.bytes_per_flow) == size
    }  # fmt: skip
    theory = float(mean_success(slot_bytes / size, 4))
    return {**found, f"theory_with_{slot_bytes}_bytes_a_slot_4_copies": round(theory, 5)}


def cost_table(costs: Sequence[Cost]) -> Table:
    """A row for each way and number of copies."""
    rows = [[cost.by, cost.copies, f"{cost.reports:.3f}", f"{cost.writes:.3f}"] for cost in costs]
    return table("What a path costs", ("told by", "copies", "reports", "writes"), rows)


def draw(points: Sequence[Point], costs: Sequence[Cost]) -> Figure:
    """Paths that are not found, by memory; reports and writes a path, by copies."""
    figure, (left, right) = plots.figure(2)
    draw_success(left, points)
    for number, (by, label) in enumerate((("key-write", "Key-Write"), ("postcards", "postcards"))):
        found = [cost for cost in costs if cost.by == by]
        copies, colour = [cost.copies for cost in found], plots.COLOURS[number]
        right.plot(copies, [cost.reports for cost in found], linestyle="", color=colour,
                   marker="o", label=f"reports, {label}")  # fmt: skip
        right.plot(copies, [cost.writes for cost in found], linestyle="", color=colour,
                   marker="+x"[number], label=f"writes, {label}")  # fmt: skip
    right.plot([1, 8], [1, 8], "k-", marker="", linewidth=0.8, label="N")
    right.set(xlabel="Copies N", ylabel="Of each path", ylim=(0, 8.5))
    plots.legend(right, 2)
    return figure


def draw_success(axes: Axes, points: Sequence[Point]) -> None:
    """Marks of the translator are open, those of the model full; lines are theory."""
    sizes = np.geomspace(BYTES[-1], BYTES[0], 100)
    for number, copies in enumerate(COPIES):
        colour, marker = plots.COLOURS[number], plots.MARKERS[number]
        missing = 1 - mean_success(SLOT_BYTES / sizes, copies)
        axes.plot(sizes, missing, "-", color=colour, marker="", label=f"N = {copies}")
        for is_model in sorted({p.by == "model" for p in points if p.copies == copies})[::-1]:
            found = [p for p in points if p.copies == copies and (p.by == "model") == is_model]
            shares = [max(1 - p.right / p.queries, LEAST) for p in found]
            axes.plot([p.bytes_per_flow for p in found], shares, linestyle="", color=colour,
                      marker=marker, fillstyle="full" if is_model else "none",
                      clip_on=False)  # fmt: skip
    size, answered, slot_bytes = DART
    missing = 1 - mean_success(slot_bytes / sizes, 4)
    axes.plot(sizes, missing, "k:", marker="", label=f"N = 4, slots of {slot_bytes} bytes")
    axes.plot([size], [1 - answered], "k*", markersize=9, label="DART, published")
    axes.set(xscale="log", yscale="log", ylim=(LEAST, 1))
    axes.set(xlabel="Memory (bytes a flow)", ylabel="Paths that are not found (share)")
    plots.legend(axes, 2)


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"Paths of flows over {options.pods} pods of a fat tree of four, in stores of "
        f"{options.slots:,} slots of {SLOT_BYTES} bytes that a P4 translator wrote to (open "
        f"marks), and in a larger model (full ones), with N copies; {plots.runs(1, options.time)}. "
        "(a) Queries that find no path; lines: theory. A mark at the border: all were found. (b) "
        "What a path costs: reports of a sink, and writes to memory."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
