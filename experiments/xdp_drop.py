"""Dropping packets: how many does a core take at XDP, and at each later place of the kernel?

The same frames (60 bytes of UDP, of 4,096 flows) arrive at a device, from one core and from two,
and are dropped where XDP is, at tc, by nftables at ingress, by iptables before and after routing,
by iptables behind connection tracking, or taken by a process from an AF_XDP socket. Packets are
live frames of the kernel's own test run: no sender on a core of its own, no socket, no driver. Each
contender has a namespace of its own and counts what it drops: a run in which that is not exactly
what was sent is invalid. What counts is the CPU time of a packet, the source's share included.

Claim: A core drops at least 3.5 times as many packets at XDP as iptables does in its table raw, and
8 times as many as behind connection tracking.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figure 3, one core: XDP 24 million packets a
second, 4.7 times those of iptables raw and 13.1 times those of conntrack, with a 100 Gbit/s card.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from ebpf.loader import load
from ebpf.loader import run as run_programs
from experiments.shared.xdp import settings
from experiments.shared.xdp.bars import draw_medians, draw_published, draw_ratios
from experiments.shared.xdp.dropping import ALL, CONNTRACK, CONTENDERS, FILTER, PORTS, PROGRAMS, RAW
from experiments.shared.xdp.frames import FLOWS, LENGTH, flows
from experiments.shared.xdp.interleaved_rounds import Offer, Rounds, Turn, turns
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS = 1_000_000, 150_000
# The paper's data behind its figure 3: million packets a second, of one core and of two.
PUBLISHED_MPPS = {ALL: (23.86, 45.51), RAW: (5.05, 10.23), FILTER: (3.32, 6.71),
                  CONNTRACK: (1.82, 3.27)}  # fmt: skip
REACH = ((RAW, 3.5), (CONNTRACK, 8.0))  # times as many packets at XDP, by the same rule


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cores = settings.prepare(options, PACKETS, QUICK_PACKETS)
    offer = Offer(flows(), options.packets, cores)
    measured = list(turns(CONTENDERS, offer, options.rounds, run.progress.update))
    with load(PROGRAMS) as whole:
        alone = {
            each: run_programs(whole.programs[each], offer.frames, options.packets).ns_per_packet
            for each in ("pass_all", "drop_all", "drop_ports")
        }
    return report(measured, alone, options)


def report(
    measured: Sequence[Turn], alone_ns: Mapping[str, int], options: argparse.Namespace
) -> Report:
    """`alone_ns` is what programs take by themselves, with that which makes frames differ."""
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            *(Check(f"CPU time of a packet at XDP to that of {slow.name}, at most 1 / {times:g}",
                    rounds.cost(PORTS, slow, times), 0, 1 / times)
              for slow, times in REACH),
            Check("packets that were sent and not counted by who dropped them",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={
            "ns_of_programs_alone": dict(alone_ns),
            "packets_per_s_a_core": {
                each.name: 1e9 / rounds.ns_per_packet(each) for each in CONTENDERS},
            "times_as_many_on_two_cores": {
                each.name: rounds.scaling(each) for each in CONTENDERS if rounds.has(each, 2)},
        },
        figure=draw(rounds),
        caption=caption(alone_ns, options),
        tables=[costs_table(rounds)],
    )  # fmt: skip


def costs_table(rounds: Rounds) -> Table:
    """A row for each contender."""
    rows = []
    for each in CONTENDERS:
        ratios = rounds.ratios(each, RAW)
        paper = PUBLISHED_MPPS.get(each)
        two = rounds.scaling(each) if rounds.has(each, 2) else ""
        rows.append((
            each.name, rounds.ns_per_packet(each), 1e3 / rounds.ns_per_packet(each),
            statistics.median(ratios), min(ratios), max(ratios),
            paper[0] / PUBLISHED_MPPS[RAW][0] if paper else "", two,
            paper[1] / paper[0] if paper else "",
        ))  # fmt: skip
    columns = ("dropped at", "ns", "Mpackets/s", "to iptables raw", "least", "most", "paper",
               "two cores", "paper")  # fmt: skip
    return table("What a packet costs, and how many a core drops", columns, rows)


def draw(rounds: Rounds) -> Figure:
    """How many packets a core drops, beside iptables raw; and what two cores do."""
    figure, (ratios, scaling) = plots.figure(2)
    published = {each: one / PUBLISHED_MPPS[RAW][0] for each, (one, _) in PUBLISHED_MPPS.items()}
    draw_ratios(ratios, rounds, CONTENDERS, RAW, published)
    ratios.set_xlabel("Packets that a core drops / iptables raw")
    draw_medians(scaling, [rounds.scalings(each) if rounds.has(each, 2) else [np.nan]
                           for each in CONTENDERS], [""] * len(CONTENDERS))  # fmt: skip
    published = {each: two / one for each, (one, two) in PUBLISHED_MPPS.items()}
    draw_published(scaling, CONTENDERS, published)
    scaling.set_xlabel("Packets of two cores / of one")
    return figure


def caption(alone_ns: Mapping[str, int], options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"Packets that a core drops, in CPU time, (a) as a multiple of iptables raw, (b) of two "
        f"cores as a multiple of one: medians of {options.rounds} rounds of {options.packets:,} "
        f"packets a core ({LENGTH} bytes, {FLOWS:,} flows), whiskers from the least to the most. "
        "Packets are live frames of the kernel's own test run, whose cost is part of all bars: of "
        f"XDP's, the program by port and what makes frames differ are {alone_ns['drop_ports']} ns, "
        "the rest is the source's. There is neither a card nor a driver, and so no DPDK, which is "
        "both. AF_XDP has its socket and its process on the same core, and copies. The paper's are "
        "of its figure 3."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, settings.add_options)
