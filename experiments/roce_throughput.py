"""RoCE throughput: how many records per second does a core receive, compared with UDP?

A sender on its own core sends the same records of TCP packets (44 bytes) over a veth pair to one
collector at a time. The RoCE responder in software checks each iCRC and writes the record to the
address in the packet. Collectors in C store and index records from a blocking UDP socket, from a
UDP socket that is polled with sleeps like the responder, or from the ring of a packet socket. One
collector is in Python. Another returns frames unread, which is a lower bound for collectors with a
packet socket ring. The experiment measures the CPU time per record of sender and collector,
including softirqs of the kernel. The experiment subtracts the CPU time of a sender whose frames are
not received. Ratios are computed within a round, and their median is checked.

Claim: At max rate, a record over RoCE takes at most half the CPU time of a record over UDP that is
indexed in C.

Published: Beltman and Knossen (INDIS 2020), abstract: a NIC writes about 20 million packets/s to
memory without loss. The responder of Telemark is software and comparable only with software.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.roce import receivers
from experiments.shared.roce.candidates import BASELINE, COLLECTORS, ROCE, UDP, UDP_NAPS, UNREAD
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
LOADS = {AS_FAST: "max rate", PACED_PER_S: f"{PACED_PER_S:,} records/s"}
ROUNDS, QUICK_ROUNDS = 5, 3
HALF, NAPPING, BOUND = 0.5, 0.8, 2.0
CLAIMS = (
    (UDP, "UDP in C", HALF),
    (UDP_NAPS, "UDP in C with sleeps", NAPPING),
    (UNREAD, "unread frames", BOUND),
)  # collector -> max CPU time per record over RoCE, normalized to this collector, at max rate


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="duration per collector and round (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help=f"rounds of all collectors (default: {ROUNDS})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "real", "CPU time is measured in real time only")
    cli.require_minip4(options, "this experiment has no switch")
    if (os.cpu_count() or 1) <= COLLECTOR_CORE:
        raise TestbedError(
            "roce_throughput: sender and collector need one core each; use a machine with 2 cores"
        )
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    rounds = []
    for number in range(options.rounds):
        kinds = [BASELINE, *COLLECTORS]
        turns = []
        for load, text in LOADS.items():
            for kind in kinds[:: 1 if number % 2 else -1]:  # alternate the order of collectors
                run.progress.update(f"round {number + 1}: {kind.name}, {text}")
                turns.append(turn(run.folder, kind, load, options.seconds))
        rounds.append(Round(turns, BASELINE))
    return report(rounds, receivers.alone_ns(RECORDS_WRITTEN), options)


def report(rounds: Sequence[Round], alone_ns: float, options: argparse.Namespace) -> Report:
    """Return the report. The run is inconclusive if the machine was too loaded for a verdict.

    `alone_ns` is the CPU time per record in the responder alone, without a socket.
    """
    checks = check_claims(rounds)
    failed = [check.name for check in checks if not check.passed]
    reject_noise(rounds, [ROCE, *(kind for kind, *_ in CLAIMS)], failed, LOADS[AS_FAST])
    return Report(
        samples=[each._asdict() for one in rounds for each in one.turns],
        checks=[
            *checks,
            Check("records neither received nor counted as dropped (max per round)",
                  unaccounted_frames(rounds), 0),
            Check("wrong records in memory", wrong(rounds), 0),
        ],
        metrics={
            "records_per_s_per_core": {
                kind.name: 1e9 / middle(rounds, "cost_ns", kind, AS_FAST) for kind in COLLECTORS},
            "responder_cpu_ns_per_record": alone_ns,
        },
        figure=draw(rounds),
        caption=caption(options),
        tables=[costs_table(rounds, alone_ns), ratios_table(rounds)],
    )  # fmt: skip


def check_claims(rounds: Sequence[Round]) -> list[Check]:
    """Check the claimed ratios of CPU times at the max rate. Each ratio is a median over rounds.

    There is no claim for constant rates, because wake-ups dominate the CPU time at these rates.
    """
    return [
        Check(f"CPU time per record over RoCE (normalized to {text}), {LOADS[AS_FAST]}, at most "
              f"{limit}",
              middle(rounds, "ratio", ROCE, kind), 0, limit)
        for kind, text, limit in CLAIMS
    ]  # fmt: skip


def costs_table(rounds: Sequence[Round], alone_ns: float) -> Table:
    """Return a table with a row per collector and load."""
    columns = ("collector", "offered", "records/s", "dropped", "CPU ns: collector", "kernel",
               "total: median", "min", "max", "million/s per core")  # fmt: skip
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
    title = f"CPU time per record ({alone_ns:.0f} ns in the RoCE responder alone, from memory)"
    return table(title, columns, rows)


def ratios_table(rounds: Sequence[Round]) -> Table:
    """Return a table of the ratios of CPU time."""
    rows = []
    for kind, text, limit in CLAIMS:
        for load, offer in LOADS.items():
            ratios = [each.ratio(ROCE, kind, load) for each in rounds]
            reach = f"at most {limit}" if load == AS_FAST else "no claim"
            rows.append((text, offer, statistics.median(ratios), min(ratios), max(ratios), reach))
    columns = ("RoCE normalized to", "offered", "median", "min", "max", "claim")
    return table("Ratios of CPU time per record", columns, rows)


def draw(rounds: Sequence[Round]) -> Figure:
    """Draw the CPU time per record of each collector at each load."""
    figure, panels = plots.figure(len(LOADS))
    for axes, load in zip(panels, LOADS, strict=True):
        draw_costs(axes, rounds, COLLECTORS, load)
        axes.set_xlabel(f"CPU time per record (ns), {LOADS[load]}")
    panels[1].tick_params(labelleft=False)
    plots.legend(panels[1], 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        "CPU time per record of 44 bytes, by collector, including kernel time up to its socket: "
        f"medians of {options.rounds} rounds of {options.seconds:g} s, whiskers from min to max. "
        f"Offered load: (a) max rate of one sending core, (b) {PACED_PER_S:,} records/s in bursts "
        "of 64. RoCE is Telemark's responder on a packet socket, which checks each iCRC; "
        f'collectors marked "naps" sleep for {NAP_US} us after records arrived, as it does.'
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
