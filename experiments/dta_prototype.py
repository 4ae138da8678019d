"""The published DTA prototype and Telemark: is the memory equal, and how often do faults occur?

The published translator and reporter are P4 programs for a Tofino. minip4 compiles and runs them
unchanged. They are not part of Telemark: fetch them, and pass their folder with --prototype. Both
translators get the same report packets in the format of the prototype, from one generator. The
collector of the prototype has a NIC that does not check the iCRC, as the prototype needs it. The
memory of both must equal a numpy model, byte by byte. The model of the prototype includes the
effect of its faults. Each fault must occur exactly as often as its law says, and never in
Telemark's translator. The law of lost keys is statistical, so one test compares all its points.

Claim: Where the published translator is right, its memory equals the model. Each of its known
faults occurs as often as its law says, and Telemark's translator has none of them.

Published: Langlet et al. (SIGCOMM 2023): the translator and the reporter of jonlanglet/DTA, commit
6da6cb5.
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

from collectors.dta import theory
from experiments.shared.dta import prototype
from experiments.shared.dta.both_translators import OURS, PROTOTYPE, SIDES
from experiments.shared.dta.prototype_cases import Finding, Sizes, measure, settings
from experiments.shared.tna.fetched import folder_with
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

COPIES, QUICK_COPIES = (1, 2, 4), (1, 4)
RINGS, QUICK_RINGS = (4, 8, 16, 32, 64, 128), (4, 16)  # batches
DROPS, QUICK_DROPS = (10, 100, 1000, 10_000, 100_000), (10, 100)  # the last is the published one
TICKS = {"wrap": (4, 16, 64), "resync": (10, 1000, 100_000)}
QUICK_SIZES = Sizes(slots=1 << 10, reports=300, flows=50)
LOOKS = {PROTOTYPE: (3, "o"), OURS: (0, "s")}  # colour, marker


def add_options(parser: argparse.ArgumentParser) -> None:
    # argparse also checks the default, so a missing option is reported before the run starts
    parser.add_argument(
        "--prototype", type=published_programs, default="", metavar="FOLDER",
        help=f"folder with {prototype.TRANSLATOR} and {prototype.REPORTER} of the published "
        "prototype (required)",
    )  # fmt: skip


def published_programs(text: str) -> Path:
    """Parse a folder with the published programs."""
    return folder_with(text, (prototype.TRANSLATOR, prototype.REPORTER), prototype.SOURCE)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "some counts depend on the times of ACKs")
    folder = str(options.prototype)
    if options.quick:
        chosen = settings(folder, QUICK_SIZES, QUICK_COPIES, QUICK_RINGS, QUICK_DROPS)
    else:
        chosen = settings(folder, Sizes(), COPIES, RINGS, DROPS)
    results = await sweep(measure, [(setting,) for setting in chosen], run)
    found = [finding for result in results for finding in result.findings]
    return Report(
        samples=[asdict(finding) for finding in found],
        checks=[*make_checks(found), *(check for result in results for check in result.checks)],
        figure=draw(found),
        caption=caption(found, options),
        tables=[faults_table(found)],
    )


def make_checks(found: Sequence[Finding]) -> list[Check]:
    """Compare counts with the laws: success by one test, everything else exactly."""
    checks, chances = [], []
    for each in found:
        if each.panel == "success":
            chances.append(binomial_p_value(each.count, each.total, each.expected))
        else:
            where = f", {each.parameter:g}" if each.parameter else ""
            name = f"{each.side}{where}: {each.what} ({each.unit})"
            checks.append(Check(name, each.count, each.expected))
    return [*checks, agreement_check("found keys", chances)]


def total(found: Sequence[Finding], what: str, side: str) -> tuple[int, int, float]:
    """Return the counts of findings about one thing: wrong, of all, expected."""
    own = [each for each in found if (label(each), each.side) == (what, side)]
    return (sum(each.count for each in own), sum(each.total for each in own),
            sum(each.expected for each in own))  # fmt: skip


def label(finding: Finding) -> str:
    """Return the text of a row, which may sum several findings."""
    what = finding.what.partition(",")[0]
    return f"{what}: wrong bytes" if finding.panel == "memory" else what


def rows(found: Sequence[Finding]) -> list[str]:
    """Return the labels of all rows: memory first, then faults."""
    of_panels = [[label(each) for each in found if each.panel == panel]
                 for panel in ("memory", "faults")]  # fmt: skip
    return [*dict.fromkeys(name for names in of_panels for name in names)]


def faults_table(found: Sequence[Finding]) -> Table:
    """Return a table with a row per fault, and per primitive."""
    units = {label(each): each.unit for each in found}
    cells = []
    for name in rows(found):
        (theirs, of_theirs, expected), (ours, of_ours, _) = (
            total(found, name, side) for side in SIDES
        )
        cells.append((name, units[name], theirs, expected, of_theirs, ours, of_ours))
    columns = ("", "unit", PROTOTYPE, "expected", "of", OURS, "of")
    return table("Wrong bytes in memory, and units that a fault affects", columns, cells)


def draw(found: Sequence[Finding]) -> Figure:
    """Draw found keys by load, lost entries by ring, lost reports by drops, and all faults."""
    figure, (success, wrap, resync, faults) = plots.figure(4, height_in=3.0)
    faults.get_gridspec().set_width_ratios([1, 1, 1, 0.9])  # type: ignore[union-attr]
    draw_success(success, found)
    for axes, panel in ((wrap, "wrap"), (resync, "resync")):
        for side in SIDES:
            own = [each for each in found if (each.panel, each.side) == (panel, side)]
            values = [each.ratio if panel == "wrap" else each.count for each in own]
            _points(axes, [each.parameter for each in own], values, side)
        axes.set_xscale("log")
        axes.set_xticks(TICKS[panel], labels=[f"{tick:,}" for tick in TICKS[panel]])
        axes.minorticks_off()
    lengths = np.geomspace(4, 128, 50)
    wrap.plot(lengths, 1 / (lengths + 1), "k-", marker="", zorder=1)
    wrap.set(xlabel="Ring (batches)", ylabel="Lost entries (ratio)")
    dropped = np.geomspace(10, 1e5, 50)
    resync.plot(dropped, dropped + 1, "k-", marker="", zorder=1)
    resync.set(xlabel="Drops per NAK (reports)", ylabel="Lost reports", yscale="log")
    draw_faults(faults, found)
    return figure


def _points(axes: Axes, x: Sequence[float], y: Sequence[float], side: str) -> None:
    colour, marker = LOOKS[side]
    axes.plot(x, y, linestyle="", color=plots.COLOURS[colour], marker=marker, label=side)


def draw_success(axes: Axes, found: Sequence[Finding]) -> None:
    """Draw the fraction of found keys over the load, with the most copies, and theory."""
    copies = max(each.copies for each in found if each.panel == "success")
    loads = np.linspace(0.05, 1, 100)
    for side, law, line in ((PROTOTYPE, prototype.mean_success, "-"),
                            (OURS, theory.mean_success, "--")):  # fmt: skip
        own = [each for each in found
               if (each.panel, each.side, each.copies) == ("success", side, copies)]  # fmt: skip
        _points(axes, [each.parameter for each in own], [each.ratio for each in own], side)
        axes.plot(loads, law(loads, copies), line, color="black", marker="", zorder=1)
    axes.set(xlabel="Load (keys per slot)", ylabel="Query success rate",
             ylim=(0, 1.02))  # fmt: skip
    plots.legend(axes, 1)


def draw_faults(axes: Axes, found: Sequence[Finding]) -> None:
    """Draw the ratio of wrong units of each row; rings show the expected ratio."""
    names = rows(found)
    places = range(len(names))
    for side in SIDES:
        counts = [total(found, name, side) for name in names]
        ratios = [count / of for count, of, _ in counts]
        _points(axes, ratios, [*places], side)
        plots.ring(axes, [expected / of for _, of, expected in counts], [*places])
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlabel="Affected (ratio)", xlim=(-0.08, 1.08))


def caption(found: Sequence[Finding], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    copies = max(each.copies for each in found if each.panel == "success")
    return (
        "The published translator and Telemark's with the same report packets, "
        f"{plots.runs(1, options.time)}; lines and rings show the expected values. (a) Keys found "
        f"with {copies} copies; solid: theory for CRCs, dashed: for independent hashes. (b) "
        "Entries of a list that no reader gets, although it reads often enough. The prototype "
        "loses one batch per lap of the ring. (c) Reports that are lost after one lost request, "
        "by the number of reports that the prototype drops per NAK (published: 100,000). (d) "
        "Ratio of wrong bytes in memory, and ratio of requests, reports, paths or NACKs that a "
        "fault affects."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
