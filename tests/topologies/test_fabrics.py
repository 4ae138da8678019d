"""Fat trees and rings: every host reaches every other host, on shortest paths.

Flows use all shortest paths.
"""

from collections import Counter
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from mininet.topo import Topo
from virtual_networks import virtually

from controllers.connection import connections
from controllers.routing import routing_entries, shortest_routes
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.topology.routes import Route
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Ring
from topologies.leaf_spine import FatTree, Place

ROUTER = "p4src/routing/router.p4"
PACKETS = 3
Routes = Callable[[Network, str], list[Route]]


def own_routes(net: Network, switch: str) -> list[Route]:
    routes: list[Route] = net.topo.routes(switch)
    return routes


def all_pairs(topo: Topo) -> list[Flow]:
    """Return a flow from each host to each other host. Each flow has PACKETS packets."""
    return [
        Flow(number, *pair, rate_pps=1000, count=PACKETS)
        for number, pair in enumerate(permutations(topo.hosts(), 2))
    ]


def received(topo: Topo, flows: list[Flow], routes: Routes, folder: Path) -> Counter[str]:
    """Return how many packets each switch received. Assert that all flows reach their hosts."""

    async def main(run: Run) -> Counter[str]:
        with Network(topo, run, program=ROUTER, capture=False) as net:
            async with connections(net) as switches:
                for name, switch in switches.items():
                    entries = routing_entries(net, name, routes(net, name))
                    await switch.write([+entry for entry in entries])
            async with Traffic(net, flows) as traffic:
                records = await traffic.finish()
        assert all(check.passed for check in PacketAccounting.from_network(net, records).checks())
        for flow in flows:
            assert len(records[flow.id].received) == flow.count
        return Counter({name: net.counters[name]["engine"]["received"] for name in switches})

    counts: Counter[str] = virtually(folder, main)
    return counts


@pytest.mark.parametrize("routes", [own_routes, shortest_routes])
def test_a_fat_tree_of_four_ports(routes: Routes, tmp_path: Path) -> None:
    topo = FatTree(k=4)
    assert Counter(place.tier for place in topo.places.values()) == {
        "leaf": 8, "spine": 8, "core": 4
    }  # fmt: skip
    assert len(topo.hosts()) == 16
    ports = Counter(end for link in topo.links() for end in link if topo.isSwitch(end))
    assert set(ports.values()) == {4}
    counts = received(topo, all_pairs(topo), routes, tmp_path)
    # For each of 16 hosts, 1 other host is at the same switch, 2 are at another switch of the same
    # pod, and 12 are in other pods.
    tiers = Counter[str]()
    for name, count in counts.items():
        tiers[topo.places[name].tier] += count
    in_pod, elsewhere = 16 * 2 * PACKETS, 16 * 12 * PACKETS
    assert tiers["core"] == elsewhere
    assert tiers["spine"] == in_pod + 2 * elsewhere
    assert tiers["leaf"] == 16 * 1 * PACKETS + 2 * (in_pod + elsewhere)
    for tier in ("core", "spine"):  # flows use all equal-cost paths
        shares = [counts[name] for name, place in topo.places.items() if place.tier == tier]
        assert min(shares) > 0.5 * sum(shares) / len(shares)


@pytest.mark.parametrize("switches", [5, 6])
def test_a_ring(switches: int, tmp_path: Path) -> None:
    topo = Ring(switches=switches, hosts=2)
    counts = received(topo, all_pairs(topo), shortest_routes, tmp_path)
    hosts = [number // 2 for number in range(2 * switches)]
    apart = [min((a - b) % switches, (b - a) % switches) for a, b in permutations(hosts, 2)]
    assert sum(counts.values()) == PACKETS * sum(1 + distance for distance in apart)


def test_half_way_round_a_ring_flows_part(tmp_path: Path) -> None:
    """From s1 to s3 in a ring of four switches, some flows go over s2, and the others over s4."""
    flows = [Flow(number, "h1", "h3", rate_pps=1000, count=1) for number in range(100)]
    counts = received(Ring(switches=4), flows, shortest_routes, tmp_path)
    assert counts["s2"] + counts["s4"] == 100
    assert min(counts["s2"], counts["s4"]) > 25


def test_routes_with_the_same_next_hops_share_their_entries(tmp_path: Path) -> None:
    async def main(run: Run) -> Counter[str]:
        with Network(FatTree(k=4), run, program=ROUTER) as net:
            entries = routing_entries(net, "s1", shortest_routes(net, "s1"))
            return Counter(entry.table_id for entry in entries)

    assert virtually(tmp_path, main) == {"routes": 16, "next_hops": 2}


def test_addresses_say_where_hosts_are() -> None:
    ring, tree = Ring(switches=3, hosts=2), FatTree(k=4)
    assert [ring.nodeInfo(f"h{n}")["ip"] for n in (1, 2, 3)] == [
        "10.0.1.1/8", "10.0.1.2/8", "10.0.2.1/8"
    ]  # fmt: skip
    assert [tree.nodeInfo(f"h{n}")["ip"] for n in (1, 2, 3, 16)] == [
        "10.0.0.1/8", "10.0.0.2/8", "10.0.1.1/8", "10.3.1.2/8"
    ]  # fmt: skip
    assert tree.places[tree.switch("core", 0, 3)] == Place("core", 0, 3)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: FatTree(k=5), "even number of ports, got 5"),
        (lambda: FatTree(k=0), "even number of ports, got 0"),
        (lambda: Ring(switches=2), "3 to 255 switches with 1"),
        (lambda: Ring(switches=256), "got 256 and 1"),
        (lambda: Ring(hosts=255), "1 to 254 hosts"),
    ],
)
def test_what_cannot_be_built_is_refused(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()


def test_links_have_their_properties() -> None:
    for topo in (FatTree(k=4, delay_us=7), Ring(delay_us=7)):
        for one, other, info in topo.links(withInfo=True):
            between_switches = topo.isSwitch(one) and topo.isSwitch(other)
            assert info.get("delay_us") == (7 if between_switches else None)
