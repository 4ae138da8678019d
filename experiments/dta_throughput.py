"""DTA primitives: how many memory operations and how much CPU time does each report cost?

A translator processes the same number of reports as Key-Write and Key-Increment with 1 to 8 copies,
as Append in batches of 1 to 16, and as Postcarding of paths with five hops. The responder of the
collector executes one memory operation per request. The expected costs are exact: N operations for
a report with N copies, 1/B for a report in a batch of B, and 1/5 for a report about one of five
hops. In real time, CPU collectors receive the same reports from the same sender, one collector
after the other. One collector inserts the reports into a hash table. Another one appends the
reports to a log with an index. Both collectors read from a UDP socket or from the ring of a packet
socket. The CPU time per report of these collectors is compared with that of the software responder
of Telemark. The responder replaces a NIC, which needs no CPU for this work. Kernel time is included
on both sides. Ratios are computed within a round, and the median over rounds is checked.

Claim: A report with N copies takes exactly N memory operations. In batches of B reports, a report
takes 1/B operations, and in paths of five hops 1/5. Even if software does the work of the NIC, a
report takes less CPU time than a hash table insert.

Published: nothing
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scapy.packet import Packet

from collectors.dta.append import batch
from collectors.dta.hashes import HOPS
from collectors.dta.key_increment import COUNTER
from collectors.dta.key_write import slot
from collectors.dta.packets import Append, KeyIncrement, KeyWrite, Postcard
from collectors.dta.postcarding import CHUNK
from controllers.dta.batching import ListStore, PostcardStore
from controllers.dta.manager.fabric import Area
from controllers.dta.stores import CounterStore, KeyWriteStore
from controllers.dta.translator import CounterSession
from experiments.shared.dta.costs import (
    Costs,
    costs_tables,
    draw_cpu,
    make_checks,
    measured,
    require_two_cores,
)
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import PROGRAM, checks, translating
from telemark.results import plots
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

SLOTS = 1 << 12
MAX_BATCH = 16  # max number of entries per batch
COPIES, BATCHES = (1, 2, 4, 8), (1, 2, 4, 8, 16)
# the number of reports is a multiple of this number, so all batches and paths are complete
SHARE = MAX_BATCH * HOPS


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports", type=cli.positive_int, metavar="N",
        help=f"reports per case, rounded down to a multiple of {SHARE} (default: 1600; "
        "--quick: 320)",
    )  # fmt: skip
    cli.add_rate_option(parser, 5000, "reports")
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Case:
    """Primitive and its size (copies, entries per batch, or hops per path)."""

    primitive: str
    size: int
    area: Area
    report: Packet
    expected: float  # memory operations per report

    @property
    def name(self) -> str:
        """Name for checks."""
        return f"{self.primitive} {self.size}"

    def frames(self, words: NDArray[np.uint32]) -> list[bytes]:
        """Return one report for each column of seven words."""
        count = words.shape[1]
        if self.primitive == "Append":
            return filled(self.report, [np.zeros(count, np.uint32), words[0]])
        if self.primitive == "Postcarding":
            return filled(self.report, postcard_words(words, count))
        return filled(self.report, [*words[: 5 if self.primitive == "Key-Write" else 6]])


def postcard_words(words: NDArray[np.uint32], count: int) -> list[NDArray[np.uint32]]:
    """Return the words of postcards; the five postcards of a path are consecutive."""
    path, hop = np.divmod(np.arange(count), HOPS)
    first = (1 << 24 | hop << 16 | HOPS << 8).astype(np.uint32)  # redundancy, hop, hops
    return [first, *(words[:4, path]), words[4]]


def _list_store(entries: int, sessions: range) -> ListStore:
    """Return the store of a list to which `entries` entries are written at a time."""
    return ListStore(entries, SLOTS, 1, sessions[0])


def cases() -> list[Case]:
    """Return all cases, namely each primitive with all its sizes."""
    found = []
    for copies in COPIES:
        key_write = Area(slot(1), SLOTS, lambda over: KeyWriteStore(1, SLOTS, sessions=over))
        counters = Area(
            COUNTER, 8 * SLOTS, lambda over: CounterStore(SLOTS, 8, over), CounterSession
        )
        found += [
            Case("Key-Write", copies, key_write, KeyWrite(redundancy=copies, data=[0]), copies),
            Case("Key-Increment", copies, counters, KeyIncrement(redundancy=copies), copies),
        ]
    for size in BATCHES:
        area = Area(batch(size), SLOTS, partial(_list_store, size))
        found.append(Case("Append", size, area, Append(), 1 / size))
    paths = Area(CHUNK, SLOTS, lambda over: PostcardStore(SLOTS, sessions=over))
    return [*found, Case("Postcarding", HOPS, paths, Postcard(), 1 / HOPS)]


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time == "real":
        require_two_cores()
    asked = options.reports or (320 if options.quick else 1600)
    options.reports = max(asked // SHARE, 1) * SHARE
    rng = np.random.default_rng(run.seed)
    settings = [(number, rng.integers(1 << 32, size=(7, options.reports), dtype=np.uint32),
                 options) for number in range(len(cases()))]  # fmt: skip
    found = await sweep(translated, settings, run)
    samples = [sample for sample, _ in found]
    held = [check for _, of_case in found for check in of_case]
    if options.time == "virtual":
        figure, (axes,) = plots.figure()
        draw(axes, samples)
        return Report(samples, held, figure=figure, caption=caption(options))
    return with_costs(samples, held, measured(run, quick=options.quick), options)


async def translated(
    number: int, words: NDArray[np.uint32], options: argparse.Namespace, run: Run
) -> tuple[dict[str, object], list[Check]]:
    """Measure the memory operations per report of one case; `number` is its index in cases()."""
    case, count = cases()[number], words.shape[1]
    name = case.name.replace(" ", "-")
    async with translating(run, name, [case.area], options.program) as running:
        await running.send(case.frames(words), options.rate)
    carried_out = running.net.applications[0].result.counts.accepted.total()
    operations = carried_out / count
    sample = {
        "primitive": case.primitive, "size": case.size, "reports": count,
        "operations": carried_out, "per_report": operations, "expected": case.expected,
    }  # fmt: skip
    return sample, [
        Check(f"{case.name}: memory operations per report", operations, case.expected),
        *checks(case.name, running.net, round(case.expected * count)),
    ]


def with_costs(
    samples: Sequence[dict[str, object]], held: Sequence[Check], costs: Costs,
    options: argparse.Namespace,
) -> Report:  # fmt: skip
    """Return the report in real time; inconclusive if the machine was too loaded."""
    figure, panels = plots.figure(2)
    draw(panels[0], samples)
    draw_cpu(panels[1], costs)
    return Report(
        samples, [*held, *make_checks(costs)], {"cpu_ns_per_report": costs.by_round()}, figure,
        caption=f"(a) {caption(options)} (b) {costs.caption()}", tables=costs_tables(costs),
    )  # fmt: skip


def draw(axes: Axes, samples: Sequence[dict[str, Any]]) -> None:
    """Draw operations per report over the size of the primitive."""
    for number, primitive in enumerate(dict.fromkeys(str(each["primitive"]) for each in samples)):
        draw_primitive(axes, [each for each in samples if each["primitive"] == primitive], number)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(BATCHES, [*map(str, BATCHES)])
    ticks = [2.0**power for power in range(-4, 4)]
    axes.set_yticks(ticks, [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks])
    axes.set(xlabel="Copies N, entries B per batch, hops per path",
             ylabel="Memory operations per report")  # fmt: skip
    plots.legend(axes, 2)


def draw_primitive(axes: Axes, samples: Sequence[dict[str, Any]], number: int) -> None:
    """Draw one primitive. Markers differ in size, so that equal values of two primitives show."""
    is_ring = number == 1
    axes.plot([each["size"] for each in samples], [each["per_report"] for each in samples],
              color=plots.COLOURS[number], marker=plots.MARKERS[number],
              linestyle="none" if is_ring else "-", fillstyle="none" if is_ring else "full",
              markersize=7 if is_ring else 3.5, label=samples[0]["primitive"])  # fmt: skip


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Memory operations that the collector executes per report, for {options.reports:,} "
        f"reports, {plots.runs(1, options.time)}."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
