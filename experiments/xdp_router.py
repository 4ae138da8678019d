"""Routing packets: how many does a core forward at XDP, and how many by the kernel's own routing?

The same frames arrive at a device and leave by another: through the kernel's stack, which routes
them, and at XDP, by a program that asks the kernel's tables (bpf_fib_lookup), lowers the TTL and
writes the next hop's address. Once there is one route, once a table of many, with prefixes drawn as
long as in the Internet's table; destinations are 4,000 addresses in either case. Packets are live
frames of the kernel's own test run, and a program at the far end counts and drops them: a run in
which one is missing is invalid. What counts is the CPU time of a packet, the source's and the far
end's included.

Claim: A core routes at least 3 times as many packets at XDP as the kernel by itself does with one
route, and at least 2 times as many with 500,000.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figure 7, one core: XDP 3.1 times as many packets
as Linux with one route, and 2.5 times with the Internet's 752,138.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.xdp import routing, settings
from experiments.shared.xdp.bars import draw_medians, draw_published
from experiments.shared.xdp.interleaved_rounds import Candidate, Offer, Rounds, Turn, turns
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS = 1_000_000, 100_000
ROUTES, QUICK_ROUTES = 500_000, 20_000
DESTINATIONS = 4000
# The paper's data behind its figure 7: million packets a second of a core, kernel and XDP.
PUBLISHED_MPPS = ((1.740, 5.356), (1.374, 3.446))  # with one route, and with many
REACH = (3.0, 2.0)  # times as many packets at XDP

Pairs = Sequence[tuple[Candidate, Candidate]]  # kernel and XDP: with one route, and with many


def add_options(parser: argparse.ArgumentParser) -> None:
    settings.add_options(parser)
    parser.add_argument(
        "--routes", type=cli.positive_int, metavar="N",
        help=f"of the large table (default: {ROUTES:,}; quick: {QUICK_ROUTES:,})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cores = settings.prepare(options, PACKETS, QUICK_PACKETS)
    options.routes = max(2, options.routes or (QUICK_ROUTES if options.quick else ROUTES))
    run.progress.update(f"{options.routes:,} routes come into the kernel's table")
    pairs = [
        routing.candidates(routes, run.folder)
        for routes in (["0.0.0.0/0"], routing.prefixes(options.routes, options.seed))
    ]
    offer = Offer(routing.frames(DESTINATIONS, options.seed + 1), options.packets, cores[:1],
                  routing.TTL_AND_MACS)  # fmt: skip
    all_of_them = [each for pair in pairs for each in pair]
    measured = list(turns(all_of_them, offer, options.rounds, run.progress.update))
    return report(measured, pairs, options)


def report(measured: Sequence[Turn], pairs: Pairs, options: argparse.Namespace) -> Report:
    """Ratios are of one round each; what counts is their median."""
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            *(Check(f"CPU time of a packet at {xdp.name}, to the kernel's, at most 1 / {times:g}",
                    rounds.cost(xdp, kernel, times), 0, 1 / times)
              for times, (kernel, xdp) in zip(REACH, pairs, strict=True)),
            Check("packets that were sent and did not come to the far end",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={"packets_per_s_a_core": {
            each.name: 1e9 / rounds.ns_per_packet(each) for pair in pairs for each in pair}},
        figure=draw(rounds, pairs),
        caption=caption(options),
        tables=[costs_table(rounds, pairs)],
    )  # fmt: skip


def costs_table(rounds: Rounds, pairs: Pairs) -> Table:
    """A row for each contender."""
    rows = []
    for pair, paper in zip(pairs, PUBLISHED_MPPS, strict=True):
        for each, published in zip(pair, paper, strict=True):
            ratios = rounds.ratios(each, pair[0])
            rows.append((
                each.name, rounds.ns_per_packet(each), 1e3 / rounds.ns_per_packet(each),
                statistics.median(ratios), min(ratios), max(ratios),
                published / paper[0],
            ))  # fmt: skip
    columns = ("routed by", "ns", "Mpackets/s", "to the kernel", "least", "most", "paper")
    return table("What a packet costs, and how many a core routes", columns, rows)


def draw(rounds: Rounds, pairs: Pairs) -> Figure:
    """CPU time of a packet, and how many times as many packets XDP routes."""
    figure, (costs, ratios) = plots.figure(2)
    everyone = [each for pair in pairs for each in pair]
    draw_medians(costs, [[turn.ns_per_packet for turn in rounds.of(each)] for each in everyone],
                 [each.name for each in everyone])  # fmt: skip
    costs.set_xlabel("CPU time of a packet (ns)")
    draw_medians(ratios, [rounds.ratios(xdp, kernel) for kernel, xdp in pairs],
                 [xdp.name.removeprefix("XDP, ") for _, xdp in pairs])  # fmt: skip
    published = {
        xdp: fast / slow for (_, xdp), (slow, fast) in zip(pairs, PUBLISHED_MPPS, strict=True)
    }
    draw_published(ratios, [xdp for _, xdp in pairs], published)
    ratios.set_xlabel("Packets that a core routes, XDP / kernel")
    plots.legend(ratios, 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"(a) CPU time of a routed packet, (b) packets that a core routes at XDP as a multiple of "
        f"the kernel's own routing: medians of {options.rounds} rounds of {options.packets:,} "
        f"packets to {DESTINATIONS:,} destinations, whiskers from the least to the most. Packets "
        "are live frames of the kernel's own test run, and a program at the far end of a veth "
        "drops them: both are part of all bars. There is neither a card nor a driver, and so no "
        f"DPDK, which is both. The table of {options.routes:,} routes is drawn at random; the "
        "paper's, of its figure 7, was the Internet's, of 752,138."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
