"""Fills the tables of p4src/include/routing.p4: routes of the fabric, and the hosts at hand."""

from collections.abc import Sequence

import finsy as fy

from testbed.network import Network
from testbed.routes import Route

ANY_MAC = 0  # routers take any frame: between them the destination's MAC address says nothing


def routing_entries(net: Network, switch: str, routes: Sequence[Route]) -> list[fy.P4TableEntry]:
    """Entries for the routes, and for each host that is linked to the switch itself."""
    entries = [_route(f"{net.host(name).IP()}/32", _send(net, switch, name, net.host(name).MAC()))
               for name in net.neighbours(switch) if not net.topo.isSwitch(name)]  # fmt: skip
    for group, route in enumerate(routes):
        first, *others = route.next_hops
        if not others:
            entries.append(_route(route.prefix, _send(net, switch, first, ANY_MAC)))
            continue
        salt = net.switch(switch).device_id & 0xFFFF
        spread = fy.Action("spread", group_number=group, count=len(route.next_hops), salt=salt)
        entries.append(_route(route.prefix, spread))
        entries += [
            fy.P4TableEntry(
                "next_hops",
                match=fy.Match({"group": group, "member": member}),
                action=_send(net, switch, next_hop, ANY_MAC),
            )
            for member, next_hop in enumerate(route.next_hops)
        ]
    return entries


def _route(prefix: str, action: fy.Action) -> fy.P4TableEntry:
    if prefix == "0.0.0.0/0":  # P4Runtime: a prefix of length 0 is left out
        return fy.P4TableEntry("routes", match=fy.Match({}), action=action)
    return fy.P4TableEntry("routes", match=fy.Match({"hdr.ipv4.dst_addr": prefix}), action=action)


def _send(net: Network, switch: str, neighbour: str, mac: str | int) -> fy.Action:
    return fy.Action("send", mac_addr=mac, port=net.port(switch, neighbour))
