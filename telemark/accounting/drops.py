"""What the networks of a run did not deliver: flows that did not arrive, and what switches dropped.

Books balance when a switch drops every packet, since it says so. Somebody must have wanted it.
They also balance when a host drops frames because of a wrong checksum.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemark.accounting.rejected import Fault, RejectedFrames
from telemark.errors import TestbedError
from telemark.results.report import Check
from telemark.traffic.flows import AnyRecord, FlowRecord

# Reasons of `minip4 switch` (docs/minip4.md), and what is told of each: {} is a port. `queue` and
# `link` are not among them: queues fill up, and links lose, by a rate or a loss that was set.
ALWAYS_EXPECTED = {"queue"}
REASONS = {
    "miss": "came in at port {} and were dropped in ingress by a table's default action: it had no "
    "entry for them (--trace tells which table: docs/minip4.md)",
    "ingress": "came in at port {} and were dropped by the program in ingress: an entry or a "
    "statement said so (--trace tells which: docs/minip4.md)",
    "egress": "were to leave by port {}: the program dropped them in egress",
    "no_port": "were sent to port {}, which is not there, or was down",
    "no_group": "came in at port {} and were sent to a multicast group without ports",
    "no_queue": "were sent to port {} with a priority above those that it has",
    "again": "came in at port {} and were to be parsed again, as too many were",
    "memory": "came in at port {}: there was no buffer for copies of them",
    "headers": "were to leave by port {}: their headers grew beyond their buffers",
    "too_long": "came in at port {}, longer than 9,216 bytes",
    "receive_memory": "came in at port {}: there was no buffer for them",
    "kernel_receive": "came in at port {}: the kernel had no room for them",
    "bmv2": "went into bmv2 by all ports together, and did not come out",
    "kernel_send": "were to leave by port {}: the kernel refused them",
}
SHOWN = 8  # lines


@dataclass(frozen=True)
class Drop:
    """Packets that a switch of a network dropped at a port, for a reason."""

    network: str
    switch: str
    port: str
    reason: str
    packets: int
    expected: bool


@dataclass
class DropReport:
    """Of all networks of one run."""

    drops: list[Drop] = field(default_factory=list)
    flows: list[str] = field(default_factory=list)  # of which nothing arrived
    rejected: list[RejectedFrames] = field(
        default_factory=list
    )  # by hosts, for wrong checksums etc.

    def add(self, other: "DropReport") -> None:
        """Add what the networks of another run did not deliver."""
        self.drops += other.drops
        self.flows += other.flows
        self.rejected += other.rejected

    def add_network(
        self, network: str, counters: Mapping[str, Mapping[str, Any]], expected: Collection[str]
    ) -> None:
        """What its switches counted until its end, by their names."""
        meant = {*expected, *ALWAYS_EXPECTED}
        if expects_program_drops(expected):
            meant.add("bmv2")  # which does not say who dropped them
        for switch, counted in counters.items():
            for port, of_port in {**counted["ports"], **counted["other_ports"]}.items():
                self.drops += [
                    Drop(network, switch, port, reason, packets, reason in meant)
                    for reason, packets in of_port["drops"].items()
                    if packets and reason != "link"
                ]

    def add_flows(self, network: str, records: Iterable[AnyRecord]) -> None:
        """What became of its flows."""
        self.flows += [
            f"{network}: flow {record.flow.id} from {record.flow.source} to "
            f"{record.flow.destination}"
            for record in records
            if not len(record.received)
            and not (isinstance(record, FlowRecord) and record.flow.allow_total_loss)
        ]

    def checks(self) -> list[Check]:
        """Those that fail, where nothing arrived of flows or hosts refused frames; else none."""
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
            name = f"flows of which nothing arrived ({self.flows[0]}{more})"
            checks.append(Check(name, len(self.flows), 0))
        return checks

    def warnings(self) -> list[str]:
        """A line for each switch, port and reason, over all networks; the worst ones first."""
        packets: Counter[tuple[str, str, str]] = Counter()
        for drop in self.drops:
            if not drop.expected:
                packets[drop.switch, drop.port, drop.reason] += drop.packets
        lines = [f"warning: switch {switch}: {count:,} packets {REASONS[reason].format(port)}"
                 for (switch, port, reason), count in packets.most_common(SHOWN)]  # fmt: skip
        if len(packets) > SHOWN:
            lines.append(f"warning: and {len(packets) - SHOWN} more such: see summary.json")
        return [*self._warnings_of_hosts(), *lines]

    def _warnings_of_hosts(self) -> list[str]:
        """A line for each host and fault, over all networks, with the first example."""
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
    """Whether a network's programs are expected to drop packets."""
    return not {"miss", "ingress", "egress"}.isdisjoint(expected)


def check_drop_reasons(names: Collection[str]) -> Collection[str]:
    """The names, of REASONS. Raises TestbedError for others."""
    names = (names,) if isinstance(names, str) else names
    if unknown := sorted({*names} - REASONS.keys()):
        raise TestbedError(f"expected_drops: no reason {unknown[0]!r}: there are "
                           f"{', '.join(REASONS)}")  # fmt: skip
    return names
