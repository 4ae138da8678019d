"""INT sinks that write the paths of packets into the memory of a collector.

P4: p4src/roce/int_sink.p4.

    flow = WatchedFlow("10.0.0.1", "10.0.0.2", instructions=INSTRUCTIONS)
    session = Session(1, "h3", peer, target, content=Content.PATHS)
    sink = Sink([session], [RecordedFlow("10.0.0.1", "10.0.0.2")])
    async with connections(net) as switches:
        await configure(net, switches, Domain("h3", [flow]), {"s5": sink})

Recorded packets cause no INT reports. Other packets of the domain cause INT reports as usual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import finsy as fy

from controllers.int import domain as domains
from controllers.int.domain import Domain
from controllers.int.watch import Instruction
from controllers.roce.running import begin, check_macs, ways_to_writers
from controllers.roce.session import Content, Recording
from telemark.network import Network

INSTRUCTIONS = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
                | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip
"""Metadata that the stack must contain per hop: PATH_INSTRUCTIONS of p4src/roce/paths.p4."""


@dataclass(frozen=True)
class Sink(Recording):
    """See Recording.

    The watch list matches packets after their INT marks were removed, as outside the domain.
    """

    def _contents(self) -> Sequence[Content]:
        return (Content.PATHS, Content.COUNTERS)


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], domain: Domain, sinks: Mapping[str, Sink],
    clock_offsets_us: Mapping[str, int] | None = None,
) -> None:  # fmt: skip
    """Fill the tables of all switches, and start the sessions.

    The switches in `sinks` run p4src/roce/int_sink.p4; other switches run the INT program. For
    `clock_offsets_us`, see controllers.int.domain. Raises TestbedError and finsy's P4ClientError.
    """
    writers = {name: sink.sessions for name, sink in sinks.items()}
    check_macs(writers)

    async def of_sinks(switch: fy.Switch) -> Sequence[fy.P4TableEntry]:
        sink = sinks.get(switch.name, Sink([]))
        await begin(net, switch, sink.sessions)
        return [*ways_to_writers(net, switch.name, writers), *sink.entries(net)]

    await domains.configure(net, switches, domain, clock_offsets_us, of_sinks)
