"""XDP routing: how many packets can a core route, compared with the kernel's own routing?

The same frames arrive at a device and leave by another. Either the network stack of the kernel or a
program at XDP routes them. The program looks up the tables of the kernel (bpf_fib_lookup),
decrements the TTL and writes the MAC address of the next hop. The table has either one route or
many random prefixes with the same lengths as in the table of the Internet. There are 4,000
destination addresses in both cases. The kernel generates the packets (BPF_PROG_TEST_RUN with live
frames), and a program at their destination counts and drops them. A run with a missing frame is
invalid. The experiment measures CPU time per packet, including source and destination.

Claim: A core routes at least 3 times as many packets/s at XDP as in the network stack with one
route, and at least 2 times as many with 500,000 routes.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figure 7, one core: XDP routes 3.1 times as many
packets/s as Linux with one route, and 2.5 times as many with the 752,138 routes of the Internet.
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
# Data of figure 7 of the paper: million packets/s per core with kernel and XDP.
PUBLISHED_MPPS = ((1.740, 5.356), (1.374, 3.446))  # one route, many routes
REACH = (3.0, 2.0)  # min ratio between the rates of XDP and kernel, with one route and with many

Pairs = Sequence[tuple[Candidate, Candidate]]  # (kernel, XDP) for one route and for many routes


def add_options(parser: argparse.ArgumentParser) -> None:
    settings.add_options(parser)
    parser.add_argument(
        "--routes", type=cli.positive_int, metavar="N",
        help=f"routes of the large table (default: {ROUTES:,}; quick: {QUICK_ROUTES:,})",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cores = settings.prepare(options, PACKETS, QUICK_PACKETS)
    options.routes = max(2, options.routes or (QUICK_ROUTES if options.quick else ROUTES))
    run.progress.update(f"adding {options.routes:,} routes to the table of the kernel")
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
    """Return the report; each ratio is the median over rounds of the ratio within a round."""
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            *(Check(f"CPU time per packet at {xdp.name} (normalized to kernel), at most "
                    f"1 / {times:g}",
                    rounds.cost(xdp, kernel, times), 0, 1 / times)
              for times, (kernel, xdp) in zip(REACH, pairs, strict=True)),
            Check("packets sent but not received at the destination",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={"packets_per_s_per_core": {
            each.name: 1e9 / rounds.ns_per_packet(each) for pair in pairs for each in pair}},
        figure=draw(rounds, pairs),
        caption=caption(options),
        tables=[costs_table(rounds, pairs)],
    )  # fmt: skip


def costs_table(rounds: Rounds, pairs: Pairs) -> Table:
    """Return a table with a row per candidate."""
    rows = []
    for pair, paper in zip(pairs, PUBLISHED_MPPS, strict=True):
        for each, published in zip(pair, paper, strict=True):
            ratios = rounds.ratios(each, pair[0])
            rows.append((
                each.name, rounds.ns_per_packet(each), 1e3 / rounds.ns_per_packet(each),
                statistics.median(ratios), min(ratios), max(ratios),
                published / paper[0],
            ))  # fmt: skip
    columns = ("routed by", "ns", "Mpackets/s", "vs kernel", "min", "max", "published")
    return table("CPU time per packet and routing rate per core", columns, rows)


def draw(rounds: Rounds, pairs: Pairs) -> Figure:
    """Draw CPU time per packet, and the routing rate at XDP normalized to the kernel."""
    figure, (costs, ratios) = plots.figure(2)
    all_candidates = [each for pair in pairs for each in pair]
    cpu_ns = [[turn.ns_per_packet for turn in rounds.of(each)] for each in all_candidates]
    draw_medians(costs, cpu_ns, [each.name for each in all_candidates])  # fmt: skip
    costs.set_xlabel("CPU time per packet (ns)")
    draw_medians(ratios, [rounds.ratios(xdp, kernel) for kernel, xdp in pairs],
                 [xdp.name.removeprefix("XDP, ") for _, xdp in pairs])  # fmt: skip
    published = {
        xdp: fast / slow for (_, xdp), (slow, fast) in zip(pairs, PUBLISHED_MPPS, strict=True)
    }
    draw_published(ratios, [xdp for _, xdp in pairs], published)
    ratios.set_xlabel("Routing rate per core\n(normalized to kernel)")
    plots.legend(ratios, 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        "(a) CPU time per routed packet, (b) routing rate per core at XDP, normalized to routing "
        f"by the kernel: medians of {options.rounds} rounds of {options.packets:,} packets to "
        f"{DESTINATIONS:,} destinations, whiskers from min to max. The kernel generates the "
        "packets (BPF_PROG_TEST_RUN with live frames), and a program behind a veth pair drops "
        "them; all bars include both. There is no NIC and no driver, hence no DPDK. The table of "
        f"{options.routes:,} routes is random; published results are for the 752,138 routes of the "
        "Internet (figure 7 of the paper)."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
