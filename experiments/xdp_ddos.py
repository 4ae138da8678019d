"""Transactions under a flood: does a server of TCP go on, with a filter at XDP and without one?

A client asks a server for one byte after the other over a connection that stays (as netperf's
TCP_RR), while a flood of UDP arrives at the server's device, at rates: once with a rule of the DDoS
filter that drops it at XDP, once without, and once where its frames are dropped unread as they
arrive. As in the paper, one core receives all that comes to the server, and the server runs on
another; both share the ring of what stands for a card, and who finds it full is lost. Frames of the
flood are live frames of the kernel's own test run, which costs more of that core than a card would:
what it takes, the last of the three tells. A run in which a frame that arrived is in no book is
invalid.

Claim: At twice the flood that stops a server without a filter, the one with it keeps at least 80 %
of its transactions.

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

from experiments.shared.xdp import flooded_server, settings
from experiments.shared.xdp.flooded_server import FILTERED, SERVERS, UNFILTERED, Held, Plan
from telemark.errors import InvalidRunError, TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

STEP_PPS = 200_000  # so finely what stops a server is known; of each that may, twice is offered
FLOODS_PPS = tuple(STEP_PPS * each for each in (*range(11), 12, 14, 16, 18, 20, 25, 30, 40))
QUICK_FLOODS_PPS = tuple(STEP_PPS * each for each in (0, 3, 4, 5, 6, 8, 10, 12))
SECONDS, QUICK_SECONDS = 0.3, 0.1
ROUNDS, QUICK_ROUNDS = 5, 3
STOPPED, KEPT = 0.1, 0.8  # of the transactions without a flood: at most, and at least


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"of all servers under all floods (default: {ROUNDS}; quick: {QUICK_ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    settings.require_real_time(options)
    cores = settings.cores()
    if len(cores) < 2:
        raise TestbedError("one core: client and server need one that the flood does not take")
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    floods, seconds = (QUICK_FLOODS_PPS, QUICK_SECONDS) if options.quick else (FLOODS_PPS, SECONDS)
    plan = Plan(floods, seconds, options.rounds, cores[-2:])
    return report([*flooded_server.under_floods(plan, run.progress.update)], plan)


class Curves:
    """What servers kept of their transactions: ratios of one round."""

    def __init__(self, measured: Sequence[Held]) -> None:
        self._of = {(each.server, each.offered_pps, each.round): each for each in measured}
        self._rounds = sorted({each.round for each in measured})
        self.floods_pps = sorted({each.offered_pps for each in measured})

    def per_s(self, server: str, pps: int) -> list[float]:
        """Transactions, in the order of rounds."""
        return [self._of[server, pps, number].transactions_per_s for number in self._rounds]

    def ratios(self, server: str, pps: int) -> list[float]:
        """Part of the transactions without a flood, in each round."""
        pairs = zip(self.per_s(server, pps), self.per_s(server, 0), strict=True)
        return [under / alone if alone else 0.0 for under, alone in pairs]

    def kept(self, server: str, pps: int) -> float:
        """The median of ratios()."""
        return statistics.median(self.ratios(server, pps))

    def decided(self, pps: int) -> float:
        """What the server with the filter kept, at most 1. Raises TestbedError where rounds
        differ."""
        found = self.ratios(FILTERED, pps)
        if statistics.median(found) < KEPT <= max(found):
            raise InvalidRunError(
                f"rounds differ on whether the filter keeps {KEPT:.0%}: from "
                f"{min(found):.0%} to {max(found):.0%}"
            )
        return min(statistics.median(found), 1)

    def stops_pps(self, server: str) -> int | None:
        """The least flood that stops it, of those that were offered."""
        stopped = [pps for pps in self.floods_pps if self.kept(server, pps) <= STOPPED]
        return min(stopped, default=None)


def report(measured: Sequence[Held], plan: Plan) -> Report:
    """Raises TestbedError where no flood of which twice is offered stops the unfiltered server."""
    lost = sum(each.missing for each in measured)
    if lost:
        raise InvalidRunError(f"{lost} frames of the flood are in no book")
    curves = Curves(measured)
    stops_pps = curves.stops_pps(UNFILTERED)
    twice = [pps for pps in curves.floods_pps if 2 * pps in curves.floods_pps]
    if stops_pps not in twice:
        raise InvalidRunError(
            f"no flood of up to {twice[-1]:,} packets a second stopped the server without a filter"
        )
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check("transactions of the server with the filter at twice the flood that stops the "
                  f"other, to its own without a flood, at least {KEPT:g}",
                  curves.decided(2 * stops_pps), 1, 1 - KEPT),
            Check("frames of the flood that the host of the server with the filter saw",
                  sum(each.seen_by_host for each in measured if each.server == FILTERED), 0),
        ],
        metrics={
            "stopped_by_packets_per_s": {each: curves.stops_pps(each) for each in SERVERS},
            "kept_at_twice_what_stops_no_filter": {
                each: curves.kept(each, 2 * stops_pps) for each in SERVERS
            },
        },
        figure=draw(curves),
        caption=caption(plan),
        tables=[kept_table(curves)],
    )  # fmt: skip


def kept_table(curves: Curves) -> Table:
    """A row for each flood."""
    rows = [
        (f"{pps / 1e6:g}", *(value for server in SERVERS
         for value in (statistics.median(curves.per_s(server, pps)), curves.kept(server, pps))))
        for pps in curves.floods_pps
    ]  # fmt: skip
    columns = ("flood (Mpackets/s)", *(word for each in SERVERS for word in (each, "kept")))
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
    axes.set_xlabel("Flood (Mpackets/s)")
    axes.set_ylabel("Transactions/s")
    axes.set_ylim(bottom=0)
    plots.legend(axes, 2)
    return figure


def caption(plan: Plan) -> str:
    """What the figure shows."""
    return (
        "Transactions of TCP over a connection that stays, under a flood of UDP that arrives at "
        f"the server's device: medians of {plan.rounds} rounds of {plan.seconds:g} s, bars from "
        "the least to the most. One core receives all that comes to the server, and client and "
        "server have another. Frames of the flood are live frames of the kernel's own test run; "
        "there is no card, so what takes them in costs more than a card does: the server whose "
        "flood is dropped unread tells how much. The paper's claim, of a card of 100 Gbit/s: "
        "without XDP there are no transactions from 3.5 million packets a second on, and with it "
        "83 % at up to 19.5 million."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
