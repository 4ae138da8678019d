"""Records into memory over RoCE: how many does a core take, and what does one cost beside UDP?

A sender offers the same records of TCP packets (44 bytes) over a veth, on a core of its own, to one
collector after the other: the RoCE responder in software, which checks the iCRC of each and writes
it where the packet says; collectors in C that keep and index records, from a UDP socket that they
wait at, from one where they nap as the responder does, and from a packet socket's ring; one in
Python; and one that gives frames back unread, the bound of all that take them from such a ring.
What counts is the CPU time of a record at both ends, the kernel's softirq included, less what the
sender needs where nobody takes its frames. Ratios are of one round; what counts is their median.

Claim: As fast as records come, one over RoCE takes at most half of the CPU time of one over UDP in
C that is indexed.

Published: Beltman and Knossen (INDIS 2020), abstract: some 20 million packets a second without
loss, by a network card that writes them to memory. Ours is software: compare it with software.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table
from roce import takers
from roce.turns import (
    COLLECTOR_CORE,
    COLLECTORS,
    NAP_US,
    NOBODY,
    ROCE,
    UDP,
    UDP_NAPS,
    UNREAD,
    Kind,
    Turn,
    frames_of,
    turn,
)

from testbed import cli
from testbed.errors import TestbedError
from testbed.results import plots
from testbed.results.report import Check, Report, table
from testbed.run import Run

AS_FAST, PACED_PER_S = 0, 100_000
LOADS = {AS_FAST: "as fast as they go", PACED_PER_S: f"{PACED_PER_S:,} records/s"}
ROUNDS, QUICK_ROUNDS = 5, 3
HALF, NAPPING, BOUND = 0.5, 0.8, 2.0
CLAIMS = (
    (UDP, "UDP in C", HALF),
    (UDP_NAPS, "UDP in C that naps as well", NAPPING),
    (UNREAD, "frames given back unread", BOUND),
)  # of which the CPU time of a record over RoCE is at most this part, as fast as they go
MOST_DROPPED = 0.05  # of the records of a collector that a claim is about
MOST_WAITED = 0.05  # of the time that a process was ready, for a core


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.positive_float, metavar="S",
        help="that each collector is offered records in each round (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"of all collectors, one after the other (default: {ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time == "virtual":
        raise TestbedError("--time virtual: what a process takes of a core is of real time alone")
    if (os.cpu_count() or 1) <= COLLECTOR_CORE:
        raise TestbedError("sender and collector need a core each: this machine has one")
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    rounds = []
    for number in range(options.rounds):
        kinds = [NOBODY, *COLLECTORS]
        turns = []
        for load, text in LOADS.items():
            for kind in kinds[:: 1 if number % 2 else -1]:  # who comes first changes
                run.progress.update(f"round {number + 1}: {kind.name}, {text}")
                turns.append(turn(run.folder, kind, load, options.seconds))
        rounds.append(Round(turns))
    return report(rounds, takers.alone_ns(frames_of(run.folder, ROCE)), options)


@dataclass(frozen=True)
class Round:
    """All collectors, one after the other, at each load."""

    turns: Sequence[Turn]

    def of(self, kind: Kind, load: int) -> Turn:
        return next(t for t in self.turns if (t.collector, t.asked_per_s) == (kind.name, load))

    def kernel_ns(self, kind: Kind, load: int) -> float:
        """CPU time of a frame in the kernel, up to the collector's socket."""
        return self.of(kind, load).sender_ns - self.of(NOBODY, load).sender_ns

    def cost_ns(self, kind: Kind, load: int) -> float:
        """CPU time of a record, the kernel's included."""
        return self.of(kind, load).collector_ns + self.kernel_ns(kind, load)

    def ratio(self, to: Kind, load: int) -> float:
        """Of a record over RoCE to one of another collector."""
        return self.cost_ns(ROCE, load) / self.cost_ns(to, load)


def report(rounds: Sequence[Round], alone_ns: float, options: argparse.Namespace) -> Report:
    """`alone_ns` is what a record takes in the responder itself.

    Raises TestbedError where the machine was too busy for what was measured to say anything."""
    checks = claims_of(rounds)
    refuse_noise(rounds, [check.name for check in checks if not check.passed])
    turns = [each for one in rounds for each in one.turns]
    taken = [each for each in turns if each.collector != NOBODY.name]
    return Report(
        samples=[each._asdict() for each in turns],
        checks=[
            *checks,
            Check("records that are neither received nor counted as dropped, most of a turn",
                  max(abs(each.sent - each.received - each.dropped) for each in taken), 0),
            Check("records in memory that are not those offered", sum(t.wrong for t in taken), 0),
        ],
        metrics={
            "records_per_s_a_core": {
                kind.name: 1e9 / middle(rounds, "cost_ns", kind, AS_FAST) for kind in COLLECTORS},
            "cpu_ns_in_the_responder_alone": alone_ns,
        },
        figure=draw(rounds),
        caption=caption(options),
        tables=[costs_table(rounds, alone_ns), ratios_table(rounds)],
    )  # fmt: skip


def middle(rounds: Sequence[Round], what: str, *of: object) -> float:
    """The median of what all rounds tell."""
    return statistics.median(getattr(each, what)(*of) for each in rounds)


def claims_of(rounds: Sequence[Round]) -> list[Check]:
    """Ratios, each a median of all rounds. Paced, waking up is what counts: no claim."""
    return [
        Check(f"CPU time of a record over RoCE to that of {text}, {LOADS[AS_FAST]}, at most {most}",
              middle(rounds, "ratio", kind, AS_FAST), 0, most)
        for kind, text, most in CLAIMS
    ]  # fmt: skip


def refuse_noise(rounds: Sequence[Round], failed: Sequence[str]) -> None:
    """Raises TestbedError where the kernel dropped many records, or what failed may be noise."""
    for kind in (ROCE, *(each[0] for each in CLAIMS)):
        turns = [each.of(kind, AS_FAST) for each in rounds]
        dropped = statistics.median(each.dropped / each.sent for each in turns)
        if dropped > MOST_DROPPED:
            raise TestbedError(
                f"run invalid: the kernel dropped {dropped:.0%} of the records for {kind.name}, "
                f"{LOADS[AS_FAST]}; leave the machine more idle"
            )
    waited = statistics.mean(each.waited for one in rounds for each in one.turns)
    if failed and waited > MOST_WAITED:
        raise TestbedError(
            f"run invalid: this machine is busy: senders and collectors waited for a core for "
            f"{waited:.0%} of the time, more than {MOST_WAITED:.0%}, and this failed: {failed[0]}; "
            "leave the machine more idle"
        )


def costs_table(rounds: Sequence[Round], alone_ns: float) -> Table:
    """A row for each collector and load."""
    columns = ("collector", "offered", "records/s", "dropped", "CPU ns, collector", "kernel",
               "both: median", "least", "most", "million/s a core")  # fmt: skip
    rows = []
    for load, offer in LOADS.items():
        for kind in COLLECTORS:
            turns = [each.of(kind, load) for each in rounds]
            costs = [each.cost_ns(kind, load) for each in rounds]
            rows.append((
                kind.name, offer,
                f"{statistics.median(each.received / each.seconds for each in turns):,.0f}",
                f"{sum(each.dropped for each in turns) / sum(each.sent for each in turns):.1%}",
                statistics.median(each.collector_ns for each in turns),
                middle(rounds, "kernel_ns", kind, load),
                statistics.median(costs), min(costs), max(costs), 1e3 / statistics.median(costs),
            ))  # fmt: skip
    title = f"What a record costs ({alone_ns:.0f} ns in the RoCE responder alone, from memory)"
    return table(title, columns, rows)


def ratios_table(rounds: Sequence[Round]) -> Table:
    """What the claims are of."""
    rows = []
    for kind, text, most in CLAIMS:
        for load, offer in LOADS.items():
            ratios = [each.ratio(kind, load) for each in rounds]
            reach = f"at most {most}" if load == AS_FAST else "no claim"
            rows.append((text, offer, statistics.median(ratios), min(ratios), max(ratios), reach))
    columns = ("a record over RoCE to", "offered", "median", "least", "most", "to reach")
    return table("Ratios of CPU time", columns, rows)


def draw(rounds: Sequence[Round]) -> Figure:
    """Cost by collector, at each load."""
    figure, panels = plots.figure(len(LOADS))
    for axes, load in zip(panels, LOADS, strict=True):
        draw_costs(axes, rounds, load)
    panels[1].tick_params(labelleft=False)
    plots.legend(panels[1], 2)
    return figure


def draw_costs(axes: Axes, rounds: Sequence[Round], load: int) -> None:
    """A bar for each collector: its own CPU time, and the kernel's; whiskers: least to most."""
    places = np.arange(len(COLLECTORS))
    own = [
        statistics.median(each.of(kind, load).collector_ns for each in rounds)
        for kind in COLLECTORS
    ]
    costs = [[each.cost_ns(kind, load) for each in rounds] for kind in COLLECTORS]
    whole = [statistics.median(each) for each in costs]
    axes.barh(places, own, 0.6, label="collector")
    axes.barh(places, np.subtract(whole, own), 0.6, left=own, label="kernel, up to its socket",
              color=plots.COLOURS[5])  # fmt: skip
    spread = [[w - min(c) for w, c in zip(whole, costs, strict=True)],
              [max(c) - w for w, c in zip(whole, costs, strict=True)]]  # fmt: skip
    axes.errorbar(whole, places, xerr=spread, fmt="none", ecolor="black", elinewidth=0.7)
    axes.set_yticks(places, [kind.name for kind in COLLECTORS])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(f"CPU time of a record (ns), {LOADS[load]}")


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"CPU time of a record of 44 bytes, by what takes it, the kernel's work up to its socket "
        f"included: medians of {options.rounds} rounds of {options.seconds:g} s, whiskers from the "
        f"least to the most. Offered (a) as fast as one core sends, (b) at {PACED_PER_S:,} a "
        f"second, 64 in a row. RoCE is our responder on a packet socket, with the iCRC of each "
        f"frame checked; those that nap do so for {NAP_US} us after records came, as it does."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
