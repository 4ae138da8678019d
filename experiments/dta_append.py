"""DTA Append: how many memory writes does batching save, and how fast can readers follow?

A host appends numbers to randomly chosen lists. A translator collects the numbers of each list in
batches and writes each batch with one RDMA request into a ring that wraps several times. The reader
of a list must get each number once and in order. The collector must execute one request per batch.
The translator writes incomplete batches on a flush request. The experiment also measures the rate
at which processes read entries from full lists. The rate depends on the machine.

Published: the DTA translator (jonlanglet/DTA) has batches of 1 to 16 entries. It loses one entry
per lap of a ring.

Claim: Each entry is read once and in order, also after the ring has wrapped. A batch of B entries
takes one memory write.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import itertools
import multiprocessing
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from collectors.dta.append import BATCHES, FIRST, Reader, batch, tail
from collectors.dta.packets import Append
from collectors.roce.region import Region
from controllers.dta.batching import ListStore, flush_lists
from controllers.dta.manager.fabric import Area
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import PROGRAM, checks, translating
from telemark.backends.real.isolation import STOPPING, uninterrupted
from telemark.results import plots
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

LISTS = (1, 16, 256)
PARTS = 4  # the numbers are sent in this many parts; readers poll after each part
FILE = "lists"
READERS = (1, 2, 3, 4)
POLLED_LISTS, POLLED_BATCHES = 24, 4096  # size of the lists in the read benchmark
POLLED_S = {False: 1.0, True: 0.1}  # duration of the read benchmark, by --quick


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports", type=cli.positive_int, metavar="N",
        help="reports per case (default: 8192; 1024 with --quick and in real time)",
    )  # fmt: skip
    cli.add_rate_option(parser, 5000, "reports")
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Found:
    """Counts and checks of one case: a batch size and a number of lists."""

    size: int  # entries per batch
    lists: int
    reports: int
    written: int  # number of requests before the flush
    asked: int  # number of requests after the flush
    laps: int  # max number of laps of a ring
    checks: list[Check]


@dataclass(frozen=True)
class Polled:
    """Rate at which processes read entries of full lists."""

    size: int
    readers: int
    entries_per_s: float


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small = options.quick or options.time == "real"
    options.reports = options.reports or (1024 if is_small else 8192)
    sizes = (1, 4, 16) if is_small else BATCHES
    # This measurement forks processes, so it must come before a network starts its threads.
    polled = [poll(size, readers, POLLED_S[options.quick])
              for size in (1, 16) for readers in READERS]  # fmt: skip
    rng = np.random.default_rng(run.seed)
    settings = [(size, lists, rng.integers(lists, size=options.reports), options)
                for lists in (LISTS[:2] if is_small else LISTS) for size in sizes]  # fmt: skip
    found = await sweep(measure, settings, run)
    return Report(
        samples=[*map(make_sample, found), *map(polled_sample, polled)],
        checks=[check for each in found for check in each.checks],
        machine_columns=["entries_per_s"],
        figure=draw(found, polled),
        caption=caption(options),
    )


async def measure(
    size: int, lists: int, numbers: NDArray[np.int64], options: argparse.Namespace, run: Run
) -> Found:
    """Append consecutive numbers to the lists given by `numbers` and read the lists."""
    name = f"{lists}-lists-of-{size}"
    parts = np.array_split(numbers, PARTS)
    max_part = max(int(np.bincount(part).max()) for part in parts)
    batches = max_part // size + 3  # enough for one part, and for batches that continue in the next
    store = partial(_store, size, batches, lists)
    area = Area(batch(size), lists * batches, store, file=FILE)
    sent, wrong, counts = np.zeros(lists, int), 0, []
    async with translating(run, name, [area], options.program) as running:
        rings = Region(batch(size), lists * batches, run.folder / FILE).records
        readers = [Reader(ring, FIRST) for ring in rings.reshape(lists, batches)]
        for part in parts:
            data = np.empty(len(part), int)
            for number in range(lists):
                mine = part == number
                data[mine] = sent[number] + np.arange(mine.sum())
            await running.send(filled(Append(), [part, data]), options.rate)
            before, sent = sent, sent + np.bincount(part, minlength=lists)
            wrong += _wrong(readers, before // size * size, sent // size * size)
        counts.append(await running.requests())
        await flush_lists(running.switch, 1, store(range(1, 2)))
        await running.settle()
        counts.append(await running.requests())
        wrong += _wrong(readers, sent // size * size, sent)
    (run.folder / FILE).unlink()
    whole, partial_ones = int((sent // size).sum()), int((sent % size > 0).sum())
    missed = sum(reader.lost + reader.overrun for reader in readers)
    held = [
        Check(f"{name}: wrong or missing entries", wrong, 0),
        Check(f"{name}: batches missed by readers", missed, 0),
        Check(f"{name}: requests for full batches", counts[0], whole),
        Check(f"{name}: requests for incomplete batches", counts[1] - counts[0], partial_ones),
        *checks(name, running.net, whole + partial_ones),
    ]
    laps = int((sent // size).max() // batches)
    return Found(size, lists, len(numbers), counts[0], counts[1] - counts[0], laps, held)


def _store(size: int, batches: int, lists: int, sessions: range) -> ListStore:
    return ListStore(size, batches, lists, sessions[0])


def _wrong(readers: Sequence[Reader], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Count the entries of all readers that differ from the expected numbers."""
    wrong = 0
    for reader, start, end in zip(readers, starts.tolist(), ends.tolist(), strict=True):
        got = reader.pull().tolist()
        wanted = range(start, end)
        wrong += sum(a != b for a, b in itertools.zip_longest(got, wanted))
    return wrong


def poll(size: int, readers: int, lasts_s: float) -> Polled:
    """Measure how fast processes read full lists repeatedly; each process has its own lists."""
    rings = np.zeros((POLLED_LISTS, POLLED_BATCHES), batch(size))
    rings["tail"] = [tail(size, number) for number in range(1, POLLED_BATCHES + 1)]
    fork = multiprocessing.get_context("fork")
    ends = []
    for number in range(readers):
        mine, theirs = fork.Pipe(duplex=False)
        job = rings[number::readers], lasts_s, theirs
        # a daemon process is killed when this process ends
        process = fork.Process(target=_poll, args=job, daemon=True)
        with uninterrupted():
            process.start()
        ends.append((process, mine))
    rate = sum(mine.recv() for _, mine in ends)
    for process, _ in ends:
        process.join()
    return Polled(size, readers, rate)


def _poll(rings: NDArray[np.void], lasts_s: float, connection: Connection) -> None:
    """Read lists in a child process and send the rate in entries/s."""
    for number in STOPPING:
        signal.signal(
            number, signal.SIG_DFL
        )  # without this, each process would print a traceback on Ctrl-C, which reaches all of them
    entries, start = 0, time.perf_counter()
    while time.perf_counter() < start + lasts_s:
        for ring in rings:
            entries += len(Reader(ring, FIRST).pull())
    connection.send(entries / (time.perf_counter() - start))


def make_sample(found: Found) -> dict[str, object]:
    """Return a row of samples.csv for a case."""
    return {
        "panel": "writes", "batch": found.size, "lists": found.lists, "reports": found.reports,
        "requests": found.written, "requests_after_flush": found.asked, "laps": found.laps,
        "readers": "", "entries_per_s": "",
    }  # fmt: skip


def polled_sample(polled: Polled) -> dict[str, object]:
    """Return a row of samples.csv for a number of readers."""
    return {
        "panel": "polling", "batch": polled.size, "lists": POLLED_LISTS, "reports": "",
        "requests": "", "requests_after_flush": "", "laps": "", "readers": polled.readers,
        "entries_per_s": round(polled.entries_per_s),
    }  # fmt: skip


def draw(found: Sequence[Found], polled: Sequence[Polled]) -> Figure:
    """Draw the writes per report over the batch size, and the read rate over the readers."""
    figure, (left, right) = plots.figure(2)
    sizes = np.array(BATCHES)
    left.plot(sizes, 1 / sizes, "k-", marker="", label="theory: 1 / B")
    for lists, size in zip(sorted({each.lists for each in found}), (7, 5, 3), strict=False):
        those = [each for each in found if each.lists == lists]
        left.plot([each.size for each in those], [each.written / each.reports for each in those],
                  linestyle="", markersize=size, label=plots.count(lists, "list"))  # fmt: skip
    left.set_xscale("log", base=2)
    left.set_yscale("log", base=2)
    left.set_xticks(sizes, sizes)
    left.set(xlabel="Entries per batch, B", ylabel="Memory writes per report")
    plots.legend(left, 2)
    draw_polling(right, polled)
    return figure


def draw_polling(axes: Axes, polled: Sequence[Polled]) -> None:
    """Draw the read rate over the number of readers."""
    for size in sorted({each.size for each in polled}):
        those = [each for each in polled if each.size == size]
        axes.plot([each.readers for each in those], [each.entries_per_s / 1e6 for each in those],
                  label=f"B = {size}")  # fmt: skip
    axes.set(xlabel="Reader processes", ylabel="Read rate (million entries/s)", ylim=(0, None))
    axes.set_xticks(READERS, [*map(str, READERS)])
    plots.legend(axes, 2)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"{options.reports:,} reports of a host, each of which is appended to a random list, "
        f"{plots.runs(1, options.time)}. (a) Number of requests per report that the collector "
        "executed, before the last, incomplete batches are written. (b) Rate at which processes "
        f"read {POLLED_LISTS} lists of {POLLED_BATCHES:,} full batches on the machine of this run."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
