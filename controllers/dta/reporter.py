"""DTA reporters: switches that report of flows to translators; the P4 side is p4src/dta/.

reporter = Reporter("10.255.0.1", ["h2"], [WatchedFlow("10.0.0.0/8", "0.0.0.0/0")], data=Data())
async with connections(net) as switches:
    await configure(net, switches, {"s1": reporter})

Reports go to collectors' addresses: the translator on the way takes them (its services).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

import finsy as fy

from controllers.dta.watch import (
    ALL,
    NEVER_US,
    NODES,
    Counts,
    Data,
    EventList,
    Postcards,
    Want,
    WatchedFlow,
)
from controllers.forwarding import forwarding_entries
from controllers.readout import CLOCK_BITS
from controllers.roce.running import replace
from controllers.routing import routing_entries
from controllers.tables import reconcile
from testbed.errors import TestbedError
from testbed.network import Network
from testbed.routes import Route, next_hops

EVENTS = ("sent", "nacked", "resent", "not kept", "absurd", "late", "unpaid")
"""What is counted of a translator, in the order of p4src/dta/reporter_ring.p4."""

MAX_TRANSLATORS = 15
NUMBERS = 1 << 16  # of reporters
_KINDS = 16  # counters of a translator
_STATE = ("dta_next", "dta_left", "dta_unpaid")  # registers, by translator
_SESSIONS = 400  # of clones: that of translator 0


@dataclass(frozen=True)
class Reporter:
    """What a switch reports, and to whom.

    `address` is its own, and `number` the one that its reports have. `translators`: hosts whose
    addresses reports are sent to, the first has number 1; a flow keeps to one of them. `key_node`
    is in the keys of its flows, and `node_id` in their records. A flow that was idle for `idle_us`
    is new again. With `routes` it is a router, and forwards by MAC address to translators and
    reporters alone. What is a change is said by `data`, of postcards too. Raises ValueError for
    what cannot be.
    """

    address: str  # IPv4
    translators: Sequence[str]
    flows: Sequence[WatchedFlow]
    number: int = 0
    data: Data | None = None
    counts: Counts | None = None
    postcards: Postcards | None = None
    started: EventList | None = None
    resent: EventList | None = None
    dropped: EventList | None = None
    idle_us: int = NEVER_US
    node_id: int = 0
    key_node: int = 0
    clock_offset_us: int = 0
    routes: Sequence[Route] | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"reporter {self.address}: {problem}")

    @property
    def mac(self) -> str:
        """Its own; its address makes it unique in a network."""
        octets = int(IPv4Address(self.address)).to_bytes(4, "big")
        return "06:01:" + ":".join(f"{octet:02x}" for octet in octets)

    @property
    def reports(self) -> dict[Want, Data | Counts | Postcards | EventList]:
        """What is told of flows, by kind."""
        found = {
            Want.DATA: self.data, Want.COUNT: self.counts, Want.START: self.started,
            Want.RESENT: self.resent, Want.DROPPED: self.dropped, Want.POSTCARD: self.postcards,
        }  # fmt: skip
        return {want: reports for want, reports in found.items() if reports is not None}

    def entries(self) -> list[fy.P4TableEntry]:
        """What it makes of flows: entries of its tables."""
        data = self.data or Data(changes=())
        follow = fy.Action(
            "follow", node=self.node_id, clock_offset_us=self.clock_offset_us % (1 << CLOCK_BITS),
            share=round(data.share * ALL), mask=data.mask, shift=32 * data.first,
            idle_us=self.idle_us,
        )  # fmt: skip
        defaults = {
            "naming": fy.Action("name_flow", node=self.key_node, count=len(self.translators)),
            "flows": follow,
        }
        for table, reports in (("data_reports", self.data), ("count_reports", self.counts),
                               ("postcards", self.postcards)):  # fmt: skip
            action = reports.action() if reports else fy.Action("plan.no_report")
            defaults[f"plan.{table}"] = action
        lists = [
            reports.entry(plan, want)
            for want, reports in self.reports.items() if isinstance(reports, EventList)
            for plan in ("plan_drop", "plan")
        ]  # fmt: skip
        return [
            *(fy.P4TableEntry(t, action=a, is_default_action=True) for t, a in defaults.items()),
            *(flow.entry() for flow in self.flows),
            *lists,
        ]

    def _problem(self) -> str:
        if not 1 <= len(self.translators) <= MAX_TRANSLATORS:
            return f"{len(self.translators)} translators: expected 1 to {MAX_TRANSLATORS}"
        for what, value, limit in (("number", self.number, NUMBERS),
                                   ("key_node", self.key_node, NODES)):  # fmt: skip
            if not 0 <= value < limit:
                return f"{what} {value}: expected 0 to {limit - 1}"
        if not 0 < self.idle_us <= NEVER_US:
            return f"idle_us {self.idle_us}: expected 1 to 2^48 - 1"
        for flow in self.flows:
            if untold := flow.wanted & ~sum(self.reports, start=Want(0)):
                return (f"of flow {flow.src_addr} -> {flow.dst_addr} {untold!r} is wanted, and not "
                        "said how it is told")  # fmt: skip
        for reports in self.reports.values():
            if isinstance(reports, EventList) and not (
                1 <= reports.translator <= len(self.translators)
            ):
                return f"{reports}: it has {len(self.translators)} translators"
        return ""


@dataclass(frozen=True)
class State:
    """Of a translator, in its reporter: the next report's number, and how many reports were asked
    for when they had left the ring, and when new reports had not paid for so many."""

    next: int
    left: int
    unpaid: int


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], reporters: Mapping[str, Reporter]
) -> None:
    """Fill the tables of reporters; numbers begin anew. Other switches are left alone.

    Raises TestbedError and finsy's P4ClientError.
    """
    for name, reporter in reporters.items():
        switch = switches[name]
        ways = next_hops(net.topo.links(), net.topo.hosts(), name)
        ports = [net.port(name, ways[host][0]) for host in reporter.translators]
        for number, port in enumerate(ports, 1):
            await replace(switch, fy.P4CloneSessionEntry(_SESSIONS + number, replicas=[port]))
        await switch.write([~fy.P4RegisterEntry("dta_next", data=0)])
        ends = [
            entry for number, port in enumerate(ports, 1)
            for entry in _ends(net, reporter, number, port)
        ]  # fmt: skip
        await reconcile(
            switch,
            [
                *_ways(net, name, reporter),
                *ways_to_reporters(net, name, reporters),
                *ends,
                *reporter.entries(),
            ],
        )


def ways_to_reporters(
    net: Network, switch: str, reporters: Mapping[str, Reporter]
) -> list[fy.P4TableEntry]:
    """Entries by which NACKs to the other switches come there. Raises TestbedError."""
    macs = [reporter.mac for reporter in reporters.values()]
    if len({*macs}) < len(macs):
        addresses = [reporter.address for reporter in reporters.values()]
        raise TestbedError(f"reporters with the addresses {addresses}: expected each once")
    found = []
    for name, reporter in reporters.items():
        if name != switch:
            way = next_hops(net.topo.links(), [*net.topo.hosts(), name], switch)[name][0]
            match = fy.Match({"hdr.ethernet.dst_addr": reporter.mac})
            action = fy.Action("forward", port=net.port(switch, way))
            found.append(fy.P4TableEntry("forwarding", match=match, action=action))
    return found


async def events(switch: fy.Switch, translator: int = 1) -> dict[str, int]:
    """What was counted of a reporter's nth translator, by EVENTS."""
    first = translator * _KINDS
    wanted = [fy.P4CounterEntry("dta_events", index=first + n) for n in range(len(EVENTS))]
    # finsy's overloads of read() name a coroutine; it is an async generator.
    found = switch.read(wanted)
    return {EVENTS[entry.index - first]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


async def state(switch: fy.Switch, translator: int = 1) -> State:
    """Where a reporter is with its nth translator."""
    wanted = [fy.P4RegisterEntry(name, index=translator) for name in _STATE]
    found = [entry.data async for entry in switch.read(wanted)]  # type: ignore[attr-defined]
    return State(*found)


def _ways(net: Network, switch: str, reporter: Reporter) -> list[fy.P4TableEntry]:
    """Entries by which hosts' packets and reports find their way."""
    entries = forwarding_entries(net, switch)
    if reporter.routes is None:
        return entries
    macs = [net.host(host).MAC() for host in reporter.translators]
    matches = [fy.Match({"hdr.ethernet.dst_addr": mac}) for mac in macs]
    to_translators = [entry for entry in entries if entry.match in matches]
    return [*to_translators, *routing_entries(net, switch, reporter.routes)]


def _ends(net: Network, reporter: Reporter, number: int, port: int) -> list[fy.P4TableEntry]:
    """A translator's addresses, for reports, and for its NACKs."""
    host = net.host(reporter.translators[number - 1])
    here = {"src_mac": reporter.mac, "src_addr": reporter.address,
            "reporter_number": reporter.number}  # fmt: skip
    send = fy.Action("send_report", **here, dst_mac=host.MAC(), dst_addr=host.IP())
    heard = fy.Match({"hdr.ipv4.src_addr": host.IP(), "hdr.ipv4.dst_addr": reporter.address})
    return [
        fy.P4TableEntry("translators", match=fy.Match({"report.translator": number}), action=send),
        fy.P4TableEntry("translators_heard", match=heard,
                        action=fy.Action("hear", translator=number, port=port)),
    ]  # fmt: skip
