"""DTA reporters: switches that report flows to translators. P4: p4src/dta/.

    reporter = Reporter("10.255.0.1", ["h2"], [WatchedFlow("10.0.0.0/8", "0.0.0.0/0")], data=Data())
    async with connections(net) as switches:
        await configure(net, switches, {"s1": reporter})

A report is addressed to a collector. The translator on the path to the collector intercepts it (see
Service).
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

EVENTS = ("sent", "nacked", "resent", "not stored", "never sent", "redundant", "over budget")
"""Names of the event counters for one translator, in the order of p4src/dta/reporter_ring.p4."""

_KINDS = 16  # number of counter indices that belong to each translator


@dataclass(frozen=True)
class Reporter(Sender):
    """A switch that reports all watched flows that pass it; see Sender.

    `node_id` identifies the switch in records and postcards. A flow counts as new after it was idle
    for `idle_us`. With `routes`, the switch is a router: it forwards by MAC address only if the
    destination is a translator or a reporter. Every change that triggers a report of `data` also
    triggers a postcard. Raises ValueError for invalid parameters.
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
        """Return the table entries for the flows and the reports of the reporter."""
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
    """State that a reporter has for one translator.

    `next` is the sequence number of the next report. `evicted` is the number of reports that were
    requested again, but were no longer in the ring. `over_budget` is the number of reports that
    were requested again, but exceeded the budget for resending. Each new report increases this
    budget.
    """

    next: int
    evicted: int
    over_budget: int


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], reporters: Mapping[str, Reporter]
) -> None:
    """Fill the tables of reporters, and reset their sequence numbers. Ignore other switches.

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
    """Return a reporter's event counts for its nth translator, by name (see EVENTS)."""
    first = translator * _KINDS
    wanted = [fy.P4CounterEntry("dta_events", index=first + n) for n in range(len(EVENTS))]
    # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
    found = switch.read(wanted)
    return {EVENTS[entry.index - first]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


async def state(switch: fy.Switch, translator: int = 1) -> State:
    """Return the state that a reporter has for its nth translator. Raises ReadoutTimeoutError."""
    async with Readouts(switch) as readouts:
        return State(*(await readouts.read(STATE, translator)).arrival[:3])


def _ways(net: Network, switch: str, reporter: Reporter) -> list[fy.P4TableEntry]:
    """Return the forwarding entries, for reports and for the packets of hosts."""
    if reporter.routes is None:
        return forwarding_entries(net, switch)
    return [
        *forwarding_entries(net, switch, reporter.translators),
        *routing_entries(net, switch, reporter.routes),
    ]
