"""Latency of forwarding: how long is a packet on its way by XDP, by the kernel and by minip4?

The same frames (60 bytes of UDP, of 4,096 flows) get a stamp as they arrive at a device, and are
held against the same clock behind the veth by which they leave: one that comes alone, a millisecond
after the last, as at a low rate, and 64 at once, as a driver takes them under load. A run in which
one of them is missing is invalid. There is no card, and so no interrupt to wake anybody.

Claim: Through XDP_REDIRECT a packet takes at most half as long as through a Linux bridge where it
comes alone, and at most a third where 64 come at once.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), the table of latencies: XDP 82 us on average at
100 packets a second, most of it until an interrupt comes, and 7 us at a million; a Linux bridge, in
the notes beside their data, 89 and 20 us.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.xdp import delays, settings
from experiments.shared.xdp.delays import ALONE, BATCH, BATCHES, Delay, Plan
from experiments.shared.xdp.forwarding import BRIDGE, DESTINATION, REDIRECT, ROUTING, TC, TX
from experiments.shared.xdp.frames import FLOWS, LENGTH, flows
from experiments.shared.xdp.interleaved_rounds import Candidate
from experiments.shared.xdp.switching import MINIP4
from telemark.errors import InvalidRunError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

CONTENDERS = (TX, REDIRECT, TC, BRIDGE, ROUTING, MINIP4)
TIMES, QUICK_TIMES = 500, 100
ROUNDS, QUICK_ROUNDS = 7, 5
MOST = {ALONE: 1 / 2, BATCHES: 1 / 3}  # of the bridge's
PUBLISHED_US = {ALONE: {REDIRECT: 82, BRIDGE: 89}, BATCHES: {REDIRECT: 7, BRIDGE: 20}}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"of all contenders (default: {ROUNDS}; quick: {QUICK_ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    settings.require_real_time(options)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    times = QUICK_TIMES if options.quick else TIMES
    plan = Plan(flows(destination=DESTINATION), times, options.rounds, settings.cores()[-1])
    return report([*delays.delays(CONTENDERS, plan, run.progress.update)], plan)


class Rounds:
    """What all rounds say; ratios are of one round each."""

    def __init__(self, measured: Sequence[Delay]) -> None:
        self._of = {(each.candidate, each.came, each.round): each for each in measured}
        self._numbers = sorted({each.round for each in measured})

    def medians_us(self, candidate: Candidate, came: str) -> list[float]:
        """In the order of rounds."""
        return [self._of[candidate.name, came, number].median_ns / 1e3 for number in self._numbers]

    def p99_us(self, candidate: Candidate, came: str) -> float:
        """The median of rounds."""
        found = (self._of[candidate.name, came, number].p99_ns for number in self._numbers)
        return statistics.median(found) / 1e3

    def ratios(self, candidate: Candidate, to: Candidate, came: str) -> list[float]:
        """How long packets take, to another's: medians of each round."""
        pairs = zip(self.medians_us(candidate, came), self.medians_us(to, came), strict=True)
        return [own / other for own, other in pairs]

    def decided(self, came: str) -> float:
        """The ratio that is claimed. Raises TestbedError where it is missed in but some rounds."""
        found = self.ratios(REDIRECT, BRIDGE, came)
        if min(found) <= MOST[came] < statistics.median(found):
            raise InvalidRunError(
                f"rounds differ on whether packets {came} take at most "
                f"{MOST[came]:.2g} of the bridge's time: from {min(found):.2g} to "
                f"{max(found):.2g}"
            )
        return statistics.median(found)


def report(measured: Sequence[Delay], plan: Plan) -> Report:
    rounds = Rounds(measured)
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check(f"median latency by {REDIRECT.name} to that by {BRIDGE.name}, packets {came}, at "
                  f"most {most:.2g}", rounds.decided(came), 0, most)
            for came, most in MOST.items()
        ],
        metrics={
            f"median_us_{came.replace(' ', '_')}": {
                each.name: statistics.median(rounds.medians_us(each, came)) for each in CONTENDERS
            } for came in MOST
        },
        figure=draw(rounds),
        caption=caption(plan),
        tables=[delays_table(rounds, came) for came in MOST],
    )  # fmt: skip


def delays_table(rounds: Rounds, came: str) -> Table:
    """A row for each contender."""
    rows = []
    for each in CONTENDERS:
        ratios, paper = rounds.ratios(each, BRIDGE, came), PUBLISHED_US[came]
        rows.append((each.name, statistics.median(rounds.medians_us(each, came)),
                     rounds.p99_us(each, came), statistics.median(ratios), min(ratios), max(ratios),
                     paper[each] / paper[BRIDGE] if each in paper else ""))  # fmt: skip
    columns = ("sent on by", "median us", "p99 us", "to bridge", "least", "most", "paper")
    return table(f"How long packets take that come {came}", columns, rows)


def draw(rounds: Rounds) -> Figure:
    """Latencies of packets alone, and in batches."""
    figure, both = plots.figure(2, height_in=2.6)
    for axes, came in zip(both, MOST, strict=True):
        _draw(axes, rounds, came)
    both[1].tick_params(labelleft=False)
    plots.legend(both[0], 2)
    return figure


def _draw(axes: Axes, rounds: Rounds, came: str) -> None:
    places = np.arange(len(CONTENDERS))
    of_rounds = np.array([rounds.medians_us(each, came) for each in CONTENDERS])
    middle = np.median(of_rounds, axis=1)
    spread = np.array([middle - of_rounds.min(axis=1), of_rounds.max(axis=1) - middle])
    axes.errorbar(middle, places, xerr=spread, fmt="o", label="median")
    axes.plot([rounds.p99_us(each, came) for each in CONTENDERS], places, "D", fillstyle="none",
              color=plots.COLOURS[1], label="99th percentile")  # fmt: skip
    axes.set_yticks(places, [each.name for each in CONTENDERS])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"Latency (µs), packets {came}")


def caption(plan: Plan) -> str:
    """What the figure shows."""
    return (
        f"How long packets ({LENGTH} bytes, {FLOWS:,} flows) are on their way, from a stamp as "
        "they arrive to the same clock behind the veth by which they leave: (a) one that comes a "
        f"millisecond after the last, (b) {BATCH} at once. Medians of {plan.rounds} rounds, bars "
        f"from the least to the most, of {plan.times} packets and as many batches each; 99th "
        "percentiles are medians of rounds. Packets are live frames of the kernel's own test run; "
        "there is neither a card nor an interrupt, which most of the paper's 82 us (XDP) at a low "
        "rate are, and no DPDK, which needs a card. minip4 is a process, and has to wake up."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
