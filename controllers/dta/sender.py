"""Base class of the two kinds of senders of DTA reports: reporters and INT sinks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

import finsy as fy

from controllers.dta.watch import (
    NODES,
    EventList,
    Postcards,
    ReportKind,
    Reports,
    WatchedFlow,
    entries_of,
)
from controllers.readout import Readouts
from controllers.roce.running import replace
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.topology.routes import next_hops

MAX_TRANSLATORS = 15
NUMBERS = 1 << 16  # number of possible reporter numbers
STATE = 1  # readout record of p4src/dta/reporter_ring.p4
_SESSIONS = 400  # clone session of the first translator


@dataclass(frozen=True)
class Sender(ABC):
    """A switch that reports flows to translators.

    `address` is the switch's own address. `number` is the reporter number in its reports. Reports
    are addressed to the hosts `translators`, which are numbered from 1. Each flow uses one of them.
    `key_node` is a part of the key of each flow. Raises ValueError for invalid parameters.
    """

    address: str  # IPv4
    translators: Sequence[str]
    flows: Sequence[WatchedFlow]
    number: int = 0
    postcards: Postcards | None = None
    started: EventList | None = None
    key_node: int = 0

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"reporter {self.address}: {problem}")

    @property
    def mac(self) -> str:
        """MAC address. It is derived from the IP address, so that it is unique in a network."""
        octets = int(IPv4Address(self.address)).to_bytes(4, "big")
        return "06:01:" + ":".join(f"{octet:02x}" for octet in octets)

    @property
    def reports(self) -> Mapping[ReportKind, Reports | None]:
        """Return the configuration of each kind of report, or None if a kind is not configured."""
        return {ReportKind.START: self.started, ReportKind.POSTCARD: self.postcards}

    @property
    @abstractmethod
    def plans(self) -> Sequence[str]:
        """Return the full names of the controls that plan reports in the switch's program."""

    def entries(self) -> list[fy.P4TableEntry]:
        """Return the table entries for the flows and the reports of the switch."""
        flow_key = fy.Action("set_flow_key", node=self.key_node, count=len(self.translators))
        return [
            fy.P4TableEntry("flow_keys", action=flow_key, is_default_action=True),
            *(flow.entry() for flow in self.flows),
            *(entry for plan in self.plans for entry in entries_of(plan, self.reports)),
        ]

    def _problem(self) -> str:
        if not 1 <= len(self.translators) <= MAX_TRANSLATORS:
            return f"{len(self.translators)} translators: expected 1 to {MAX_TRANSLATORS}"
        for what, value, limit in (("number", self.number, NUMBERS),
                                   ("key_node", self.key_node, NODES)):  # fmt: skip
            if not 0 <= value < limit:
                return f"{what} {value}: expected 0 to {limit - 1}"
        enabled = {want: reports for want, reports in self.reports.items() if reports is not None}
        for flow in self.flows:
            if missing := flow.wanted & ~sum(enabled, start=ReportKind(0)):
                return (f"flow {flow.src_addr} -> {flow.dst_addr} wants {missing!r}, but these "
                        f"reports are not configured")  # fmt: skip
        for reports in enabled.values():
            if isinstance(reports, EventList) and not (
                1 <= reports.translator <= len(self.translators)
            ):
                return f"{reports}: expected a translator from 1 to {len(self.translators)}"
        return ""


async def begin(net: Network, switch: fy.Switch, sender: Sender) -> list[fy.P4TableEntry]:
    """Create the clone sessions of the switch, and reset its sequence numbers.

    Returns the table entries with the addresses of translators. Raises TestbedError and finsy's
    P4ClientError.
    """
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch.name)
    ports = [net.port(switch.name, ways[host][0]) for host in sender.translators]
    for number, port in enumerate(ports, 1):
        await replace(switch, fy.P4CloneSessionEntry(_SESSIONS + number, replicas=[port]))
    async with Readouts(switch) as readouts:
        for number in range(1, len(sender.translators) + 1):
            await readouts.write(STATE, number)
    return [
        entry for number, port in enumerate(ports, 1) for entry in _ends(net, sender, number, port)
    ]  # fmt: skip


def ways_to_senders(
    net: Network, switch: str, senders: Mapping[str, Sender]
) -> list[fy.P4TableEntry]:
    """Return a switch's entries that forward NACKs to senders other than this switch.

    Raises TestbedError.
    """
    macs = [sender.mac for sender in senders.values()]
    if len({*macs}) < len(macs):
        addresses = [sender.address for sender in senders.values()]
        raise TestbedError(f"reporters with addresses {addresses}: expected different addresses")
    found = []
    for name, sender in senders.items():
        if name != switch:
            way = next_hops(net.topo.links(), [*net.topo.hosts(), name], switch)[name][0]
            match = fy.Match({"hdr.ethernet.dst_addr": sender.mac})
            action = fy.Action("forward", port=net.port(switch, way))
            found.append(fy.P4TableEntry("forwarding", match=match, action=action))
    return found


def _ends(net: Network, sender: Sender, number: int, port: int) -> list[fy.P4TableEntry]:
    """Return the entries with the addresses of a translator, for reports and for NACKs."""
    host = net.host(sender.translators[number - 1])
    here = {"src_mac": sender.mac, "src_addr": sender.address,
            "reporter_number": sender.number}  # fmt: skip
    send = fy.Action("address_report", **here, dst_mac=host.MAC(), dst_addr=host.IP())
    nack_source = fy.Match({"hdr.ipv4.src_addr": host.IP(), "hdr.ipv4.dst_addr": sender.address})
    return [
        fy.P4TableEntry("translators", match=fy.Match({"report.translator": number}), action=send),
        fy.P4TableEntry("nack_sources", match=nack_source,
                        action=fy.Action("process", translator=number, port=port)),
    ]  # fmt: skip
