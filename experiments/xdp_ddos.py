"""Transactions under a flood: does a server of TCP go on, with a filter at XDP and without one?

A client asks a server for one byte after the other over a connection that stays (as netperf's
TCP_RR), while a flood of UDP arrives at the server's device, on its core, at rates: once with a
rule of the DDoS filter that drops it at XDP, once without, and once where its frames are dropped
unread as they arrive. They are live frames of the kernel's own test run, which stands for a card
and takes its time of the same core, as a card would not: how much, its thread's clock tells where
they are dropped unread. What that leaves of the transactions is what the last of the three tells. A
run in which a frame that arrived is in no book is invalid.

Claim: At twice the flood that stops a server without a filter, the one with it keeps at least 80 %
of the transactions that it has where the flood is dropped unread.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), the figure of DDoS performance: without XDP a
server has no transactions from 3.5 million packets of a flood a second on, and with it 83 % of its
own at up to 19.5 million.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table
from xdp import settings, siege
from xdp.siege import FILTERED, SERVERS, UNFILTERED, UNREAD, Held, Plan

from testbed import cli
from testbed.errors import TestbedError
from testbed.results import plots
from testbed.results.report import Check, Report, table
from testbed.run import Run

STEP_PPS = 200_000  # so finely what stops a server is known; of each that may, twice is offered
FLOODS_PPS = tuple(STEP_PPS * each for each in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18))
QUICK_FLOODS_PPS = tuple(STEP_PPS * each for each in (0, 4, 5, 7, 8, 10, 14))
SECONDS, QUICK_SECONDS = 0.3, 0.08
ROUNDS, QUICK_ROUNDS = 7, 5
STOPPED, KEPT = 0.1, 0.8  # of the transactions without a flood: at most, and at least


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"of all servers under all floods (default: {ROUNDS}; quick: {QUICK_ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    settings.refuse_virtual(options)
    cores = settings.cores()
    if len(cores) < 2:
        raise TestbedError("one core: a client needs one that the flood does not take")
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    floods, seconds = (QUICK_FLOODS_PPS, QUICK_SECONDS) if options.quick else (FLOODS_PPS, SECONDS)
    plan = Plan(floods, seconds, options.rounds, cores[-2:])
    return report([*siege.under_floods(plan, run.progress.update)], plan)


class Curves:
    """What servers kept of their transactions: ratios of one round."""

    def __init__(self, measured: Sequence[Held]) -> None:
        self._of = {(each.server, each.offered_pps, each.round): each for each in measured}
        self._rounds = sorted({each.round for each in measured})
        self.floods_pps = sorted({each.offered_pps for each in measured})

    def per_s(self, server: str, pps: int) -> list[float]:
        """Transactions, in the order of rounds."""
        return [self._of[server, pps, number].transactions_per_s for number in self._rounds]

    def kept(self, server: str, pps: int) -> float:
        """Part of the transactions without a flood: the median of rounds."""
        pairs = zip(self.per_s(server, pps), self.per_s(server, 0), strict=True)
        return statistics.median(under / alone if alone else 0.0 for under, alone in pairs)

    def to_unread(self, pps: int) -> list[float]:
        """Those with the filter, to those where the flood is dropped unread, in each round."""
        pairs = zip(self.per_s(FILTERED, pps), self.per_s(UNREAD, pps), strict=True)
        return [filtered / unread if unread else 0.0 for filtered, unread in pairs]

    def left(self, pps: int) -> float:
        """Part of the server's core that the source leaves: the median of rounds."""
        return 1 - statistics.median(self._of[UNREAD, pps, each].busy for each in self._rounds)

    def decided(self, pps: int) -> float:
        """The median of to_unread(), at most 1. Raises TestbedError where rounds differ."""
        found = self.to_unread(pps)
        if statistics.median(found) < KEPT <= max(found):
            raise TestbedError(
                f"run invalid: rounds differ on whether the filter keeps {KEPT:.0%}: from "
                f"{min(found):.0%} to {max(found):.0%}; leave the machine more idle"
            )
        return min(statistics.median(found), 1)

    def stops_pps(self) -> int | None:
        """The least flood that stops the server without a filter."""
        stopped = [pps for pps in self.floods_pps if self.kept(UNFILTERED, pps) <= STOPPED]
        return min(stopped, default=None)


def report(measured: Sequence[Held], plan: Plan) -> Report:
    """Raises TestbedError where no flood of which twice is offered stops the unfiltered server."""
    lost = sum(each.missing for each in measured)
    if lost:
        raise TestbedError(
            f"run invalid: {lost} frames of the flood are in no book; leave the machine more idle"
        )
    curves = Curves(measured)
    stops_pps = curves.stops_pps()
    if stops_pps is None or 2 * stops_pps not in curves.floods_pps:
        raise TestbedError(
            f"run invalid: no flood of up to {curves.floods_pps[-1] // 2:,} packets a second "
            "stopped the server without a filter; leave the machine more idle"
        )
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check("transactions of the server with the filter, at twice the flood that stops the "
                  f"other, to those where that is dropped unread, at least {KEPT:g}",
                  curves.decided(2 * stops_pps), 1, 1 - KEPT),
            Check("frames of the flood that the host of the server with the filter saw",
                  sum(each.seen_by_host for each in measured if each.server == FILTERED), 0),
        ],
        metrics={
            "stops_packets_per_s": stops_pps,
            "kept_at_twice_that": {each: curves.kept(each, 2 * stops_pps) for each in SERVERS},
            "left_by_the_source": curves.left(2 * stops_pps),
            "kept_of_what_it_leaves": curves.kept(FILTERED, 2 * stops_pps)
            / curves.left(2 * stops_pps),
        },
        figure=draw(curves),
        caption=caption(plan),
        tables=[kept_table(curves)],
    )  # fmt: skip


def kept_table(curves: Curves) -> Table:
    """A row for each flood."""
    rows = [
        (f"{pps / 1e6:g}", *(value for server in SERVERS
         for value in (statistics.median(curves.per_s(server, pps)), curves.kept(server, pps))),
         curves.left(pps))
        for pps in curves.floods_pps
    ]  # fmt: skip
    columns = (
        "flood (Mpackets/s)",
        *(word for each in SERVERS for word in (each, "kept")),
        "left by source",
    )
    return table("Transactions a second, and the part kept of those without a flood", columns, rows)


def draw(curves: Curves) -> Figure:
    """Transactions by the flood's rate."""
    figure, (axes,) = plots.figure(1)
    mpps = np.array(curves.floods_pps) / 1e6
    for server in SERVERS:
        of_rounds = np.array([curves.per_s(server, pps) for pps in curves.floods_pps])
        middle = np.median(of_rounds, axis=1)
        spread = [middle - of_rounds.min(axis=1), of_rounds.max(axis=1) - middle]
        axes.errorbar(mpps, middle, np.array(spread), label=server)
    axes.set_xlabel("flood (Mpackets/s)")
    axes.set_ylabel("transactions/s")
    axes.set_ylim(bottom=0)
    plots.legend(axes, 2)
    return figure


def caption(plan: Plan) -> str:
    """What the figure shows."""
    return (
        "Transactions of TCP over a connection that stays, under a flood of UDP that arrives at "
        f"the server's device and core: medians of {plan.rounds} rounds of {plan.seconds:g} s, "
        "bars from the least to the most. Frames of the flood are live frames of the kernel's own "
        "test run, which come before all else on the server's core, as what a card's interrupts "
        "bring, and take their time of it, as a card's do not: the source's thread counts it "
        "where they are dropped unread. There is no card. The paper's claim, of one of 100 Gbit/s: "
        "without XDP there are no transactions from 3.5 million packets a second on, and with it "
        "83 % at up to 19.5 million."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
