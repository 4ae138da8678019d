"""The published RDMA prototype and Telemark: is the memory of the collector equal to the model?

The published switch program is written for a Tofino. minip4 compiles and runs it unchanged. It is
not part of Telemark: fetch it, and pass its folder with --prototype. This program and Telemark's
program get the same TCP segments. Each writes a record per segment into the memory of a collector,
with RoCEv1 over a reliable connection. The responder of the collector checks iCRC, sequence number,
key and bounds of each packet. Linux's rdma_rxe cannot receive RoCEv1. The memory must equal a
model, byte by byte. The model of the published program includes the effect of its faults. The
program records IPv4 segments only with a TOS of 6, and without addresses. Its sequence number has
16 bits instead of 24. It writes beyond the end of the region, which ends the connection.

Claim: Where the published program is right, its memory equals the model. Each of its known faults
has the effect that the model predicts, and Telemark's program has none of these faults.

Published: "Collecting telemetry data using P4 and RDMA" (Beltman and Knossen, INDIS 2020): the
switch program of rutgerbeltman/telemetry-rdma-p4-switch, commit 8478283.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.roce.prototype import (
    FILE,
    OURS,
    PARSED_TOS,
    PROTOTYPE,
    PSNS,
    SIDES,
    SOURCE,
    Case,
    Finding,
    measure,
)
from experiments.shared.tna.fetched import folder_with
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

SEGMENTS, QUICK_SEGMENTS = 2000, 200
LONG, QUICK_LONG = (PSNS // 2, PSNS, 3 * PSNS // 2, 2 * PSNS), ()
LOOKS = {PROTOTYPE: (3, "o"), OURS: (0, "s")}  # colour, marker


def add_options(parser: argparse.ArgumentParser) -> None:
    # argparse also checks the default, so a missing option is reported before the run starts
    parser.add_argument(
        "--prototype", type=published_program, default="", metavar="FOLDER",
        help=f"folder with {FILE} of the published prototype (required)",
    )  # fmt: skip


def published_program(text: str) -> Path:
    """Parse the folder with the published program."""
    return folder_with(text, (FILE,), SOURCE)


def short_cases(segments: int) -> list[Case]:
    """Return the cases with few segments."""
    return [
        Case("IPv6", segments, segments),
        Case("IPv4", segments, segments, 4),
        Case(f"IPv4, TOS {PARSED_TOS}", segments, segments, 4, PARSED_TOS),
        Case("small region", segments, segments // 3),
    ]


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_minip4(options, "the program is for a Tofino")
    long = QUICK_LONG if options.quick else LONG
    cases = short_cases(QUICK_SEGMENTS if options.quick else SEGMENTS)
    cases += [Case("long", segments, segments) for segments in long]
    settings = [(case, side, str(options.prototype)) for case in cases for side in SIDES]
    results = await sweep(measure, settings, run)
    found = [finding for finding, _ in results]
    return Report(
        samples=[asdict(finding) for finding in found],
        checks=[*make_checks(found), *(check for _, checks in results for check in checks)],
        figure=draw(found),
        caption=caption(found, options),
        tables=[summary_table(found)],
    )


def make_checks(found: Sequence[Finding]) -> list[Check]:
    """Compare memory and counts with the model of each side."""
    checks = []
    for each in found:
        name = f"{each.side}, {each.case}, {each.segments:,} segments"
        checks += [
            Check(f"{name}: bytes unlike the model", each.wrong_bytes, 0),
            Check(f"{name}: executed requests", each.written, each.expected_written),
            Check(f"{name}: malformed requests", each.bad_packets, 0),
            Check(f"{name}: lost or changed segments", each.wrong_segments, 0),
        ]
    return checks


def summary_table(found: Sequence[Finding]) -> Table:
    """Return a table with a row per case and program."""
    columns = ("case", "program", "segments", "executed requests", "expected", "complete records",
               "slots", "bytes unlike the model")  # fmt: skip
    rows = [(each.case, each.side, each.segments, each.written, each.expected_written,
             each.complete, each.slots, each.wrong_bytes) for each in found]  # fmt: skip
    return table("Records of TCP segments in the memory of the collector", columns, rows)


def draw(found: Sequence[Finding]) -> Figure:
    """Draw the ratio of complete records, by case and by number of segments."""
    long = [each for each in found if each.case == "long"]
    figure, (cases, *rest) = plots.figure(2 if long else 1)
    short = [each for each in found if each.case != "long"]
    names = list(dict.fromkeys(each.case for each in short))
    _draw(cases, short, [names.index(each.case) for each in short])
    cases.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
    cases.set(ylabel="Complete records (ratio)", ylim=(-0.05, 1.05))
    plots.legend(cases)
    for axes in rest:
        numbers = [each.segments for each in long]
        _draw(axes, long, [number / PSNS for number in numbers])
        lengths = np.linspace(min(numbers), max(numbers), 100)
        axes.plot(lengths / PSNS, np.minimum(1, PSNS / lengths), "k-", marker="", zorder=1)
        axes.set(xlabel=f"Segments / {PSNS:,}", ylim=(-0.05, 1.05))
    return figure


def _draw(axes: Axes, found: Sequence[Finding], places: Sequence[float]) -> None:
    for side in SIDES:
        colour, marker = LOOKS[side]
        own = [n for n, each in enumerate(found) if each.side == side]
        axes.plot([places[n] for n in own], [found[n].complete / found[n].slots for n in own],
                  linestyle="", color=plots.COLOURS[colour], marker=marker,
                  label=side)  # fmt: skip
    plots.ring(axes, places, [each.expected_complete / each.slots for each in found])


def caption(found: Sequence[Finding], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    long = (
        " (b) The same by number of segments. Line: theory for the prototype's 16-bit numbers."
        if any(each.case == "long" for each in found)
        else ""
    )
    return (
        "The published switch program and Telemark's with the same TCP segments, "
        f"{plots.runs(1, options.time)}; rings show the values of the models. (a) Complete records "
        f"in the memory of the collector, of {found[0].segments:,} segments. The small region has "
        f"room for a third of them; Telemark's program keeps the newest.{long}"
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
