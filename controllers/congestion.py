"""Fills the tables of p4src/congestion, and of the exercises of p4lang/tutorials like it."""

import finsy as fy

from telemark.network import Network
from telemark.topology.routes import next_hops


def lpm_entries(net: Network, switch: str) -> list[fy.P4TableEntry]:
    """Entries that send packets for each host out of the port on a shortest path to it.

    Of several the one through the first neighbour by name is taken.
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
    """To be modified: tells a switch of link_monitor.p4 its number, which it writes into probes."""
    action = fy.Action("set_swid", swid=number)
    return fy.P4TableEntry("swid", action=action, is_default_action=True)
