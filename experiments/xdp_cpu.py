"""XDP CPU utilization: how does it depend on the load, compared with the kernel's network stack?

Packets arrive at different rates at programs that drop them: XDP, the raw table of iptables,
connection tracking, and a process with an AF_XDP socket. This process either sleeps until packets
arrive or polls, as DPDK drivers do. The kernel generates the packets (BPF_PROG_TEST_RUN with live
frames). The kernel immediately drops frames that are not due, and the experiment counts the time
for these drops as idle time. Each measurement therefore includes the ingress path of a packet,
which replaces NIC and driver. A run with a missing packet or with other processes on the cores is
invalid.

Claim: With XDP, the CPU time grows with the load. At the lowest load, XDP needs at most a fifth of
the CPU time of a polling process, which uses a whole core at any load. At each load that iptables
raw sustains, XDP needs at most half the CPU time of iptables raw.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figure 4, one core: XDP 7 % at 0.25 million
packets/s and 35 % at 3 million, Linux (raw) 21 and 71 %, and DPDK 100 % at any load.
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
from experiments.shared.xdp.loads import CANDIDATES, POLLING, Loaded, Plan
from telemark.errors import TestbedError, note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

LOADS_PPS = (250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 4_000_000)
QUICK_LOADS_PPS = (250_000, 500_000, 1_000_000, 2_000_000)
SECONDS, QUICK_SECONDS = 0.25, 0.08
ROUNDS, QUICK_ROUNDS = 7, 5
# Data of figure 4 of the paper: million packets/s and percent of a core.
PUBLISHED = {
    PORTS: ((0.25, 0.5, 1, 2, 3, 5, 10, 15, 20, 24.8),
            (7.0, 11.7, 19.6, 28.9, 35.2, 47.3, 62.4, 74.7, 91.8, 100)),
    RAW: ((0.25, 0.5, 1, 2, 3, 5), (21.0, 30.2, 42.6, 59.6, 70.8, 100)),
}  # fmt: skip
PART_OF_POLLING, PART_OF_RAW, FULL = 0.2, 0.5, 0.1
CARRIED = 0.98  # min delivered fraction of the load for a candidate that sustains this load


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"rounds of all candidates at all loads (default: {ROUNDS}; quick: {QUICK_ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    settings.require_real_time(options)
    cores = settings.cores()
    if len(cores) < 2:
        raise TestbedError(
            "this machine has one core; the polling process and the packet source need one core "
            "each"
        )
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    offered, seconds = (QUICK_LOADS_PPS, QUICK_SECONDS) if options.quick else (LOADS_PPS, SECONDS)
    plan = Plan(flows(), offered, seconds, options.rounds, cores[-2:])
    return report([*loads.measure_loads(plan, run.progress.update)], plan)


class Curves:
    """Results of each candidate at each load."""

    def __init__(self, measured: Sequence[Loaded]) -> None:
        self._of = {(each.candidate, each.offered_pps, each.round): each for each in measured}
        self._rounds = sorted({each.round for each in measured})
        self.loads_pps = self.offered_loads(PORTS)

    def offered_loads(self, candidate: Candidate) -> list[int]:
        """Return all offered loads of a candidate except the run at max rate."""
        return sorted({pps for name, pps, _ in self._of if name == candidate.name and pps})

    def all(self, candidate: Candidate, pps: int) -> list[Loaded]:
        """Return the results of a candidate at one load, in the order of rounds."""
        return [self._of[candidate.name, pps, number] for number in self._rounds]

    def median(self, candidate: Candidate, pps: int, of: Callable[[Loaded], float]) -> float:
        return statistics.median(map(of, self.all(candidate, pps)))

    def busy(self, candidate: Candidate) -> list[float]:
        """Return the median number of busy cores at each offered load."""
        loads_pps = self.offered_loads(candidate)
        return [self.median(candidate, pps, lambda each: each.busy) for pps in loads_pps]

    def max_pps(self, candidate: Candidate) -> float:
        """Return the highest rate of a candidate on one core, in packets/s."""
        return self.median(candidate, 0, lambda each: each.carried_pps)

    def carries(self, candidate: Candidate, pps: int) -> bool:
        return self.median(candidate, pps, lambda each: each.carried_pps) >= CARRIED * pps

    def ratio(self, own: Candidate, own_pps: int, to: Candidate, pps: int, limit: float) -> float:
        """Return the median over all rounds of the ratio of two candidates' busy cores.

        The run is inconclusive if the ratio exceeds `limit`, but not in all rounds. Rounds differ
        because other load on the machine changes the CPU time per packet.
        """
        pairs = zip(self.all(own, own_pps), self.all(to, pps), strict=True)
        found = [each.busy / other.busy for each, other in pairs]
        if min(found) <= limit < statistics.median(found):
            note_invalid(
                f"rounds differ: {own.name} at {own_pps:,} packets/s needs {min(found):.2g} to "
                f"{max(found):.2g} of the CPU time of {to.name} at {pps:,}; the limit is {limit:g}"
            )
        return statistics.median(found)


def report(measured: Sequence[Loaded], plan: Plan) -> Report:
    """Return the report; each ratio is the median over rounds of the ratio within a round."""
    curves = Curves(measured)
    min_load, steps = curves.loads_pps[0], [*pairwise(curves.loads_pps)]
    carried = [pps for pps in curves.loads_pps if curves.carries(RAW, pps)]
    polls = [curves.median(POLLING, pps, lambda each: each.process_busy)
             for pps in curves.offered_loads(POLLING)]  # fmt: skip
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check("load steps without an increase of XDP utilization",
                  sum(curves.ratio(PORTS, less, PORTS, more, 1) >= 1 for less, more in steps), 0),
            Check("utilization by a polling process (min over loads)",
                  min(polls), 1, FULL),
            Check("utilization by XDP at min load (normalized to a polling process), at most "
                  f"{PART_OF_POLLING:g}",
                  curves.ratio(PORTS, min_load, POLLING, min_load, PART_OF_POLLING), 0,
                  PART_OF_POLLING),
            Check(f"utilization by XDP (normalized to iptables raw, max over {len(carried)} loads "
                  f"within its capacity), at most {PART_OF_RAW:g}",
                  max((curves.ratio(PORTS, pps, RAW, pps, PART_OF_RAW) for pps in carried),
                      default=np.nan), 0, PART_OF_RAW),
            Check("packets offered but not counted as dropped",
                  sum(each.sent - each.counted for each in measured), 0),
        ],
        metrics={"max_packets_per_s": {each.name: curves.max_pps(each) for each in PUBLISHED}},
        figure=draw(curves),
        caption=caption(plan),
        tables=[busy_table(curves)],
    )  # fmt: skip


def busy_table(curves: Curves) -> Table:
    """Return a table of CPU utilization, with a row per candidate and a column per load."""
    empty = [""] * len(curves.loads_pps)
    rows = [
        [each.name, *(100 * busy for busy in curves.busy(each)), *empty][: len(empty) + 1]
        for each in CANDIDATES
    ]
    columns = ("dropped at", *(f"{pps / 1e6:g} Mpps" for pps in curves.loads_pps))
    return table("CPU utilization (% of a core)", columns, rows)


def draw(curves: Curves) -> Figure:
    """Draw utilization over load, and beside it the published results.

    There, load is normalized to the capacity of a core.
    """
    figure, (absolute, relative) = plots.figure(2, height_in=2.9)
    for each in CANDIDATES:
        mpps = np.array(curves.offered_loads(each)) / 1e6
        of_rounds = np.array([[one.busy for one in curves.all(each, pps)]
                              for pps in curves.offered_loads(each)])  # fmt: skip
        middle = np.median(of_rounds, axis=1)
        spread = [middle - of_rounds.min(axis=1), of_rounds.max(axis=1) - middle]
        absolute.errorbar(mpps, 100 * middle, 100 * np.array(spread), label=each.name)
    absolute.set_xlabel("Offered load (Mpackets/s)")
    absolute.set_ylabel("CPU utilization (% of a core)")
    absolute.set_ylim(bottom=0)
    plots.legend(absolute, 2)
    draw_beside_the_paper(relative, curves)
    return figure


def draw_beside_the_paper(axes: Axes, curves: Curves) -> None:
    """Draw utilization over load, with load normalized to the capacity of a core."""
    for each, colour in zip(PUBLISHED, plots.COLOURS, strict=False):
        limit = curves.max_pps(each)
        carried = [at for at, pps in enumerate(curves.loads_pps) if pps <= limit]
        parts = [curves.loads_pps[at] / limit for at in carried] + [1.0]
        busy = [100 * curves.busy(each)[at] for at in carried] + [100.0]
        axes.plot(parts, busy, color=colour, label=f"{each.name.partition(',')[0]}, measured")
        rates, percents = PUBLISHED[each]
        axes.plot([rate / rates[-1] for rate in rates], percents, "D:", color=colour,
                  fillstyle="none", label=f"{each.name.partition(',')[0]}, published")  # fmt: skip
    axes.set_xlabel("Offered load (normalized to capacity)")
    axes.set_ylabel("CPU utilization (% of a core)")
    axes.set_ylim(bottom=0)
    plots.legend(axes, 2)


def caption(plan: Plan) -> str:
    """Return the caption of the figure."""
    return (
        "CPU utilization (a) over offered load, (b) over load normalized to the capacity of a "
        f"core, with published results: medians of {plan.rounds} rounds of {plan.seconds:g} s, "
        f"error bars from min to max ({LENGTH} bytes, {FLOWS:,} flows). The kernel generates the "
        "packets (BPF_PROG_TEST_RUN with live frames); the CPU time for this replaces the CPU "
        "time of NIC and driver. There are no interrupts, which bend the published curves at low "
        "rates. A process that polls an AF_XDP socket on its own core replaces DPDK, which uses a "
        "core at any load. Published: figure 4 of the paper."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
