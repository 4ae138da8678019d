"""XDP drop rate: how many packets can a core drop at XDP, and at each later hook of the kernel?

The same frames (60-byte UDP packets of 4,096 flows) arrive at a device, first on one core and then
on two. The frames are dropped at XDP, at tc, by nftables at ingress, or by iptables (before
routing, after routing or after connection tracking). A further candidate is a process that receives
frames from an AF_XDP socket. The kernel generates the packets (BPF_PROG_TEST_RUN with live frames),
so there is no sender on another core, no socket and no driver. Each candidate has its own namespace
and counts its drops. A run in which this count differs from the number of sent packets is invalid.
The experiment measures CPU time per packet, including the packet source.

Claim: A core drops at least 3.5 times as many packets/s at XDP as with iptables in the raw table,
and at least 8 times as many as after connection tracking.

Published: Hoiland-Jorgensen et al. (CoNEXT 2018), figure 3, one core: XDP 24 million packets/s, 4.7
times the rate of iptables raw and 13.1 times that of conntrack, with a 100 Gbit/s NIC.
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
from experiments.shared.xdp.dropping import ALL, CANDIDATES, CONNTRACK, FILTER, PORTS, PROGRAMS, RAW
from experiments.shared.xdp.frames import FLOWS, LENGTH, flows
from experiments.shared.xdp.interleaved_rounds import Offer, Rounds, Turn, turns
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS = 1_000_000, 150_000
# Data of figure 3 of the paper: million packets/s on one core and on two cores.
PUBLISHED_MPPS = {ALL: (23.86, 45.51), RAW: (5.05, 10.23), FILTER: (3.32, 6.71),
                  CONNTRACK: (1.82, 3.27)}  # fmt: skip
REACH = (
    (RAW, 3.5),
    (CONNTRACK, 8.0),
)  # min ratio between the drop rates of XDP and of the candidate, for the same rule


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cores = settings.prepare(options, PACKETS, QUICK_PACKETS)
    offer = Offer(flows(), options.packets, cores)
    measured = list(turns(CANDIDATES, offer, options.rounds, run.progress.update))
    with load(PROGRAMS) as whole:
        alone = {
            each: run_programs(whole.programs[each], offer.frames, options.packets).ns_per_packet
            for each in ("pass_all", "drop_all", "drop_ports")
        }
    return report(measured, alone, options)


def report(
    measured: Sequence[Turn], alone_ns: Mapping[str, int], options: argparse.Namespace
) -> Report:
    """Return the report. `alone_ns`: CPU time (ns) of each program with the frame generator."""
    rounds = Rounds(measured)
    return Report(
        samples=[turn._asdict() for turn in measured],
        checks=[
            *(Check(f"CPU time per packet at XDP (normalized to {slow.name}), at most "
                    f"1 / {times:g}",
                    rounds.cost(PORTS, slow, times), 0, 1 / times)
              for slow, times in REACH),
            Check("packets sent but not counted as dropped",
                  sum(turn.sent - turn.counted for turn in measured), 0),
        ],
        metrics={
            "program_ns": dict(alone_ns),
            "packets_per_s_per_core": {
                each.name: 1e9 / rounds.ns_per_packet(each) for each in CANDIDATES},
            "speedup_on_two_cores": {
                each.name: rounds.scaling(each) for each in CANDIDATES if rounds.has(each, 2)},
        },
        figure=draw(rounds),
        caption=caption(alone_ns, options),
        tables=[costs_table(rounds)],
    )  # fmt: skip


def costs_table(rounds: Rounds) -> Table:
    """Return a table with a row per candidate."""
    rows = []
    for each in CANDIDATES:
        ratios = rounds.ratios(each, RAW)
        paper = PUBLISHED_MPPS.get(each)
        two = rounds.scaling(each) if rounds.has(each, 2) else ""
        rows.append((
            each.name, rounds.ns_per_packet(each), 1e3 / rounds.ns_per_packet(each),
            statistics.median(ratios), min(ratios), max(ratios),
            paper[0] / PUBLISHED_MPPS[RAW][0] if paper else "", two,
            paper[1] / paper[0] if paper else "",
        ))  # fmt: skip
    columns = ("dropped at", "ns", "Mpackets/s", "vs iptables raw", "min", "max", "published",
               "two cores", "published")  # fmt: skip
    return table("CPU time per packet and drop rate per core", columns, rows)


def draw(rounds: Rounds) -> Figure:
    """Draw the drop rate per core (normalized to iptables raw) and the speedup on two cores."""
    figure, (ratios, scaling) = plots.figure(2)
    published = {each: one / PUBLISHED_MPPS[RAW][0] for each, (one, _) in PUBLISHED_MPPS.items()}
    draw_ratios(ratios, rounds, CANDIDATES, RAW, published)
    ratios.set_xlabel("Drop rate per core\n(normalized to iptables raw)")
    draw_medians(scaling, [rounds.scalings(each) if rounds.has(each, 2) else [np.nan]
                           for each in CANDIDATES], [""] * len(CANDIDATES))  # fmt: skip
    published = {each: two / one for each, (one, two) in PUBLISHED_MPPS.items()}
    draw_published(scaling, CANDIDATES, published)
    scaling.set_xlabel("Drop rate of two cores\n(normalized to one core)")
    return figure


def caption(alone_ns: Mapping[str, int], options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        "Drop rate, computed from CPU time: (a) per core, normalized to iptables raw, (b) on two "
        f"cores, normalized to one core. Bars are medians of {options.rounds} rounds of "
        f"{options.packets:,} packets per core ({LENGTH} bytes, {FLOWS:,} flows), whiskers range "
        "from min to max. The kernel generates the packets (BPF_PROG_TEST_RUN with live frames), "
        "and all bars include the CPU time for this. For XDP by UDP port, the program and the "
        f"frame generator take {alone_ns['drop_ports']} ns, the packet source the rest. There is "
        "no NIC and no driver, hence no DPDK. AF_XDP runs in copy mode, with the process on the "
        "same core, and only on one core. Published: figure 3 of the paper."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, settings.add_options)
