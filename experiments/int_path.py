"""INT-MD hop by hop: does the metadata of each packet equal ground truth?

A flow crosses five switches, which write metadata into each packet (INT-MD): ports, hop latency,
queue length and timestamps. On each link, Poisson traffic shares the link with the flow. The load
increases from link to link. The last switch reports each packet to the collector. Captures of the
switch ports are ground truth: they show when the packet arrived and left, and how many earlier
packets had not left when it arrived. All values must be equal to ground truth, to the microsecond
and the packet. In real time, any queue length between the arrival of the packet and its reception
by the switch is correct. Two checks do not use captures of switches. No time may precede the send
call of the sender or follow the timestamp of the receiver. The time between the kernel timestamps
on both hosts must equal the sum of hop latencies, link latencies and the latency of the last link,
which INT does not measure. On bmv2, a capacity probe determines the lower rates, and links are
behind the switches. Timestamps must lie within the time that packets spent in bmv2, allowing for
the known clock error. Queues may not exceed the number of other packets in bmv2. In a second
network, the clocks of switches differ, and traffic in both directions must reveal the offsets. In a
third network, three flows have a DSCP of their own: one crosses more switches than its hop limit,
one meets an MTU that is too small, and one uses a checksum complement. Captures must show the E and
M bits, correct checksums and the port utilization.

Claim: Ports, times and queue lengths that INT measures for each packet at five switches equal
ground truth, to the microsecond and the packet.

Published: INT v2.1 (P4.org, 2020): node, ports, hop latency, queue occupancy and ingress time of
each hop, 4 or 8 bytes each. The standard leaves units open; Telemark uses microseconds and packets.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.int import on_bmv2
from experiments.shared.int.clock_offset import check_clocks, make_clocks_table, measure_crossed
from experiments.shared.int.end_to_end import Accounts, Interval, behind, handed_over, read_accounts
from experiments.shared.int.limits import measure_limits
from experiments.shared.int.live import show_queues
from experiments.shared.int.reports import (
    KeepingCollector,
    Kept,
    ReportedHops,
    expected_path,
    reported_by,
)
from experiments.shared.int.truth import SwitchTransit, around, read_passages
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from telemark.traffic.patterns import Poisson
from topologies.basic import ParkingLot

PATH = ("s1", "s2", "s3", "s4", "s5")
# load of the link after each switch, including the watched flow with INT
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
RATE_BPS, DELAY_US, QUEUE = 20_000_000, 500, 1000
WATCHED_BYTES, CROSS_BYTES = 200, 1000
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip
HOP_BYTES, INT_BYTES = 32, 16  # bytes that each switch pushes; bytes that are added once per packet
LAST_LINK_NS = WATCHED_BYTES * 8 * 10**9 // RATE_BPS + DELAY_US * 1000  # without INT
BEFORE_S = 0.1  # time for queues to reach their steady state before the watched flow begins
QUANTITIES = ("arrival (us)", "departure (us)", "latency (us)", "queue (packets)")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N",
        help="packets of the watched flow (default: 2000)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "the watched flow")
    cli.add_program_option(parser, "p4src/int/int.p4")
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Outcome:
    """Reports and ground truth; lists are in the order of the path."""

    reported: ReportedHops
    expected_path: list[dict[str, int]]
    truth: list[SwitchTransit]
    record: FlowRecord
    accounts: Accounts
    kept: Kept
    accounting: PacketAccounting
    # The last three fields are for bmv2 only. They are the clock offset of each switch and the
    # error of this offset (us), the times at which packets entered and left bmv2, and how many
    # other packets for the same port were in bmv2.
    clocks: dict[str, tuple[int, float]] | None
    inside: list[Interval]
    ahead: list[NDArray[np.int64]]

    def measured(self, hop: int) -> dict[str, NDArray[np.int64]]:
        """Return the values that a switch reported for each packet; the keys are QUANTITIES."""
        hops = self.reported.hops[:, hop]
        fields = (("ingress_ns", 1000), ("egress_ns", 1000), ("latency_ns", 1000), ("occupancy", 1))
        return {
            what: hops[field].astype(np.int64) // unit
            for what, (field, unit) in zip(QUANTITIES, fields, strict=True)
        }

    def true(self, hop: int) -> dict[str, Interval]:
        """Return the bounds of each true value; the keys are QUANTITIES."""
        truth = self.truth[hop]
        if self.clocks is not None:
            return self._true_on_bmv2(hop, 1000 * self.clocks[PATH[hop]][1])
        arrived_us, left_us = truth.arrived_ns // 1000, truth.left_ns // 1000
        exact = {what: (us, us) for what, us in zip(
            QUANTITIES, (arrived_us, left_us, left_us - arrived_us), strict=False
        )}  # fmt: skip
        return exact | {QUANTITIES[-1]: (truth.min_queued, truth.max_queued)}

    def _true_on_bmv2(self, hop: int, error_ns: float) -> dict[str, Interval]:
        """Return the bounds of true values on bmv2.

        bmv2 timestamps packets at any time while they are inside bmv2.
        """
        into_ns, out_ns = self.inside[hop]
        none = np.zeros_like(into_ns)
        stamps = (
            ((into_ns - error_ns) // 1000).astype(np.int64),
            ((out_ns + error_ns) // 1000).astype(np.int64),
        )
        times = dict.fromkeys(QUANTITIES[:2], stamps)
        return times | dict(zip(
            QUANTITIES[2:], ((none, (out_ns - into_ns) // 1000 + 1), (none, self.ahead[hop])),
            strict=True,
        ))  # fmt: skip


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.packets = options.packets or (400 if options.quick else 2000)
    options.slower = await find_slowdown(options, run)
    outcome = await measure(options, run)
    crossed = await measure_crossed(options, run, delay_us=DELAY_US)
    limits = await measure_limits(options, run, DELAY_US)
    return Report(
        samples=make_samples(outcome),
        checks=[*make_checks(outcome), *check_clocks(crossed), *limits],
        metrics=make_metrics(outcome),
        figure=draw(outcome),
        caption=caption(options),
        tables=[
            summary_table(outcome),
            make_accounts_table(outcome.accounts),
            make_clocks_table(crossed),
        ],
    )


async def find_slowdown(options: argparse.Namespace, run: Run) -> float:
    """Return the factor by which rates must be lower than on minip4."""
    topo = ParkingLot(len(PATH))
    options.slower = 1.0
    return await on_bmv2.slowdown(
        topo, options.program, make_domain, make_flows(topo, options), run,
        max_delay_us=on_bmv2.INT_DELAY_US,
    )  # fmt: skip


def make_domain(net: Network) -> Domain:
    """Return the INT domain that reports the watched flow."""
    flow = WatchedFlow(net.host("h1").IP(), net.host("h2").IP(), instructions=WANTED)
    return Domain("collector", [flow])


async def measure(options: argparse.Namespace, run: Run) -> Outcome:
    """Send the flow through the INT domain; return reports and ground truth."""
    topo = ParkingLot(
        len(PATH), rate_bps=round(RATE_BPS / options.slower), delay_us=DELAY_US, queue_packets=QUEUE
    )
    watched, *cross = make_flows(topo, options)
    stamped = options.time == "real" and run.target != "bmv2"
    clocks = None
    with Network(
        topo, run, program=options.program, stamp_log=stamped, switch_options=cpu_ports(topo)
    ) as net:
        collector = net.run_application("collector", KeepingCollector())
        async with connections(net) as switches:
            if net.has_panels:
                clocks = await on_bmv2.find_clocks(switches, run.clock)
            offsets_us = {name: offset_us for name, (offset_us, _) in (clocks or {}).items()}
            await configure(net, switches, make_domain(net), offsets_us)
            async with Traffic(net, [watched, *cross]) as traffic:
                records = await traffic.finish()
    truth = read_passages(net, watched, PATH, stamped=stamped)
    if run.display is not None:
        ends = zip(PATH, [*PATH[1:], watched.destination], truth, strict=True)
        show_queues(run.display, {f"{near} to {far}": transit for near, far, transit in ends})
    reported, record = reported_by(net, collector.result, PATH, truth[-1]), records[watched.id]
    inside = on_bmv2.read_inside(net, watched, PATH) if clocks else []
    if clocks:
        unseen = on_bmv2.unseen(truth[0], inside, record, clocks)
    elif stamped:
        unseen = behind(handed_over(net, watched, PATH[-1]), truth[-1])
    else:
        unseen = (np.full(watched.count, LAST_LINK_NS),) * 2
    return Outcome(
        reported=reported,
        expected_path=expected_path(net, watched, PATH),
        truth=truth,
        record=record,
        accounts=read_accounts(reported, truth, record, unseen),
        kept=collector.result,
        accounting=PacketAccounting.from_network(net, records),
        clocks=clocks,
        inside=inside,
        ahead=[on_bmv2.read_ahead(net, switch, after, watched)
               for _, switch, after in around(watched, PATH)] if clocks else [],
    )  # fmt: skip


def make_flows(topo: ParkingLot, options: argparse.Namespace) -> list[Flow]:
    """Return the watched flow and the cross traffic that gives each link its load."""
    rate_pps, link_bps = options.rate / options.slower, RATE_BPS / options.slower
    watched = Flow(1, "h1", "h2", rate_pps, options.packets, WATCHED_BYTES, after_s=BEFORE_S)
    lasts_s = BEFORE_S + options.packets / rate_pps
    flows = [watched]
    for hop, (load, ends) in enumerate(zip(LOADS, topo.crossings, strict=True), start=1):
        pushed = INT_BYTES + hop * HOP_BYTES if hop < len(PATH) else 0
        free_bps = load * link_bps - rate_pps * (WATCHED_BYTES + pushed) * 8
        if free_bps <= 0:
            limit = load * RATE_BPS / 8 / (WATCHED_BYTES + pushed)
            raise TestbedError(
                f"--rate {options.rate}: with INT, this exceeds the load of a link; use less "
                f"than {limit:.0f}"
            )
        cross_pps = free_bps / 8 / CROSS_BYTES
        count = max(round(cross_pps * lasts_s), 1)
        flows.append(Flow(1 + hop, *ends, cross_pps, count, CROSS_BYTES, pattern=Poisson()))
    return flows


def make_checks(outcome: Outcome) -> list[Check]:
    """Return all checks of the first network."""
    return [*check_reports(outcome), *check_hops(outcome), *outcome.accounting.checks()]


def check_reports(outcome: Outcome) -> list[Check]:
    """Check that each packet that left the path has one report, with the right path."""
    reported, left = outcome.reported, outcome.truth[-1].passed
    sources = outcome.kept.findings.sources
    routed = np.logical_and.reduce(
        [reported.hops[:, hop][what] == value
         for hop, way in enumerate(outcome.expected_path) for what, value in way.items()]
    )  # fmt: skip
    lacking = int((sources["lost"] + sources["missing"]).sum())
    received = outcome.record.received["sequence"]
    in_order = np.sum(received == np.arange(len(received)))
    return [
        Check("packets received in order", in_order, len(left)),
        Check("packets without a report", int(np.count_nonzero(left & ~reported.is_reported)), 0),
        Check("reports", len(outcome.kept.reports), int(np.count_nonzero(left))),
        Check("missing report sequence numbers", lacking, 0),
        Check("malformed reports", outcome.kept.findings.parse_errors.total(), 0),
        Check(
            "packets with wrong path",
            np.sum(reported.is_reported & ~routed),
            0,
        ),
    ]


def check_hops(outcome: Outcome) -> list[Check]:
    """Check the max error of each quantity at each switch, compared with ground truth."""
    checks = []
    for hop, switch in enumerate(PATH):
        measured = outcome.measured(hop)
        for what, (low, high) in outcome.true(hop).items():
            errors = (measured[what] - np.clip(measured[what], low, high))[
                outcome.reported.is_reported
            ]
            largest = abs(errors).max(initial=0)
            checks.append(Check(f"{switch}: max error of {what}", largest, 0))
    return [*checks, check_time_order(outcome), *check_accounts(outcome)]


def check_accounts(outcome: Outcome) -> list[Check]:
    """Check that hop and link latencies add up to the host-to-host delay.

    The statistics of the collector must add up, too.
    """
    accounts = outcome.accounts
    sums = [
        hop[what]["sum"]
        for flow in outcome.kept.findings.flows
        for hop in flow["path"][: flow["hops"]]
        for what in ("latency_ns", "link_ns")
    ]
    return [
        Check("packets with a residual other than the last link",
              accounts.unaccounted_frames, 0),
        Check("sum of hop and link latencies in the collector (us)",
              sum(sums) / 1000, (accounts.hops.sum() + accounts.links.sum()) / 1000),
    ]  # fmt: skip


def check_time_order(outcome: Outcome) -> Check:
    """Check that the times of each packet increase from sender to switches to receiver."""
    sent, received = outcome.record.sent, outcome.record.received
    by_sequence = sent["sent_ns"][np.argsort(sent["sequence"])].astype(np.int64) // 1000
    stamps = [outcome.measured(hop)[what] for hop in range(len(PATH)) for what in QUANTITIES[:2]]
    sequences = received["sequence"].astype(np.int64)
    times_us = np.array([
        by_sequence[sequences], *(stamp[sequences] for stamp in stamps),
        received["received_ns"].astype(np.int64) // 1000,
    ])  # fmt: skip
    off_us = max((error_us for _, error_us in (outcome.clocks or {}).values()), default=0)
    wrong = (
        np.any(np.diff(times_us, axis=0) < -2 * off_us, axis=0)
        & outcome.reported.is_reported[sequences]
    )
    return Check("packets with timestamps out of order", np.sum(wrong), 0)


def make_samples(outcome: Outcome) -> list[dict[str, object]]:
    """Return a row for each packet at each switch."""
    rows = []
    for hop, switch in enumerate(PATH):
        measured, true = outcome.measured(hop), outcome.true(hop)
        columns = {
            "packet": np.arange(len(outcome.reported.is_reported)),
            "latency_us": measured["latency (us)"],
            "true_latency_us": true["latency (us)"][0],
            "queue_packets": measured["queue (packets)"],
            "min_queue_packets": true["queue (packets)"][0],
            "max_queue_packets": true["queue (packets)"][1],
        }
        for values in zip(*(column.tolist() for column in columns.values()), strict=True):
            if outcome.reported.is_reported[values[0]]:
                rows.append({"switch": switch, **dict(zip(columns, values, strict=True))})
    return rows


def make_metrics(outcome: Outcome) -> dict[str, object]:
    """Return percentiles at each switch, and the number of packets with several possible queues."""
    metrics: dict[str, object] = {}
    for hop, switch in enumerate(PATH):
        truth, measured = outcome.truth[hop], outcome.measured(hop)
        metrics[switch] = {
            "latency_us": statistics.percentiles(measured["latency (us)"]),
            "queue_packets": statistics.percentiles(measured["queue (packets)"]),
            "uncertain": np.count_nonzero(truth.min_queued != truth.max_queued),
        }
    if outcome.clocks is not None:
        metrics["clock_error_us"] = {n: error_us for n, (_, error_us) in outcome.clocks.items()}
    accounts = outcome.accounts
    metrics["veth_to_veth_us"] = {
        "whole": statistics.percentiles(accounts.whole / 1000),
        "residual": statistics.percentiles(accounts.residual / 1000),
        "residual_without_last_link": statistics.percentiles(
            (accounts.residual - LAST_LINK_NS) / 1000
        ),
    }
    return metrics


def summary_table(outcome: Outcome) -> Table:
    """Return a table with a row per switch."""
    rows = []
    for hop, switch in enumerate(PATH):
        measured = outcome.measured(hop)
        found = [statistics.percentiles(measured[what]) for what in QUANTITIES[2:]]
        rows.append(
            (switch, LOADS[hop], *(each[p] for each in found for p in ("p50", "p99", "max")))
        )
    names = [
        f"{what} {p}" for what in ("latency (us):", "queue:") for p in ("median", "p99", "max")
    ]
    return table("Latency and queue length at each switch", ("switch", "load", *names), rows)


def make_accounts_table(accounts: Accounts) -> Table:
    """Return a table of the components of the host-to-host delay."""
    parts = {
        "veth to veth (us)": accounts.whole,
        "hop latencies": accounts.hops,
        "link latencies": accounts.links,
        "residual (last link, switch thread)": accounts.residual,
    }
    found = {name: statistics.percentiles(ns / 1000) for name, ns in parts.items()}
    rows = [(name, *(each.get(p, np.nan) for p in ("p50", "p99", "max")))
            for name, each in found.items()]  # fmt: skip
    return table("Host-to-host delay", ("", "median", "p99", "max"), rows)


def draw(outcome: Outcome) -> Figure:
    """Draw the CDFs of hop latency and queue length at each switch."""
    figure, (left, right) = plots.figure(2)
    bound, truth = (0, "ground truth") if outcome.clocks is None else (1, "ground truth (max)")
    for hop, switch in enumerate(PATH):
        measured, true = outcome.measured(hop), outcome.true(hop)
        label = f"{switch}, load {LOADS[hop]:g}"
        of_truth = truth if switch == PATH[-1] else ""
        for axes, what, unit in zip((left, right), QUANTITIES[2:], (1000, 1), strict=True):
            draw_shares(
                axes, measured[what] / unit, true[what][bound] / unit, hop, (label, of_truth)
            )
    left.set_xlabel("Hop latency (ms)")
    right.set_xlabel("Queue length (packets)")
    for axes in (left, right):
        axes.set_ylabel("CDF")
        plots.legend(axes, 3)
    return figure


def draw_shares(
    axes: Axes, reported: NDArray[np.float64], true: NDArray[np.float64], number: int,
    labels: tuple[str, str],
) -> None:  # fmt: skip
    """Draw the CDFs of measured and true values."""
    share = np.arange(1, len(reported) + 1) / len(reported)
    axes.step(np.sort(reported), share, marker="", where="post", color=plots.COLOURS[number],
              linewidth=2, label=labels[0])  # fmt: skip
    axes.step(np.sort(true), share, "k:", marker="", where="post", linewidth=0.8,
              label=labels[1])  # fmt: skip


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"(a) Hop latency and (b) queue length at five switches for {options.packets:,} packets of "
        "a flow: measured by INT-MD (colours), and ground truth from captures (dotted); links of "
        f"{RATE_BPS / options.slower / 1e6:g} Mbit/s, each shared with Poisson traffic, "
        f"{plots.runs(1, options.time)}."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
