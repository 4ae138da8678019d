"""XDP forwarding latency: how long does it take, compared with the kernel and with minip4?

The same frames (60 bytes of UDP, of 4,096 flows) are timestamped on arrival at a device, and again
with the same clock behind the outgoing veth pair: single packets at an interval of a millisecond,
as at a low rate, and bursts of 64, as a driver receives them under load. A run with a missing frame
is invalid. There is no NIC, and so no interrupt latency.

Claim: XDP_REDIRECT takes at most half as long as a Linux bridge for single packets, and at most a
third for bursts of 64.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), the table of latencies: XDP 82 us on average at
100 packets/s, mostly interrupt latency, and 7 us at a million; a Linux bridge, in the notes of
their data, 89 and 20 us.
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
from telemark.errors import note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

CANDIDATES = (TX, REDIRECT, TC, BRIDGE, ROUTING, MINIP4)
TIMES, QUICK_TIMES = 500, 100
ROUNDS, QUICK_ROUNDS = 7, 5
MAX_RATIO = {ALONE: 1 / 2, BATCHES: 1 / 3}  # normalized to the bridge
PUBLISHED_US = {ALONE: {REDIRECT: 82, BRIDGE: 89}, BATCHES: {REDIRECT: 7, BRIDGE: 20}}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"rounds of all candidates (default: {ROUNDS}; quick: {QUICK_ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    settings.require_real_time(options)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    times = QUICK_TIMES if options.quick else TIMES
    plan = Plan(flows(destination=DESTINATION), times, options.rounds, settings.cores()[-1])
    return report([*delays.delays(CANDIDATES, plan, run.progress.update)], plan)


class Rounds:
    """Results of all rounds; ratios are taken within rounds."""

    def __init__(self, measured: Sequence[Delay]) -> None:
        self._of = {(each.candidate, each.arrived, each.round): each for each in measured}
        self._numbers = sorted({each.round for each in measured})

    def medians_us(self, candidate: Candidate, arrived: str) -> list[float]:
        """Return median latencies, in the order of rounds."""
        return [
            self._of[candidate.name, arrived, number].median_ns / 1e3 for number in self._numbers
        ]

    def p99_us(self, candidate: Candidate, arrived: str) -> float:
        """Return the median of the rounds' p99 latencies."""
        found = (self._of[candidate.name, arrived, number].p99_ns for number in self._numbers)
        return statistics.median(found) / 1e3

    def ratios(self, candidate: Candidate, to: Candidate, arrived: str) -> list[float]:
        """Return ratios of the median latencies of two candidates, in each round."""
        pairs = zip(self.medians_us(candidate, arrived), self.medians_us(to, arrived), strict=True)
        return [own / other for own, other in pairs]

    def decided(self, arrived: str) -> float:
        """Return the claimed ratio. Inconclusive if only some rounds exceed the limit."""
        found = self.ratios(REDIRECT, BRIDGE, arrived)
        if min(found) <= MAX_RATIO[arrived] < statistics.median(found):
            note_invalid(
                f"rounds differ: packets {arrived} take {min(found):.2g} to {max(found):.2g} of "
                f"the bridge's time; the limit is {MAX_RATIO[arrived]:.2g}"
            )
        return statistics.median(found)


def report(measured: Sequence[Delay], plan: Plan) -> Report:
    rounds = Rounds(measured)
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check(f"median latency with {REDIRECT.name} (normalized to {BRIDGE.name}), packets "
                  f"{arrived}, at most {limit:.2g}", rounds.decided(arrived), 0, limit)
            for arrived, limit in MAX_RATIO.items()
        ],
        metrics={
            f"median_us_{arrived.replace(' ', '_')}": {
                each.name: statistics.median(rounds.medians_us(each, arrived))
                for each in CANDIDATES
            } for arrived in MAX_RATIO
        },
        figure=draw(rounds),
        caption=caption(plan),
        tables=[delays_table(rounds, arrived) for arrived in MAX_RATIO],
    )  # fmt: skip


def delays_table(rounds: Rounds, arrived: str) -> Table:
    """Return a table with a row per candidate."""
    rows = []
    for each in CANDIDATES:
        ratios, paper = rounds.ratios(each, BRIDGE, arrived), PUBLISHED_US[arrived]
        rows.append((each.name, statistics.median(rounds.medians_us(each, arrived)),
                     rounds.p99_us(each, arrived), statistics.median(ratios), min(ratios),
                     max(ratios),
                     paper[each] / paper[BRIDGE] if each in paper else ""))  # fmt: skip
    columns = ("forwarded by", "median (us)", "p99 (us)", "vs bridge", "min", "max", "published")
    return table(f"Forwarding latency, packets {arrived}", columns, rows)


def draw(rounds: Rounds) -> Figure:
    """Draw latencies of packets alone, and in batches."""
    figure, both = plots.figure(2, height_in=2.6)
    for axes, arrived in zip(both, MAX_RATIO, strict=True):
        _draw(axes, rounds, arrived)
    both[1].tick_params(labelleft=False)
    plots.legend(both[0], 2)
    return figure


def _draw(axes: Axes, rounds: Rounds, arrived: str) -> None:
    places = np.arange(len(CANDIDATES))
    of_rounds = np.array([rounds.medians_us(each, arrived) for each in CANDIDATES])
    middle = np.median(of_rounds, axis=1)
    spread = np.array([middle - of_rounds.min(axis=1), of_rounds.max(axis=1) - middle])
    axes.errorbar(middle, places, xerr=spread, fmt="o", label="median")
    axes.plot([rounds.p99_us(each, arrived) for each in CANDIDATES], places, "D", fillstyle="none",
              color=plots.COLOURS[1], label="p99")  # fmt: skip
    axes.set_yticks(places, [each.name for each in CANDIDATES])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"Forwarding latency (µs), packets {arrived}")


def caption(plan: Plan) -> str:
    """Return the caption of the figure."""
    return (
        f"Forwarding latency of packets ({LENGTH} bytes, {FLOWS:,} flows), from a timestamp on "
        "arrival to one behind the outgoing veth pair: (a) packets at intervals of a millisecond, "
        f"(b) bursts of {BATCH}. Medians of {plan.rounds} rounds, bars from min to max, of "
        f"{plan.times} packets and as many bursts each; p99 is the median of rounds. Packets are "
        "live frames of the kernel's own test run; there is no NIC and no interrupt, which causes "
        "most of the published 82 us (XDP) at a low rate, and no DPDK, which needs a NIC. minip4 "
        "is a process, and has to wake up."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
