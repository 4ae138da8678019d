"""Clusters of multipoint flows: the partition against brute force, and their loss and delay."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from controllers.ampm.clusters import (
    Cluster,
    Link,
    flow_graph,
    monitoring_links,
    partition,
)
from controllers.ampm.records import Point, PointRecord, mean_delay, sample_delays
from topologies.leaf_spine import FatTree, LeafSpine


def node(number: int) -> Point:
    return Point(f"n{number}", "node")


def random_links(rng: random.Random, nodes: int, count: int, *, acyclic: bool) -> list[Link]:
    """Return distinct links between random nodes; if `acyclic`, from lower to higher numbers."""
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if (a < b if acyclic else a != b)]
    return [(node(a), node(b)) for a, b in rng.sample(pairs, min(count, len(pairs)))]


def set_partitions(links: Sequence[Link]) -> Iterator[list[list[Link]]]:
    """Yield all partitions of the links into sets."""
    if not links:
        yield []
        return
    first, *rest = links
    for smaller in set_partitions(rest):
        yield [[first], *smaller]
        for number, part in enumerate(smaller):
            yield [*smaller[:number], [first, *part], *smaller[number + 1 :]]


def conserves(parts: list[list[Link]]) -> bool:
    """Return whether no two parts have a start or an end in common."""
    starts = Counter(start for part in parts for start in {s for s, _ in part})
    ends = Counter(end for part in parts for end in {e for _, e in part})
    return max([*starts.values(), *ends.values()], default=0) <= 1


@pytest.mark.parametrize("acyclic", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_partition_is_the_finest_one_that_conserves_packets(seed: int, acyclic: bool) -> None:
    rng = random.Random(seed)
    links = random_links(rng, rng.randint(2, 7), rng.randint(1, 8), acyclic=acyclic)
    valid = [parts for parts in set_partitions(links) if conserves(parts)]
    finest = max(valid, key=len)
    assert [len(parts) for parts in valid].count(len(finest)) == 1
    assert {cluster.links for cluster in partition(links)} == {frozenset(p) for p in finest}


@pytest.mark.parametrize("seed", range(20))
def test_large_partitions_are_reachable_sets(seed: int) -> None:
    """Two links are in one cluster if a chain of links with a common start or end joins them."""
    rng = random.Random(seed)
    links = random_links(rng, 40, rng.randint(20, 200), acyclic=False)
    expected = set()
    for link in links:
        reached, waiting = set(), [link]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting += [other for other in links if one[0] == other[0] or one[1] == other[1]]
        expected.add(frozenset(reached))
    rng.shuffle(links)
    assert {cluster.links for cluster in partition(links)} == expected


@pytest.mark.parametrize("seed", range(10))
def test_the_loss_of_each_cluster_is_exact(seed: int) -> None:
    """Packets take random paths through a graph, and links lose some of the packets."""
    rng = random.Random(seed)
    links = random_links(rng, 12, 30, acyclic=True)
    following = {start: [e for s, e in links if s == start] for start, _ in links}
    first = [point for point in following if all(end != point for _, end in links)]
    passed, lost = Counter[Point](), Counter[Link]()
    for _ in range(500):
        point = rng.choice(first)
        passed[point] += 1
        while point in following:
            link = (point, rng.choice(following[point]))
            if rng.random() < 0.1:
                lost[link] += 1
                break
            point = link[1]
            passed[point] += 1
    points = {point for link in links for point in link}
    known = {point: PointRecord(4, passed[point]) for point in points}
    clusters = partition(links)
    assert {c.links: c.loss(known) for c in clusters} == {
        c.links: sum(lost[link] for link in c.links) for c in clusters
    }
    assert sum(lost.values()) > 50


def test_multicast_loss_is_a_number_of_copies() -> None:
    tree = Cluster(frozenset({(node(0), node(1)), (node(0), node(2)), (node(0), node(3))}))
    known = {node(0): PointRecord(4, 10)} | {node(n): PointRecord(4, 10 - n) for n in (1, 2, 3)}
    assert tree.loss(known, {node(0): 3}) == 1 + 2 + 3


def test_delays_of_a_cluster() -> None:
    cluster = Cluster(frozenset((node(a), node(b)) for a in (0, 1) for b in (2, 3)))
    known = {
        node(0): PointRecord(4, 1, sum_us=100, samples={7: 5000, 8: 6000}, bytes=60),
        node(1): PointRecord(4, 3, sum_us=900, samples={8: 6500, 9: 7000}, bytes=180),
        node(2): PointRecord(4, 2, sum_us=800, samples={7: 5030, 8: 6600}, bytes=120),
        node(3): PointRecord(4, 2, sum_us=600, samples={9: 7040}, bytes=120),
    }
    first, second = cluster.records(known)
    assert (first.packets, first.bytes, second.packets) == (4, 240, 4)
    assert mean_delay(first, second).delay_us == (1400 - 1000) / 4
    # Two inputs have a sample with hash 8, so its packet is ambiguous.
    assert sample_delays(first, second) == ({5000: 30, 7000: 40}, 1)


def test_records_of_different_blocks_are_refused() -> None:
    cluster = Cluster(frozenset({(node(0), node(2)), (node(1), node(2))}))
    known = {node(0): PointRecord(4), node(1): PointRecord(6), node(2): PointRecord(4)}
    with pytest.raises(ValueError, match="expected records of one block"):
        cluster.records(known)


def names(points: Sequence[Point]) -> str:
    return " ".join(f"{point.switch}.{point.name[0]}" for point in points)


def test_clusters_of_a_leaf_spine() -> None:
    """All leaves share the spines, so the links up are one cluster, and the links down another."""
    topo = LeafSpine(leaves=4, spines=2)
    graph = flow_graph(topo.links(), topo.hosts(), ["h1", "h2"], ["h3", "h4"])
    links = monitoring_links(graph, graph)
    found = {(names(c.inputs), names(c.outputs)) for c in partition(links) if len(c.links) > 1}
    assert found == {("s1.d s2.d", "s5.a s6.a"), ("s5.d s6.d", "s3.a s4.a")}
    inside = {(names(c.inputs), names(c.outputs)) for c in partition(links) if len(c.links) == 1}
    assert inside == {(f"s{n}.a", f"s{n}.d") for n in range(1, 7)}


def test_fewer_points_make_larger_clusters() -> None:
    topo = FatTree(k=4)
    hosts = topo.hosts()
    graph = flow_graph(topo.links(), hosts, hosts[:8], hosts[8:])
    assert len(graph) == 40
    # one cluster in each of 20 switches; 4 of leaves and spines, 4 of spines and cores
    assert len(partition(monitoring_links(graph, graph))) == 20 + 4 + 4
    ends = [Point(switch, name) for switch, name in graph
            if topo.places[switch].tier == "leaf"
            and name == ("departures" if topo.places[switch].pod < 2 else "arrivals")]  # fmt: skip
    (whole,) = partition(monitoring_links(graph, ends))
    assert (len(whole.inputs), len(whole.outputs)) == (4, 4)


def test_paths_to_a_host_at_the_same_switch_have_no_links_between_switches() -> None:
    topo = LeafSpine(leaves=2, spines=2, hosts=2)
    graph = flow_graph(topo.links(), topo.hosts(), ["h1"], ["h2"])
    assert graph == {Point("s1", "arrivals"): {Point("s1", "departures")},
                     Point("s1", "departures"): set()}  # fmt: skip
