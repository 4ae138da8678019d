"""Routes over a topology, for controllers."""

from collections import deque
from typing import NamedTuple


class Route(NamedTuple):
    """Route to `prefix` over one or more neighbours (ECMP: each flow uses one of them)."""

    prefix: str  # e.g. 10.1.0.0/16, or 0.0.0.0/0 for the default route
    next_hops: tuple[str, ...]


def next_hops(
    links: list[tuple[str, str]], hosts: list[str], start: str
) -> dict[str, tuple[str, ...]]:
    """Return the next hops of `start` on all shortest paths to each reachable host, sorted by name.

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
