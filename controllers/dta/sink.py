"""INT sinks that report the paths of flows by DTA. P4: p4src/dta/int_sink.p4.

    watched = int.watch.WatchedFlow("10.0.0.0/8", "10.0.0.0/8", instructions=INSTRUCTIONS)
    sink = Sink("10.255.0.5", ["h3"], [WatchedFlow("10.0.0.0/8", "10.0.0.0/8")], data=Paths())
    async with connections(net) as switches:
        await configure(net, switches, Domain("h3", [watched]), {"s5": sink})

Packets of these flows cause no INT reports. Other flows of the domain cause INT reports as usual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import finsy as fy

from controllers.dta.sender import Sender, begin, ways_to_senders
from controllers.dta.watch import NEVER_US, EventList, Paths, ReportKind, Reports
from controllers.int import domain as domains
from controllers.int.domain import Domain
from controllers.int.watch import Instruction
from telemark.network import Network

INSTRUCTIONS = Instruction.NODE_ID
"""Metadata that the stack must contain per hop: PATH_INSTRUCTIONS of p4src/dta/int_paths.p4."""


@dataclass(frozen=True)
class Sink(Sender):
    """INT sink.

    The sink reports the paths of flows that leave the domain at this switch; see Sender.

    The watch list matches packets after their INT marks were removed, as outside the domain. A path
    is reported when it is new or has changed, when the queue of the flow reaches the congestion
    threshold, and again after `period_us`. `started` is the list of new flows. `moved` is the list
    of flows whose path has changed. Raises ValueError for invalid parameters.
    """

    data: Paths | None = None
    moved: EventList | None = None
    period_us: int = NEVER_US

    @property
    def reports(self) -> Mapping[ReportKind, Reports | None]:
        """See Sender."""
        return {**super().reports, ReportKind.DATA: self.data, ReportKind.MOVED: self.moved}

    @property
    def plans(self) -> Sequence[str]:
        """See Sender."""
        return ("SinkEgress.reports.plan",)

    def entries(self) -> list[fy.P4TableEntry]:
        """Return the table entries for the flows and the reports of the sink."""
        follow = fy.Action("follow", period_us=self.period_us)
        paths = fy.P4TableEntry("paths", action=follow, is_default_action=True)
        return [*super().entries(), paths]

    def _problem(self) -> str:
        if not 0 <= self.period_us <= NEVER_US:
            return f"period_us {self.period_us}: expected 0 to 2^48 - 1"
        return super()._problem()


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], domain: Domain, sinks: Mapping[str, Sink],
    clock_offsets_us: Mapping[str, int] | None = None,
) -> None:  # fmt: skip
    """Fill the tables of all switches of a domain, and reset the sequence numbers of reports.

    The switches in `sinks` run p4src/dta/int_sink.p4; other switches run the INT program. For
    `clock_offsets_us`, see controllers.int.domain. Raises TestbedError and finsy's P4ClientError.
    """

    async def of_sinks(switch: fy.Switch) -> Sequence[fy.P4TableEntry]:
        ways = ways_to_senders(net, switch.name, sinks)
        if switch.name not in sinks:
            return ways
        sink = sinks[switch.name]
        return [*ways, *await begin(net, switch, sink), *sink.entries()]

    await domains.configure(net, switches, domain, clock_offsets_us, of_sinks)
