"""XDP forwarding: what is the CPU time per packet, compared with tc, bridging and routing?

The same frames (60-byte UDP packets of 4,096 flows) arrive at a device and leave by another, or by
the same device with XDP_TX. XDP and tc exchange the two MAC addresses. The bridge selects the
outgoing device by MAC address, routing selects it by IP address. minip4 receives frames from packet
sockets and routes them with a P4 program, in a thread on the same core. A program at the far end of
the outgoing veth pair counts and drops all frames at the lowest cost. A run with a missing frame is
invalid. The experiment measures CPU time per packet, from arrival to drop.

Claim: A core forwards at least 3 times as many packets/s with XDP_REDIRECT as with Linux routing.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figures 5 and 7, one core: XDP_TX 16.9 million
packets/s, XDP_REDIRECT 8.6 million, Linux routing 1.7 million with a single route.
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
CANDIDATES = (*BY_KERNEL, MINIP4)
PUBLISHED_MPPS = {TX: 16.90, REDIRECT: 8.64, ROUTING: 1.740}  # one core
TIMES = 3.0  # min ratio between the rates of XDP_REDIRECT and of Linux routing


def experiment(options: argparse.Namespace, run: Run) -> Report:
    one, *_ = settings.prepare(options, PACKETS, QUICK_PACKETS)
    offer = Offer(flows(destination=DESTINATION), options.packets, [one], RESTORED)
    return report([*turns(CANDIDATES, offer, options.rounds, run.progress.update)], options)


def report(measured: Sequence[Turn], options: argparse.Namespace) -> Report:
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            Check(f"CPU time per packet with {REDIRECT.name} (normalized to {ROUTING.name}), at "
                  f"most 1 / {TIMES:g}", rounds.cost(REDIRECT, ROUTING, TIMES), 0, 1 / TIMES),
            Check("packets sent but not counted on departure",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={
            "packets_per_s_per_core": {
                each.name: 1e9 / rounds.ns_per_packet(each) for each in CANDIDATES},
        },
        figure=draw(rounds),
        caption=caption(options),
        tables=[costs_table(rounds)],
    )  # fmt: skip


def costs_table(rounds: Rounds) -> Table:
    """Return a table with a row per candidate."""
    rows = []
    for each in CANDIDATES:
        ns, ratios = rounds.ns_per_packet(each), rounds.ratios(each, ROUTING)
        paper = PUBLISHED_MPPS[each] / PUBLISHED_MPPS[ROUTING] if each in PUBLISHED_MPPS else ""
        rows.append((each.name, ns, 1e3 / ns, statistics.median(ratios), min(ratios), max(ratios),
                     paper))  # fmt: skip
    columns = ("forwarded by", "ns", "Mpackets/s", "vs routing", "min", "max", "published")
    return table("CPU time per packet and forwarding rate per core", columns, rows)


def draw(rounds: Rounds) -> Figure:
    """Draw the forwarding rate per core, normalized to Linux routing."""
    figure, (axes,) = plots.figure(1)
    published = {each: mpps / PUBLISHED_MPPS[ROUTING] for each, mpps in PUBLISHED_MPPS.items()}
    draw_ratios(axes, rounds, CANDIDATES, ROUTING, published)
    axes.set_xlabel("Forwarding rate per core\n(normalized to Linux routing)")
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        "Forwarding rate per core, computed from CPU time and normalized to Linux routing: "
        f"medians of {options.rounds} rounds of {options.packets:,} packets ({LENGTH} bytes, "
        f"{FLOWS:,} flows), whiskers from min to max. The kernel generates the packets "
        "(BPF_PROG_TEST_RUN with live frames), and a program behind a veth pair drops them; all "
        "bars include both. With live frames, XDP_TX is also a redirect, whereas a NIC driver has "
        "a shorter path (published: figures 5 and 7 of the paper). There is no NIC and no driver, "
        "hence no DPDK. minip4 uses packet sockets, so the kernel handles each packet on both "
        "sides."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, settings.add_options)
