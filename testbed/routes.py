"""Routes over a topology: what topologies work out and controllers put into tables."""

from collections import deque
from typing import NamedTuple


class Route(NamedTuple):
    """Packets to `prefix` go to one of `next_hops`, which are neighbours; a flow keeps to one."""

    prefix: str  # such as 10.1.0.0/16; 0.0.0.0/0: all others
    next_hops: tuple[str, ...]


def next_hops(links: list[tuple[str, str]], hosts: list[str], start: str) -> dict[str, str]:
    """For each host that `start` reaches, the neighbour of `start` on a shortest path there.

    Of several shortest paths the one through the first neighbour by name is taken. Hosts do not
    forward.
    """
    neighbours: dict[str, list[str]] = {}
    for left, right in links:
        neighbours.setdefault(left, []).append(right)
        neighbours.setdefault(right, []).append(left)
    first_hop = {name: name for name in sorted(neighbours.get(start, []))}
    queue = deque(first_hop)
    while queue:
        node = queue.popleft()
        if node in hosts:
            continue
        for name in sorted(neighbours[node]):
            if name != start and name not in first_hop:
                first_hop[name] = first_hop[node]
                queue.append(name)
    return {host: first_hop[host] for host in hosts if host in first_hop}
