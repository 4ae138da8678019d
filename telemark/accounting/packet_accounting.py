"""The books of a network: whatever was sent was received, or it is known where it went.

Two independent sources: the switches' and links' own counters, and the kernel's. A run in which
the kernel dropped anything is no measurement at all, nor is one in which bmv2 did: it does not say
why, and a frame that it dropped behind its counters is no packet that a link lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telemark.accounting.drops import expects_program_drops
from telemark.accounting.rejected import Fault
from telemark.errors import IDLE_MACHINE, InvalidRunError
from telemark.network import LinkEnd, Network
from telemark.results.report import Check
from telemark.traffic.flows import AnyRecord, FlowRecord

SWITCH_DROPS = ("ingress_drops", "egress_drops", "queue_drops", "no_port_drops", "memory_drops")


@dataclass(frozen=True)
class PacketAccounting:
    """Packets of one network, from its start to its end; TCP's are among the hosts' frames."""

    sent: int  # by UDP flows and applications
    received: int  # by UDP flows and applications
    hosts_sent: int  # frames, by the kernels' counters: those and any other
    hosts_received: int
    lost_by_links: dict[str, int]  # egress interface -> frames
    dropped_by_switches: dict[str, dict[str, int]]  # switch -> reason -> packets
    added_by_switches: int  # copies that programs made, and controllers' packets sent into them
    taken_by_controllers: int
    left_in_queues: int
    consumed_by_xdp: dict[str, int]  # interface -> frames: as programs there counted them
    _consumed_at_switches: int  # of these
    unbalanced: list[str]  # switches and hops whose own books do not balance, with the figures

    @classmethod
    def from_network(
        cls, net: Network, records: Mapping[int, AnyRecord],
        consumed_by_xdp: Mapping[str, int] | None = None,
    ) -> "PacketAccounting":  # fmt: skip
        """Close the books of a network that has ended.

        Frames that programs at XDP of an interface took, no packet socket sees: who attached them
        says what they counted, until the network ended, by interface.

        Raises InvalidRunError on a drop by the kernel, or by bmv2 (unless the network expects its
        programs to drop: of bmv2 nobody can tell the two apart, nor copies from drops).
        """
        consumed_by_xdp = consumed_by_xdp or {}
        datagrams = [record for record in records.values() if isinstance(record, FlowRecord)]
        _reject_kernel_drops(net, datagrams)
        lacking = _lacking_of_bmv2(net.counters)
        if not expects_program_drops(net.expected_drops):
            _reject_bmv2_drops(lacking)
        host_interfaces = [
            net.interface_counters[end.interface]
            for link in net.links
            for end in link
            if end.node not in net.counters
        ]
        engines = {name: counters["engine"] for name, counters in net.counters.items()}
        cpus = [counters["cpu"] for counters in net.counters.values()]
        return cls(
            sent=sum(len(record.sent) for record in datagrams)
            + sum(application.sent for application in net.applications),
            received=sum(len(record.received) for record in datagrams)
            + sum(application.received for application in net.applications),
            hosts_sent=sum(counters["sent"] for counters in host_interfaces),
            hosts_received=sum(counters["received"] for counters in host_interfaces),
            lost_by_links={
                port["interface"]: port["link"]["lost_packets"]
                for counters in net.counters.values()
                for port in counters["ports"].values()
            },
            dropped_by_switches={
                name: {
                    **{reason: engine[reason] for reason in SWITCH_DROPS},
                    **({"bmv2_drops": max(lacking[name], 0)} if name in lacking else {}),
                }
                for name, engine in engines.items()
            },
            added_by_switches=sum(engine["replicas"] for engine in engines.values())
            + sum(max(-count, 0) for count in lacking.values())
            + sum(cpu["packet_out"] for cpu in cpus),
            taken_by_controllers=sum(cpu["packet_in"] + cpu["packet_in_dropped"] for cpu in cpus),
            left_in_queues=sum(engine["in_queues"] for engine in engines.values()),
            consumed_by_xdp=dict(consumed_by_xdp),
            _consumed_at_switches=sum(
                consumed_by_xdp.get(end.interface, 0)
                for link in net.links
                for end in link
                if end.node in net.counters
            ),
            unbalanced=[*_unbalanced_switches(engines), *_unbalanced_hops(net, consumed_by_xdp)],
        )

    @property
    def unaccounted_frames(self) -> int:
        """Frames that were sent and of which nobody knows where they went; 0 when books balance."""
        dropped = sum(sum(reasons.values()) for reasons in self.dropped_by_switches.values())
        came_in = self.hosts_sent + self.added_by_switches
        went = self.hosts_received + sum(self.lost_by_links.values()) + dropped
        kept = self.taken_by_controllers + self.left_in_queues + self._consumed_at_switches
        return came_in - went - kept

    def checks(self, prefix: str = "books") -> list[Check]:
        """What must hold for any network."""
        at_hosts = sum(self.consumed_by_xdp.values()) - self._consumed_at_switches
        others = self.hosts_sent - self.sent + self.added_by_switches
        where = f" ({'; '.join(self.unbalanced)})" if self.unbalanced else ""
        return [
            Check(f"{prefix}: frames unaccounted for", self.unaccounted_frames, 0),
            Check(f"{prefix}: switches and hops out of balance{where}", len(self.unbalanced), 0),
            Check(
                f"{prefix}: frames that reached a host, but neither flow nor application",
                self.hosts_received - self.received - at_hosts, 0, tolerance=others,
            ),
        ]  # fmt: skip


def _reject_kernel_drops(net: Network, records: Sequence[FlowRecord]) -> None:
    drops = {f"host {name}, UDP": count for name, count in net.udp_losses.items()}
    for name, interface in net.interface_counters.items():
        drops[f"interface {name}"] = interface["dropped"]
    for name, counters in net.counters.items():
        for port in counters["ports"].values():
            drops[f"{name}'s packet socket on {port['interface']}"] = sum(port["kernel"].values())
    # A UDP socket counts malformed datagrams among its drops, and cannot tell them apart.
    malformed = {each.host: each.frames for each in net.rejected if each.fault is Fault.MALFORMED}
    for record in records:
        unexplained = record.kernel_drops - malformed.get(record.flow.destination, 0)
        drops[f"receiving socket of flow {record.flow.id}"] = max(unexplained, 0)
    for application in net.applications:
        unexplained = application.kernel_drops - malformed.get(application.host, 0)
        drops[str(application)] = max(unexplained, 0)
    found = [f"{count} at {place}" for place, count in drops.items() if count]
    if found:
        raise InvalidRunError(
            f"the kernel dropped packets ({', '.join(found)})", f"lower the rate, or {IDLE_MACHINE}"
        )


def _lacking_of_bmv2(counters: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    """Of each switch that is a bmv2, how many more frames went in than came out."""
    return {
        name: counted["inner"]["into"] - counted["inner"]["out"]
        for name, counted in counters.items()
        if "inner" in counted
    }


def _reject_bmv2_drops(lacking: Mapping[str, int]) -> None:
    found = [f"{count} in {name}" for name, count in lacking.items() if count > 0]
    if found:
        raise InvalidRunError(
            f"bmv2 dropped frames ({', '.join(found)}): they went in and never came out",
            f"lower the rate, or {IDLE_MACHINE}",
        )


def _unbalanced_switches(engines: Mapping[str, dict[str, int]]) -> list[str]:
    """Switches of which received + copies differs from sent + dropped + waiting (engine.h)."""
    unbalanced = []
    for name, engine in engines.items():
        came = engine["received"] + engine["replicas"]
        went = engine["transmitted"] + sum(engine[reason] for reason in SWITCH_DROPS)
        if came != went + engine["in_queues"]:
            unbalanced.append(f"{name}: {came} came, {went} went, {engine['in_queues']} wait")
    return unbalanced


def _unbalanced_hops(net: Network, consumed_by_xdp: Mapping[str, int]) -> list[str]:
    """Directions of links whose far end got another number than the near end delivered.

    A host's kernel counts frames before XDP does, a switch those that came to its packet socket.
    """
    unbalanced = []
    for link in net.links:
        for near, far in (link, link[::-1]):
            sent, received = _delivered(net, near), _arrived(net, far)
            if far.node in net.counters:
                received += consumed_by_xdp.get(far.interface, 0)
            if sent != received:
                unbalanced.append(
                    f"{near.interface} delivered {sent}, {far.interface} got {received}"
                )
    return unbalanced


def _delivered(net: Network, end: LinkEnd) -> int:
    """Frames that left a node and its link."""
    if end.node not in net.counters:
        return net.interface_counters[end.interface]["sent"]
    port = net.counters[end.node]["ports"][str(end.port)]
    link = port["link"]  # what it got: nothing where there is none, or before there was one
    return int(port["transmitted_packets"] - link["sent_packets"] + link["delivered_packets"])


def _arrived(net: Network, end: LinkEnd) -> int:
    if end.node not in net.counters:
        return net.interface_counters[end.interface]["received"]
    return int(net.counters[end.node]["ports"][str(end.port)]["received_packets"])
