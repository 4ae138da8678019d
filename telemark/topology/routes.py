"""Routes over a topology: what topologies work out and controllers put into tables."""

from collections import deque
from typing import NamedTuple


class Route(NamedTuple):
    """Packets to `prefix` go to one of `next_hops`, which are neighbours; a flow keeps to one."""

    prefix: str  # such as 10.1.0.0/16; 0.0.0.0/0: all others
    next_hops: tuple[str, ...]


def next_hops(
    links: list[tuple[str, str]], hosts: list[str], start: str
) -> dict[str, tuple[str, ...]]:
    """For each host that `start` reaches, its neighbours on all shortest paths there, by name.

    Hosts do not forward.
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
