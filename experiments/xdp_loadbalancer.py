"""XDP load balancing: how many packets can a core balance, compared with the kernel's NAT?

The same frames of 4,096 connections to one virtual IP address arrive at a device and are balanced
across 100 backends. Candidates are Maglev hashing at XDP, where each connection stays with its
backend; the NAT of nftables and of iptables, which track connections; a stateless nftables rule
that writes the address of a backend by hash; and IPVS, if the kernel has it. The kernel generates
the packets (BPF_PROG_TEST_RUN with live frames), and a program at their destination counts and
drops them. A run with a missing frame is invalid. The experiment measures CPU time per packet,
including the programs that generate and count the packets.

Claim: A core balances at least 4 times as many packets/s at XDP as with nftables NAT.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), table 3, one core: Katran at XDP 5.2 million
packets/s, 4.2 times the rate of IPVS, both with encapsulation.
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
    BACKENDS,
    IPVS,
    MACS,
    NAT,
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
PUBLISHED = {XDP: 5.16 / 1.24}  # table 3 of the paper; normalized to IPVS, not to NAT
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
    """Return the report; `missing` is the reason why IPVS is missing, if it is."""
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            Check(f"CPU time per packet at XDP (normalized to {NAT.name}), at most 1 / {TIMES:g}",
                  rounds.cost(XDP, NAT, TIMES), 0, 1 / TIMES),
            Check("packets sent but not received at the destination",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={
            "packets_per_s_per_core": {
                each.name: 1e9 / rounds.ns_per_packet(each) for each in candidates},
            "skipped": {IPVS.name: missing} if missing else {},
        },
        figure=draw(rounds, candidates),
        caption=caption(options, missing),
        tables=[costs_table(rounds, candidates)],
    )  # fmt: skip


def costs_table(rounds: Rounds, candidates: Sequence[Candidate]) -> Table:
    """Return a table with a row per candidate."""
    rows = []
    for each in candidates:
        ratios = rounds.ratios(each, NAT)
        rows.append((
            each.name, rounds.ns_per_packet(each), 1e3 / rounds.ns_per_packet(each),
            statistics.median(ratios), min(ratios), max(ratios), PUBLISHED.get(each, ""),
        ))  # fmt: skip
    columns = ("balanced by", "ns", "Mpackets/s", f"vs {NAT.name}", "min", "max",
               "published (vs IPVS)")  # fmt: skip
    return table("CPU time per packet and rate per core", columns, rows)


def draw(rounds: Rounds, candidates: Sequence[Candidate]) -> Figure:
    """Draw the rate per core, normalized to nftables NAT."""
    figure, panels = plots.figure(1)
    draw_ratios(panels[0], rounds, candidates, NAT, PUBLISHED)
    panels[0].set_xlabel(f"Rate per core\n(normalized to {NAT.name})")
    return figure


def caption(options: argparse.Namespace, missing: str | None) -> str:
    """Return the caption of the figure."""
    ipvs = f"Without IPVS: {missing}." if missing else "IPVS does the same."
    return (
        f"Rate per core at which packets of {FLOWS:,} connections are balanced across {BACKENDS} "
        f"backends, normalized to nftables NAT: medians of {options.rounds} rounds of "
        f"{options.packets:,} packets, whiskers from min to max. The kernel generates the packets "
        "(BPF_PROG_TEST_RUN with live frames), and a program behind a veth pair drops them; all "
        "bars include both. There is no NIC and no driver, hence no DPDK. Published: Katran "
        "normalized to IPVS, both with encapsulation (table 3 of the paper). The balancer at XDP "
        "writes MAC addresses (direct "
        "server return). " + ipvs
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, settings.add_options)
