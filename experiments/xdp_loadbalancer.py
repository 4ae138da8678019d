"""Balancing load: how many packets does a core share out at XDP, and how many by the kernel's NAT?

The same frames, of 4,096 connections to one address, arrive at a device and are shared out among
100 reals: by Maglev's table at XDP, where each connection stays with its real; by nftables' NAT,
which tracks connections, and by iptables' too; by a rule of nftables that writes an address of a
real by a hash, and remembers nothing; and by IPVS, where the kernel has it. Packets are live frames
of the kernel's own test run, and a program where they end counts and drops them: a run in which one
is missing is invalid. What counts is the CPU time of a packet, the source's and the far end's
included.

Claim: A core shares out at least 4 times as many packets at XDP as nftables does by NAT.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), table 3, one core: Katran at XDP 5.2 million
packets a second, 4.2 times those of IPVS, both with encapsulation.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.xdp import settings
from experiments.shared.xdp.balancing import (
    ANYWHERE,
    IPVS,
    MACS,
    NAT,
    REALS,
    VIP,
    XDP,
    ipvs_missing,
)
from experiments.shared.xdp.bars import draw_ratios
from experiments.shared.xdp.frames import FLOWS, flows
from experiments.shared.xdp.interleaved_rounds import Candidate, Offer, Rounds, Turn, turns
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS = 1_000_000, 100_000
PUBLISHED = {XDP: 5.16 / 1.24}  # the paper's table 3: to IPVS, which is not NAT
TIMES = 4.0


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cores = settings.prepare(options, PACKETS, QUICK_PACKETS)
    offer = Offer(flows(destination=VIP), options.packets, cores[:1], MACS)
    missing = ipvs_missing()
    candidates = ANYWHERE if missing else (*ANYWHERE, IPVS)
    measured = [*turns(candidates, offer, options.rounds, run.progress.update)]
    return report(measured, candidates, missing, options)


def report(
    measured: Sequence[Turn], candidates: Sequence[Candidate], missing: str | None,
    options: argparse.Namespace,
) -> Report:  # fmt: skip
    """Ratios are of one round each; what counts is their median. `missing`: why IPVS is."""
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            Check(f"CPU time of a packet at XDP to that of {NAT.name}, at most 1 / {TIMES:g}",
                  rounds.cost(XDP, NAT, TIMES), 0, 1 / TIMES),
            Check("packets that were sent and did not come to the far end",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={
            "packets_per_s_a_core": {
                each.name: 1e9 / rounds.ns_per_packet(each) for each in candidates},
            "skipped": {IPVS.name: missing} if missing else {},
        },
        figure=draw(rounds, candidates),
        caption=caption(options, missing),
        tables=[costs_table(rounds, candidates)],
    )  # fmt: skip


def costs_table(rounds: Rounds, candidates: Sequence[Candidate]) -> Table:
    """A row for each contender."""
    rows = []
    for each in candidates:
        ratios = rounds.ratios(each, NAT)
        rows.append((
            each.name, rounds.ns_per_packet(each), 1e3 / rounds.ns_per_packet(each),
            statistics.median(ratios), min(ratios), max(ratios), PUBLISHED.get(each, ""),
        ))  # fmt: skip
    columns = ("shared out by", "ns", "Mpackets/s", f"to {NAT.name}", "least", "most",
               "paper (to IPVS)")  # fmt: skip
    return table("What a packet costs, and how many a core shares out", columns, rows)


def draw(rounds: Rounds, candidates: Sequence[Candidate]) -> Figure:
    """How many packets a core shares out, beside nftables' NAT."""
    figure, panels = plots.figure(1)
    draw_ratios(panels[0], rounds, candidates, NAT, PUBLISHED)
    panels[0].set_xlabel(f"Packets that a core shares out / {NAT.name}")
    return figure


def caption(options: argparse.Namespace, missing: str | None) -> str:
    """What the figure shows."""
    ipvs = f"IPVS is not among them: {missing}." if missing else "IPVS writes those, too."
    return (
        f"Packets of {FLOWS:,} connections that a core shares out among {REALS} reals, as a "
        f"multiple of nftables' NAT: medians of {options.rounds} rounds of {options.packets:,} "
        "packets, whiskers from the least to the most. Packets are live frames of the kernel's own "
        "test run, dropped at the far end of a veth: both are part of all bars. There is neither a "
        "card nor a driver, and so no DPDK, which is both. The balancer at XDP writes MAC "
        "addresses (direct server return). The paper's, of its table 3, is of Katran to IPVS, both "
        "with encapsulation. " + ipvs
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, settings.add_options)
