"""Fills the forwarding table of p4src/include/forwarding.p4: shortest paths to hosts."""

from collections.abc import Sequence

import finsy as fy

from telemark.network import Network
from telemark.topology.routes import next_hops


def forwarding_entries(
    net: Network, switch: str, hosts: Sequence[str] | None = None
) -> list[fy.P4TableEntry]:
    """Entries that send a frame for each host out of the port on a shortest path to it.

    Of several the one through the first neighbour by name is taken. `hosts`: to these alone.
    """
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch)
    return [
        fy.P4TableEntry(
            "forwarding",
            match=fy.Match({"hdr.ethernet.dst_addr": net.host(host).MAC()}),
            action=fy.Action("forward", port=net.port(switch, next_hop)),
        )
        for host, (next_hop, *_) in ways.items()
        if hosts is None or host in hosts
    ]
