"""Packets sent on: what does one cost at XDP, at tc, through a bridge and through routing?

The same frames (60 bytes of UDP, of 4,096 flows) arrive at a device and leave by another one, or,
by XDP_TX, by the same: XDP and tc exchange both addresses, the bridge finds the next device by the
frame's address, routing by the packet's; minip4 takes frames from packet sockets and routes them by
a program in P4, in a thread on the same core. All are counted at the far end of the veth by which
they leave, where they are dropped in the way that costs least; a run in which one is missing is
invalid. What counts is the CPU time of a packet, from its arrival to its end.

Claim: A core sends at least 3 times as many packets on by XDP_REDIRECT as Linux routes.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figures 5 and 7, one core: XDP_TX 16.9 million
packets a second, XDP_REDIRECT 8.6 million, Linux' routing 1.7 million by a single route.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.xdp import settings
from experiments.shared.xdp.bars import draw_ratios
from experiments.shared.xdp.forwarding import (
    BY_KERNEL,
    DESTINATION,
    REDIRECT,
    RESTORED,
    ROUTING,
    TX,
)
from experiments.shared.xdp.frames import FLOWS, LENGTH, flows
from experiments.shared.xdp.interleaved_rounds import Offer, Rounds, Turn, turns
from experiments.shared.xdp.switching import MINIP4
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS = 1_000_000, 150_000
CONTENDERS = (*BY_KERNEL, MINIP4)
PUBLISHED_MPPS = {TX: 16.90, REDIRECT: 8.64, ROUTING: 1.740}  # one core
TIMES = 3.0  # as many packets by XDP_REDIRECT as by routing, at least


def experiment(options: argparse.Namespace, run: Run) -> Report:
    one, *_ = settings.prepare(options, PACKETS, QUICK_PACKETS)
    offer = Offer(flows(destination=DESTINATION), options.packets, [one], RESTORED)
    return report([*turns(CONTENDERS, offer, options.rounds, run.progress.update)], options)


def report(measured: Sequence[Turn], options: argparse.Namespace) -> Report:
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            Check(f"CPU time of a packet by {REDIRECT.name} to that by {ROUTING.name}, at most "
                  f"1 / {TIMES:g}", rounds.cost(REDIRECT, ROUTING, TIMES), 0, 1 / TIMES),
            Check("packets that came and were not counted where they left",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={
            "packets_per_s_a_core": {
                each.name: 1e9 / rounds.ns_per_packet(each) for each in CONTENDERS},
        },
        figure=draw(rounds),
        caption=caption(options),
        tables=[costs_table(rounds)],
    )  # fmt: skip


def costs_table(rounds: Rounds) -> Table:
    """A row for each contender."""
    rows = []
    for each in CONTENDERS:
        ns, ratios = rounds.ns_per_packet(each), rounds.ratios(each, ROUTING)
        paper = PUBLISHED_MPPS[each] / PUBLISHED_MPPS[ROUTING] if each in PUBLISHED_MPPS else ""
        rows.append((each.name, ns, 1e3 / ns, statistics.median(ratios), min(ratios), max(ratios),
                     paper))  # fmt: skip
    columns = ("sent on by", "ns", "Mpackets/s", "to routing", "least", "most", "paper")
    return table("What a packet costs, and how many a core sends on", columns, rows)


def draw(rounds: Rounds) -> Figure:
    """How many packets a core sends on, beside Linux' routing."""
    figure, (axes,) = plots.figure(1)
    published = {each: mpps / PUBLISHED_MPPS[ROUTING] for each, mpps in PUBLISHED_MPPS.items()}
    draw_ratios(axes, rounds, CONTENDERS, ROUTING, published)
    axes.set_xlabel("Packets that a core sends on / Linux routing")
    return figure


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"Packets that a core sends on, in CPU time, as a multiple of Linux' routing: medians of "
        f"{options.rounds} rounds of {options.packets:,} packets ({LENGTH} bytes, {FLOWS:,} "
        "flows), whiskers from the least to the most. Packets are live frames of the kernel's own "
        "test run, and end behind a veth; both are part of all bars. With live frames XDP_TX is a "
        "redirect, too, where a card's driver has a shorter way (the paper's, of its figures 5 and "
        "7). There is neither a card nor a driver, and so no DPDK, which is both. minip4 is behind "
        "packet sockets: the kernel carries each packet to it and from it."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, settings.add_options)
