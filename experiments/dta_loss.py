"""Reports get lost on their way to memory: how many, and what do NACKs and resynchronisation save?

A switch reports each packet of a user to a translator, which writes it into a collector's memory by
RDMA. Both links may lose. Reports have numbers: the translator tells the reporter what is missing,
and it sends that again, from a ring. Requests have sequence numbers (PSNs), and a reliable
connection takes nothing until the one comes that it expects: the translator goes on with that. Each
report has a slot of its own in memory. Which of them are there must be what captures and the links'
own logs say, report by report.

Claim: A report that is sent again is lost only where it is lost twice, and behind the translator
just those are that a reliable connection must refuse: what is in memory is known report by report.

Published: Langlet et al. (SIGCOMM 2023): the published translator asks for reports that are
missing, by numbers of eight bits, and after a NAK of the collector drops the next 100,000.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from collectors.dta.hashes import Words
from collectors.roce.endpoint import Transport
from controllers.roce.running import require_minip4
from experiments.shared.dta.lossy_reports import (
    DELAY_US,
    PATIENCE,
    REPORTER_PROGRAM,
    Found,
    Way,
    flows,
    measure,
)
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

PROBABILITIES, REAL_PROBABILITIES = (0.001, 0.003, 0.01, 0.03, 0.1), (0.01, 0.1)
MOST_LOSS = 0.5
LEAST = 5e-7  # share, in the figure
AFTER = 600  # reports when nothing is lost any more: by them all that was is known
REAL_PPS, VIRTUAL_PPS = 2000, 10_000

WAYS = {
    "not sent again": Way(loses_reports=True, retransmittable=False),
    "sent again": Way(loses_reports=True),
    "UC": Way(loses_writes=True, transport=Transport.UC),
    "resync": Way(loses_writes=True),
    "no resync": Way(loses_writes=True, listens=False),
    "both links": Way(loses_reports=True, loses_writes=True),
}
"""The first two lose reports on the way to the translator, the next three requests behind it."""
REAL_QUICK = ("sent again", "resync", "both links")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.probability, nargs="+", metavar="P",
        help="with which chance links lose a frame (default: 0.001 to 0.1; in real time from 0.01)",
    )  # fmt: skip
    parser.add_argument(
        "--reports", type=cli.positive_int, metavar="N",
        help="reports while links lose (default: 10000; in real time 2000)",
    )  # fmt: skip
    cli.add_program_option(parser, REPORTER_PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_minip4(run)
    is_virtual, is_full = options.time == "virtual", not options.quick
    usual = PROBABILITIES if is_virtual and is_full else REAL_PROBABILITIES
    options.loss = options.loss or [*usual] if is_virtual or is_full else [usual[-1]]
    if max(options.loss) > MOST_LOSS:
        raise TestbedError(
            f"--loss {max(options.loss):g}: expected {MOST_LOSS} at most, or what is missing is "
            "known only when links lose no more"
        )
    options.reports = options.reports or (10_000 if is_virtual else 2000) // (1 if is_full else 5)
    ways = [*WAYS] if is_virtual or is_full else REAL_QUICK
    keys = flows(options.reports + AFTER, options.seed)
    rate_pps = VIRTUAL_PPS if is_virtual else REAL_PPS
    cases = [*product(ways, options.loss)]
    settings = [(case, keys, rate_pps, options) for case in cases]
    found = dict(zip(cases, await sweep(measured, settings, run), strict=True))
    return Report(
        samples=[sample_of(name, each) for (name, _), each in found.items()],
        checks=[
            *(check for (name, _), each in found.items() for check in checks_of(name, each)),
            agreement_check("reports lost", chances(found)),
        ],
        figure=draw(found, rate_pps),
        caption=caption(options, rate_pps),
        tables=[summary_table(found)],
    )


async def measured(
    case: tuple[str, float], keys: Words, rate_pps: float, options: argparse.Namespace, run: Run
) -> Found:
    """One way, over links that lose so many."""
    name, loss = case
    return await measure(
        run, f"{name}-{loss:g}".replace(" ", "-"), WAYS[name], probability=loss,
        lossy=options.reports, keys=keys, rate_pps=rate_pps, program=options.program,
    )  # fmt: skip


def checks_of(name: str, found: Found) -> list[Check]:
    """What became of each report, by captures against memory, and by the switches' own counters."""
    where, way, count = f"{name}, {found.probability:g}", WAYS[name], len(found.came)
    came = int(np.count_nonzero(found.came))
    again = int(found.transmissions.sum()) - count
    checks = {
        "reports sent": (found.reporter["sent"], count),
        "requests for reports that came": (found.requests, came),
        "reports whose fate captures tell otherwise": (differ(found.written, found.accepted), 0),
        "slots with what nobody reported": (found.strange, 0),
        "reports sent again, by the reporter": (found.reporter["resent"], again),
        "reports that had left the ring": (found.left, 0),
        "reports missing, by the translator": (found.missing, count - came),
    }
    if way.transport is Transport.RC and way.listens:
        unwritten = int(np.count_nonzero(found.came & ~found.written))
        checks["requests lost, by the translator"] = (found.unwritten, unwritten)
    return [
        *(Check(f"{where}: {what}", *values) for what, values in checks.items()),
        *found.accounting.checks(f"{where}: accounting"),
    ]


def differ(some: NDArray[np.bool_], others: NDArray[np.bool_]) -> int:
    """How many elements are not the same."""
    return int(np.count_nonzero(some != others))


def chances(found: Mapping[tuple[str, float], Found]) -> list[float]:
    """Of what is lost independently, how likely theory has so many lost: p, or twice in a row."""
    theory = {"not sent again": 1, "sent again": 2, "UC": 1}
    return [
        binomial_p_value(each.lost, each.lossy, loss ** theory[name])
        for (name, loss), each in found.items() if name in theory
    ]  # fmt: skip


def resync_theory(loss: NDArray[np.float64], rate_pps: float) -> NDArray[np.float64]:
    """The share that resync loses: with a request all that leave until its NAK has come.

    That is the next one that gets through, and what leaves while it is on its way. Where the first
    one with the PSN that the NAK names is lost again, there is no other NAK: then twice as many
    as it takes to ask.
    """
    with_it = 1 / (1 - loss) + DELAY_US * rate_pps / 1e6 + loss * 2 * PATIENCE
    return loss * (1 + with_it) / (1 + loss * with_it)


def sample_of(name: str, found: Found) -> dict[str, object]:
    """A row for each run."""
    return {
        "way": name, "loss": found.probability, "reports_while_losing": found.lossy,
        "sent": len(found.came), "transmissions": int(found.transmissions.sum()),
        "came": int(np.count_nonzero(found.came)), "requests": found.requests,
        "written": int(np.count_nonzero(found.written)), "lost": found.lost,
    }  # fmt: skip


def summary_table(found: Mapping[tuple[str, float], Found]) -> Table:
    """A row for each run."""
    rows = [[*sample_of(name, each).values()] for (name, _), each in found.items()]
    names = ("way", "loss", "while losing", "reports", "frames", "came", "requests", "written",
             "lost")  # fmt: skip
    return table("What became of reports", names, rows)


def draw(found: Mapping[tuple[str, float], Found], rate_pps: float) -> Figure:
    """Shares lost, between reporter and translator, and behind the translator."""
    figure, (left, right) = plots.figure(2)
    losses = np.geomspace(0.0005, 0.2, 60)
    left.plot(losses, losses, "k-", marker="", label="p")
    left.plot(losses, losses**2, "k--", marker="", label="p²")
    right.plot(losses, losses, "k-", marker="", label="p")
    right.plot(losses, resync_theory(losses, rate_pps), "k:", marker="", label="with what follows")
    draw_ways(left, found, [*WAYS][:2])
    draw_ways(right, found, [*WAYS][2:])
    for panel in (left, right):
        panel.set(xscale="log", yscale="log", xlabel="Frames that the link loses (share p)",
                  ylabel="Reports not in memory (share)", ylim=(LEAST, 2))  # fmt: skip
    plots.legend(left, 2)
    plots.legend(right, 3)
    return figure


def draw_ways(axes: Axes, found: Mapping[tuple[str, float], Found], ways: Sequence[str]) -> None:
    """A mark for each run; where nothing was lost, at the lower border."""
    for way in ways:
        losses = [loss for name, loss in found if name == way]
        those = [found[way, loss] for loss in losses]
        shares = [max(each.lost / each.lossy, LEAST) for each in those]
        axes.plot(losses, shares, linestyle="", label=way, clip_on=False)


def caption(options: argparse.Namespace, rate_pps: float) -> str:
    """What the figure shows."""
    slower = ""
    if options.time == "real":
        slower = " A NAK takes longer than its link, for the collector is a process."
    return (
        f"Reports that are not in memory, of {options.reports:,} at {rate_pps:,}/s over links of "
        f"{DELAY_US} us that lose; {plots.runs(1, options.time)}. (a) Between reporter and "
        "translator: lost for good is what is lost twice. (b) Between translator and collector: a "
        "reliable connection takes nothing until it has what it expects; without resync nothing "
        f"any more.{slower} A mark at the border: nothing was lost."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
