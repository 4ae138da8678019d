"""Networks, monitoring plans, measured losses and ground truth of ampm_multipoint.py."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.clusters import Cluster, Graph, flow_graph, monitoring_links, partition
from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point
from controllers.ampm.watch import Hop, Method, Multipoint, WatchedFlow
from controllers.connection import connection
from controllers.routing import routing_entries, shortest_routes
from experiments.shared.ampm.measurement import UDP
from experiments.shared.ampm.truth import Truth
from telemark.accounting import pcap
from telemark.network import Network
from telemark.traffic.flows import Flow
from topologies.leaf_spine import FatTree, LeafSpine

UNKNOWN = np.iinfo(np.int64).min
ALL = 0  # number of the flow that contains the packets of all senders
METHODS = Method.STEP | Method.HASHED
LINK = {"delay_us": 1000, "jitter_us": 500}


@dataclass(frozen=True)
class Fabric:
    """A topology, and the flow that is measured: from one half of its hosts to the other half."""

    make: Callable[..., LeafSpine]
    sources: str  # prefix of the senders
    destinations: str
    bad_link: tuple[str, str]  # this link loses more packets than the others


FABRICS = {
    "leaf-spine": Fabric(
        lambda **link: LeafSpine(leaves=4, spines=2, hosts=2, **link),
        "10.0.0.0/23", "10.0.2.0/23", ("s5", "s3"),
    ),
    "fat-tree": Fabric(
        lambda **link: FatTree(k=4, **link), "10.0.0.0/15", "10.2.0.0/15", ("s17", "s11")
    ),
}  # fmt: skip


def make_topo(fabric: str, loss: float, bad_loss: float) -> LeafSpine:
    """Return a fabric whose links lose the fraction `loss`, except for the bad link."""
    topo = FABRICS[fabric].make(loss_probability=loss, **LINK)
    topo.linkInfo(*FABRICS[fabric].bad_link)["loss_probability"] = bad_loss
    return topo


def halves(topo: LeafSpine) -> tuple[list[str], list[str]]:
    """Return the hosts that send and the hosts that receive."""
    hosts = topo.hosts()
    return hosts[: len(hosts) // 2], hosts[len(hosts) // 2 :]


def graph_of(topo: LeafSpine, flows: Iterable[Flow]) -> Graph:
    """Return the points that these flows may pass; see flow_graph()."""
    found: dict[Point, set[Point]] = {}
    for ends in dict.fromkeys((flow.source, flow.destination) for flow in flows):
        for point, following in flow_graph(
            topo.links(), topo.hosts(), ends[:1], ends[1:]
        ).items():  # fmt: skip
            found.setdefault(point, set()).update(following)
    return found


@dataclass(frozen=True)
class Plan:
    """What the switches count: watched flows with their points, and the clusters between points.

    With `separate`, switches count each flow of a sender separately, so that each link is a cluster
    of its own.
    """

    # flow -> its first, last and middle switches
    switches: Mapping[WatchedFlow, tuple[list[str], list[str], list[str]]]
    clusters: list[Cluster]
    separate: bool = False

    @property
    def measuring(self) -> set[str]:
        """Switches that measure."""
        return {name for ends in self.switches.values() for names in ends for name in names}

    def watched(
        self, hops: Mapping[str, Hop]
    ) -> dict[WatchedFlow, Multipoint[Hop]]:  # fmt: skip
        """Return the watch list for a collector."""
        return {
            flow: Multipoint(*([hops[name] for name in names] for names in ends))
            for flow, ends in self.switches.items()
        }


def make_plan(
    monitoring: str, fabric: str, topo: LeafSpine, net: Network, flows: Sequence[Flow]
) -> Plan:
    """Return the plan of one kind of monitoring."""
    graph = graph_of(topo, flows)
    whole = WatchedFlow(
        ALL, FABRICS[fabric].sources, FABRICS[fabric].destinations, UDP, methods=METHODS
    )
    first, last, middle = _ends(graph, topo, flows)
    if monitoring == "end-to-end":
        points = [Point(name, "departures") for name in first]
        points += [Point(name, "arrivals") for name in last]
        clusters = partition(monitoring_links(graph, points))
        return Plan({whole: (first, last, [])}, clusters)
    links = monitoring_links(graph, graph)
    if monitoring != "link-by-link":
        return Plan({whole: (first, last, middle)}, partition(links))
    switches = {
        WatchedFlow(
            flow.id, net.host(flow.source).IP(), net.host(flow.destination).IP(), UDP,
            dst_port=flow.port, methods=METHODS,
        ): _ends(graph_of(topo, [flow]), topo, [flow])
        for flow in flows
    }  # fmt: skip
    return Plan(switches, [Cluster(frozenset({link})) for link in sorted(links)], separate=True)


def make_hops(net: Network) -> dict[str, Hop]:
    """Return all switches with their routes, by name."""
    return {
        name: Hop(
            connection(net, name),
            routing_entries(net, name, shortest_routes(net, name)),
            net.switch(name).clock_offset_us,
        )
        for name in net.topo.switches()
    }


def _ends(
    graph: Graph, topo: LeafSpine, flows: Iterable[Flow]
) -> tuple[list[str], list[str], list[str]]:
    """Return the first, last and middle switches of flows, sorted."""
    hosts = {host: name for link in topo.links() for host, name in (link, link[::-1])
             if not topo.isSwitch(host)}  # fmt: skip
    flows = [*flows]
    first = {hosts[flow.source] for flow in flows}
    last = {hosts[flow.destination] for flow in flows}
    middle = {point.switch for point in graph} - first - last
    return sorted(first), sorted(last), sorted(middle)


def measured_losses(plan: Plan, graph: Graph, reports: Sequence[BlockReport]) -> NDArray[np.int64]:
    """Return the measured losses with shape (clusters, blocks).

    Values are UNKNOWN if a block is incomplete. If a flow that is measured on its own loses all
    packets, its counters do not show which of several links lost them. Then the values of these
    links are UNKNOWN.
    """
    losses = np.full((len(plan.clusters), len(reports)), UNKNOWN)
    complete = [column for column, report in enumerate(reports) if report.complete]
    for column in complete:
        if not plan.separate:
            known = reports[column].known_records(ALL)
            losses[:, column] = [cluster.loss(known) for cluster in plan.clusters]
    if plan.separate:
        losses[:, complete] = 0
        unknown = np.zeros(losses.shape, bool)
        rows = {link: row for row, c in enumerate(plan.clusters) for link in c.links}
        for flow, (first, *_) in plan.switches.items():
            records = [reports[column].known_records(flow.number) for column in complete]
            points = reports[0].records[flow.number]
            counts = {p: np.array([block[p].packets for block in records]) for p in points}
            path, possible = _counted_path(graph, Point(first[0], "arrivals"), counts)
            for link in path:
                losses[rows[link], complete] += counts[link[0]] - counts[link[1]]
            for link in possible:
                unknown[rows[link], complete] |= counts[link[0]] > 0
        losses[unknown] = UNKNOWN
    return losses


def _counted_path(
    graph: Graph, point: Point, counts: Mapping[Point, NDArray[np.int64]]
) -> tuple[list[tuple[Point, Point]], list[tuple[Point, Point]]]:
    """Return the links of the path that one flow took, by the counters of its switches.

    A hash of the flow selects the next hops, so all packets take the same path. If no packet passed
    one of several next hops, the path ends, and the second value has the links to these hops.
    """
    path: list[tuple[Point, Point]] = []
    while following := [p for p in graph[point] if p in counts]:
        after = max(following, key=lambda p: counts[p].sum())
        if len(following) > 1 and not counts[after].any():
            return path, [(point, p) for p in following]
        path.append((point, after))
        point = after
    return path, []


def read_paths(
    net: Network, graph: Graph, topo: LeafSpine, flows: Sequence[Flow]
) -> dict[Flow, list[str]]:
    """Return the switches that each flow passed, from captures."""
    sent = {
        (near.switch, far.switch): pcap.read_flows(
            net.capture(near.switch, far.switch, "out"), flows
        )
        for near, following in graph.items() for far in following if near.switch != far.switch
    }  # fmt: skip
    paths = {}
    for flow in flows:
        ((switch,), (last,), _) = _ends({}, topo, [flow])
        possible = graph_of(topo, [flow])  # ends at `last`, even if no packet arrived there
        path = [switch]
        while path[-1] != last:
            counts = {far.switch: len(sent[path[-1], far.switch][flow.id].sequence)
                      for far in possible[Point(path[-1], "departures")]}  # fmt: skip
            path.append(max(counts, key=lambda name: counts[name]))
        paths[flow] = path
    return paths


def true_losses(
    clusters: Sequence[Cluster], truths: Iterable[Truth], blocks: range
) -> NDArray[np.int64]:
    """Return the true losses with shape (clusters, blocks)."""
    truths = [*truths]
    return np.array(
        [
            sum(
                (
                    truth.lost(*link, blocks)
                    for truth in truths
                    for link in _of_path(cluster, truth)
                ),
                start=np.zeros(len(blocks), np.int64),
            )
            for cluster in clusters
        ]
    )


def true_delays_ns(
    cluster: Cluster, truths: Iterable[Truth], block: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the times at which packets of a block passed a cluster's input, and their delays."""
    times, delays = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for truth in truths:
        for first, second in _of_path(cluster, truth):
            both = truth.passed(first) & truth.passed(second) & (truth.block == block)
            times.append(truth.time_ns[first][both])
            delays.append(truth.delays_ns(first, second, block))
    return np.concatenate(times), np.concatenate(delays)


def _of_path(cluster: Cluster, truth: Truth) -> Collection[tuple[Point, Point]]:
    """Return the links of a cluster whose two points are on the path of a flow."""
    return sorted(link for link in cluster.links if all(point in truth.time_ns for point in link))
