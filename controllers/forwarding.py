"""Shortest-path entries for p4src/include/forwarding.p4 and for p4src/congestion."""

from collections.abc import Sequence

import finsy as fy

from telemark.network import Network
from telemark.topology.routes import next_hops


def forwarding_entries(
    net: Network, switch: str, hosts: Sequence[str] | None = None, *,
    table: str = "forwarding", action: str = "forward",
) -> list[fy.P4TableEntry]:  # fmt: skip
    """Return entries that forward frames to each host on a shortest path.

    If there are several shortest paths, the entries use the neighbour whose name is first. `hosts`
    limits the destinations. `table` and `action` are their names in the program.
    """
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch)
    return [
        fy.P4TableEntry(
            table,
            match=fy.Match({"hdr.ethernet.dst_addr": net.host(host).MAC()}),
            action=fy.Action(action, port=net.port(switch, next_hop)),
        )
        for host, (next_hop, *_) in ways.items()
        if hosts is None or host in hosts
    ]


def lpm_entries(net: Network, switch: str) -> list[fy.P4TableEntry]:
    """Return entries that forward packets to each host on a shortest path.

    If there are several shortest paths, the entries use the neighbour whose name is first.
    """
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch)
    return [
        fy.P4TableEntry(
            "ipv4_lpm",
            match=fy.Match({"hdr.ipv4.dstAddr": f"{net.host(host).IP()}/32"}),
            action=fy.Action(
                "ipv4_forward", dstAddr=net.host(host).MAC(), port=net.port(switch, next_hop)
            ),
        )
        for host, (next_hop, *_) in ways.items()
    ]


def probe_entry(number: int) -> fy.P4TableEntry:
    """Return the entry with a switch's number. link_monitor.p4 writes the number into probes."""
    action = fy.Action("set_swid", swid=number)
    return fy.P4TableEntry("swid", action=action, is_default_action=True)
