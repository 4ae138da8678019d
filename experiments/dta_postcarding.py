"""DTA Postcarding: how many paths does the cache of the translator complete, and at what cost?

Many flows are active at the same time. Each flow reports its five hops, and between two hops of a
flow, all other flows report one hop. A hash chooses the row of a flow in the cache of the
translator. A flow that is alone in its row takes one memory write for five hops. Flows that share a
row evict each other at each hop. With r rows and f flows, a flow is alone in its row with
probability (1 - 1/r)^(f - 1), which is the success rate. One test compares all points with this
probability. The successful flows and the content of memory are known exactly. For comparison,
Key-Write writes the same hops to memory.

Published: the DTA translator (jonlanglet/DTA) has a cache of 32,768 rows and chunks of five hops.

Claim: Queries find exactly the paths of flows that are alone in their rows, as many as theory
predicts. Each of these paths takes one write.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from collectors.dta.hashes import HOPS, Words, rows, slots
from collectors.dta.key_write import slot
from collectors.dta.packets import KeyWrite, Postcard
from collectors.dta.postcarding import CHUNK, Postcards, alone_flows_deviation, alone_probability
from collectors.roce.region import Region
from controllers.dta.batching import PostcardStore, flush_rows
from controllers.dta.manager.fabric import Area
from controllers.dta.stores import KeyWriteStore
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import PROGRAM, Running, checks, translating
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.watch.display import Series

CACHES = (64, 256, 1024)  # numbers of rows
LOADS = (0.1, 0.25, 0.5, 1.0, 2.0)  # number of concurrent flows per row
SLOTS = 1 << 16
SWITCHES = np.arange(1, 101)  # switch ids that hops report
FILE = "paths"
KEY_WRITE_PATHS = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--flows", type=cli.positive_int, metavar="N",
        help="min flows per point (default: 1000; 150 with --quick and in real time)",
    )  # fmt: skip
    cli.add_rate_option(parser, 5000, "reports")
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Point:
    """Result of all rounds of concurrent flows at one load."""

    cache: int  # number of rows of the cache
    flows: int  # number of concurrent flows
    rounds: int
    found: int  # number of complete and correct paths
    # number of flows whose content of memory is wrong; it is right if it has all hops of a flow
    # that is alone in its row, or the last hop of a flow that shares its row
    wrong: int
    alone: int  # number of flows that are alone in their rows, according to the hash
    requests: int

    @property
    def paths(self) -> int:
        return self.flows * self.rounds

    @property
    def expected(self) -> float:
        """Return the fraction of paths that queries find, by theory."""
        return alone_probability(self.flows, self.cache)

    @property
    def chance(self) -> float:
        """Return the p-value of the number of found paths, by normal approximation."""
        deviation = alone_flows_deviation(self.flows, self.cache) * math.sqrt(self.rounds)
        return math.erfc(abs(self.found - self.paths * self.expected) / deviation / math.sqrt(2))


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small = options.quick or options.time == "real"
    options.flows = options.flows or (150 if is_small else 1000)
    rng = np.random.default_rng(run.seed)
    settings = [(cache, [drawn(cache, load, options.flows, rng) for load in LOADS], options)
                for cache in (CACHES[:1] if is_small else CACHES)]  # fmt: skip
    hops = some_hops(HOPS * KEY_WRITE_PATHS, 1, rng)
    found = await sweep(measure, settings, run)
    ((key_write, exact),) = await sweep(by_key_write, [(hops, options)], run)
    points = [point for of_cache, _ in found for point in of_cache]
    held = [check for _, of_cache in found for check in of_cache]
    return Report(
        samples=[make_sample(point) for point in points],
        checks=[*held, *exact, agreement_check("paths found", [point.chance for point in points])],
        metrics={"key_write_requests_per_path": key_write},
        figure=draw(points, key_write),
        caption=caption(options),
    )


class Hops(NamedTuple):
    """Reported data: the keys, shape (n, 4), and the switches of each path, shape (n, hops)."""

    keys: Words
    switches: Words


class Load(NamedTuple):
    """Number of concurrent flows, and their hops."""

    flows: int
    hops: Hops


def drawn(cache: int, load: float, at_least: int, rng: np.random.Generator) -> Load:
    """Return rounds with `load` flows per row of the cache."""
    flows = max(round(load * cache), 2)
    return Load(flows, some_hops(math.ceil(at_least / flows) * flows, HOPS, rng))


def some_hops(count: int, hops: int, rng: np.random.Generator) -> Hops:
    """Return hops of `count` random keys."""
    keys = some_keys(count, rng)
    return Hops(keys, rng.choice(SWITCHES, size=(count, hops)).astype(np.uint32))


async def measure(
    cache: int, loads: Sequence[Load], options: argparse.Namespace, run: Run
) -> tuple[list[Point], list[Check]]:
    """Run all loads of one cache."""
    name = f"{cache}-rows"
    area = Area(CHUNK, SLOTS, partial(_store, cache), file=FILE)
    points, requests = [], 0
    async with translating(run, name, [area], options.program) as running:
        store = Postcards(Region(CHUNK, SLOTS, run.folder / FILE).records, SWITCHES, 1)
        for load in loads:
            point = await paths(Cache(running, store, cache), load, options.rate)
            points.append(point)
            requests += point.requests
            if run.display is not None:
                series = Series("DTA", "paths found", f"Postcarding, rows: {cache}", "paths")
                now_ns = run.clock.now_ns()
                run.display.add(series, [(now_ns, point.found)], [(now_ns, point.alone)])
    (run.folder / FILE).unlink()
    held = checks(name, running.net, requests)
    for point in points:
        where = f"{name}, {point.flows} flows"
        five = point.alone + HOPS * (point.paths - point.alone)
        held += [
            Check(
                f"{where}: paths found (expected: flows alone in their rows)",
                point.found,
                point.alone,
            ),
            Check(f"{where}: flows with wrong memory", point.wrong, 0),
            Check(f"{where}: memory writes", point.requests, five),
        ]
    return points, held


def _store(cache: int, sessions: range) -> PostcardStore:
    return PostcardStore(SLOTS, cache, sessions)


class Cache(NamedTuple):
    """Translator with a cache of `rows` rows, and memory of the collector."""

    running: Running
    store: Postcards
    rows: int


async def paths(cache: Cache, load: Load, rate_pps: float) -> Point:
    """Run several rounds of concurrent flows one after the other."""
    running, flows, (keys, reported) = cache.running, load.flows, load.hops
    before = await running.requests()
    is_alone = np.empty(len(keys), bool)
    for first in range(0, len(keys), flows):
        now = slice(first, first + flows)
        row = rows(keys[now], cache.rows)
        is_alone[now] = np.bincount(row)[row] == 1
        await running.send(postcards(keys[now], reported[now]), rate_pps)
    await flush_rows(running.switch, 1, PostcardStore(SLOTS, cache.rows))
    await running.settle()
    answer = cache.store.query(keys)
    is_whole = answer.is_known.all(axis=1) & (answer.values == reported).all(axis=1)
    # If a flow shares its row, the last write for this flow contains the last hop of the flow.
    is_last = answer.is_known[:, -1] & (answer.values[:, -1] == reported[:, -1])
    is_right = np.where(is_alone, is_whole, is_last & (answer.is_known.sum(axis=1) == 1))
    requests = await running.requests() - before
    return Point(
        cache.rows, flows, len(keys) // flows, found=int(is_whole.sum()),
        wrong=int((~is_right).sum()), alone=int(is_alone.sum()), requests=requests,
    )  # fmt: skip


def some_keys(count: int, rng: np.random.Generator) -> Words:
    """Return random keys (n, 4) in different slots, so that memory loses no path."""
    keys = rng.integers(1 << 32, size=(2 * count + 16, 4), dtype=np.uint32)
    first = np.unique(slots(keys, 1, SLOTS)[0], return_index=True)[1]
    return keys[np.sort(first)[:count]]


def postcards(keys: Words, reported: NDArray[np.uint32]) -> list[bytes]:
    """Return reports in the order hop 0 of all flows, hop 1 of all flows, and so on."""
    found = []
    for hop in range(HOPS):
        head = 1 << 24 | hop << 16  # redundancy 1
        found += filled(Postcard(), [head, *keys.T, reported[:, hop]])
    return found


async def by_key_write(
    hops: Hops, options: argparse.Namespace, run: Run
) -> tuple[float, list[Check]]:
    """Return the requests per path if each hop is a separate key of Key-Write."""
    area = Area(slot(1), SLOTS, lambda sessions: KeyWriteStore(1, SLOTS, sessions=sessions))
    async with translating(run, "key-write", [area], options.program) as running:
        words = [*hops.keys.T, hops.switches[:, 0]]
        sent = filled(KeyWrite(data=[0]), words, sequence=np.arange(len(hops.keys)))
        await running.send(sent, options.rate)
        requests = await running.requests()
    return requests / KEY_WRITE_PATHS, checks("key-write", running.net, len(hops.keys))


def make_sample(point: Point) -> dict[str, object]:
    """Return a row of samples.csv for a point."""
    return {
        "cache_rows": point.cache, "concurrent_flows": point.flows, "paths": point.paths,
        "found": point.found, "expected": round(point.paths * point.expected, 3),
        "requests": point.requests,
    }  # fmt: skip


def draw(points: Sequence[Point], key_write: float) -> Figure:
    """Draw the fraction of found paths and the writes per path over concurrent flows."""
    figure, (left, right) = plots.figure(2)
    loads = np.linspace(0.01, 2.1, 100)
    share = np.exp(-loads)
    left.plot(loads, share, "k-", marker="", label="theory")
    right.plot(loads, share + HOPS * (1 - share), "k-", marker="", label="theory")
    right.axhline(key_write, color="black", linestyle=":", label="Key-Write")
    for cache in sorted({point.cache for point in points}):
        those = [point for point in points if point.cache == cache]
        x = [point.flows / cache for point in those]
        label = f"{cache:,} rows"
        left.plot(x, [point.found / point.paths for point in those], linestyle="", label=label)
        right.plot(x, [point.requests / point.paths for point in those], linestyle="", label=label)
    left.set(ylabel="Paths found (ratio)", ylim=(0, 1.02))
    right.set(ylabel="Memory writes per path", ylim=(0, 5.5))
    for axes in (left, right):
        _finish(axes)
    return figure


def _finish(axes: Axes) -> None:
    axes.set_xlabel("Concurrent flows per cache row")
    plots.legend(axes, 3)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Paths of five hops, at least {options.flows:,} per point, in the cache of a P4 "
        "translator without redundancy; hop 0 of all flows reports first, then hop 1 of all, and "
        "so on; "
        f"{plots.runs(1, options.time)}. Theory is for many rows. (a) Fraction of complete paths "
        "in the memory of the collector. (b) Requests per path that the collector executed."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
