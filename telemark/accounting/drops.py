"""Dropped packets, and flows that lost all their packets, of all networks in a run.

The packet accounting balances even if a switch drops every packet, or if a host drops every frame
because of a wrong checksum. Therefore a run reports unexpected drops, and fails if a flow lost all
its packets.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemark.accounting.rejected import Fault, RejectedFrames
from telemark.errors import TestbedError
from telemark.results.report import Check
from telemark.traffic.flows import AnyRecord, FlowRecord

# REASONS maps a drop reason of `minip4 switch` (docs/reference/minip4.md) to the text of its
# warning; {} stands for the port. Reasons that are always expected cause no warning: the user has
# configured the rate and the loss of links.
ALWAYS_EXPECTED = {"queue"}
REASONS = {
    "miss": "received at port {} were dropped in ingress by the default action of a table without "
    "a matching entry (--trace shows the table: docs/reference/minip4.md)",
    "ingress": "received at port {} were dropped in ingress by an action or statement of the "
    "program (--trace shows the statement: docs/reference/minip4.md)",
    "egress": "for port {} were dropped in egress by the program",
    "no_port": "were dropped: port {} does not exist, or is down",
    "no_group": "received at port {} were dropped: their multicast group has no ports",
    "no_queue": "were dropped: port {} has no queue of the packets' priority",
    "again": "received at port {} were dropped: too many packets were recirculated or resubmitted",
    "memory": "received at port {} were dropped: no buffer for copies",
    "headers": "for port {} were dropped: headers exceed the buffer",
    "too_long": "received at port {} were dropped: longer than 9,216 bytes",
    "receive_memory": "received at port {} were dropped: no buffer",
    "kernel_receive": "received at port {} were dropped by the kernel: its receive buffer was full",
    "bmv2": "were dropped inside bmv2 (sum over all ports)",
    "kernel_send": "for port {} were dropped: the kernel rejected them",
}
MAX_WARNINGS = 8


@dataclass(frozen=True)
class Drop:
    """Packets that a switch dropped at a port for one reason."""

    network: str
    switch: str
    port: str
    reason: str
    packets: int
    expected: bool


@dataclass
class DropReport:
    """Dropped packets, and flows that lost all their packets, of all networks in a run."""

    drops: list[Drop] = field(default_factory=list)
    flows: list[str] = field(default_factory=list)  # descriptions of flows that lost all packets
    rejected: list[RejectedFrames] = field(default_factory=list)  # frames that hosts rejected

    def add(self, other: "DropReport") -> None:
        """Add the report of another run."""
        self.drops += other.drops
        self.flows += other.flows
        self.rejected += other.rejected

    def add_network(
        self, network: str, counters: Mapping[str, Mapping[str, Any]], expected: Collection[str]
    ) -> None:
        """Add the drops of a network that has stopped; `counters` maps switches to counters."""
        is_expected = {*expected, *ALWAYS_EXPECTED}
        if expects_program_drops(expected):
            is_expected.add("bmv2")  # any drop by bmv2 may be a drop by the program
        for switch, counted in counters.items():
            for port, port_counters in {**counted["ports"], **counted["other_ports"]}.items():
                self.drops += [
                    Drop(network, switch, port, reason, packets, reason in is_expected)
                    for reason, packets in port_counters["drops"].items()
                    if packets and reason != "link"
                ]

    def add_flows(self, network: str, records: Iterable[AnyRecord]) -> None:
        """Add the flows that lost all packets in a network, except flows with allow_total_loss."""
        self.flows += [
            f"{network}: flow {record.flow.id} from {record.flow.source} to "
            f"{record.flow.destination}"
            for record in records
            if not len(record.received)
            and not (isinstance(record, FlowRecord) and record.flow.allow_total_loss)
        ]

    def checks(self) -> list[Check]:
        """Return the failed checks: one per kind of rejected frames, and one for all dead flows."""
        checks = []
        for fault in Fault:
            frames, where = Counter[str](), [each for each in self.rejected if each.fault is fault]
            for each in where:
                frames[each.host] += each.frames
            if where:
                hosts = ", ".join(f"{count} at {host}" for host, count in frames.items())
                checks.append(Check(f"frames {fault.value} at hosts ({hosts})", frames.total(), 0))
        if self.flows:
            more = f" and {len(self.flows) - 1} more" if len(self.flows) > 1 else ""
            name = f"flows that lost all packets ({self.flows[0]}{more})"
            checks.append(Check(name, len(self.flows), 0))
        return checks

    def warnings(self) -> list[str]:
        """Return one line per switch, port and drop reason, with the sum over all networks.

        Lines with larger sums come first.
        """
        packets: Counter[tuple[str, str, str]] = Counter()
        for drop in self.drops:
            if not drop.expected:
                packets[drop.switch, drop.port, drop.reason] += drop.packets
        lines = [
            f"warning: switch {switch}: {count:,} packets {REASONS[reason].format(port)}"
            for (switch, port, reason), count in packets.most_common(MAX_WARNINGS)
        ]
        if len(packets) > MAX_WARNINGS:
            more = len(packets) - MAX_WARNINGS
            lines.append(f"warning: {more} more switch ports dropped packets: see summary.json")
        return [*self._host_warnings(), *lines]

    def _host_warnings(self) -> list[str]:
        """Return one line per host and kind of fault.

        A line has the sum over all networks, and one example.
        """
        lines = {}
        for each in self.rejected:
            key = each.host, each.fault
            same = [other for other in self.rejected if (other.host, other.fault) == key]
            example = next((f": {other.example}" for other in same if other.example), "")
            frames = sum(other.frames for other in same)
            lines[key] = (f"warning: host {each.host}: dropped {frames:,} frames "
                          f"{each.fault.value}{example}")  # fmt: skip
        return [*lines.values()]


def expects_program_drops(expected: Collection[str]) -> bool:
    """Return whether the drop reasons that a network expects include drops by its P4 programs."""
    return not {"miss", "ingress", "egress"}.isdisjoint(expected)


def check_drop_reasons(names: Collection[str]) -> Collection[str]:
    """Return the given drop reasons. Raises TestbedError for names that are not in REASONS."""
    names = (names,) if isinstance(names, str) else names
    if unknown := sorted({*names} - REASONS.keys()):
        raise TestbedError(f"expected_drops: unknown reason {unknown[0]!r}; use one of "
                           f"{', '.join(REASONS)}")  # fmt: skip
    return names
