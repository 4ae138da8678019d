"""Fills the forwarding table of p4src/include/forwarding.p4: shortest paths to every host."""

from collections import deque

import finsy as fy

from testbed.network import Network


def forwarding_entries(net: Network, switch: str) -> list[fy.P4TableEntry]:
    """Entries that send a frame for each host out of the port on a shortest path to it."""
    return [
        fy.P4TableEntry(
            "forwarding",
            match=fy.Match({"hdr.ethernet.dst_addr": net.host(host).MAC()}),
            action=fy.Action("forward", port=net.port(switch, next_hop)),
        )
        for host, next_hop in next_hops(net.topo.links(), net.topo.hosts(), switch).items()
    ]


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
