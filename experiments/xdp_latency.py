"""XDP forwarding latency: how long does it take, compared with the kernel and with minip4?

The same frames (60-byte UDP packets of 4,096 flows) are timestamped on arrival at a device, and
again after the outgoing veth pair, with the same clock. Single packets at intervals of a
millisecond represent a low rate. Bursts of 64 represent packets that a driver receives under load.
A run with a missing frame is invalid. There is no NIC, so there is no interrupt latency.

Claim: XDP_REDIRECT takes at most half as long as a Linux bridge for single packets, and at most a
third for bursts of 64.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), the table of latencies: XDP takes 82 us on
average at 100 packets/s, mostly interrupt latency, and 7 us at a million packets/s. According to
the notes of the authors' data, a Linux bridge takes 89 us and 20 us.
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
MAX_RATIO = {ALONE: 1 / 2, BATCHES: 1 / 3}  # max median latency, normalized to the bridge
LABELS = {ALONE: "single packets", BATCHES: f"bursts of {BATCH}"}
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
    """Results of all rounds; ratios are computed within a round."""

    def __init__(self, measured: Sequence[Delay]) -> None:
        self._of = {(each.candidate, each.arrived, each.round): each for each in measured}
        self._numbers = sorted({each.round for each in measured})

    def medians_us(self, candidate: Candidate, arrived: str) -> list[float]:
        """Return the median latencies of a candidate, in the order of rounds."""
        return [
            self._of[candidate.name, arrived, number].median_ns / 1e3 for number in self._numbers
        ]

    def p99_us(self, candidate: Candidate, arrived: str) -> float:
        """Return the p99 latency of a candidate, as the median over rounds."""
        found = (self._of[candidate.name, arrived, number].p99_ns for number in self._numbers)
        return statistics.median(found) / 1e3

    def ratios(self, candidate: Candidate, to: Candidate, arrived: str) -> list[float]:
        """Return the ratio of the median latencies of two candidates, in the order of rounds."""
        pairs = zip(self.medians_us(candidate, arrived), self.medians_us(to, arrived), strict=True)
        return [own / other for own, other in pairs]

    def decided(self, arrived: str) -> float:
        """Return the median ratio of XDP to bridge; inconclusive if rounds differ."""
        found = self.ratios(REDIRECT, BRIDGE, arrived)
        if min(found) <= MAX_RATIO[arrived] < statistics.median(found):
            note_invalid(
                f"rounds differ: packets {arrived} take {min(found):.2g} to {max(found):.2g} times "
                f"as long as with a bridge; the limit is {MAX_RATIO[arrived]:.2g}"
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
    """Draw the latencies of single packets and of bursts."""
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
    axes.set_xlabel(f"Forwarding latency (µs), {LABELS[arrived]}")


def caption(plan: Plan) -> str:
    """Return the caption of the figure."""
    return (
        f"Forwarding latency of packets ({LENGTH} bytes, {FLOWS:,} flows), from a timestamp on "
        "arrival to a timestamp behind the outgoing veth pair: (a) packets at intervals of a "
        f"millisecond, (b) bursts of {BATCH}. Points are medians of {plan.rounds} rounds, error "
        f"bars range from min to max; each round has {plan.times} packets and as many bursts. p99 "
        "is the median over rounds. The kernel generates the packets (BPF_PROG_TEST_RUN with live "
        "frames). There are no interrupts, which cause most of the published 82 us (XDP) at a low "
        "rate, and no DPDK, which needs a NIC. minip4 is a process and has to wake up."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
