"""CPU against load: how busy is a core that drops packets, at XDP and in the kernel's stack?

Packets are offered at rates, to XDP, to iptables in its table raw, to connection tracking, and to a
process at an AF_XDP socket, which sleeps until some come, or polls, as DPDK's drivers do. Packets
are live frames of the kernel's own test run: those that are not due are dropped at once, and the
time that they take is what a core has left. So a packet's way in, where a card and its driver would
be, is part of what each of them costs. A run in which one packet is missing is invalid, as is one
in which others had the cores.

Claim: At XDP the CPU time grows with the load, from at most a fifth of a polling process's, which
takes its core whatever the load is; and at each load that iptables raw carries, XDP needs at most
half of what that needs.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figure 4, one core: XDP 7 % at 0.25 million
packets a second and 35 % at 3 million, Linux (raw) 21 and 71 %, and DPDK 100 % at any load.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.xdp import loads, settings
from experiments.shared.xdp.dropping import PORTS, RAW
from experiments.shared.xdp.frames import FLOWS, LENGTH, flows
from experiments.shared.xdp.interleaved_rounds import Candidate
from experiments.shared.xdp.loads import CONTENDERS, POLLING, Loaded, Plan
from telemark.errors import InvalidRunError, TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

LOADS_PPS = (250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 4_000_000)
QUICK_LOADS_PPS = (250_000, 500_000, 1_000_000, 2_000_000)
SECONDS, QUICK_SECONDS = 0.25, 0.08
ROUNDS, QUICK_ROUNDS = 7, 5
# The paper's data behind its figure 4: million packets a second, and percents of a core.
PUBLISHED = {
    PORTS: ((0.25, 0.5, 1, 2, 3, 5, 10, 15, 20, 24.8),
            (7.0, 11.7, 19.6, 28.9, 35.2, 47.3, 62.4, 74.7, 91.8, 100)),
    RAW: ((0.25, 0.5, 1, 2, 3, 5), (21.0, 30.2, 42.6, 59.6, 70.8, 100)),
}  # fmt: skip
PART_OF_POLLING, PART_OF_RAW, FULL = 0.2, 0.5, 0.1
CARRIED = 0.98  # of the load, at least, by who can follow it


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"of all contenders at all loads (default: {ROUNDS}; quick: {QUICK_ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    settings.require_real_time(options)
    cores = settings.cores()
    if len(cores) < 2:
        raise TestbedError("one core: a process that polls would leave none for packets to come at")
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    offered, seconds = (QUICK_LOADS_PPS, QUICK_SECONDS) if options.quick else (LOADS_PPS, SECONDS)
    plan = Plan(flows(), offered, seconds, options.rounds, cores[-2:])
    return report([*loads.under_loads(plan, run.progress.update)], plan)


class Curves:
    """What contenders did at each load."""

    def __init__(self, measured: Sequence[Loaded]) -> None:
        self._of = {(each.candidate, each.offered_pps, each.round): each for each in measured}
        self._rounds = sorted({each.round for each in measured})
        self.loads_pps = self.loads_of(PORTS)

    def loads_of(self, candidate: Candidate) -> list[int]:
        """Those that it was offered, but for that which went as fast as it could."""
        return sorted({pps for name, pps, _ in self._of if name == candidate.name and pps})

    def all(self, candidate: Candidate, pps: int) -> list[Loaded]:
        """In the order of rounds."""
        return [self._of[candidate.name, pps, number] for number in self._rounds]

    def median(self, candidate: Candidate, pps: int, of: Callable[[Loaded], float]) -> float:
        return statistics.median(map(of, self.all(candidate, pps)))

    def busy(self, candidate: Candidate) -> list[float]:
        """Cores, at each load that it was offered: medians."""
        loads_pps = self.loads_of(candidate)
        return [self.median(candidate, pps, lambda each: each.busy) for pps in loads_pps]

    def max_pps(self, candidate: Candidate) -> float:
        """What a core carries at most."""
        return self.median(candidate, 0, lambda each: each.carried_pps)

    def carries(self, candidate: Candidate, pps: int) -> bool:
        return self.median(candidate, pps, lambda each: each.carried_pps) >= CARRIED * pps

    def ratio(self, own: Candidate, own_pps: int, to: Candidate, pps: int, most: float) -> float:
        """Busy cores of one to those of another in the same round: the median.

        Raises TestbedError where that is more than `most`, and in some rounds it is not: beside
        others a packet's cost varies, and so do rounds.
        """
        pairs = zip(self.all(own, own_pps), self.all(to, pps), strict=True)
        found = [each.busy / other.busy for each, other in pairs]
        if min(found) <= most < statistics.median(found):
            raise InvalidRunError(
                f"rounds differ on whether {own.name} at {own_pps:,} packets a second "
                f"needs at most {most:g} of what {to.name} does at {pps:,}: from {min(found):.2g} "
                f"to {max(found):.2g}"
            )
        return statistics.median(found)


def report(measured: Sequence[Loaded], plan: Plan) -> Report:
    """Ratios are of one round each; what counts is their median."""
    curves = Curves(measured)
    least, steps = curves.loads_pps[0], [*pairwise(curves.loads_pps)]
    carried = [pps for pps in curves.loads_pps if curves.carries(RAW, pps)]
    polls = [curves.median(POLLING, pps, lambda each: each.process_busy)
             for pps in curves.loads_of(POLLING)]  # fmt: skip
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check("steps of the load at which XDP was not busier than before",
                  sum(curves.ratio(PORTS, less, PORTS, more, 1) >= 1 for less, more in steps), 0),
            Check("part of its core that a polling process takes, over all loads: the least",
                  min(polls), 1, FULL),
            Check(f"XDP at the least load to a polling process, at most {PART_OF_POLLING:g}",
                  curves.ratio(PORTS, least, POLLING, least, PART_OF_POLLING), 0,
                  PART_OF_POLLING),
            Check(f"XDP to iptables raw, over {len(carried)} loads that raw carries, at most "
                  f"{PART_OF_RAW:g}",
                  max((curves.ratio(PORTS, pps, RAW, pps, PART_OF_RAW) for pps in carried),
                      default=np.nan), 0, PART_OF_RAW),
            Check("packets that were offered and not counted by who dropped them",
                  sum(each.sent - each.counted for each in measured), 0),
        ],
        metrics={"max_packets_per_s": {each.name: curves.max_pps(each) for each in PUBLISHED}},
        figure=draw(curves),
        caption=caption(curves, plan),
        tables=[busy_table(curves)],
    )  # fmt: skip


def busy_table(curves: Curves) -> Table:
    """A row for each contender, and a column for each load."""
    empty = [""] * len(curves.loads_pps)
    rows = [
        [each.name, *(100 * busy for busy in curves.busy(each)), *empty][: len(empty) + 1]
        for each in CONTENDERS
    ]
    columns = ("dropped at", *(f"{pps / 1e6:g} Mpps" for pps in curves.loads_pps))
    return table("Per cent of a core that a load keeps busy", columns, rows)


def draw(curves: Curves) -> Figure:
    """Busy cores by load; and by the part of it that a core carries at most, beside the paper's."""
    figure, (absolute, relative) = plots.figure(2, height_in=2.9)
    for each in CONTENDERS:
        mpps = np.array(curves.loads_of(each)) / 1e6
        of_rounds = np.array([[one.busy for one in curves.all(each, pps)]
                              for pps in curves.loads_of(each)])  # fmt: skip
        middle = np.median(of_rounds, axis=1)
        spread = [middle - of_rounds.min(axis=1), of_rounds.max(axis=1) - middle]
        absolute.errorbar(mpps, 100 * middle, 100 * np.array(spread), label=each.name)
    absolute.set_xlabel("Offered load (Mpackets/s)")
    absolute.set_ylabel("Busy (% of a core)")
    absolute.set_ylim(bottom=0)
    plots.legend(absolute, 2)
    draw_beside_the_paper(relative, curves)
    return figure


def draw_beside_the_paper(axes: Axes, curves: Curves) -> None:
    """A core's time by load, as a part of what it carries at most."""
    for each, colour in zip(PUBLISHED, plots.COLOURS, strict=False):
        most = curves.max_pps(each)
        carried = [at for at, pps in enumerate(curves.loads_pps) if pps <= most]
        parts = [curves.loads_pps[at] / most for at in carried] + [1.0]
        busy = [100 * curves.busy(each)[at] for at in carried] + [100.0]
        axes.plot(parts, busy, color=colour, label=f"{each.name.partition(',')[0]}, measured")
        rates, percents = PUBLISHED[each]
        axes.plot([rate / rates[-1] for rate in rates], percents, "D:", color=colour,
                  fillstyle="none", label=f"{each.name.partition(',')[0]}, paper")  # fmt: skip
    axes.set_xlabel("Offered load / what a core carries at most")
    axes.set_ylabel("Busy (% of a core)")
    axes.set_ylim(bottom=0)
    plots.legend(axes, 2)


def caption(curves: Curves, plan: Plan) -> str:
    """What the figure shows."""
    return (
        "How busy a core is (a) by offered load, (b) by its part of the most that a core carries, "
        f"beside the paper's: medians of {plan.rounds} rounds of {plan.seconds:g} s, bars from the "
        f"least to the most ({LENGTH} bytes, {FLOWS:,} flows). Packets are live frames of the "
        "kernel's own test run, whose cost stands for a card's and its driver's. There is no "
        "interrupt, which the paper's first packets pay for: its curves are bent where these are "
        "straight. Nor is there DPDK, which takes a core at any load: so does a process that polls "
        "an AF_XDP socket, on a core of its own beside that which packets arrive at. The paper's "
        "are of its figure 4."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
