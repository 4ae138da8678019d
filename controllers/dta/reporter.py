"""DTA reporters: switches that report of flows to translators; the P4 side is p4src/dta/.

reporter = Reporter("10.255.0.1", ["h2"], [WatchedFlow("10.0.0.0/8", "0.0.0.0/0")], data=Data())
async with connections(net) as switches:
    await configure(net, switches, {"s1": reporter})

Reports go to collectors' addresses: the translator on the way takes them (its services).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import finsy as fy

from controllers.dta.sender import STATE, Sender, begin, ways_to_senders
from controllers.dta.watch import ALL, NEVER_US, Counts, Data, EventList, ReportKind, Reports
from controllers.forwarding import forwarding_entries
from controllers.readout import CLOCK_BITS, Readouts
from controllers.routing import routing_entries
from controllers.tables import reconcile
from telemark.network import Network
from telemark.topology.routes import Route

EVENTS = ("sent", "nacked", "resent", "not kept", "absurd", "late", "unpaid")
"""What is counted of a translator, in the order of p4src/dta/reporter_ring.p4."""

_KINDS = 16  # counters of a translator


@dataclass(frozen=True)
class Reporter(Sender):
    """What a switch reports of all flows that pass it: see Sender.

    `node_id` is in the flows' records, and its postcards. A flow that was idle for `idle_us` is new
    again. With `routes` it is a router, and forwards by MAC address to translators and reporters
    alone. What is a change is said by `data`, of postcards too. Raises ValueError for what cannot
    be.
    """

    data: Data | None = None
    counts: Counts | None = None
    resent: EventList | None = None
    dropped: EventList | None = None
    idle_us: int = NEVER_US
    node_id: int = 0
    clock_offset_us: int = 0
    routes: Sequence[Route] | None = None

    @property
    def reports(self) -> Mapping[ReportKind, Reports | None]:
        """See Sender."""
        return {
            **super().reports, ReportKind.DATA: self.data, ReportKind.COUNT: self.counts,
            ReportKind.RESENT: self.resent, ReportKind.DROPPED: self.dropped,
        }  # fmt: skip

    @property
    def plans(self) -> Sequence[str]:
        """See Sender."""
        return "ReporterIngress.plan_drop", "ReporterEgress.reports.plan"

    def entries(self) -> list[fy.P4TableEntry]:
        """What it makes of flows: entries of its tables."""
        data = self.data or Data(changes=())
        follow = fy.Action(
            "follow", node=self.node_id, clock_offset_us=self.clock_offset_us % (1 << CLOCK_BITS),
            share=round(data.share * ALL), mask=data.mask, shift=32 * data.first,
            idle_us=self.idle_us,
        )  # fmt: skip
        flows = fy.P4TableEntry("flows", action=follow, is_default_action=True)
        return [*super().entries(), flows]

    def _problem(self) -> str:
        if not 0 < self.idle_us <= NEVER_US:
            return f"idle_us {self.idle_us}: expected 1 to 2^48 - 1"
        return super()._problem()


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
        await reconcile(
            switches[name],
            [
                *await begin(net, switches[name], reporter),
                *_ways(net, name, reporter),
                *ways_to_senders(net, name, reporters),
                *reporter.entries(),
            ],
        )


async def events(switch: fy.Switch, translator: int = 1) -> dict[str, int]:
    """What was counted of a reporter's nth translator, by EVENTS."""
    first = translator * _KINDS
    wanted = [fy.P4CounterEntry("dta_events", index=first + n) for n in range(len(EVENTS))]
    # finsy's overloads of read() name a coroutine; it is an async generator.
    found = switch.read(wanted)
    return {EVENTS[entry.index - first]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


async def state(switch: fy.Switch, translator: int = 1) -> State:
    """Return where a reporter is with its nth translator. Raises ReadoutTimeoutError."""
    async with Readouts(switch) as readouts:
        return State(*(await readouts.read(STATE, translator)).arrival[:3])


def _ways(net: Network, switch: str, reporter: Reporter) -> list[fy.P4TableEntry]:
    """Entries by which hosts' packets and reports find their way."""
    if reporter.routes is None:
        return forwarding_entries(net, switch)
    return [
        *forwarding_entries(net, switch, reporter.translators),
        *routing_entries(net, switch, reporter.routes),
    ]
