"""Packet accounting of a network: sent = received + dropped + consumed.

The accounting compares two independent sources: the counters of switches and links, and the
counters of the kernel. A run is inconclusive if the kernel dropped a packet. Drops by bmv2 also
make it inconclusive (see from_network()): bmv2 reports no reason for a drop, so a drop could be
mistaken for a loss on a link.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telemark.accounting.drops import expects_program_drops
from telemark.accounting.rejected import Fault
from telemark.errors import IDLE_MACHINE, InvalidRunError, note_invalid
from telemark.network import LinkEnd, Network
from telemark.results.report import Check
from telemark.traffic.flows import AnyRecord, FlowRecord

SWITCH_DROPS = ("ingress_drops", "egress_drops", "queue_drops", "no_port_drops", "memory_drops")


@dataclass(frozen=True)
class PacketAccounting:
    """Packet counts of one network from start to stop.

    TCP packets are counted among the frames of hosts, not among the packets of flows.
    """

    sent: int  # number of packets that UDP flows and applications sent
    received: int  # number of packets that UDP flows and applications received
    hosts_sent: int  # number of all frames that hosts sent, according to kernel counters
    hosts_received: int
    lost_by_links: dict[str, int]  # map from egress interface to number of frames
    # map from switch to (map from drop reason to number of packets)
    dropped_by_switches: dict[str, dict[str, int]]
    added_by_switches: int  # number of copies that programs made, and of packet-outs
    taken_by_controllers: int
    left_in_queues: int  # number of packets that were still in queues of switches at the end
    # map from interface to the number of frames that XDP programs consumed, by their own counters
    consumed_by_xdp: dict[str, int]
    _consumed_at_switches: int  # number of frames consumed by XDP at interfaces of switches
    # names and counters of the switches and links whose counters do not balance
    unbalanced: list[str]

    @classmethod
    def from_network(
        cls, net: Network, records: Mapping[int, AnyRecord],
        consumed_by_xdp: Mapping[str, int] | None = None,
    ) -> "PacketAccounting":  # fmt: skip
        """Compute the accounting of a network that has stopped.

        `consumed_by_xdp` maps an interface to the number of frames that XDP programs consumed
        before the packet socket. Drops by the kernel make the run inconclusive. Drops by bmv2 also
        make it inconclusive, unless the network expects its programs to drop packets, because bmv2
        does not distinguish drops by programs from other drops.
        """
        consumed_by_xdp = consumed_by_xdp or {}
        datagrams = [record for record in records.values() if isinstance(record, FlowRecord)]
        _reject_kernel_drops(net, datagrams)
        missing = _missing_in_bmv2(net.counters)
        if not expects_program_drops(net.expected_drops):
            _reject_bmv2_drops(missing)
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
                    **({"bmv2_drops": max(missing[name], 0)} if name in missing else {}),
                }
                for name, engine in engines.items()
            },
            added_by_switches=sum(engine["replicas"] for engine in engines.values())
            + sum(max(-count, 0) for count in missing.values())
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
            unbalanced=[*_unbalanced_switches(engines), *_unbalanced_links(net, consumed_by_xdp)],
        )

    @property
    def unaccounted_frames(self) -> int:
        """Number of frames that were sent, but not received, dropped, consumed or queued.

        The number is 0 if the accounting balances.
        """
        dropped = sum(sum(reasons.values()) for reasons in self.dropped_by_switches.values())
        sent = self.hosts_sent + self.added_by_switches
        received = self.hosts_received + sum(self.lost_by_links.values()) + dropped
        consumed = self.taken_by_controllers + self.left_in_queues + self._consumed_at_switches
        return sent - received - consumed

    def checks(
        self, prefix: str = "accounting", *, unclaimed: int | None = None
    ) -> list[Check]:  # fmt: skip
        """Return the checks that apply to every network.

        `unclaimed` is the number of frames that hosts receive outside of flows and applications, if
        it is known. Otherwise, there may be as many as hosts and switches sent outside of them.
        """
        at_hosts = sum(self.consumed_by_xdp.values()) - self._consumed_at_switches
        others = self.hosts_sent - self.sent + self.added_by_switches
        where = f" ({'; '.join(self.unbalanced)})" if self.unbalanced else ""
        return [
            Check(f"{prefix}: unaccounted frames", self.unaccounted_frames, 0),
            Check(
                f"{prefix}: accounting mismatches (switches, links){where}", len(self.unbalanced), 0
            ),
            Check(
                f"{prefix}: unclaimed frames at hosts",
                self.hosts_received - self.received - at_hosts, unclaimed or 0,
                tolerance=others if unclaimed is None else 0,
            ),
        ]  # fmt: skip


def _reject_kernel_drops(net: Network, records: Sequence[FlowRecord]) -> None:
    drops = {f"host {name}, UDP": count for name, count in net.udp_losses.items()}
    for name, interface in net.interface_counters.items():
        drops[f"interface {name}"] = interface["dropped"]
    for name, counters in net.counters.items():
        for port in counters["ports"].values():
            drops[f"packet socket of {name} on {port['interface']}"] = sum(port["kernel"].values())
    # A UDP socket counts malformed datagrams as drops.
    malformed = {each.host: each.frames for each in net.rejected if each.fault is Fault.MALFORMED}
    for record in records:
        unexplained = record.kernel_drops - malformed.get(record.flow.destination, 0)
        drops[f"receiving socket of flow {record.flow.id}"] = max(unexplained, 0)
    for application in net.applications:
        unexplained = application.kernel_drops - malformed.get(application.host, 0)
        drops[str(application)] = max(unexplained, 0)
    found = [f"{count} at {place}" for place, count in drops.items() if count]
    if found:
        problem = f"the kernel dropped packets ({', '.join(found)})"
        note_invalid(InvalidRunError(problem, f"lower the rate or {IDLE_MACHINE}"))


def _missing_in_bmv2(counters: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    """Return for each bmv2 switch how many more frames have entered bmv2 than have left it."""
    return {
        name: counted["inner"]["into"] - counted["inner"]["out"]
        for name, counted in counters.items()
        if "inner" in counted
    }


def _reject_bmv2_drops(missing: Mapping[str, int]) -> None:
    found = [f"{count} in {name}" for name, count in missing.items() if count > 0]
    if found:
        problem = f"bmv2 dropped frames ({', '.join(found)})"
        note_invalid(InvalidRunError(problem, f"lower the rate or {IDLE_MACHINE}"))


def _unbalanced_switches(engines: Mapping[str, dict[str, int]]) -> list[str]:
    """List the switches whose counters do not balance.

    A switch is balanced if received + copies = transmitted + dropped + queued (engine.h).
    """
    unbalanced = []
    for name, engine in engines.items():
        received = engine["received"] + engine["replicas"]
        left = engine["transmitted"] + sum(engine[reason] for reason in SWITCH_DROPS)
        queued = engine["in_queues"]
        if received != left + queued:
            unbalanced.append(f"{name}: {received} received, {left} left, {queued} queued")
    return unbalanced


def _unbalanced_links(net: Network, consumed_by_xdp: Mapping[str, int]) -> list[str]:
    """List the link directions whose two ends counted different numbers of frames.

    The kernel of a host counts frames before XDP programs see them. A switch counts frames at its
    packet socket, which gets them after XDP.
    """
    unbalanced = []
    for link in net.links:
        for near, far in (link, link[::-1]):
            sent, received = _delivered(net, near), _arrived(net, far)
            if far.node in net.counters:
                received += consumed_by_xdp.get(far.interface, 0)
            if sent != received:
                unbalanced.append(
                    f"{near.interface} delivered {sent}, {far.interface} received {received}"
                )
    return unbalanced


def _delivered(net: Network, end: LinkEnd) -> int:
    """Return the number of frames that left a node and were not lost by its link."""
    if end.node not in net.counters:
        return net.interface_counters[end.interface]["sent"]
    port = net.counters[end.node]["ports"][str(end.port)]
    link = port["link"]  # this counter is 0 for a link without properties
    return int(port["transmitted_packets"] - link["sent_packets"] + link["delivered_packets"])


def _arrived(net: Network, end: LinkEnd) -> int:
    if end.node not in net.counters:
        return net.interface_counters[end.interface]["received"]
    return int(net.counters[end.node]["ports"][str(end.port)]["received_packets"])
