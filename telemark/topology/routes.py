"""Routes in a topology, for controllers."""

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from mininet.topo import Topo


class Route(NamedTuple):
    """Route of a switch to a prefix.

    `next_hops` are neighbours of the switch. If there are several (ECMP), each flow uses one.
    """

    prefix: str  # e.g. 10.1.0.0/16; the default route is 0.0.0.0/0
    next_hops: tuple[str, ...]


def next_hops(
    links: list[tuple[str, str]], hosts: list[str], start: str
) -> dict[str, tuple[str, ...]]:
    """Return the next hops from `start` to each reachable host, over all shortest paths.

    The next hops to a host are sorted by name.

    Hosts do not forward packets.
    """
    neighbours: dict[str, set[str]] = {}
    for left, right in links:
        neighbours.setdefault(left, set()).add(right)
        neighbours.setdefault(right, set()).add(left)
    found = {name: {name} for name in neighbours.get(start, ())}
    distance = dict.fromkeys(found, 1) | {start: 0}
    queue, ends = deque(found), {*hosts}
    while queue:
        node = queue.popleft()
        if node in ends:
            continue
        for name in neighbours[node]:
            if name not in distance:
                distance[name] = distance[node] + 1
                found[name] = set()
                queue.append(name)
            if distance[name] == distance[node] + 1:
                found[name] |= found[node]
    return {host: tuple(sorted(found[host])) for host in hosts if host in found}


def shortest_paths(topo: Topo, ends: Sequence[tuple[str, str]]) -> list[list[str] | None]:
    """Return the switches on the shortest path of each pair of hosts; None if there are several."""
    edges, hosts = topo.links(), topo.hosts()

    @cache
    def hops(node: str) -> dict[str, tuple[str, ...]]:
        return next_hops(edges, hosts, node)

    found: list[list[str] | None] = []
    for source, destination in ends:
        nodes = [source]
        while nodes[-1] != destination and len(hops(nodes[-1]).get(destination, ())) == 1:
            nodes += hops(nodes[-1])[destination]
        found.append(nodes[1:-1] if nodes[-1] == destination else None)
    return found
