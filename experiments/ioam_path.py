"""IOAM node by node: does the data of P4 switches and Linux routers equal ground truth?

Packets alternately cross three P4 switches and two Linux routers. The first switch inserts IOAM
options into IPv6 hop-by-hop headers (RFC 9197, 9326, 9486), in place or in an outer IPv6 header
(RFC 2473). The Linux kernel and the switches add node data. The last switch removes the options,
and reports them to a collector. Six kinds of packets have different options: all twelve defined
fields, undefined fields, opaque state snapshots, too little space, an incremental trace option, and
direct export. Packets with all fields, and those with snapshots, also have an edge-to-edge option.
Packets come in bursts, so that queues build up. Captures of the switch ports are ground truth. All
values of switches must be equal to it, to the microsecond and the packet. In real time, any queue
length between the arrival of the packet and its reception by the switch is correct. A timestamp of
Linux must lie between the times at which the switch before the router sent the packet and the
switch behind it received the packet. Ids, ports, hop limits, flags, and fields that a node does not
know must be exact at both kinds of nodes. Each packet must leave the domain as it came, apart from
MAC addresses and the hop limit. In virtual time, hosts run no kernel, so all five nodes are P4
switches. On bmv2, timestamps must lie within the time that packets spent in bmv2, allowing for the
known clock error.

Claim: All IOAM data of P4 switches and of Linux routers on one path equal ground truth, and no IOAM
leaves the domain.

Published: RFC 9197 (2022) defines IOAM data fields, and Linux 5.15 (2021) implements transit nodes
for pre-allocated trace options. Neither has published measurements.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import finsy as fy
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from controllers.connection import connections, cpu_ports
from controllers.ioam.domain import REPORT_PORT, configure, events
from controllers.ioam.linux import missing
from experiments.shared.int.on_bmv2 import find_clocks
from experiments.shared.ioam.agreement import (
    Errors,
    Pair,
    Traced,
    check_exports,
    check_frames,
    check_nodes,
    check_sequences,
)
from experiments.shared.ioam.hosts import FrameKeeper, ReportKeeper
from experiments.shared.ioam.live import show_truth
from experiments.shared.ioam.path import (
    KINDS,
    TracedPath,
    configure_routers,
    ids,
    make_domain,
    make_packets,
    unix_offset_ns,
)
from experiments.shared.ioam.truth import read_truth
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

# Rates of the links after the nodes. They decrease, so that packets wait at each switch. Linux
# routers have no rate limit.
RATES_BPS = (20e6, 16e6, 12e6, 9e6, 4e6)
DELAY_US, QUEUE = 500, 1000
BEFORE_S, AFTER_S = 0.2, 0.5  # time before the first packet, and for the last one to arrive
MODES = {"in place": False, "tunnel": True}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N",
        help="packets per network (default: 2000)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "all packets together")
    cli.add_program_option(parser, "p4src/ioam/ioam.p4")
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Outcome:
    """Reports and ground truth of one network, and the counters of its switches."""

    mode: str
    traced: Traced
    events: Mapping[str, Mapping[str, int]]
    accounting: PacketAccounting


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.packets = options.packets or (400 if options.quick else 2000)
    if options.packets > 1 << 20:
        raise TestbedError(f"--packets {options.packets}: expected at most {1 << 20}")
    has_linux = options.time == "real"
    if has_linux and (problem := missing()):
        raise TestbedError(f"ioam_path: {problem}; or use --time virtual")
    outcomes, errors = [], []
    for mode in MODES:
        outcomes.append(await measure(options, run, mode, has_linux=has_linux))
        errors.append(check_nodes(outcomes[-1].traced))
    checks = [check for outcome, found in zip(outcomes, errors, strict=True)
              for check in make_checks(outcome, found)]  # fmt: skip
    return Report(
        samples=[row for found, outcome in zip(errors, outcomes, strict=True)
                 for row in found.samples(outcome.mode)],
        checks=checks,
        metrics=make_metrics(outcomes, errors),
        figure=draw(outcomes[0], errors[0]),
        caption=caption(options, has_linux=has_linux),
        tables=[summary_table(outcomes[0], errors[0])],
    )  # fmt: skip


async def measure(options: argparse.Namespace, run: Run, mode: str, *, has_linux: bool) -> Outcome:
    """Send packets through the domain; return reports and ground truth."""
    topo = TracedPath(has_linux=has_linux, rates_bps=RATES_BPS, delay_us=DELAY_US,
                      queue_packets=QUEUE)  # fmt: skip
    stamped = options.time == "real" and run.target != "bmv2"
    is_real = options.time == "real"
    with Network(
        topo, run, program=options.program, name=mode.replace(" ", "-"), stamp_log=stamped,
        switch_options=cpu_ports(topo),
    ) as net:  # fmt: skip
        packets = make_packets(options.packets, options.rate, net.seed)
        receiver = net.run_application("h2", FrameKeeper())
        collectors = [net.run_application(f"c{name[1:]}", ReportKeeper(REPORT_PORT))
                      for name in topo.switches()]  # fmt: skip
        async with connections(net) as switches:
            clocks = await find_clocks(switches, run.clock) if net.has_panels else {}
            unix_ns = unix_offset_ns() if is_real else 0
            offsets_us = {
                name: (clocks[name][0] if clocks else 0) + unix_ns // 1000 for name in switches
            }
            if has_linux:
                configure_routers(net, topo)
            domain = make_domain(net, topo, has_tunnel=MODES[mode])
            await configure(net, switches, domain, offsets_us)
            begin_ns = run.clock.now_ns() + round(BEFORE_S * 1e9)
            times_ns = (begin_ns + packets.due_ns).tolist()
            net.send_frames("h1", times_ns, packets.frames)
            await run.clock.sleep_until(times_ns[-1] + round(AFTER_S * 1e9))
            counts = await read_events(switches)
        after_ns = unix_offset_ns() if is_real else 0
    path = topo.path
    error_ns = round(1000 * max(error for _, error in clocks.values())) if clocks else None
    around = zip(["h1", *path[:-1]], path, [*path[1:], "h2"], strict=True)
    traced = Traced(
        path=path,
        switches=topo.switches(),
        ids=[ids(net, *each) for each in around],
        packets=packets,
        reports=[report for each in collectors for report in each.result],
        received=receiver.result,
        truth=read_truth(net, path, options.packets, stamped=stamped, clock_error_ns=error_ns),
        offset_us=unix_ns // 1000,
        offset_ns=(min(unix_ns, after_ns), max(unix_ns, after_ns)),
        has_tunnel=MODES[mode],
    )
    if run.display is not None and not has_linux:  # captures do not show queues of Linux
        show_truth(run.display, path, traced.truth)
    return Outcome(mode, traced, counts, PacketAccounting.from_network(net, {}))


async def read_events(switches: Mapping[str, fy.Switch]) -> dict[str, dict[str, int]]:
    """Return the nonzero event counts of each switch."""
    found = await asyncio.gather(*map(events, switches.values()))
    return {name: {event: count for event, count in counts.items() if count}
            for name, counts in zip(switches, found, strict=True)}  # fmt: skip


def make_checks(outcome: Outcome, errors: Errors) -> list[Check]:
    """Return all checks of one network."""
    traced = outcome.traced
    overflowed = int(np.sum(traced.packets.kinds == _kind("overflow")))
    routers = len(traced.path) - len(traced.switches)
    expected: dict[str, dict[str, int]] = {name: {} for name in traced.switches}
    # the first node without space is a switch
    if overflowed:
        expected[traced.path[2]] = {"overflowed": overflowed}
    checks = [
        *check_frames(traced),
        *check_exports(traced),
        *check_sequences(traced),
        *errors.checks(),
        Check("switches with unexpected events",
              sum(outcome.events[name] != found for name, found in expected.items()), 0),
    ]  # fmt: skip
    return [
        *(replace(check, name=f"{outcome.mode}: {check.name}") for check in checks),
        # a router forwards each packet, and no application claims it there
        *outcome.accounting.checks(
            f"{outcome.mode}: accounting", unclaimed=routers * len(traced.packets.frames)
        ),
    ]


def _kind(name: str) -> int:
    return [kind.name for kind in KINDS].index(name)


def make_metrics(outcomes: Sequence[Outcome], errors: Sequence[Errors]) -> dict[str, object]:
    """Return the number of packets per kind, and percentiles of the delay at each node."""
    metrics: dict[str, object] = {}
    for outcome, found in zip(outcomes, errors, strict=True):
        counts = np.bincount(outcome.traced.packets.kinds, minlength=len(KINDS))
        metrics[outcome.mode] = {
            "packets": {kind.name: int(n) for kind, n in zip(KINDS, counts, strict=True)},
            "reports": len(outcome.traced.reports),
            "transit_delay_us": {node: statistics.percentiles(found.delay_us[node][0])
                                 for node in outcome.traced.switches},
        }  # fmt: skip
    return metrics


def summary_table(outcome: Outcome, errors: Errors) -> Table:
    """Return a table with a row per node."""
    rows = []
    for node in outcome.traced.path:
        delays = errors.delay_us[node][0]
        queues = errors.queue[node][0]
        known = node in outcome.traced.switches
        delay = statistics.percentiles(delays) if known else {}
        queue = statistics.percentiles(queues) if known else {}
        rows.append((
            node, "P4 switch" if known else "Linux", errors.values[node], errors.mismatches[node],
            *(found.get(p, "-") for found in (delay, queue) for p in ("p50", "max")),
        ))  # fmt: skip
    return table(
        "Data of each node (in place)",
        ("node", "kind", "values", "mismatches", "delay (us): median", "max", "queue: median",
         "max"), rows,
    )  # fmt: skip


def draw(outcome: Outcome, errors: Errors) -> Figure:
    """Draw the CDFs of the delay at each switch, and of the time since the first node."""
    figure, (left, right) = plots.figure(2)
    for number, node in enumerate(outcome.traced.path):
        colour = plots.COLOURS[number]
        truth = "ground truth" if node == outcome.traced.path[-1] else ""
        if node in outcome.traced.switches:
            _cdf(left, errors.delay_us[node], colour, (node, truth))
        if number:
            label = node if node in outcome.traced.switches else f"{node} (Linux)"
            # a router and the switch behind it have almost the same times
            width = 2 if node in outcome.traced.switches else 5
            _cdf(right, errors.since_first_us[node], colour, (label, truth), width)
    left.set_xlabel("Transit delay (ms)")
    right.set_xlabel("Time since the first node (ms)")
    for axes in (left, right):
        axes.set_ylabel("CDF")
        plots.legend(axes, 3)
    return figure


def _cdf(
    axes: Axes, values_us: Pair, colour: str, labels: tuple[str, str], width: float = 2
) -> None:  # fmt: skip
    """Draw the CDFs of measured and true values, in ms."""
    measured, true = (np.sort(each / 1000) for each in values_us)
    share = np.arange(1, len(measured) + 1) / len(measured)
    axes.step(measured, share, marker="", where="post", color=colour, linewidth=width,
              label=labels[0])  # fmt: skip
    axes.step(true, share, "k:", marker="", where="post", linewidth=0.8, label=labels[1])


def caption(options: argparse.Namespace, *, has_linux: bool) -> str:
    """Return the caption of the figure."""
    nodes = "three P4 switches and two Linux routers" if has_linux else "five P4 switches"
    return (
        f"(a) Transit delay at switches and (b) time since the first node, on a path of {nodes}, "
        f"for {options.packets:,} packets (b: those with all fields): IOAM data (colours), and "
        "ground truth from captures (dotted; for Linux, the middle of the interval); links of "
        f"{RATES_BPS[0] / 1e6:g} to {RATES_BPS[-1] / 1e6:g} Mbit/s, {plots.runs(1, options.time)}."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
