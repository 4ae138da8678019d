"""Entries for p4src/include/routing.p4: routes of the fabric, and hosts at the switch."""

from collections.abc import Sequence

import finsy as fy

from telemark.network import Network
from telemark.topology.routes import Route, next_hops

ANY_MAC = 0  # routers accept frames to any MAC address


def routing_entries(net: Network, switch: str, routes: Sequence[Route]) -> list[fy.P4TableEntry]:
    """Return entries for these routes, and for the hosts that are connected to the switch."""
    entries = [_route(f"{net.host(name).IP()}/32", _send(net, switch, name, net.host(name).MAC()))
               for name in net.neighbours(switch) if not net.topo.isSwitch(name)]  # fmt: skip
    groups: dict[tuple[str, ...], int] = {}
    for prefix, neighbours in routes:
        if len(neighbours) == 1:
            entries.append(_route(prefix, _send(net, switch, neighbours[0], ANY_MAC)))
            continue
        if neighbours not in groups:
            groups[neighbours] = len(groups)
            entries += _group(net, switch, groups[neighbours], neighbours)
        salt = net.switch(switch).device_id & 0xFFFF
        spread = fy.Action(
            "spread", group_number=groups[neighbours], count=len(neighbours), salt=salt
        )
        entries.append(_route(prefix, spread))
    return entries


def shortest_routes(net: Network, switch: str) -> list[Route]:
    """Return the routes over all shortest paths to each host at another switch.

    The topology may be any graph.
    """
    found = next_hops(net.topo.links(), net.topo.hosts(), switch)
    return [
        Route(f"{net.host(host).IP()}/32", neighbours)
        for host, neighbours in found.items()
        if neighbours != (host,)
    ]


def _group(
    net: Network, switch: str, group: int, neighbours: tuple[str, ...]
) -> list[fy.P4TableEntry]:
    """Return the entries for equal-cost next hops. For each flow, a hash selects one of them."""
    return [
        fy.P4TableEntry(
            "next_hops",
            match=fy.Match({"group": group, "member": member}),
            action=_send(net, switch, neighbour, ANY_MAC),
        )
        for member, neighbour in enumerate(neighbours)
    ]


def _route(prefix: str, action: fy.Action) -> fy.P4TableEntry:
    if prefix == "0.0.0.0/0":  # P4Runtime leaves out a prefix of length 0
        return fy.P4TableEntry("routes", match=fy.Match({}), action=action)
    return fy.P4TableEntry("routes", match=fy.Match({"hdr.ipv4.dst_addr": prefix}), action=action)


def _send(net: Network, switch: str, neighbour: str, mac: str | int) -> fy.Action:
    return fy.Action("send", mac_addr=mac, port=net.port(switch, neighbour))
