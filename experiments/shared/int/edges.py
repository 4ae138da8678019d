"""Measurement of one flow by the edges of its hosts and by the switches between them.

Edges and switches count packets by alternate marking for one controller and send INT-XD postcards
to one collector. Ground truth comes from hosts and from captures, link logs and stamp logs of
switches.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.collector import BlockReport
from controllers.ampm.edge import EdgeHop
from controllers.ampm.records import Point
from controllers.ampm.watch import Bounds, Hop, LimitError, Method, check_limits
from controllers.ampm.watch import WatchedFlow as MarkedFlow
from controllers.connection import connection, connections, cpu_ports
from controllers.int.domain import REPORT_PORT, Domain, configure, entries, node_id
from controllers.int.edge import edge_node_id, postcard_edges
from controllers.int.watch import Instruction, Mode, WatchedFlow
from ebpf.edge.ampm import MarkingEdge
from ebpf.edge.postcards import PostcardEdge
from experiments.shared.ampm.stamps import Handling, read_handling
from experiments.shared.ampm.truth import NEVER, Truth, read_truths
from experiments.shared.int.marking import SCHEDULE, mark
from experiments.shared.int.reports import KeepingCollector, Kept
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError, note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord
from topologies.basic import ParkingLot

PROGRAM = "p4src/int/with_ampm.p4"
SWITCHES = ("s1", "s2", "s3")
HOSTS = {"h1": "s1", "h2": "s3"}  # host -> its switch
PLACES = ("h1", *SWITCHES, "h2")
LINKS = [*pairwise(PLACES)]
LOSSY = (
    ("s1", "s2"),
    ("s3", "h2"),
)  # a link between switches, and a link whose loss only the edge of h2 can observe
DELAY_US = 500  # delay of all links except the link of h1
MAX_PACKETS = 1 << 16  # distinct values of the IPv4 identification
WANTED = Instruction.LEVEL_1 | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
UDP, METHODS = 17, Method.DOUBLE
UDP_PAYLOAD = pcap.UDP + 8  # offset in a frame
NUMBER_MASK = (1 << 22) - 1  # bits of the sequence number in the first word of a report
REPORTED_S = 5  # max time until reports reach the collector, on any machine

Times = NDArray[np.int64]  # index: sequence number; NEVER if the packet was not observed


class EdgeReports(NamedTuple):
    """Times in the postcards of one switch or edge, in us."""

    arrived_us: Times
    left_us: Times  # equal to `arrived_us` for an edge, which has only one timestamp
    # times at which the first receiver of the postcards gets them. The first receiver of an edge's
    # postcards is the switch of its host
    known_us: Times
    beyond: int  # number of postcards that are duplicates or about unknown packets


@dataclass(frozen=True)
class Outcome:
    """Reports and ground truth of the flow."""

    blocks: Sequence[BlockReport]
    reported: Mapping[str, EdgeReports]  # switch or edge (of PLACES) -> reports
    truth: Truth
    handling: Mapping[str, Handling]  # switch (of SWITCHES) -> handling
    # link (of LINKS) -> lost sequence numbers, from link logs
    lost: Mapping[tuple[str, str], NDArray[np.int64]]
    record: FlowRecord
    accounting: PacketAccounting

    def is_at(self, place: str) -> NDArray[np.bool_]:
        """Return which packets passed a switch or edge, according to hosts and captures."""
        if place in SWITCHES:
            return self.truth.passed(Point(place, "departures"))
        arrived = self.record.sent if place == "h1" else self.record.received
        found = np.zeros(self.record.flow.count, np.bool_)
        found[arrived["sequence"]] = True
        return found

    def by_block(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of chosen packets in each block."""
        first, within = self.blocks[0].block, self.truth.block[chosen & (self.truth.block >= 0)]
        places = within - first
        kept = places[(places >= 0) & (places < len(self.blocks))]
        return np.bincount(kept, minlength=len(self.blocks))

    def lost_in_blocks(self, link: tuple[str, str]) -> NDArray[np.int64]:
        """Return the number of packets that a link lost in each block, from its log."""
        lost = np.zeros(self.record.flow.count, np.bool_)
        lost[self.lost[link]] = True
        return self.by_block(lost)

    def counted(self, point: Point) -> NDArray[np.int64]:
        """Return the number of packets in each block, as counted by alternate marking."""
        flow = self.record.flow.id
        return np.array([report.known_records(flow)[point].packets for report in self.blocks])


async def measure(flow: Flow, percent: float, blocks: int, program: str, run: Run) -> Outcome:
    """Send the flow over a path whose LOSSY links lose `percent` of it.

    The run is inconclusive if the machine disturbed the run beyond what the methods tolerate.
    """
    topo = ParkingLot(len(SWITCHES), delay_us=DELAY_US)
    with Network(
        topo, run, program=program, name=f"loss-{percent:g}", stamp_log=True,
        switch_options=cpu_ports(topo),
    ) as net, ExitStack() as edges:  # fmt: skip
        for near, far in LOSSY:
            net.switch(near).set_link(net.port(near, far), loss_probability=percent / 100)
        collector = net.run_application("collector", KeepingCollector())
        source, destination = (net.host(name).IP() for name in HOSTS)
        domain = Domain("collector", [
            WatchedFlow(source, destination, UDP, dst_port=flow.port, instructions=WANTED,
                        mode=Mode.EXPORT)
        ])  # fmt: skip
        async with connections(net) as switches:
            await configure(net, switches, domain)
        marked = MarkedFlow(flow.id, source, destination, UDP, dst_port=flow.port, methods=METHODS)
        path = marking_path(net, domain, edges)
        postcards = postcard_edges(net, HOSTS, domain, edges)
        records, reports = await mark(net, {marked: path}, [flow], blocks, run)
        reject_unreported(postcards)
        expected = sum(edge.kinds()["watched"] for edge in postcards.values())
        edges.close()  # returns when edges have sent all their postcards
        await all_reported(net, expected, run)
    nodes = {name: node_id(net, name) for name in SWITCHES}
    nodes |= {name: edge_node_id(net, name) for name in HOSTS}
    outcome = Outcome(
        blocks=reports,
        reported=reports_of_nodes(as_switches_had(net, collector.result, nodes), nodes, flow.count),
        truth=read_truths(net, {flow: SWITCHES}, SCHEDULE, METHODS, records)[flow.id],
        handling=read_handling(net, [flow], SWITCHES)[flow.id],
        lost=lost_by_links(net, flow),
        record=records[flow.id],
        accounting=PacketAccounting.from_network(net, records),
    )
    net.discard()
    reject_late(outcome)
    return outcome


def marking_path(net: Network, domain: Domain, edges: ExitStack) -> list[Hop | EdgeHop]:
    """Return the path of marked packets; the edge of h1 marks, the edge of h2 removes marks."""
    found = []
    for host, switch in HOSTS.items():
        device, namespace = net.interface(host, switch), f"/proc/{net.host(host).pid}/ns/net"
        found.append(EdgeHop(host, edges.enter_context(MarkingEdge(device, namespace))))
    between = [Hop(connection(net, name), entries(net, name, domain)) for name in SWITCHES]
    return [found[0], *between, found[1]]


def reject_unreported(edges: Mapping[str, PostcardEdge]) -> None:
    """Make the run inconclusive if this machine was too slow to send the postcards of edges."""
    for host, edge in edges.items():
        if edge.without_room or edge.unsent:
            note_invalid(
                f"the edge of {host} dropped {edge.without_room} postcards for lack of "
                f"buffer space, and could not send {edge.unsent}"
            )


async def all_reported(net: Network, by_edges: int, run: Run) -> None:
    """Wait until the collector's switch has forwarded all reports of edges and switches.

    Stops waiting after REPORTED_S. Later reports then count as missing in the collector.
    """
    ways = [(near, net.port(near, far)) for near, far in LINKS if near in SWITCHES]
    end_ns = run.clock.now_ns() + REPORTED_S * 10**9
    to_collector = net.port("s1", "collector")
    while run.clock.now_ns() < end_ns:
        by_switches = sum(transmitted(net, *way) for way in ways)
        if transmitted(net, "s1", to_collector) >= by_edges + by_switches:
            return
        await run.clock.sleep_until(run.clock.now_ns() + 20_000_000)


def transmitted(net: Network, switch: str, port: int) -> int:
    """Return the number of frames that a port has transmitted since the network started."""
    counters = net.switch(switch).read_counters()
    return int(counters["ports"][str(port)]["transmitted_packets"])


def lost_by_links(net: Network, flow: Flow) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Return the packets that each link lost, from its log; the link of h1 loses no packets."""
    return {
        (near, far): pcap.read_flow(net.capture(near, far, "lost"), flow).sequence
        if near in SWITCHES else np.zeros(0, np.int64)
        for near, far in LINKS
    }  # fmt: skip


def as_switches_had(net: Network, kept: Kept, nodes: Mapping[str, int]) -> Kept:
    """Return all reports. Set the time of an edge's report to its arrival at the first switch."""
    reports = kept.reports.copy()
    for host, switch in HOSTS.items():
        ours = reports["node"] == nodes[host]
        had_ns = reported_ns(net.capture(switch, host, "in"), nodes[host])
        found = [had_ns.get(int(number), 0) for number in kept.groups["sequence"][ours]]
        reports["time_ns"][ours] = found
    return kept._replace(reports=reports)


def reported_ns(path: Path, node: int) -> dict[int, int]:
    """Return the capture times of the reports of an edge, by sequence number."""
    frames = pcap.read(path)
    words = np.ascontiguousarray(frames.bytes[:, UDP_PAYLOAD : UDP_PAYLOAD + 8]).view(">u4")
    is_report = frames.bytes[:, UDP_PAYLOAD - 6 : UDP_PAYLOAD - 4].view(">u2")[:, 0] == REPORT_PORT
    ours = is_report & (words[:, 1] == node)
    numbers = words[ours, 0] & NUMBER_MASK
    return dict(zip(numbers.tolist(), frames.time_ns[ours].tolist(), strict=True))


def reports_of_nodes(kept: Kept, nodes: Mapping[str, int], count: int) -> dict[str, EdgeReports]:
    """Return the postcards of each switch and edge, by packet.

    The edge of h1 numbers postcards in the packet order of the sender. Postcards of other nodes are
    matched by the packet hash that the collector computes. Raises TestbedError if two packets have
    the same hash.
    """
    first = kept.reports["node"] == nodes["h1"]
    packets, hashes = kept.groups["sequence"][first], kept.reports["packet"][first]
    order = np.argsort(hashes, kind="stable")
    packets, hashes = packets[order].astype(np.int64), hashes[order]
    if len(np.unique(hashes)) < len(np.unique(packets)):
        raise TestbedError(
            "two packets have the same 32-bit hash by chance; run again, or with fewer --blocks"
        )
    return {
        place: _reports_of_place(kept, kept.reports["node"] == node, packets, hashes, count)
        for place, node in nodes.items()
    }


def _reports_of_place(
    kept: Kept, ours: NDArray[np.bool_], packets: NDArray[np.int64], hashes: NDArray[np.uint32],
    count: int,
) -> EdgeReports:  # fmt: skip
    """Return the postcards of one node; `hashes` (ascending) are the hashes of `packets`."""
    reports = kept.reports[ours]
    at = np.searchsorted(hashes, reports["packet"])
    known = at < len(hashes)
    known[known] = hashes[at[known]] == reports["packet"][known]
    known[known] = packets[at[known]] < count
    which, hops = packets[at[known]], kept.hops[reports["first_hop"][known]]
    arrived_us, left_us, known_us = (np.full(count, NEVER, np.int64) for _ in range(3))
    values = hops["ingress_ns"], hops["egress_ns"], reports["time_ns"][known]
    for array, values_ns in zip((arrived_us, left_us, known_us), values, strict=True):
        array[which] = values_ns.astype(np.int64) // 1000
    return EdgeReports(arrived_us, left_us, known_us, len(reports) - len(np.unique(which)))


def reject_late(outcome: Outcome) -> None:
    """Make the run inconclusive if packets took longer than the block length tolerates."""
    truth = outcome.truth
    arrived_ns = [truth.time_ns[Point(name, "arrivals")] for name in SWITCHES]
    took_ns = max(
        int((arrived_ns - truth.sent_ns)[arrived_ns != NEVER].max(initial=0))
        for arrived_ns in [*arrived_ns, truth.received_ns]
    )
    try:
        check_limits(METHODS, SCHEDULE, Bounds(0, took_ns / 1000))
    except LimitError as error:
        note_invalid(str(error))
