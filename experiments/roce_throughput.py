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

from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.roce import receivers
from experiments.shared.roce.candidates import COLLECTORS, NOBODY, ROCE, UDP, UDP_NAPS, UNREAD
from experiments.shared.roce.interleaved_rounds import COLLECTOR_CORE, NAP_US, turn
from experiments.shared.roce.offered import RECORDS_WRITTEN
from experiments.shared.roce.rounds import (
    AS_FAST,
    Round,
    draw_costs,
    middle,
    reject_noise,
    unaccounted_frames,
    wrong,
)
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACED_PER_S = 100_000
LOADS = {AS_FAST: "as fast as they go", PACED_PER_S: f"{PACED_PER_S:,} records/s"}
ROUNDS, QUICK_ROUNDS = 5, 3
HALF, NAPPING, BOUND = 0.5, 0.8, 2.0
CLAIMS = (
    (UDP, "UDP in C", HALF),
    (UDP_NAPS, "UDP in C that naps as well", NAPPING),
    (UNREAD, "frames given back unread", BOUND),
)  # of which the CPU time of a record over RoCE is at most this part, as fast as they go


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
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
        rounds.append(Round(turns, NOBODY))
    return report(rounds, receivers.alone_ns(RECORDS_WRITTEN), options)


def report(rounds: Sequence[Round], alone_ns: float, options: argparse.Namespace) -> Report:
    """`alone_ns` is what a record takes in the responder itself.

    Raises TestbedError where the machine was too busy for what was measured to say anything."""
    checks = claims_of(rounds)
    failed = [check.name for check in checks if not check.passed]
    reject_noise(rounds, [ROCE, *(kind for kind, *_ in CLAIMS)], failed, LOADS[AS_FAST])
    return Report(
        samples=[each._asdict() for one in rounds for each in one.turns],
        checks=[
            *checks,
            Check("records that are neither received nor counted as dropped, most of a turn",
                  unaccounted_frames(rounds), 0),
            Check("records in memory that are not those offered", wrong(rounds), 0),
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


def claims_of(rounds: Sequence[Round]) -> list[Check]:
    """Ratios, each a median of all rounds. Paced, waking up is what counts: no claim."""
    return [
        Check(f"CPU time of a record over RoCE to that of {text}, {LOADS[AS_FAST]}, at most {most}",
              middle(rounds, "ratio", ROCE, kind), 0, most)
        for kind, text, most in CLAIMS
    ]  # fmt: skip


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
                middle(rounds, "own_ns", kind, load),
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
            ratios = [each.ratio(ROCE, kind, load) for each in rounds]
            reach = f"at most {most}" if load == AS_FAST else "no claim"
            rows.append((text, offer, statistics.median(ratios), min(ratios), max(ratios), reach))
    columns = ("a record over RoCE to", "offered", "median", "least", "most", "to reach")
    return table("Ratios of CPU time", columns, rows)


def draw(rounds: Sequence[Round]) -> Figure:
    """Cost by collector, at each load."""
    figure, panels = plots.figure(len(LOADS))
    for axes, load in zip(panels, LOADS, strict=True):
        draw_costs(axes, rounds, COLLECTORS, load)
        axes.set_xlabel(f"CPU time of a record (ns), {LOADS[load]}")
    panels[1].tick_params(labelleft=False)
    plots.legend(panels[1], 2)
    return figure


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
