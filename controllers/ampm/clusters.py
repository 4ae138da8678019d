"""Clusters of a flow with several paths (RFC 9342): loss and delay per cluster.

The measuring points of a flow are the nodes of a directed graph, the monitoring network. A link
leads from each point to the points that a packet may pass next. With ECMP, a packet may take any of
several links, so the counters of two points no longer count the same packets. A cluster is a
smallest set of links whose counters can be compared: each packet that enters the cluster at one of
its inputs leaves it at one of its outputs, or is lost in it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controllers.ampm.records import Point, PointRecord
from telemark.topology.routes import next_hops

Link = tuple[Point, Point]
Graph = Mapping[Point, Collection[Point]]  # point -> points that a packet may pass next


@dataclass(frozen=True)
class Cluster:
    """A set of links. Its inputs are the start points of the links, its outputs the end points."""

    links: frozenset[Link]

    @property
    def inputs(self) -> list[Point]:
        """Points where packets enter the cluster, sorted."""
        return sorted({start for start, _ in self.links})

    @property
    def outputs(self) -> list[Point]:
        """Points where packets leave the cluster, sorted."""
        return sorted({end for _, end in self.links})

    def records(self, known: Mapping[Point, PointRecord]) -> tuple[PointRecord, PointRecord]:
        """Return one record for all inputs of the cluster in a block, and one for all outputs.

        From these two records, `mean_delay` and `sample_delays` (records.py) compute delays of the
        cluster.
        """
        first, second = (
            _joined([known[point] for point in points]) for points in (self.inputs, self.outputs)
        )
        return first, second

    def loss(
        self, known: Mapping[Point, PointRecord], copies: Mapping[Point, int] | None = None
    ) -> int:
        """Return how many packets of a block were lost in the cluster.

        With multicast, the result is a number of copies. `copies` maps each input to the number of
        copies that reach the outputs per packet at this input (default: 1). For example, a switch
        with three egress ports in the group makes three copies of each arriving packet.
        """
        factors = copies or {}
        return sum(known[point].packets * factors.get(point, 1) for point in self.inputs) - sum(
            known[point].packets for point in self.outputs
        )


def partition(links: Iterable[Link]) -> list[Cluster]:
    """Partition a monitoring network into clusters: the algorithm of RFC 9342, section 5.1.

    Links with the same start form a group. Groups that have an end in common are then merged, until
    no two groups have an end in common. The clusters are sorted by their first input.
    """
    groups: dict[Point, set[Link]] = {}
    for link in links:
        groups.setdefault(link[0], set()).add(link)
    clusters: list[set[Link]] = []
    for group in groups.values():
        ends = {end for _, end in group}
        touched = [any(end in ends for _, end in cluster) for cluster in clusters]
        merged = group.union(*(c for c, touch in zip(clusters, touched, strict=True) if touch))
        clusters = [c for c, touch in zip(clusters, touched, strict=True) if not touch]
        clusters.append(merged)
    return sorted((Cluster(frozenset(c)) for c in clusters), key=lambda cluster: cluster.inputs)


def flow_graph(
    links: list[tuple[str, str]],
    hosts: list[str],
    sources: Iterable[str],
    destinations: Iterable[str],
) -> dict[Point, set[Point]]:
    """Return the points that packets between hosts may pass, each with the possible next points.

    The packets go from the hosts `sources` to the hosts `destinations`, on all shortest paths.
    `links` and `hosts` are all links and hosts of the topology. Each switch has two points,
    "arrivals" and "departures".
    """
    ways: dict[str, dict[str, tuple[str, ...]]] = {}  # switch -> destination -> next hops
    edges = [next_hops(links, hosts, source) for source in sources]
    graph: dict[Point, set[Point]] = {}
    for destination in destinations:
        waiting = [edge[destination][0] for edge in edges if destination in edge]
        seen = {destination}
        while waiting:
            switch = waiting.pop()
            if switch in seen:
                continue
            seen.add(switch)
            if switch not in ways:
                ways[switch] = next_hops(links, hosts, switch)
            following = ways[switch][destination]
            departures = graph.setdefault(Point(switch, "departures"), set())
            graph.setdefault(Point(switch, "arrivals"), set()).add(Point(switch, "departures"))
            departures |= {Point(name, "arrivals") for name in following if name != destination}
            waiting += following
    return graph


def monitoring_links(graph: Graph, points: Collection[Point]) -> set[Link]:
    """Return the links of a monitoring network that uses only some of the measuring points.

    A link leads from a point to each point that a packet may pass next, without another one of
    `points` in between. Fewer points need fewer counters, but give larger clusters.
    """
    found = set()
    for start in points:
        seen: set[Point] = set()
        waiting = [*graph.get(start, ())]
        while waiting:
            point = waiting.pop()
            if point in points:
                found.add((start, point))
            elif point not in seen:
                seen.add(point)
                waiting += graph.get(point, ())
    return found


def _joined(records: Collection[PointRecord]) -> PointRecord:
    """Return one record of the packets of several points in one block.

    If two points have samples with the same hash, the samples may belong to two packets. They are
    left out.
    """
    blocks = {record.block for record in records}
    if len(blocks) != 1:
        raise ValueError(f"expected records of one block, got blocks {sorted(blocks)}")
    samples: dict[int, int] = {}
    ambiguous: set[int] = set()
    for record in records:
        ambiguous |= samples.keys() & record.samples.keys()
        samples |= record.samples
    return PointRecord(
        blocks.pop(),
        packets=sum(record.packets for record in records),
        bytes=sum(record.bytes for record in records),
        sum_us=sum(record.sum_us for record in records),
        samples={h: time_us for h, time_us in samples.items() if h not in ambiguous},
    )
