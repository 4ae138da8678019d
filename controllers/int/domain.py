"""INT domain: the role of every switch in a network, and the destination of reports.

    domain = Domain("h3", [WatchedFlow("10.0.0.1", "10.0.0.2")])
    async with connections(net) as switches:
        await configure(net, switches, domain)

Ports to hosts are the edge of the domain. INT begins and ends there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import finsy as fy
from mininet.topo import Topo

from controllers.connection import CPU_PORT
from controllers.forwarding import forwarding_entries
from controllers.int.grouping import Grouping
from controllers.int.watch import Denied, Instruction, WatchedFlow
from controllers.readout import CLOCK_BITS
from controllers.routing import routing_entries
from controllers.tables import reconcile
from telemark.network import Network
from telemark.topology.links import of_ends
from telemark.topology.routes import Route, next_hops

More = Callable[[fy.Switch], Awaitable[Sequence[fy.P4TableEntry]]]
"""Function that prepares a switch whose program extends INT, and returns more table entries."""

REPORT_PORT = 32766
SESSION = 500  # REPORT_SESSION in p4src/include/telemetry_report.p4
WINDOW_US = 1 << 16  # window in which port utilisation is measured, as in p4src/int/hop.p4
EVENTS = ("malformed", "cleared", "stopped", "no room", "not possible", "not understood",
          "hops exceeded", "MTU exceeded")  # fmt: skip
"""Event counters of switches, in the order of p4src/int/watch.p4."""


@dataclass(frozen=True)
class Changes:
    """A flow is reported only if a change occurs, and in addition once every 2^`period_shift` us.

    A change is: another ingress or egress port, another number of hops on the stack, or a hop
    latency in another interval of 2^`latency_shift` us.
    """

    # 32 means that changes of the latency are ignored, because latency >> 32 is always 0
    latency_shift: int = 32
    period_shift: int = 20

    def parameters(self) -> dict[str, int]:
        """Return the parameters of the action report_changes. Raises ValueError."""
        if not (0 <= self.latency_shift <= 32 and 0 <= self.period_shift <= CLOCK_BITS):
            raise ValueError(
                f"{self}: expected latency_shift 0 to 32, period_shift 0 to {CLOCK_BITS}"
            )
        return {
            "latency_mask": (1 << 32) - (1 << self.latency_shift),
            "time_mask": (1 << CLOCK_BITS) - (1 << self.period_shift),
        }


@dataclass(frozen=True)
class QueueReports:
    """A packet is reported if the queue already contains at least `full` packets.

    At most `quota` packets are reported. Then reports stop until a packet finds fewer than `calm`
    packets in the queue.
    """

    full: int
    calm: int
    quota: int
    instructions: Instruction = Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE


@dataclass(frozen=True)
class Domain:
    """Watched flows of a domain, and the destination of reports.

    `collector` is the host that receives reports, at UDP port `port`. `mtu_bytes` is the MTU of
    links between switches, where INT makes packets longer. With `changes`, a packet of a
    watched flow is reported only after a change, and once per period (see Changes). Without it, all
    sampled packets of watched flows are reported. `drops` is the metadata
    that drop reports contain in addition to the drop reason. Switches drop packets that are
    `denied`. Switches with `routes` are routers: they forward by MAC address only if the
    destination is the collector. Drops at full queues are reported only if switches deflect dropped
    packets (`--deflect-on-drop` of minip4). With `grouping`, a datagram contains several reports.
    Switches then run p4src/int/grouped.p4 and need a CPU port (connection.cpu_ports).
    """

    collector: str
    flows: Sequence[WatchedFlow]
    port: int = REPORT_PORT
    mtu_bytes: int = 1500
    changes: Changes | None = None
    queues: QueueReports | None = None
    drops: Instruction | None = None
    denied: Sequence[Denied] = ()
    routes: Mapping[str, Sequence[Route]] = field(default_factory=dict)
    grouping: Grouping | None = None


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], domain: Domain,
    clock_offsets_us: Mapping[str, int] | None = None, more: More | None = None,
) -> None:  # fmt: skip
    """Fill the tables of all switches, and create their clone sessions.

    `clock_offsets_us` maps each switch to the offset of its clock (Readouts.clock_offset). Without
    this map, all offsets are zero. `more` configures programs that extend the INT program. Raises
    TestbedError and finsy's P4ClientError.
    """
    offsets_us = clock_offsets_us or {}
    await asyncio.gather(
        *(_configure(net, switch, domain, offsets_us.get(name, 0), more)
          for name, switch in switches.items())
    )  # fmt: skip


def node_id(net: Network, switch: str) -> int:
    """Return the INT node ID of a switch. The first switch of the topology has 1."""
    return net.topo.switches().index(switch) + 1


async def events(switch: fy.Switch) -> dict[str, int]:
    """Return the event counts of a switch, named as in EVENTS."""
    counts = dict.fromkeys(EVENTS, 0)
    for name in ("arriving_events", "departing_events"):
        # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
        async for entry in switch.read(fy.P4CounterEntry(name)):  # type: ignore[attr-defined]
            counts[EVENTS[entry.index]] += entry.packet_count
    return counts


def entries(
    net: Network, switch: str, domain: Domain, clock_offset_us: int = 0
) -> list[fy.P4TableEntry]:
    """Return the table entries of a switch."""
    node, collector = node_id(net, switch), net.host(domain.collector)
    offset_us = clock_offset_us % (1 << CLOCK_BITS)
    to = {"port": domain.port}
    addresses = {
        "src_mac": 0x020000FF0000 + node, "dst_mac": collector.MAC(),
        "src_addr": f"10.255.{node >> 8}.{node & 255}", "dst_addr": collector.IP(),
    }  # fmt: skip
    defaults = {
        "node": fy.Action(
            "set_node", node_id=node, offset_us=offset_us, collector=collector.IP(), **to
        ),
        "collector": fy.Action("send_report", **addresses, **to),
        "flow_reports": fy.Action("report_all"),
    }
    if domain.changes is not None:
        defaults["flow_reports"] = fy.Action("report_changes", **domain.changes.parameters())
    if domain.drops is not None:
        for part in ("arriving_drops", "queue_drops"):
            report = fy.Action(f"{part}.report_drops", metadata_bits=int(domain.drops))
            defaults[f"{part}.drop_reports"] = report
    if domain.grouping is not None:
        port = _port_to_collector(net, switch, domain)
        defaults["grouping"] = domain.grouping.action(net, node, domain.mtu_bytes, port)
    return [
        *(fy.P4TableEntry(t, action=a, is_default_action=True) for t, a in defaults.items()),
        *_port_entries(net, switch, domain),
        *_forwarding_entries(net, switch, domain),
        *(flow.entry() for flow in domain.flows if flow.is_at(net, switch)),
        *(denied.entry() for denied in domain.denied if denied.is_at(switch)),
    ]


async def _clone_reports(net: Network, switch: fy.Switch, domain: Domain) -> None:
    """Create the clone session for the reports of a switch.

    The port of the session leads to the collector. With grouping, it is the recirculation port.
    """
    port = CPU_PORT if domain.grouping else _port_to_collector(net, switch.name, domain)
    session = fy.P4CloneSessionEntry(SESSION, replicas=[port])
    await switch.delete([session], strict=False)
    await switch.insert([session])


def _port_to_collector(net: Network, switch: str, domain: Domain) -> int:
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch)
    return net.port(switch, ways[domain.collector][0])


async def _configure(
    net: Network, switch: fy.Switch, domain: Domain, clock_offset_us: int, more: More | None
) -> None:
    await _clone_reports(net, switch, domain)
    own = entries(net, switch.name, domain, clock_offset_us)
    await reconcile(switch, [*own, *(await more(switch) if more else ())])


def _forwarding_entries(net: Network, switch: str, domain: Domain) -> list[fy.P4TableEntry]:
    """Return the forwarding entries for packets and reports."""
    if switch not in domain.routes:
        return forwarding_entries(net, switch)
    return [
        *forwarding_entries(net, switch, [domain.collector]),
        *routing_entries(net, switch, domain.routes[switch]),
    ]


def _port_entries(net: Network, switch: str, domain: Domain) -> list[fy.P4TableEntry]:
    """Return entries with the MTU and the rate of each port.

    The entries also tell which ports are at the edge of the domain.
    """
    found, rates_bps = [], _rates_bps(net.topo, switch)
    for name in net.neighbours(switch):
        port = net.port(switch, name)
        outside = name not in net.topo.switches()
        known = {"millionths_per_byte": _millionths_per_byte(rates_bps.get(name))}
        inside = {} if outside else {"port_mtu": domain.mtu_bytes}
        action = fy.Action("leave_domain" if outside else "stay_inside", **inside, **known)
        match = fy.Match({"standard_metadata.egress_port": port})
        found.append(fy.P4TableEntry("ports", match=match, action=action))
        if outside:
            match = fy.Match({"standard_metadata.ingress_port": port})
            border = fy.Action("outside")
            found.append(fy.P4TableEntry("borders", match=match, action=border))
        if domain.queues is not None:
            found.append(_queue_entry(port, domain.queues))
    return found


def _queue_entry(port: int, reports: QueueReports) -> fy.P4TableEntry:
    limits = {"full": reports.full, "calm": reports.calm, "quota": reports.quota}
    action = fy.Action("report_queue", **limits, metadata_bits=int(reports.instructions))
    return fy.P4TableEntry(
        "queue_reports", match=fy.Match({"hop.egress_port": port}), action=action
    )


def _millionths_per_byte(rate_bps: float | None) -> int:
    """Return by how many millionths one byte in a window increases the utilisation, times 2^32.

    The result is 0 if the rate of the port is unknown.
    """
    if not rate_bps:
        return 0
    window_bytes = rate_bps * WINDOW_US / 8e6
    return round(1e6 / window_bytes * 2**32)


def _rates_bps(topo: Topo, switch: str) -> dict[str, float]:
    """Return the rates of those ports of a switch that have a rate limit, by neighbour."""
    rates = {}
    for _, _, given in topo.links(withInfo=True):
        one, two = given["node1"], given["node2"]
        ends = of_ends(one, two, {k: v for k, v in given.items() if k not in ("node1", "node2")})
        for near, far, properties in ((one, two, ends[0]), (two, one, ends[1])):
            if near == switch and properties.get("rate_bps"):
                rates[far] = properties["rate_bps"]
    return rates
