"""DTA report loss: how many reports are lost, and how many do NACKs and resynchronization save?

A switch (the reporter) reports each user packet to a translator, which writes the report into the
memory of a collector by RDMA. Both links may lose packets. Reports have sequence numbers. The
translator requests missing reports from the reporter, which retransmits the reports from a ring.
RDMA requests have packet sequence numbers (PSNs), and a reliable connection accepts only the
expected PSN. After a loss, the translator resynchronizes to the expected PSN. Each report has its
own slot in memory. The reports in memory must agree one by one with captures and link logs. On
bmv2, a capacity probe determines the rate.

Claim: A retransmitted report is lost only if it is lost twice. Behind the translator, exactly those
reports are lost that a reliable connection must reject. The content of memory is predicted for each
report.

Published: Langlet et al. (SIGCOMM 2023): the published translator requests missing reports by 8-bit
sequence numbers. After a NAK of the collector it drops the next 100,000 reports.
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
from experiments.shared.dta.lossy_reports import (
    DELAY_US,
    PATIENCE,
    REPORTER_PROGRAM,
    Found,
    RecoveryMode,
    find_capacity,
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
MAX_LOSS = 0.5
FLOOR = 5e-7  # smallest value in the figure
AFTER = 600  # reports that are sent after the links have stopped losing; they reveal all losses
REAL_PPS, VIRTUAL_PPS = 2000, 10_000

MODES = {
    "not sent again": RecoveryMode(loses_reports=True, retransmittable=False),
    "sent again": RecoveryMode(loses_reports=True),
    "UC": RecoveryMode(loses_writes=True, transport=Transport.UC),
    "resync": RecoveryMode(loses_writes=True),
    "no resync": RecoveryMode(loses_writes=True, listens=False),
    "both links": RecoveryMode(loses_reports=True, loses_writes=True),
}
"""In the first two modes, the link from the reporter to the translator loses reports.

In the other modes, the link from the translator to the collector loses requests.
"""
REAL_QUICK = ("sent again", "resync", "both links")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.probability, nargs="+", metavar="P",
        help="loss probabilities of links (default: 0.001 to 0.1; from 0.01 in real time)",
    )  # fmt: skip
    parser.add_argument(
        "--reports", type=cli.positive_int, metavar="N",
        help="reports sent while links lose packets (default: 10000; 2000 in real time)",
    )  # fmt: skip
    cli.add_program_option(parser, REPORTER_PROGRAM)
    cli.add_metrics_option(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual, is_full = options.time == "virtual", not options.quick
    usual = PROBABILITIES if is_virtual and is_full else REAL_PROBABILITIES
    options.loss = options.loss or [*usual] if is_virtual or is_full else [usual[-1]]
    if max(options.loss) > MAX_LOSS:
        raise TestbedError(
            f"--loss {max(options.loss):g}: expected at most {MAX_LOSS}; with more loss, missing "
            "reports are detected only after the losses have ended"
        )
    options.reports = options.reports or (10_000 if is_virtual else 2000) // (1 if is_full else 5)
    modes = [*MODES] if is_virtual or is_full else REAL_QUICK
    keys = flows(options.reports + AFTER, options.seed)
    rate_pps = VIRTUAL_PPS if is_virtual else REAL_PPS
    if run.target == "bmv2":
        rate_pps = (await find_capacity(run, REAL_PPS, options.program)).rate(REAL_PPS)
    cases = [*product(modes, options.loss)]
    settings = [(case, keys, rate_pps, options) for case in cases]
    found = dict(zip(cases, await sweep(measured, settings, run), strict=True))
    return Report(
        samples=[make_sample(name, each) for (name, _), each in found.items()],
        checks=[
            *(check for (name, _), each in found.items() for check in make_checks(name, each)),
            agreement_check("reports lost", chances(found)),
        ],
        figure=draw(found, rate_pps),
        caption=caption(options, rate_pps),
        tables=[summary_table(found)],
    )


async def measured(
    case: tuple[str, float], keys: Words, rate_pps: float, options: argparse.Namespace, run: Run
) -> Found:
    """Run one recovery mode at one loss probability."""
    name, loss = case
    return await measure(
        run, f"{name}-{loss:g}".replace(" ", "-"), MODES[name], probability=loss,
        lossy=options.reports, keys=keys, rate_pps=rate_pps, program=options.program,
    )  # fmt: skip


def make_checks(name: str, found: Found) -> list[Check]:
    """Compare the reports in memory with captures, and check the counters of the switches."""
    where, mode, count = f"{name}, {found.probability:g}", MODES[name], len(found.arrived)
    arrived = int(np.count_nonzero(found.arrived))
    again = int(found.transmissions.sum()) - count
    checks = {
        "reports sent": (found.reporter["sent"], count),
        "requests for received reports": (found.requests, arrived),
        "reports inconsistent with captures": (differ(found.written, found.accepted), 0),
        "slots with unreported data": (found.strange, 0),
        "retransmitted reports (reporter's count)": (found.reporter["resent"], again),
        "reports no longer in the ring": (found.left, 0),
        "missing reports (translator's count)": (found.missing, count - arrived),
    }
    if mode.transport is Transport.RC and mode.listens:
        unwritten = int(np.count_nonzero(found.arrived & ~found.written))
        checks["lost requests (translator's count)"] = (found.unwritten, unwritten)
    return [
        *(Check(f"{where}: {what}", *values) for what, values in checks.items()),
        *found.accounting.checks(where),
    ]


def differ(some: NDArray[np.bool_], others: NDArray[np.bool_]) -> int:
    """Return the number of elements in which two arrays differ."""
    return int(np.count_nonzero(some != others))


def chances(found: Mapping[tuple[str, float], Found]) -> list[float]:
    """Return the p-values of the counts of reports lost once, and lost twice in a row."""
    theory = {"not sent again": 1, "sent again": 2, "UC": 1}
    return [
        binomial_p_value(each.lost, each.lossy, loss ** theory[name])
        for (name, loss), each in found.items() if name in theory
    ]  # fmt: skip


def resync_theory(loss: NDArray[np.float64], rate_pps: float) -> NDArray[np.float64]:
    """Return the loss ratio with resync, by theory.

    After a lost request, the collector rejects all requests until the translator has received its
    NAK. The collector sends the NAK when the next request arrives, and the NAK takes the link
    delay. If the first request with the PSN of the NAK is lost as well, there is no second NAK. The
    number of lost requests is then twice the number that triggers a probe.
    """
    with_it = 1 / (1 - loss) + DELAY_US * rate_pps / 1e6 + loss * 2 * PATIENCE
    return loss * (1 + with_it) / (1 + loss * with_it)


def make_sample(name: str, found: Found) -> dict[str, object]:
    """Return the results, one row per run."""
    return {
        "recovery": name, "loss": found.probability, "reports_while_losing": found.lossy,
        "sent": len(found.arrived), "transmissions": int(found.transmissions.sum()),
        "arrived": int(np.count_nonzero(found.arrived)), "requests": found.requests,
        "written": int(np.count_nonzero(found.written)), "lost": found.lost,
    }  # fmt: skip


def summary_table(found: Mapping[tuple[str, float], Found]) -> Table:
    """Return the results, one row per run."""
    rows = [[*make_sample(name, each).values()] for (name, _), each in found.items()]
    names = ("recovery", "loss", "while losing", "reports", "frames", "received", "requests",
             "written", "lost")  # fmt: skip
    return table("Fate of reports", names, rows)


def draw(found: Mapping[tuple[str, float], Found], rate_pps: float) -> Figure:
    """Draw the loss ratios on the way to the translator (left) and behind it (right)."""
    figure, (left, right) = plots.figure(2)
    losses = np.geomspace(0.0005, 0.2, 60)
    left.plot(losses, losses, "k-", marker="", label="theory: p")
    left.plot(losses, losses**2, "k--", marker="", label="theory: p²")
    right.plot(losses, losses, "k-", marker="", label="theory: p")
    right.plot(losses, resync_theory(losses, rate_pps), "k:", marker="", label="theory: resync")
    draw_modes(left, found, [*MODES][:2])
    draw_modes(right, found, [*MODES][2:])
    for panel in (left, right):
        panel.set(xscale="log", yscale="log", xlabel="Link loss ratio p",
                  ylabel="Report loss ratio", ylim=(FLOOR, 2))  # fmt: skip
    plots.legend(left, 2)
    plots.legend(right, 3)
    return figure


def draw_modes(axes: Axes, found: Mapping[tuple[str, float], Found], modes: Sequence[str]) -> None:
    """Draw a marker for each run; a run without losses is at the lower border."""
    for mode in modes:
        losses = [loss for name, loss in found if name == mode]
        if not losses:  # with --quick; the layout would reserve space for a line without points
            continue
        those = [found[mode, loss] for loss in losses]
        shares = [max(each.lost / each.lossy, FLOOR) for each in those]
        axes.plot(losses, shares, linestyle="", label=mode, clip_on=False)


def caption(options: argparse.Namespace, rate_pps: float) -> str:
    """Return the caption of the figure."""
    slower = ""
    if options.time == "real":
        slower = " The collector is a process, so a NAK takes longer than the link delay."
    return (
        f"Report loss ratio, for {options.reports:,} reports at {rate_pps:,}/s over lossy links of "
        f"{DELAY_US} us; {plots.runs(1, options.time)}. (a) Losses between reporter and "
        "translator: if lost reports are sent again, only those lost twice are lost. (b) Losses "
        "between translator and collector: a reliable connection accepts only the expected PSN, so "
        f"without resync it accepts no request after a loss.{slower} A marker at the border means "
        "no loss."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
