"""One flow, measured by its hosts' edges and by the switches between them: what all of them say.

Edges and switches count by alternate marking for one controller, and send INT-XD postcards to one
collector. What is true, hosts say, and the switches' captures, links and stamp logs.
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
from telemark.errors import InvalidRunError, TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord
from topologies.basic import ParkingLot

PROGRAM = "p4src/int/with_ampm.p4"
SWITCHES = ("s1", "s2", "s3")
HOSTS = {"h1": "s1", "h2": "s3"}  # and the switch that each is at
PLACES = ("h1", *SWITCHES, "h2")
LINKS = [*pairwise(PLACES)]
LOSSY = (("s1", "s2"), ("s3", "h2"))  # between switches; and one that only a host can see behind
DELAY_US = 500  # of all links but that of h1
MOST_PACKETS = 1 << 16  # that their identification tells apart
WANTED = Instruction.LEVEL_1 | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
UDP, METHODS = 17, Method.DOUBLE
UDP_PAYLOAD = pcap.UDP + 8  # its offset in a frame
NUMBER_MASK = (1 << 22) - 1  # of a report's first word
REPORTED_S = 5  # within which reports are with their collector, whatever the machine does

Times = NDArray[np.int64]  # by sequence number; NEVER: it did not happen


class Told(NamedTuple):
    """What the postcards of one place say, us."""

    came_us: Times
    left_us: Times  # of an edge the same: it is one point
    known_us: Times  # when its first receiver had the postcard: of an edge its host's switch
    beyond: int  # postcards of no packet of the flow, or of one that has its postcard already


@dataclass(frozen=True)
class Outcome:
    """What was told of the flow, and what is true."""

    blocks: Sequence[BlockReport]
    told: Mapping[str, Told]  # by PLACES
    truth: Truth
    handling: Mapping[str, Handling]  # by SWITCHES
    lost: Mapping[tuple[str, str], NDArray[np.int64]]  # by LINKS: sequences, of the links' logs
    record: FlowRecord
    accounting: PacketAccounting

    def is_at(self, place: str) -> NDArray[np.bool_]:
        """Which packets were there: as hosts say, and captures of what left switches."""
        if place in SWITCHES:
            return self.truth.passed(Point(place, "departures"))
        came = self.record.sent if place == "h1" else self.record.received
        found = np.zeros(self.record.flow.count, np.bool_)
        found[came["sequence"]] = True
        return found

    def by_block(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of these packets each block has."""
        first, within = self.blocks[0].block, self.truth.block[chosen & (self.truth.block >= 0)]
        places = within - first
        kept = places[(places >= 0) & (places < len(self.blocks))]
        return np.bincount(kept, minlength=len(self.blocks))

    def lost_in_blocks(self, link: tuple[str, str]) -> NDArray[np.int64]:
        """How many packets of each block a link lost, by its log."""
        lost = np.zeros(self.record.flow.count, np.bool_)
        lost[self.lost[link]] = True
        return self.by_block(lost)

    def counted(self, point: Point) -> NDArray[np.int64]:
        """Packets of each block, by alternate marking."""
        flow = self.record.flow.id
        return np.array([report.known_records(flow)[point].packets for report in self.blocks])


async def measure(flow: Flow, percent: float, blocks: int, program: str, run: Run) -> Outcome:
    """Send the flow over a path whose LOSSY links lose so much of it.

    Raises TestbedError where the machine did to it what no method bears.
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
        edges.close()  # what edges have told of is on its way then
        await all_reported(net, expected, run)
    nodes = {name: node_id(net, name) for name in SWITCHES}
    nodes |= {name: edge_node_id(net, name) for name in HOSTS}
    outcome = Outcome(
        blocks=reports,
        told=reports_of_nodes(as_switches_had(net, collector.result, nodes), nodes, flow.count),
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
    """The places of alternate marking: h1's edge marks, and h2's takes the marks off."""
    found = []
    for host, switch in HOSTS.items():
        device, namespace = net.interface(host, switch), f"/proc/{net.host(host).pid}/ns/net"
        found.append(EdgeHop(host, edges.enter_context(MarkingEdge(device, namespace))))
    between = [Hop(connection(net, name), entries(net, name, domain)) for name in SWITCHES]
    return [found[0], *between, found[1]]


def reject_unreported(edges: Mapping[str, PostcardEdge]) -> None:
    """Raise TestbedError where this machine was too slow to send what edges had to tell."""
    for host, edge in edges.items():
        if edge.without_room or edge.unsent:
            raise InvalidRunError(
                f"the edge of {host} found no room for {edge.without_room} "
                f"postcards, and could not send {edge.unsent}"
            )


async def all_reported(net: Network, by_edges: int, run: Run) -> None:
    """Wait until the collector's switch has sent on all that edges and switches report; but not
    for what does not come, which the collector lacks then."""
    ways = [(near, net.port(near, far)) for near, far in LINKS if near in SWITCHES]
    end_ns = run.clock.now_ns() + REPORTED_S * 10**9
    to_collector = net.port("s1", "collector")
    while run.clock.now_ns() < end_ns:
        by_switches = sum(transmitted(net, *way) for way in ways)
        if transmitted(net, "s1", to_collector) >= by_edges + by_switches:
            return
        await run.clock.sleep_until(run.clock.now_ns() + 20_000_000)


def transmitted(net: Network, switch: str, port: int) -> int:
    """Frames that left by a port, so far."""
    counters = net.switch(switch).read_counters()
    return int(counters["ports"][str(port)]["transmitted_packets"])


def lost_by_links(net: Network, flow: Flow) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Which packets each link lost, by its log; that of h1 is a veth's own, which loses none."""
    return {
        (near, far): pcap.read_flow(net.capture(near, far, "lost"), flow).sequence
        if near in SWITCHES else np.zeros(0, np.int64)
        for near, far in LINKS
    }  # fmt: skip


def as_switches_had(net: Network, kept: Kept, nodes: Mapping[str, int]) -> Kept:
    """The same with edges' reports as their hosts' switches had them, sooner than the collector."""
    reports = kept.reports.copy()
    for host, switch in HOSTS.items():
        ours = reports["node"] == nodes[host]
        had_ns = reported_ns(net.capture(switch, host, "in"), nodes[host])
        found = [had_ns.get(int(number), 0) for number in kept.groups["sequence"][ours]]
        reports["time_ns"][ours] = found
    return kept._replace(reports=reports)


def reported_ns(path: Path, node: int) -> dict[int, int]:
    """When a capture has the reports of an edge, by their numbers (Telemetry Report 2.0, 3.2)."""
    frames = pcap.read(path)
    words = np.ascontiguousarray(frames.bytes[:, UDP_PAYLOAD : UDP_PAYLOAD + 8]).view(">u4")
    is_report = frames.bytes[:, UDP_PAYLOAD - 6 : UDP_PAYLOAD - 4].view(">u2")[:, 0] == REPORT_PORT
    ours = is_report & (words[:, 1] == node)
    numbers = words[ours, 0] & NUMBER_MASK
    return dict(zip(numbers.tolist(), frames.time_ns[ours].tolist(), strict=True))


def reports_of_nodes(kept: Kept, nodes: Mapping[str, int], count: int) -> dict[str, Told]:
    """The postcards of each place, by packets.

    h1's edge numbers them as packets leave it, as the sender does; which packet those of others are
    of, the collector's hash of it says. Raises TestbedError for two packets with one hash.
    """
    first = kept.reports["node"] == nodes["h1"]
    packets, hashes = kept.groups["sequence"][first], kept.reports["packet"][first]
    order = np.argsort(hashes, kind="stable")
    packets, hashes = packets[order].astype(np.int64), hashes[order]
    if len(np.unique(hashes)) < len(np.unique(packets)):
        raise TestbedError(
            "two packets have the same hash, of 32 bits, by chance: run it again, or with fewer "
            "--blocks"
        )
    return {
        place: _told(kept, kept.reports["node"] == node, packets, hashes, count)
        for place, node in nodes.items()
    }


def _told(
    kept: Kept, ours: NDArray[np.bool_], packets: NDArray[np.int64], hashes: NDArray[np.uint32],
    count: int,
) -> Told:  # fmt: skip
    """The postcards of one place; `hashes`, ascending, are those of `packets`."""
    reports = kept.reports[ours]
    at = np.searchsorted(hashes, reports["packet"])
    known = at < len(hashes)
    known[known] = hashes[at[known]] == reports["packet"][known]
    known[known] = packets[at[known]] < count
    which, hops = packets[at[known]], kept.hops[reports["first_hop"][known]]
    came_us, left_us, known_us = (np.full(count, NEVER, np.int64) for _ in range(3))
    values = hops["ingress_ns"], hops["egress_ns"], reports["time_ns"][known]
    for array, values_ns in zip((came_us, left_us, known_us), values, strict=True):
        array[which] = values_ns.astype(np.int64) // 1000
    return Told(came_us, left_us, known_us, len(reports) - len(np.unique(which)))


def reject_late(outcome: Outcome) -> None:
    """Raise TestbedError where packets were under way for longer than blocks bear."""
    truth = outcome.truth
    arrived_ns = [truth.time_ns[Point(name, "arrivals")] for name in SWITCHES]
    took_ns = max(
        int((came_ns - truth.sent_ns)[came_ns != NEVER].max(initial=0))
        for came_ns in [*arrived_ns, truth.received_ns]
    )
    try:
        check_limits(METHODS, SCHEDULE, Bounds(0, took_ns / 1000))
    except LimitError as error:
        raise InvalidRunError(str(error)) from None
