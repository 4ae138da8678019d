"""IOAM domain: the role of every switch in a network, and the destination of reports.

    domain = Domain("h3", [IoamFlow("fd00::1", "fd00::2", option=TraceOption(FIELDS, nodes=4))],
                    addresses={"h1": "fd00::1", "h2": "fd00::2"})
    async with connections(net) as switches:
        await configure(net, switches, domain)

IOAM begins and ends at the edge of the domain: at the ports of switches that lead to hosts. A host
that is a Linux router of the domain does not count as a host here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import finsy as fy

from controllers.forwarding import forwarding_entries
from controllers.ioam.flows import IoamFlow, check_sources
from controllers.tables import reconcile
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.topology.routes import next_hops

REPORT_PORT = 32766
SESSION = 500  # REPORT_SESSION in p4src/include/telemetry_report.p4
LOOPBACK_SESSIONS = 1000  # in p4src/ioam/loopback.p4
EVENTS = ("malformed", "foreign stripped", "foreign dropped", "leak dropped", "unknown namespace",
          "overflowed", "no room", "not possible", "terminated", "looped back")  # fmt: skip
"""Event counters of switches, in the order of p4src/ioam/packet.p4."""


@dataclass(frozen=True)
class Namespace:
    """A namespace that all switches of the domain know, and its namespace-specific data.

    By default, the data are not available (all ones).
    """

    number: int
    data: int = 0xFFFFFFFF
    data_wide: int = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Route:
    """IPv6 route of a switch: next hop, and its MAC address (None if it accepts any address)."""

    prefix: str
    neighbour: str
    mac: str | None = None


@dataclass(frozen=True)
class Domain:
    """Flows and namespaces of a domain, and the destination of reports.

    `collector` is the host that receives reports, at UDP port `port`; it can be a map from each
    switch to its own collector. All switches know the default namespace 0 and `namespaces`.
    `mtu_bytes` is the MTU of links inside the domain, where IOAM makes packets longer. `routers`
    are hosts that forward packets as transit nodes (controllers/ioam/linux.py). If a packet with
    IOAM options comes from outside, the first switch drops the packet, or with `strips_foreign`
    removes the options. Without `reports_edge`, the last switch removes the options without a
    report. Direct export and copies (loopback flag) are not affected. A switch sends at most one
    copy per `loopback_gap_us`. `addresses` are the IPv6 addresses of hosts. Switches with `routes`
    are IPv6 routers: they forward by MAC address only to the collector.
    """

    collector: str | Mapping[str, str]
    flows: Sequence[IoamFlow]
    namespaces: Sequence[Namespace] = ()
    port: int = REPORT_PORT
    mtu_bytes: int = 1500
    routers: Sequence[str] = ()
    strips_foreign: bool = False
    reports_edge: bool = True
    loopback_gap_us: int = 10_000
    addresses: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, Sequence[Route]] = field(default_factory=dict)

    def collector_of(self, switch: str) -> str:
        """Return the host to which a switch reports. Raises TestbedError."""
        if isinstance(self.collector, str):
            return self.collector
        if switch not in self.collector:
            raise TestbedError(f"switch {switch}: no collector; add it to `Domain.collector`")
        return self.collector[switch]


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], domain: Domain,
    clock_offsets_us: Mapping[str, int] | None = None,
) -> None:  # fmt: skip
    """Fill the tables of all switches, and create their clone sessions.

    `clock_offsets_us` maps each switch to Unix time minus the time of its clock. Without it, all
    offsets are zero. Raises TestbedError and finsy's P4ClientError.
    """
    for flow in domain.flows:
        check_sources(net, flow, [name for name in switches if _enters(net, name, domain, flow)])
    offsets_us = clock_offsets_us or {}
    await asyncio.gather(
        *(_configure(net, switch, domain, offsets_us.get(name, 0))
          for name, switch in switches.items())
    )  # fmt: skip


def node_id(net: Network, switch: str) -> int:
    """Return the IOAM node id of a switch. The first switch of the topology has 1."""
    return net.topo.switches().index(switch) + 1


def tunnel_address(net: Network, switch: str) -> str:
    """Return the address of a switch as an end of tunnels."""
    return f"fd00:ed9e::{node_id(net, switch):x}"


async def events(switch: fy.Switch) -> dict[str, int]:
    """Return the event counts of a switch, named as in EVENTS."""
    counts = dict.fromkeys(EVENTS, 0)
    for name in ("ioam_arriving_events", "namespace_events", "ioam_departing_events"):
        # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
        async for entry in switch.read(fy.P4CounterEntry(name)):  # type: ignore[attr-defined]
            counts[EVENTS[entry.index]] += entry.packet_count
    return counts


def entries(
    net: Network, switch: str, domain: Domain, clock_offset_us: int = 0
) -> list[fy.P4TableEntry]:
    """Return the table entries of a switch."""
    node, collector = node_id(net, switch), net.host(domain.collector_of(switch))
    defaults = {
        "ioam_node": fy.Action(
            "set_ioam_node", node_id=node, node_wide=node, offset_us=clock_offset_us % (1 << 64)
        ),
        "ioam_collector": fy.Action(
            "send_ioam_report", src_mac=0x020000FF0000 + node, dst_mac=collector.MAC(),
            src_addr=f"10.255.{node >> 8}.{node & 255}", dst_addr=collector.IP(),
            port=domain.port,
        ),
        "loopback": fy.Action("send_copies", addr=tunnel_address(net, switch),
                              gap_us=domain.loopback_gap_us),
    }  # fmt: skip
    return [
        *(fy.P4TableEntry(table, action=action, is_default_action=True)
          for table, action in defaults.items()),
        *_forwarding_entries(net, switch, domain),
        *_namespace_entries(domain),
        *_port_entries(net, switch, domain),
        *_flow_entries(net, switch, domain),
    ]  # fmt: skip


def clone_sessions(net: Network, switch: str, domain: Domain) -> list[fy.P4CloneSessionEntry]:
    """Return the clone sessions of a switch: for reports, and for copies (loopback flag).

    Raises TestbedError if the switch does not reach its collector.
    """
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch)
    collector = domain.collector_of(switch)
    if collector not in ways:
        raise TestbedError(
            f"switch {switch}: no path through switches to the collector {collector}; set "
            "`Domain.collector` to a map from each switch to a host that it reaches"
        )
    sessions = {SESSION: net.port(switch, ways[collector][0])}
    if any(flow.is_loopback for flow in domain.flows):
        ports = [net.port(switch, name) for name in net.neighbours(switch)]
        sessions |= {LOOPBACK_SESSIONS + port: port for port in ports}
    return [fy.P4CloneSessionEntry(number, replicas=[port]) for number, port in sessions.items()]


async def _configure(net: Network, switch: fy.Switch, domain: Domain, clock_offset_us: int) -> None:
    sessions = clone_sessions(net, switch.name, domain)
    await switch.delete(sessions, strict=False)
    await switch.insert(sessions)
    await reconcile(switch, entries(net, switch.name, domain, clock_offset_us))


def _enters(net: Network, switch: str, domain: Domain, flow: IoamFlow) -> bool:
    hosts = [domain.addresses[name] for name in net.neighbours(switch) if name in domain.addresses]
    return flow.enters(switch, hosts)


def _forwarding_entries(net: Network, switch: str, domain: Domain) -> list[fy.P4TableEntry]:
    is_router = switch in domain.routes
    by_mac = forwarding_entries(
        net, switch, [domain.collector_of(switch)] if is_router else None,
        table="ioam_forwarding", action="ioam_forward",
    )  # fmt: skip
    return [
        *by_mac,
        *(
            fy.P4TableEntry(
                "ioam_routes", match=fy.Match({"destination": route.prefix}),
                action=fy.Action("ioam_send", mac_addr=route.mac or 0,
                                 port=net.port(switch, route.neighbour)),
            )
            for route in domain.routes.get(switch, ())
        ),
    ]  # fmt: skip


def _namespace_entries(domain: Domain) -> list[fy.P4TableEntry]:
    known = {0: Namespace(0)} | {each.number: each for each in domain.namespaces}
    return [
        fy.P4TableEntry(
            table, match=fy.Match({key: number}),
            action=fy.Action(action, data=each.data, data_wide=each.data_wide),
        )
        for number, each in known.items()
        for table, key, action in (("namespaces", "namespace_id", "join"),
                                   ("export_namespaces", "export_namespace_id", "join_export"))
    ]  # fmt: skip


def _port_entries(net: Network, switch: str, domain: Domain) -> list[fy.P4TableEntry]:
    """Return the entries that distinguish ports inside the domain from ports at its edge."""
    found = []
    for name in net.neighbours(switch):
        port = net.port(switch, name)
        outside = name not in net.topo.switches() and name not in domain.routers
        action = (fy.Action("remove_ioam", reports=int(domain.reports_edge)) if outside
                  else fy.Action("keep_ioam", port_mtu=domain.mtu_bytes))  # fmt: skip
        match = fy.Match({"standard_metadata.egress_port": port})
        found.append(fy.P4TableEntry("ioam_ports", match=match, action=action))
        if outside:
            border = fy.Action("strip_foreign" if domain.strips_foreign else "drop_foreign")
            match = fy.Match({"standard_metadata.ingress_port": port})
            found.append(fy.P4TableEntry("ioam_borders", match=match, action=border))
    return found


def _flow_entries(net: Network, switch: str, domain: Domain) -> list[fy.P4TableEntry]:
    found = []
    for number, flow in enumerate(domain.flows):
        if _enters(net, switch, domain, flow):
            found.append(flow.entry(number))
            if flow.tunnel_to:
                ends = tunnel_address(net, switch), tunnel_address(net, flow.tunnel_to)
                action = fy.Action("begin_tunnel", src_addr=ends[0], dst_addr=ends[1])
                match = fy.Match({"flow": number})
                found.append(fy.P4TableEntry("tunnels", match=match, action=action))
    # switches to which copies go back, and this switch if it is the end of a tunnel
    addressed = {name for name in net.topo.switches() for flow in domain.flows
                 if flow.is_loopback and _enters(net, name, domain, flow)}  # fmt: skip
    addressed |= {switch for flow in domain.flows if flow.tunnel_to == switch}
    for end in sorted(addressed):
        match = fy.Match({"hdr.ipv6.dst_addr": tunnel_address(net, end)})
        action = (fy.Action("end_tunnel", reports=int(domain.reports_edge)) if end == switch
                  else fy.Action("keep_inside"))  # fmt: skip
        found.append(fy.P4TableEntry("tunnel_ends", match=match, action=action))
    return found
