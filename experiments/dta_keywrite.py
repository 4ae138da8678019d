"""DTA Key-Write: do the success rate and the error rate of queries agree with theory?

A host reports values of random keys. A translator writes each value to N slots in the memory of a
collector by RDMA. Later writes overwrite earlier values, so many copies are best at low load and
few copies at high load. With a short checksum, a query may return the value of another key. The
memory written by the translator must equal a numpy model, byte by byte. The model then processes
more reports than could be sent as packets. One test compares all points with theory.

Claim: The memory written by the translator equals the model, and success and error rates agree with
theory.

Published: DART (HotNets 2021), abstract: 99.9 % of queries succeed, with 300 bytes per flow.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collectors.dta.hashes import Words
from collectors.dta.key_write import Policy, Store, slot
from collectors.dta.packets import KeyWrite
from collectors.dta.theory import (
    Outcome,
    best_copies,
    mean_outcome,
    mean_success,
    outcome_of_absent,
    success,
)
from collectors.roce.region import Region
from controllers.dta.manager.fabric import Area
from controllers.dta.stores import KeyWriteStore
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import PROGRAM, checks, translating
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.watch.display import Series

COPIES = (1, 2, 3, 4, 8)
LOADS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
BITS = range(8, 17)
WHOLE = 31  # number of bits of the checksum with which the success rate is measured
AGES = 10  # age intervals of a full store
TWO = 2  # number of copies with which the checksum width varies
FILE = "store"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slots", type=power_of_two, metavar="N",
        help="slots of the store of the translator, a power of two (default: 16384; 2048 in real "
        "time)",
    )  # fmt: skip
    parser.add_argument(
        "--model-slots", type=power_of_two, metavar="N",
        help="slots of the stores of the model, a power of two (default: 1048576)",
    )  # fmt: skip
    cli.add_rate_option(parser, 5000, "reports")
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


def power_of_two(text: str) -> int:
    """Parse a power of two from 2^8 to 2^24."""
    number = cli.positive_int(text)
    if number.bit_count() != 1 or not 8 <= number.bit_length() - 1 <= 24:
        raise argparse.ArgumentTypeError(f"{text}: expected a power of two from 256 to 16777216")
    return number


@dataclass(frozen=True)
class Point:
    """Number of right or wrong results of queries, and the number that theory expects."""

    panel: str
    source: str  # "translator" or "model"
    copies: int
    policy: str
    bits: int
    parameter: float  # value of the varied parameter: load, age or number of checksum bits
    metric: str  # "right" or "wrong"
    queries: int
    count: int
    expected: float

    def __post_init__(self) -> None:
        # rounded, because the last digits depend on the CPU's vector instructions
        object.__setattr__(self, "expected", float(f"{self.expected:.12g}"))

    @property
    def chance(self) -> float:
        return binomial_p_value(self.count, self.queries, self.expected)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small = options.quick or options.time == "real"
    options.slots = options.slots or (2048 if is_small else 1 << 14)
    options.model_slots = options.model_slots or (1 << 17 if options.quick else 1 << 20)
    rng = np.random.default_rng(run.seed)
    settings, models = [], []
    for copies in (1, 2, 4) if options.quick else COPIES:
        settings.append((copies, *reports(options.slots, rng), options))
        models.append(modelled(copies, options.model_slots, rng))
    found = await sweep(translated, settings, run)
    points = [point for (of_switch, _), of_model in zip(found, models, strict=True)
              for point in (*of_switch, *of_model)]  # fmt: skip
    exact = [check for _, held in found for check in held]
    points += checksum_points(options.model_slots >> 2, rng)
    return Report(
        samples=[asdict(point) for point in points],
        checks=[*exact, agreement_check("all panels", [point.chance for point in points])],
        metrics={"points": len(points)},
        figure=draw(points),
        caption=caption(options),
    )


async def translated(
    copies: int, keys: Words, data: Words, options: argparse.Namespace, run: Run
) -> tuple[list[Point], list[Check]]:
    """Query the memory of the P4 translator at each load, and compare it with the model."""
    name, report = f"copies-{copies}", KeyWrite(redundancy=copies, data=[0])
    area = Area(slot(1), options.slots, partial(_store, options.slots), file=FILE)
    async with translating(run, name, [area], options.program) as running:
        region = Region(slot(1), options.slots, run.folder / FILE)
        model = Region(slot(1), options.slots)
        points, wrong = [], 0
        for part in parts(options.slots):
            sequence = np.arange(part.start, part.stop)
            sent = filled(report, [*keys[part].T, *data[part].T], sequence)
            await running.send(sent, options.rate)
            Store(model.records).write(keys[part], data[part], copies)
            wrong += int((region.bytes != model.bytes).sum())
            so_far = slice(0, part.stop)
            load = part.stop / options.slots
            expected = mean_success(load, copies)
            right, false = answered(Store(region.records), keys[so_far], data[so_far], copies)
            points.append(Point("load", "translator", copies, "plurality", WHOLE, load, "right",
                                part.stop, right, float(expected)))  # fmt: skip
            wrong += false
            if run.display is not None:
                known, _ = answered(Store(model.records), keys[so_far], data[so_far], copies)
                series = Series("DTA", "keys found", f"Key-Write, copies: {copies}", "keys")
                now_ns = run.clock.now_ns()
                run.display.add(series, [(now_ns, right)], [(now_ns, known)])
    (run.folder / FILE).unlink()
    held = Check(f"{name}: bytes of memory that differ from the model, and wrong answers", wrong, 0)
    return points, [held, *checks(name, running.net, options.slots * copies)]


def _store(slots: int, sessions: range) -> KeyWriteStore:
    return KeyWriteStore(1, slots, WHOLE, sessions)


def parts(slots: int) -> list[slice]:
    """Return for each of LOADS the reports that follow those of the previous load."""
    return [slice(*pair) for pair in pairwise([0, *(round(load * slots) for load in LOADS)])]


def reports(count: int, rng: np.random.Generator) -> tuple[Words, Words]:
    """Return random keys (n, 4) and values of one word (n, 1)."""
    words = rng.integers(1 << 32, size=(count, 5), dtype=np.uint32)
    return np.ascontiguousarray(words[:, :4]), np.ascontiguousarray(words[:, 4:])


def answered(
    store: Store, keys: Words, data: Words, copies: int, policy: Policy = Policy.PLURALITY
) -> tuple[int, int]:
    """Count correct and wrong results of queries."""
    found, got = store.query(keys, copies, policy)
    is_right = found & (got == data).all(axis=1)
    return int(is_right.sum()), int((found & ~is_right).sum())


def modelled(copies: int, slots: int, rng: np.random.Generator) -> list[Point]:
    """Return success rates for each load, and for each age in a store at load 1."""
    keys, data = reports(slots, rng)
    store = Store(Region(slot(1), slots).records)
    point = partial(
        Point, source="model", copies=copies, policy="plurality", bits=WHOLE, metric="right"
    )
    points = []
    for part in parts(slots):
        store.write(keys[part], data[part], copies)
        right, _ = answered(store, keys[: part.stop], data[: part.stop], copies)
        points.append(point(panel="load", parameter=part.stop / slots, queries=part.stop,
                            count=right, expected=float(
                                mean_success(part.stop / slots, copies))))  # fmt: skip
    edges = np.linspace(0, slots, AGES + 1).astype(int)
    for first, end in pairwise(edges):
        right, _ = answered(store, keys[first:end], data[first:end], copies)
        ages = (slots - np.arange(first, end)) / slots
        points.append(point(panel="age", parameter=float(ages.mean()), queries=int(end - first),
                            count=right, expected=float(success(ages, copies).mean())))  # fmt: skip
    return points


def checksum_points(slots: int, rng: np.random.Generator) -> list[Point]:
    """Return counts of wrong results at load 1, by kind of key, policy and checksum width."""
    points = []
    for bits in BITS:
        keys, data = reports(slots, rng)
        others, _ = reports(4 * slots, rng)
        store = Store(Region(slot(1), slots).records, bits)
        store.write(keys, data, TWO)
        for policy in Policy:
            point = partial(
                Point, source="model", copies=TWO, policy=policy.value, bits=bits, parameter=bits
            )
            found = answered(store, keys, data, TWO, policy)
            expected: Outcome = mean_outcome(1.0, TWO, bits, policy, slots)
            for metric, count, chance in zip(("right", "wrong"), found, expected, strict=False):
                points.append(point(panel="written", metric=metric, queries=slots, count=count,
                                    expected=float(chance)))  # fmt: skip
            points.append(point(
                panel="absent", metric="wrong", queries=len(others),
                count=int(store.query(others, TWO, policy).found.sum()),
                expected=float(outcome_of_absent(1.0, TWO, bits, policy, slots).wrong),
            ))  # fmt: skip
    return points


def draw(points: Sequence[Point]) -> Figure:
    """Draw the success rate over the load and over the age, and the rate of wrong results.

    In the first panel, the background colour shows the best number of copies.
    """
    figure, (by_load, by_age, by_bits) = plots.figure(3)
    for number, copies in enumerate(COPIES):
        look: dict[str, Any] = {
            "color": plots.COLOURS[number], "marker": plots.MARKERS[number], "linestyle": "",
        }  # fmt: skip
        for axes, panel, theory in ((by_load, "load", mean_success), (by_age, "age", success)):
            found = [p for p in points if (p.panel, p.copies) == (panel, copies)]
            if found:
                values = [p.count / p.queries for p in found]
                axes.plot([p.parameter for p in found], values, label=f"N = {copies}", **look)
                parameter = np.linspace(0.01, 1, 100)
                axes.plot(parameter, theory(parameter, copies), "-", color=look["color"], marker="")
    shade_best(by_load)
    by_load.set(xlabel="Load (keys per slot)", ylabel="Query success rate", ylim=(0.3, 1.01))
    by_age.set(xlabel="Age (later keys per slot)", ylabel="Query success rate")
    plots.legend(by_load, 3)
    plots.legend(by_age, 3)
    draw_wrong(by_bits, points)
    return figure


def shade_best(axes: Axes) -> None:
    """Give each load a background in the colour of the best number of copies."""
    loads = np.linspace(0.001, 1, 1000)
    best = np.array([best_copies(load, COPIES, mean_success) for load in loads])
    for number, copies in enumerate(COPIES):
        where = loads[best == copies]
        axes.axvspan(where[0], where[-1], color=plots.COLOURS[number], alpha=0.12, linewidth=0)


def draw_wrong(axes: Axes, points: Sequence[Point]) -> None:
    """Draw the rate of wrong results over the bits of the checksum."""
    for number, (panel, policy, label) in enumerate(
        (("written", Policy.FIRST, "first match"), ("written", Policy.PLURALITY, "plurality"),
         ("absent", Policy.FIRST, "key not written"))
    ):  # fmt: skip
        found = [
            p for p in points if (p.panel, p.policy, p.metric) == (panel, policy.value, "wrong")
        ]
        colour = plots.COLOURS[number]
        axes.plot([p.parameter for p in found], [p.count / p.queries for p in found], label=label,
                  linestyle="", color=colour, marker=plots.MARKERS[number])  # fmt: skip
        axes.plot(
            [p.parameter for p in found], [p.expected for p in found], "-", color=colour, marker=""
        )
    axes.set_yscale("log", nonpositive="mask")
    axes.set(xlabel="Checksum (bits)", ylabel="Wrong answers (ratio)")
    plots.legend(axes, 2)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Query success rate in a store of {options.slots:,} slots written by a P4 translator, and "
        f"in a model with {options.model_slots:,} slots, {plots.runs(1, options.time)}; lines show "
        "theory. (a) Over load, with N copies per key; the best N is shaded. (b) Over age, at "
        "load 1. (c) Fraction of queries that return the value of another key, at load 1 with 2 "
        "copies."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
