"""Packet loss with several simultaneous causes, measured by alternate marking and drop reports.

The first link of the path loses some packets. Each of the other switches drops some packets for a
different reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Hop, Method
from controllers.ampm.watch import WatchedFlow as MarkedFlow
from controllers.connection import connection, connections, cpu_ports
from controllers.int.domain import REPORT_PORT, Domain, configure, entries, node_id
from controllers.int.watch import Denied, Instruction, Mode, WatchedFlow
from controllers.routing import routing_entries, shortest_routes
from experiments.shared.ampm.truth import Truth, read_truths
from experiments.shared.int.marking import SCHEDULE, mark, schedule_on
from experiments.shared.int.on_bmv2 import find_clocks, slowdown
from experiments.shared.int.reports import KeepingCollector, Kept
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError, note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord
from topologies.basic import ParkingLot

PROGRAM = "p4src/int/with_ampm.p4"
PATH = ("s1", "s2", "s3", "s4", "s5")
POINTS = [Point(switch, name) for switch in PATH for name in ("arrivals", "departures")]
SEGMENTS = [*pairwise(POINTS)]
DELAY_US = 500
UDP, NUMBER = 17, 1  # IP protocol; number of the marked flow, which consists of all packets of h1
EVERYWHERE = "10.0.0.0/24"
GROUP_HEADER = 14 + 20 + 8  # offset in the frame of a report
DROP_REPORTS = (1, 2)  # hw_id in drop reports of the ingress, and of the queues
# The last queue is only slightly faster than the flow, so most packets of a burst find it full.
BURST_PPS, QUEUE_RATES, QUEUE_PACKETS = 20_000, 2, 4
# On bmv2 the last queue has room for this fraction of a burst, so that it does not drop packets of
# other flows. Packets of other flows arrive back to back if bmv2 had to wait for a CPU.
BMV2_QUEUE_SHARE = 0.5
# max time for which the last queue is full after a burst, if bmv2 is overloaded
FULL_FOR_NS = 200_000_000


@dataclass(frozen=True)
class Cause:
    """Cause of loss: the segment where it occurs and the reason in drop reports."""

    name: str
    segment: tuple[Point, Point]
    reason: int | None = None  # None for loss on a link, which no switch can report


def inside(switch: str) -> tuple[Point, Point]:
    """Return the segment within a switch."""
    return Point(switch, "arrivals"), Point(switch, "departures")


CAUSES = (
    Cause("lossy link", (Point("s1", "departures"), Point("s2", "arrivals"))),
    Cause("access list", inside("s2"), 80),
    Cause("no route", inside("s3"), 29),
    Cause("time to live", inside("s4"), 26),
    Cause("full queue", inside("s5"), 71),
)
LINK, DENIED, UNROUTED, EXPIRED, FULL = CAUSES


@dataclass(frozen=True)
class Outcome:
    """Measurements and ground truth for one configured loss ratio."""

    blocks: list[BlockReport]
    kept: Kept
    truths: Mapping[int, Truth]  # flow id -> ground truth
    records: Mapping[int, FlowRecord]
    nodes: Mapping[str, int]  # switch -> node id
    in_ports: Mapping[str, int]  # switch -> ingress port on the path
    lost_reports: NDArray[np.void]  # reports that the link to the collector dropped (LOST)
    accounting: PacketAccounting
    schedule: Schedule = SCHEDULE
    # False on bmv2, which does not report packets dropped at full queues
    reports_full_queues: bool = True


LOST = np.dtype([("node", "<u4"), ("sequence", "<u4")])


def make_flows(
    percent: float, rate_pps: float, blocks: int, schedule: Schedule = SCHEDULE
) -> dict[Cause | None, Flow]:
    """Return one flow per cause within a switch, and one flow without such a cause.

    Only the full queue and the link may drop packets of the flow without such a cause.

    The flow of each cause has `percent` of all packets. The flow for the full queue is a burst.
    Raises TestbedError if no packets are left for the last flow.
    """
    lasts_s = (blocks + 1) * schedule.block_us / 1e6
    share = percent / 100
    flows: dict[Cause | None, Flow] = {}
    doomed = (DENIED, UNROUTED, EXPIRED, FULL) if percent else ()
    if len(doomed) * share >= 1:
        raise TestbedError(
            f"--loss {percent:g}: {len(doomed)} switches each drop this percentage of all packets; "
            f"use less than {100 / len(doomed):.0f}"
        )
    for number, cause in enumerate((None, *doomed), start=1):
        packets = rate_pps * lasts_s * (share if cause else 1 - len(doomed) * share)
        count = max(round(packets), 1)
        rate, after_s = count / lasts_s, 0.5 * lasts_s / count
        if cause is FULL:
            rate, after_s = BURST_PPS, 0.5 * lasts_s
        to, ttl = "x5" if cause is UNROUTED else "h2", 1 if cause is EXPIRED else 64
        flows[cause] = Flow(
            number, "h1", to, rate, count, size=100, after_s=after_s, ttl=ttl,
            allow_total_loss=cause is not None,
        )  # fmt: skip
    return flows


def make_domain(net: Network, flows: Mapping[Cause | None, Flow]) -> Domain:
    """Return the INT domain, in which a switch denies one flow and all switches report drops."""
    watched = WatchedFlow(net.host("h1").IP(), EVERYWHERE, mode=Mode.DROPS)
    drops = Instruction.LEVEL_1 | Instruction.INGRESS_TIME
    denied = [Denied(dst_port=flow.port, switches=(DENIED.segment[0].switch,))
              for cause, flow in flows.items() if cause is DENIED]  # fmt: skip
    return Domain("collector", [watched], drops=drops, denied=denied)


async def find_slowdown(rate_pps: float, program: str, run: Run) -> float:
    """Return the factor by which the target, without configured loss, is slower than minip4."""
    flow = Flow(NUMBER, "h1", "h2", rate_pps, round(rate_pps), size=100)
    return await slowdown(
        ParkingLot(len(PATH)), program, lambda net: make_domain(net, {}), [flow], run
    )


async def measure(
    flows: Mapping[Cause | None, Flow], percent: float, blocks: int, program: str, run: Run
) -> Outcome:
    """Send the flows; the first link loses `percent` of the packets and of the reports."""
    sent, schedule = [*flows.values()], schedule_on(run.target)
    topo = ParkingLot(len(PATH), delay_us=DELAY_US)
    on_bmv2 = run.target == "bmv2"
    deflect = [] if on_bmv2 else ["--deflect-on-drop"]
    switch_options = {name: [*cpu, *deflect] for name, cpu in cpu_ports(topo).items()}
    with Network(
        topo, run, program=program, name=f"loss-{percent:g}", switch_options=switch_options,
        expected_drops={"ingress", "miss", "bmv2"} if on_bmv2 else {"ingress", "miss"},
    ) as net:  # fmt: skip
        for near, far in (("s1", "s2"), ("s2", "s1")):
            link = net.port(near, far)
            net.switch(near).set_link(link, loss_probability=percent / 100)
        rate_pps = round(QUEUE_RATES * flows[None].rate_pps)
        depth = QUEUE_PACKETS
        if on_bmv2 and FULL in flows:
            depth = max(round(BMV2_QUEUE_SHARE * flows[FULL].count), 1)
        net.switch("s5").set_queue(net.port("s5", "h2"), depth=depth, rate_pps=rate_pps)
        collector = net.run_application("collector", KeepingCollector())
        domain = make_domain(net, flows)
        async with connections(net) as switches:
            clocks = await find_clocks(switches, run.clock) if on_bmv2 else {}
            offsets_us = {name: offset_us for name, (offset_us, _) in clocks.items()}
            await configure(net, switches, domain, offsets_us)
        marked = MarkedFlow(NUMBER, net.host("h1").IP(), EVERYWHERE, UDP, methods=Method.STEP)
        path = [
            Hop(connection(net, name), make_entries(net, name, domain, offsets_us.get(name, 0)),
                net.switch(name).clock_offset_us)
            for name in PATH
        ]  # fmt: skip
        records, reports = await mark(net, {marked: path}, sent, blocks, run)
    outcome = Outcome(
        blocks=reports,
        kept=collector.result,
        truths=read_truths(net, dict.fromkeys(sent, PATH), schedule, Method.STEP, records),
        records=records,
        nodes={switch: node_id(net, switch) for switch in PATH},
        in_ports={near: net.port(near, before) for before, near in pairwise(("h1", *PATH))},
        lost_reports=lost_reports(net),
        accounting=PacketAccounting.from_network(net, records),
        schedule=schedule,
        reports_full_queues=not on_bmv2,
    )
    if on_bmv2:
        reject_bmv2_losses(net, flows)
    net.discard()
    return outcome


def reject_bmv2_losses(net: Network, flows: Mapping[Cause | None, Flow]) -> None:
    """Make the run inconclusive if bmv2 lost packets that its program had no reason to drop.

    On a loaded machine, bmv2 drops packets that its program has not seen. The last queue may also
    drop packets of other flows while a burst fills it.
    """
    nodes = ["h1", *PATH, "h2"]
    for cause, flow in flows.items():
        end = PATH.index(cause.segment[0].switch) if cause else len(PATH)
        for before, switch, after in [*zip(nodes, PATH, nodes[2:], strict=False)][:end]:
            into, out = (
                pcap.read_flow(net.capture(switch, near, what, inner=True), flow)
                for near, what in ((before, "out"), (after, "in"))
            )
            is_lost = ~np.isin(into.sequence, out.sequence)
            if switch == FULL.segment[0].switch and FULL in flows:
                burst_ns = pcap.read_flow(
                    net.capture(switch, before, "out", inner=True), flows[FULL]
                ).time_ns
                first_ns = int(burst_ns.min(initial=into.time_ns.max(initial=0)))
                since_ns = into.time_ns.astype(np.int64) - first_ns
                is_lost &= (since_ns < 0) | (since_ns > np.ptp(burst_ns) + FULL_FOR_NS)
            if is_lost.any():
                note_invalid(
                    f"bmv2 dropped {np.count_nonzero(is_lost)} packets in {switch} before its "
                    "program saw them"
                )


def make_entries(
    net: Network, switch: str, domain: Domain, offset_us: int
) -> list[fy.P4TableEntry]:
    """Return the table entries of a switch for INT and forwarding.

    Some entries are left out in s3 and s4, so that these switches drop packets.
    """
    found = entries(net, switch, domain, offset_us)
    if switch == UNROUTED.segment[0].switch:
        return without(found, net.host("x5").MAC())
    if switch in (EXPIRED.segment[0].switch, PATH[-1]):  # these switches route and check the TTL
        routes = shortest_routes(net, switch)
        return without(found, net.host("h2").MAC()) + routing_entries(net, switch, routes)
    return found


def without(found: Sequence[fy.P4TableEntry], mac: str) -> list[fy.P4TableEntry]:
    """Return the entries except the one that forwards to this address."""
    return [
        entry for entry in found
        if entry.table_id != "forwarding" or not entry.match
        or entry.match["hdr.ethernet.dst_addr"] != mac
    ]  # fmt: skip


def lost_reports(net: Network) -> NDArray[np.void]:
    """Return the drop reports that the link from s2 to s1 lost (LOST)."""
    frames = pcap.read(net.capture("s2", "s1", "lost")).bytes
    is_report = (frames[:, 36:38] == [*REPORT_PORT.to_bytes(2, "big")]).all(axis=1)
    words = np.ascontiguousarray(frames[is_report, GROUP_HEADER : GROUP_HEADER + 8]).view(">u4")
    lost = np.zeros(len(words), LOST)
    lost["node"], lost["sequence"] = words[:, 1], words[:, 0] & 0x3FFFFF
    return lost[np.isin(words[:, 0] >> 22 & 0x3F, DROP_REPORTS)]


def true_losses(outcome: Outcome, segment: tuple[Point, Point]) -> NDArray[np.int64]:
    """Return the number of packets lost on a segment in each block, from captures."""
    blocks = range(outcome.blocks[0].block, outcome.blocks[-1].block + 1)
    lost = [truth.lost(*segment, blocks) for truth in outcome.truths.values()]
    return np.sum(lost, axis=0, dtype=np.int64)


def marked_losses(outcome: Outcome, segment: tuple[Point, Point]) -> NDArray[np.int64]:
    """Return the number of packets lost on a segment in each block, by alternate marking."""
    known = [report.known_records(NUMBER) for report in outcome.blocks]
    return np.array([each[segment[0]].packets - each[segment[1]].packets for each in known])


@dataclass(frozen=True)
class Reported:
    """Drop reports of one switch."""

    arrived: int
    by_block: NDArray[np.int64]
    # arrived reports with a wrong port, reason or flow, or with a time outside of all blocks
    wrong: int
    in_gaps: int  # lost reports that the collector detected as gaps
    lost: int  # reports that the link lost, from its log
    unseen: int  # lost reports that leave no gap, because no earlier or no later report arrived


def reported(outcome: Outcome, cause: Cause, flows: Mapping[Cause | None, Flow]) -> Reported:
    """Return the drop reports of the switch that drops packets for this cause."""
    blocks = range(outcome.blocks[0].block, outcome.blocks[-1].block + 1)
    switch = cause.segment[0].switch
    node, kept = outcome.nodes[switch], outcome.kept
    ours = kept.reports[kept.reports["node"] == node] if cause.reason else kept.reports[:0]
    hops = kept.hops[ours["first_hop"]]
    right = (ours["reason"] == cause.reason) & (hops["ingress"] == outcome.in_ports[switch])
    # A full queue also drops packets of the flow without a cause within a switch.
    met = [flows[each].port for each in (cause, None if cause is FULL else cause) if each in flows]
    right &= np.isin(ours["key"]["destination_port"], met)
    place = marking_blocks(ours, hops, outcome.schedule) - blocks.start
    right &= (place >= 0) & (place < len(blocks))
    by_block = np.bincount(place[right], minlength=len(blocks))
    gaps = kept.findings.gaps
    lost = outcome.lost_reports["sequence"][outcome.lost_reports["node"] == node]
    arrived = kept.groups["sequence"][kept.reports["node"] == node]
    unseen = lost if not len(arrived) else lost[(lost < arrived.min()) | (lost > arrived.max())]
    in_gaps = int(gaps["count"][gaps["node"] == node].sum())
    wrong = int(np.count_nonzero(~right))
    return Reported(len(ours), by_block, wrong, in_gaps, len(lost), len(unseen))


def marking_blocks(
    reports: NDArray[np.void], hops: NDArray[np.void], schedule: Schedule
) -> NDArray[np.int64]:
    """Return the marking block of each reported packet, from its colour (in the DSCP) and time."""
    times_us = hops["ingress_ns"].astype(np.int64) // 1000
    block, within = np.divmod(times_us, schedule.block_us)
    beside = np.where(within < schedule.block_us // 2, block - 1, block + 1)
    return np.where(reports["dscp"] & 1 == block & 1, block, beside)
