"""Hop by hop with INT: is what it says of each packet what happened to that packet?

A flow crosses five switches, which write into each packet what it met (INT-MD): their ports, how
long it took, how many packets waited in the queue, and when. Poisson traffic shares one link each
with it, more of it from link to link. The last switch reports each packet to the collector. Truth
are captures of the switches' ports: when this packet came and left, and how many of those before it
had not left yet when it came. All must be equal, to the microsecond and the packet; in real time
the queue may be what it was at any time until the switch took the packet in. And without the
switches' captures: no time may be before the sender's call, or after the receiver's stamp; and from
the kernel's stamp at the one host's veth to that at the other's it must have taken what hops and
links took, and the last link, which INT does not see. On bmv2 rates are an eighth, and links lie
behind the switches: their stamps must be of times at which packets were inside, as far as their
clocks are known, and no more may have waited than others were inside. In a second network switches'
clocks are apart, and what flows there and back tell of that must be so. In a third one flows have a
DSCP of their own, more switches than hops, too small an MTU, and a checksum complement: captures
must have the E and M bits, right checksums and the ports' utilisation.

Claim: Ports, times and queues that INT tells of each packet at five switches are what it met, to
the microsecond and the packet.

Published: INT v2.1 (P4.org, 2020): node, ports, hop latency, queue occupancy and ingress time of
each hop, 4 or 8 bytes each; their units are left open: ours are microseconds and packets.
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
from experiments.shared.int.clock_offset import checks_of_clocks, measure_crossed, table_of_clocks
from experiments.shared.int.end_to_end import Accounts, Interval, behind, handed_over, read_accounts
from experiments.shared.int.limits import measure_limits
from experiments.shared.int.reports import KeepingCollector, Kept, Told, reported_by, ways
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
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)  # of each switch's link, with the watched flow and its INT
RATE_BPS, DELAY_US, QUEUE = 20_000_000, 500, 1000
WATCHED_BYTES, CROSS_BYTES = 200, 1000
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip
HOP_BYTES, INT_BYTES = 32, 16  # what each switch pushes; what comes once
LAST_LINK_NS = WATCHED_BYTES * 8 * 10**9 // RATE_BPS + DELAY_US * 1000  # without INT again
BEFORE_S = 0.1  # queues are as full as they become when the watched flow begins
QUANTITIES = ("arrival, us", "departure, us", "latency, us", "queue, packets")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N",
        help="of the watched flow (default: 2000)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "the watched flow")
    cli.add_program_option(parser, "p4src/int/int.p4")


@dataclass(frozen=True)
class Outcome:
    """What was told, and what is true; of hops in the order of the path."""

    told: Told
    ways: list[dict[str, int]]
    truth: list[SwitchTransit]
    record: FlowRecord
    accounts: Accounts
    kept: Kept
    accounting: PacketAccounting
    # On bmv2: what to add to each switch's clock, and how wrong that may be (us); when packets were
    # inside, and behind how many others for their port.
    clocks: dict[str, tuple[int, float]] | None
    inside: list[Interval]
    ahead: list[NDArray[np.int64]]

    def said(self, hop: int) -> dict[str, NDArray[np.int64]]:
        """What a switch said of each packet, by QUANTITIES."""
        hops = self.told.hops[:, hop]
        fields = (("ingress_ns", 1000), ("egress_ns", 1000), ("latency_ns", 1000), ("occupancy", 1))
        return {
            what: hops[field].astype(np.int64) // unit
            for what, (field, unit) in zip(QUANTITIES, fields, strict=True)
        }

    def true(self, hop: int) -> dict[str, Interval]:
        """The least and the most that each of them can be."""
        truth = self.truth[hop]
        if self.clocks is not None:
            return self._true_on_bmv2(hop, 1000 * self.clocks[PATH[hop]][1])
        came_us, left_us = truth.came_ns // 1000, truth.left_ns // 1000
        exact = {what: (us, us) for what, us in zip(
            QUANTITIES, (came_us, left_us, left_us - came_us), strict=False
        )}  # fmt: skip
        return exact | {QUANTITIES[-1]: (truth.min_queued, truth.max_queued)}

    def _true_on_bmv2(self, hop: int, error_ns: float) -> dict[str, Interval]:
        """A bmv2 stamps a packet while it is inside, as far as its clock is known."""
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
    options.slower = on_bmv2.SLOWER if run.target == "bmv2" else 1
    options.packets = options.packets or (400 if options.quick else 2000)
    outcome = await measure(options, run)
    crossed = await measure_crossed(options, run, delay_us=DELAY_US)
    limits = await measure_limits(options, run, DELAY_US)
    return Report(
        samples=samples_of(outcome),
        checks=[*checks_of(outcome), *checks_of_clocks(crossed), *limits],
        metrics=metrics_of(outcome),
        figure=draw(outcome),
        caption=caption(options),
        tables=[
            summary_table(outcome),
            table_of_accounts(outcome.accounts),
            table_of_clocks(crossed),
        ],
    )


async def measure(options: argparse.Namespace, run: Run) -> Outcome:
    """Send the flow through the domain, and hold what came of it beside the truth."""
    topo = ParkingLot(
        len(PATH), rate_bps=RATE_BPS // options.slower, delay_us=DELAY_US, queue_packets=QUEUE
    )
    watched, *cross = flows_of(topo, options)
    stamped = options.time == "real" and run.target != "bmv2"
    clocks = None
    with Network(
        topo, run, program=options.program, stamp_log=stamped, switch_options=cpu_ports(topo)
    ) as net:
        collector = net.run_application("collector", KeepingCollector())
        flow = WatchedFlow(net.host("h1").IP(), net.host("h2").IP(), instructions=WANTED)
        async with connections(net) as switches:
            if net.has_panels:
                clocks = await on_bmv2.find_clocks(switches, run.clock)
            offsets_us = {name: offset_us for name, (offset_us, _) in (clocks or {}).items()}
            await configure(net, switches, Domain("collector", [flow]), offsets_us)
            async with Traffic(net, [watched, *cross]) as traffic:
                records = await traffic.finish()
    truth = read_passages(net, watched, PATH, stamped=stamped)
    told, record = reported_by(net, collector.result, PATH, truth[-1]), records[watched.id]
    inside = on_bmv2.read_inside(net, watched, PATH) if clocks else []
    if clocks:
        unseen = on_bmv2.unseen(truth[0], inside, record, clocks)
    elif stamped:
        unseen = behind(handed_over(net, watched, PATH[-1]), truth[-1])
    else:
        unseen = (np.full(watched.count, LAST_LINK_NS),) * 2
    return Outcome(
        told=told,
        ways=ways(net, watched, PATH),
        truth=truth,
        record=record,
        accounts=read_accounts(told, truth, record, unseen),
        kept=collector.result,
        accounting=PacketAccounting.from_network(net, records),
        clocks=clocks,
        inside=inside,
        ahead=[on_bmv2.read_ahead(net, switch, after, watched)
               for _, switch, after in around(watched, PATH)] if clocks else [],
    )  # fmt: skip


def flows_of(topo: ParkingLot, options: argparse.Namespace) -> list[Flow]:
    """The watched flow; and for each link what brings it up to its load while that is sent."""
    rate_pps, link_bps = options.rate / options.slower, RATE_BPS / options.slower
    watched = Flow(1, "h1", "h2", rate_pps, options.packets, WATCHED_BYTES, after_s=BEFORE_S)
    lasts_s = BEFORE_S + options.packets / rate_pps
    flows = [watched]
    for hop, (load, ends) in enumerate(zip(LOADS, topo.crossings, strict=True), start=1):
        pushed = INT_BYTES + hop * HOP_BYTES if hop < len(PATH) else 0
        free_bps = load * link_bps - rate_pps * (WATCHED_BYTES + pushed) * 8
        if free_bps <= 0:
            most = load * RATE_BPS / 8 / (WATCHED_BYTES + pushed)
            raise TestbedError(
                f"--rate {options.rate}: with INT that is more than the load of a link: take less "
                f"than {most:.0f}"
            )
        cross_pps = free_bps / 8 / CROSS_BYTES
        count = max(round(cross_pps * lasts_s), 1)
        flows.append(Flow(1 + hop, *ends, cross_pps, count, CROSS_BYTES, pattern=Poisson()))
    return flows


def checks_of(outcome: Outcome) -> list[Check]:
    """All of the first network."""
    return [*checks_of_reports(outcome), *checks_of_hops(outcome), *outcome.accounting.checks()]


def checks_of_reports(outcome: Outcome) -> list[Check]:
    """Each packet that left the path has its report, once, and the path in it is its own."""
    told, left = outcome.told, outcome.truth[-1].passed
    sources = outcome.kept.findings.sources
    routed = np.logical_and.reduce(
        [told.hops[:, hop][what] == value
         for hop, way in enumerate(outcome.ways) for what, value in way.items()]
    )  # fmt: skip
    lacking = int((sources["lost"] + sources["missing"]).sum())
    received = outcome.record.received["sequence"]
    in_order = np.sum(received == np.arange(len(received)))
    return [
        Check("packets received in their order", in_order, len(left)),
        Check("packets without a report", int(np.count_nonzero(left & ~told.is_reported)), 0),
        Check("reports, a packet each", len(outcome.kept.reports), int(np.count_nonzero(left))),
        Check("numbers of reports that did not come", lacking, 0),
        Check("reports that are malformed", outcome.kept.findings.parse_errors.total(), 0),
        Check(
            "packets whose path is not the one that they took",
            np.sum(told.is_reported & ~routed),
            0,
        ),
    ]


def checks_of_hops(outcome: Outcome) -> list[Check]:
    """What each switch said of each packet, against what was: the largest error."""
    checks = []
    for hop, switch in enumerate(PATH):
        said = outcome.said(hop)
        for what, (least, most) in outcome.true(hop).items():
            errors = (said[what] - np.clip(said[what], least, most))[outcome.told.is_reported]
            largest = abs(errors).max(initial=0)
            checks.append(Check(f"{switch}: largest error of {what}", largest, 0))
    return [*checks, order_of_times(outcome), *checks_of_accounts(outcome)]


def checks_of_accounts(outcome: Outcome) -> list[Check]:
    """What is told accounts for what the kernels saw; and the collector adds it up so."""
    accounts = outcome.accounts
    sums = [
        hop[what]["sum"]
        for flow in outcome.kept.findings.flows
        for hop in flow["path"][: flow["hops"]]
        for what in ("latency_ns", "link_ns")
    ]
    return [
        Check("packets with a residual that the last link does not explain",
              accounts.unaccounted_frames, 0),
        Check("the collector's sum of hops and links, us",
              sum(sums) / 1000, (accounts.hops.sum() + accounts.links.sum()) / 1000),
    ]  # fmt: skip


def order_of_times(outcome: Outcome) -> Check:
    """No switch had a packet before its sender, or the switch before; none after its receiver."""
    sent, received = outcome.record.sent, outcome.record.received
    by_sequence = sent["sent_ns"][np.argsort(sent["sequence"])].astype(np.int64) // 1000
    stamps = [outcome.said(hop)[what] for hop in range(len(PATH)) for what in QUANTITIES[:2]]
    sequences = received["sequence"].astype(np.int64)
    times_us = np.array([
        by_sequence[sequences], *(stamp[sequences] for stamp in stamps),
        received["received_ns"].astype(np.int64) // 1000,
    ])  # fmt: skip
    off_us = max((error_us for _, error_us in (outcome.clocks or {}).values()), default=0)
    wrong = (
        np.any(np.diff(times_us, axis=0) < -2 * off_us, axis=0)
        & outcome.told.is_reported[sequences]
    )
    return Check("packets whose times are not in order, from host to host", np.sum(wrong), 0)


def samples_of(outcome: Outcome) -> list[dict[str, object]]:
    """A row for each packet at each switch."""
    rows = []
    for hop, switch in enumerate(PATH):
        said, true = outcome.said(hop), outcome.true(hop)
        columns = {
            "packet": np.arange(len(outcome.told.is_reported)),
            "latency_us": said["latency, us"],
            "true_latency_us": true["latency, us"][0],
            "queue_packets": said["queue, packets"],
            "min_queue_packets": true["queue, packets"][0],
            "max_queue_packets": true["queue, packets"][1],
        }
        for values in zip(*(column.tolist() for column in columns.values()), strict=True):
            if outcome.told.is_reported[values[0]]:
                rows.append({"switch": switch, **dict(zip(columns, values, strict=True))})
    return rows


def metrics_of(outcome: Outcome) -> dict[str, object]:
    """Percentiles at each switch; and of how many packets captures do not tell the queue."""
    metrics: dict[str, object] = {}
    for hop, switch in enumerate(PATH):
        truth, said = outcome.truth[hop], outcome.said(hop)
        metrics[switch] = {
            "latency_us": statistics.percentiles(said["latency, us"]),
            "queue_packets": statistics.percentiles(said["queue, packets"]),
            "uncertain": np.count_nonzero(truth.min_queued != truth.max_queued),
        }
    if outcome.clocks is not None:
        metrics["clocks found to, us"] = {
            n: error_us for n, (_, error_us) in outcome.clocks.items()
        }
    accounts = outcome.accounts
    metrics["from veth to veth, us"] = {
        "whole": statistics.percentiles(accounts.whole / 1000),
        "residual": statistics.percentiles(accounts.residual / 1000),
        "residual beyond the last link": statistics.percentiles(
            (accounts.residual - LAST_LINK_NS) / 1000
        ),
    }
    return metrics


def summary_table(outcome: Outcome) -> Table:
    """A row for each switch."""
    rows = []
    for hop, switch in enumerate(PATH):
        said = outcome.said(hop)
        found = [statistics.percentiles(said[what]) for what in QUANTITIES[2:]]
        rows.append(
            (switch, LOADS[hop], *(each[p] for each in found for p in ("p50", "p99", "max")))
        )
    names = [
        f"{what} {p}" for what in ("latency, us:", "queue:") for p in ("median", "p99", "most")
    ]
    return table("What packets met at each switch", ("switch", "load", *names), rows)


def table_of_accounts(accounts: Accounts) -> Table:
    """What the way of the packets is made of."""
    parts = {
        "from veth to veth, us": accounts.whole,
        "hop latencies": accounts.hops,
        "link latencies": accounts.links,
        "residual: the last link, and its switch's thread": accounts.residual,
    }
    found = {name: statistics.percentiles(ns / 1000) for name, ns in parts.items()}
    rows = [(name, *(each.get(p, np.nan) for p in ("p50", "p99", "max")))
            for name, each in found.items()]  # fmt: skip
    return table("From host to host", ("", "median", "p99", "most"), rows)


def draw(outcome: Outcome) -> Figure:
    """What packets met at each switch: how long they took, and how many waited before them."""
    figure, (left, right) = plots.figure(2)
    bound, truth = (0, "truth") if outcome.clocks is None else (1, "at most")
    for hop, switch in enumerate(PATH):
        said, true = outcome.said(hop), outcome.true(hop)
        label = f"{switch}, load {LOADS[hop]:g}"
        of_truth = truth if switch == PATH[-1] else ""
        for axes, what, unit in zip((left, right), QUANTITIES[2:], (1000, 1), strict=True):
            draw_shares(axes, said[what] / unit, true[what][bound] / unit, hop, (label, of_truth))
    left.set_xlabel("Hop latency (ms)")
    right.set_xlabel("Packets that waited in the queue")
    for axes in (left, right):
        axes.set_ylabel("Packets (%)")
        plots.legend(axes, 3)
    return figure


def draw_shares(
    axes: Axes, told: NDArray[np.float64], true: NDArray[np.float64], number: int,
    labels: tuple[str, str],
) -> None:  # fmt: skip
    """What share of the packets has no more than that: as told, and as it was."""
    share = np.arange(1, len(told) + 1) / len(told) * 100
    axes.step(np.sort(told), share, marker="", where="post", color=plots.COLOURS[number],
              linewidth=2, label=labels[0])  # fmt: skip
    axes.step(np.sort(true), share, "k:", marker="", where="post", linewidth=0.8,
              label=labels[1])  # fmt: skip


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"What {options.packets:,} packets of a flow met at five switches, as INT-MD told it of "
        f"each (colours), and as captures tell (dotted); links of "
        f"{RATE_BPS / options.slower / 1e6:g} Mbit/s, each "
        f"shared with Poisson traffic, {plots.runs(1, options.time)}. (a) From arrival to "
        "departure. (b) Packets in the queue when a packet came."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
