"""Sessions of a switch with the queue pairs of collectors. P4: p4src/roce/.

    responder = Responder(...)      # or another endpoint: it provides the targets
    session = Session(1, "collector", peer, responder.targets[0])
    async with connections(net) as switches:
        await configure(net, switches, {"s1": Reporter([session], [RecordedFlow(...)])})

A session starts at the first slot of the ring. Its first PSN is from the connection setup. After
the collector or the switch has restarted, call restart().
"""

import asyncio
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import finsy as fy

from controllers.forwarding import forwarding_entries
from controllers.readout import CLOCK_BITS
from controllers.roce.queue_pair import QueuePair, not_a_period
from controllers.roce.running import begin, check_macs, ways_to_writers
from controllers.roce.watch import RecordedFlow
from controllers.tables import reconcile
from telemark.network import Network

# record sizes that p4src/roce/records.p4 and paths.p4 define
FLOW_BYTES, HOP_BYTES, PATH_BYTES = 44, 32, 164
COUNTER_BYTES = 8
_NEVER = 0xFFFFFFFF  # mask with which no record has an immediate value


class Content(enum.Enum):
    """Content of a region: records (p4src/roce/records.p4), or 64-bit counters."""

    FLOWS = FLOW_BYTES
    FLOWS_AND_HOPS = FLOW_BYTES + HOP_BYTES
    PATHS = FLOW_BYTES + HOP_BYTES + PATH_BYTES
    COUNTERS = COUNTER_BYTES


CONTENTS = (None, Content.FLOWS, Content.FLOWS_AND_HOPS, Content.PATHS)
"""Contents of records, in the order of their numbers in p4src/roce/records.p4."""


@dataclass(frozen=True)
class Session(QueuePair):
    """A session whose region contains either a ring of packet records, or counters.

    One of `immediate_every` records has an immediate value, which is the number of its slot; 0
    means none. A slot has `stride` bytes; 0 means the size of a record.

    Raises ValueError for invalid parameters.
    """

    content: Content = Content.FLOWS
    immediate_every: int = 0
    stride: int = 0

    @property
    def slot_bytes(self) -> int:
        """Distance in bytes from the start of one slot of the ring to the start of the next."""
        return self.stride or self.content.value

    @property
    def has_atomics(self) -> bool:
        """See QueuePair."""
        return self.content is Content.COUNTERS

    @property
    def slots(self) -> int:
        """Number of slots of the ring. It is 0 if the region contains counters."""
        if self.content is Content.COUNTERS:
            return 0
        return (self.target.length - self.content.value) // self.slot_bytes + 1

    def _ring(self) -> dict[str, int]:
        every = self.immediate_every
        return {
            "stride": self.slot_bytes, "slots": self.slots,
            "content": CONTENTS.index(self.content),
            "immediate_mask": every - 1 if every else _NEVER,
        }  # fmt: skip

    def _problem(self) -> str:
        if problem := not_a_period("immediate_every", self.immediate_every or 1):
            return problem
        record_bytes, length = self.content.value, self.target.length
        if self.target.path_mtu < record_bytes:
            return f"path MTU {self.target.path_mtu}: records have {record_bytes} bytes"
        if length < record_bytes:
            return f"a region of {length} bytes: expected at least {record_bytes}"
        if not record_bytes <= self.slot_bytes < 1 << 16:
            return f"stride {self.stride}: expected {record_bytes} to 65535"
        if self.slots >= 1 << 31:
            return f"{self.slots} slots: expected less than 2^31"
        if self.content is not Content.COUNTERS and self.immediate_every > self.slots:
            return (
                f"immediate_every {self.immediate_every}: expected at most {self.slots}, the "
                f"number of slots"
            )
        return ""


@dataclass(frozen=True)
class Recording:
    """Flows that a switch records, and the sessions to which it writes the records.

    Raises ValueError for invalid parameters.
    """

    sessions: Sequence[Session]
    flows: Sequence[RecordedFlow] = ()

    def __post_init__(self) -> None:
        numbers = [session.number for session in self.sessions]
        if len({*numbers}) < len(numbers):
            raise ValueError(f"sessions {numbers} of a switch: expected each number once")
        for flow in self.flows:
            if not {*flow.sessions} <= {*numbers}:
                where = f"recorded flow {flow.src_addr} -> {flow.dst_addr}"
                raise ValueError(
                    f"{where}: {flow.sessions}: expected some of the switch's sessions {numbers}"
                )
        for session in self.sessions:
            if session.content not in self._contents():
                known = ", ".join(content.name for content in self._contents())
                raise ValueError(f"session {session.number} with {session.host}: "
                                 f"{session.content.name}: expected one of {known}")  # fmt: skip

    def entries(self, net: Network) -> list[fy.P4TableEntry]:
        """Return the table entries of sessions and flows."""
        return [
            *(entry for session in self.sessions
              for entry in session.entries(net.host(session.host).MAC())),
            *(flow.entry() for flow in self.flows),
        ]  # fmt: skip

    def _contents(self) -> Sequence[Content]:
        """Return the kinds of content that the switch's program can write."""
        return (Content.FLOWS, Content.FLOWS_AND_HOPS, Content.COUNTERS)


@dataclass(frozen=True)
class Reporter(Recording):
    """See Recording. The switch runs p4src/roce/roce.p4."""

    node_id: int = 0
    clock_offset_us: int = 0


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], reporters: Mapping[str, Reporter]
) -> None:
    """Fill the tables of all switches, and start the sessions.

    Raises TestbedError and finsy's P4ClientError.
    """
    check_macs({name: each.sessions for name, each in reporters.items()})
    await asyncio.gather(
        *(_configure(net, switch, reporters) for switch in switches.values())
    )  # fmt: skip


async def _configure(net: Network, switch: fy.Switch, reporters: Mapping[str, Reporter]) -> None:
    reporter = reporters.get(switch.name, Reporter([]))
    writers = {name: each.sessions for name, each in reporters.items()}
    await begin(net, switch, reporter.sessions)
    node = fy.Action("set_node", node_id=reporter.node_id,
                     offset_us=reporter.clock_offset_us % (1 << CLOCK_BITS))  # fmt: skip
    await reconcile(
        switch,
        [
            fy.P4TableEntry("node", action=node, is_default_action=True),
            *forwarding_entries(net, switch.name),
            *ways_to_writers(net, switch.name, writers),
            *reporter.entries(net),
        ],
    )
