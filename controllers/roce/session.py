"""Sessions of a switch with the queue pairs of collectors; the P4 side is p4src/roce/.

    responder = Responder(...)      # or another endpoint: it tells the targets
    session = Session(1, "collector", peer, responder.targets[0])
    async with connections(net) as switches:
        await configure(net, switches, {"s1": Reporter([session], [RecordedFlow(...)])})

A session begins with the PSN that its peer was connected with, at the beginning of the ring;
restart() begins it anew, after a collector or a switch was.
"""

import asyncio
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

import finsy as fy

from controllers.forwarding import forwarding_entries
from controllers.readout import CLOCK_BITS
from controllers.roce.watch import RecordedFlow
from controllers.tables import reconcile
from testbed.errors import TestbedError
from testbed.network import Network
from testbed.routes import next_hops

FLOW_BYTES, HOP_BYTES = 44, 32  # of records, in p4src/roce/records.p4
COUNTER_BYTES = 8
SESSIONS = 256
EVENTS = ("sent", "acked", "naked", "not ready", "refused", "resumed", "probed", "damaged",
          "out of region")  # fmt: skip
"""What is counted of a session, in the order of p4src/roce/session.p4."""

_KINDS = 16  # counters of a session
_NEVER = 0xFFFFFFFF  # mask of immediates
_REGISTERS = ("roce_psn", "roce_slot", "roce_lost", "roce_unanswered", "roce_acked",
              "roce_resumed")  # fmt: skip


class Peer(Protocol):
    """The switch, as the collector's queue pair was connected with it."""

    @property
    def address(self) -> str: ...
    @property
    def qpn(self) -> int: ...
    @property
    def psn(self) -> int: ...


class Target(Protocol):
    """A queue pair and its region, as the collector tells them."""

    @property
    def address(self) -> str: ...
    @property
    def qpn(self) -> int: ...
    @property
    def rkey(self) -> int: ...
    @property
    def base(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def path_mtu(self) -> int: ...
    @property
    def transport(self) -> enum.Enum: ...


class Content(enum.Enum):
    """What is in the region: records (p4src/roce/records.p4), or 64-bit counters."""

    FLOWS = FLOW_BYTES
    FLOWS_AND_HOPS = FLOW_BYTES + HOP_BYTES
    COUNTERS = COUNTER_BYTES


@dataclass(frozen=True)
class Session:
    """A session with the collector at `host`.

    `number` is 1 to 255, one for each queue pair that a switch writes to. An ACK is asked for with
    one record of `ack_every`, a power of 2; an immediate value, the number of its slot, comes with
    one of `immediate_every`, 0 is never. After `patience` records without any answer the switch
    asks what the collector expects; 0 is never. A slot has `stride` bytes, 0: those of a record.

    Raises ValueError for what cannot be.
    """

    number: int
    host: str
    peer: Peer
    target: Target
    version: int = 2  # of RoCE
    content: Content = Content.FLOWS
    ack_every: int = 64
    immediate_every: int = 0
    patience: int = 256
    stride: int = 0

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"session {self.number} with {self.host}: {problem}")

    @property
    def slot_bytes(self) -> int:
        """From one slot of the ring to the next."""
        return self.stride or self.content.value

    @property
    def slots(self) -> int:
        """Of the ring; none where the region has counters."""
        if self.content is Content.COUNTERS:
            return 0
        return (self.target.length - self.content.value) // self.slot_bytes + 1

    @property
    def mac(self) -> str:
        """The switch's own in this session; the end of its address makes it unique in a network."""
        low = int(ip_address(self.peer.address)) & 0xFFFFFFFF
        return "06:00:" + ":".join(f"{byte:02x}" for byte in low.to_bytes(4, "big"))

    @property
    def is_reliable(self) -> bool:
        """Whether the collector answers."""
        return self.target.transport.name == "RC"

    def entries(self, collector_mac: str) -> list[fy.P4TableEntry]:
        """Those of the switch's tables; `collector_mac`, or that of a router towards it."""
        number = fy.Match({"session": self.number})
        return [
            fy.P4TableEntry("collectors", match=number, action=self._ends(collector_mac)),
            fy.P4TableEntry("queue_pairs", match=number, action=self._queue_pair()),
            self._answers(),
        ]

    def _ends(self, collector_mac: str) -> fy.Action:
        macs = {"src_mac": self.mac, "dst_mac": collector_mac}
        if self.version == 1:
            gids = {"src_gid": _gid(self.peer.address), "dst_gid": _gid(self.target.address)}
            return fy.Action("over_v1", **macs, **gids)
        source_port = 0xC000 | self.number  # 0xC000 on are for a flow's entropy (A17.4.6)
        over = "over_v2" if ip_address(self.peer.address).version == 4 else "over_v2_ipv6"
        return fy.Action(over, **macs, src_addr=self.peer.address,
                         dst_addr=self.target.address, src_port=source_port)  # fmt: skip

    def _queue_pair(self) -> fy.Action:
        target = self.target
        common = {
            "number": target.qpn, "rkey": target.rkey, "base": target.base,
            "length": target.length, "patience": self.patience if self.is_reliable else 0,
        }  # fmt: skip
        if self.content is Content.COUNTERS:
            return fy.Action("fetch_add", **common)
        every = self.immediate_every
        return fy.Action(
            "write", **common, unreliable=int(not self.is_reliable), stride=self.slot_bytes,
            slots=self.slots, has_hop=int(self.content is Content.FLOWS_AND_HOPS),
            ack_mask=self.ack_every - 1, immediate_mask=every - 1 if every else _NEVER,
        )  # fmt: skip

    def _answers(self) -> fy.P4TableEntry:
        key = {
            "version": self.version, "hdr.bth.dst_qp": self.peer.qpn,
            "src_gid": _gid(self.target.address), "dst_gid": _gid(self.peer.address),
        }  # fmt: skip
        action = fy.Action("answer", session_number=self.number, slots_of_ring=self.slots)
        return fy.P4TableEntry("answers", match=fy.Match(key), action=action)

    def _problem(self) -> str:
        if not 1 <= self.number < SESSIONS:
            return f"expected numbers 1 to {SESSIONS - 1}"
        if self.version not in (1, 2):
            return f"version {self.version} of RoCE: expected 1 or 2"
        here, there = (ip_address(end.address) for end in (self.peer, self.target))
        if self.version == 2 and here.version != there.version:
            return f"{here} and {there}: expected addresses of one version of IP"
        periods = {"ack_every": self.ack_every, "immediate_every": self.immediate_every or 1}
        for what, every in periods.items():
            if every.bit_count() != 1 or every > 1 << 24:
                return f"{what} {every}: expected a power of 2 up to 2^24"
        if 0 < self.patience < 2 * self.ack_every and self.content is not Content.COUNTERS:
            return (f"patience {self.patience}: expected 0, or twice ack_every ({self.ack_every}) "
                    "at least: or it asks while all is well")  # fmt: skip
        return self._problem_of_region()

    def _problem_of_region(self) -> str:
        record_bytes, length = self.content.value, self.target.length
        if self.target.path_mtu < record_bytes:
            return f"path MTU {self.target.path_mtu}: records have {record_bytes} bytes"
        if length < record_bytes:
            return f"a region of {length} bytes: expected {record_bytes} at least"
        if not record_bytes <= self.slot_bytes < 1 << 16:
            return f"stride {self.stride}: expected {record_bytes} to 65535"
        if self.slots >= 1 << 31:
            return f"{self.slots} slots: expected less than 2^31"
        if self.content is not Content.COUNTERS and self.immediate_every > self.slots:
            return f"immediate_every {self.immediate_every}: a ring of {self.slots} slots has none"
        if self.content is Content.COUNTERS and not self.is_reliable:
            return "counters need a reliable connection: UC has no atomics"
        return ""


@dataclass(frozen=True)
class Reporter:
    """What a switch records, and where it writes that.

    Raises ValueError for what cannot be.
    """

    sessions: Sequence[Session]
    flows: Sequence[RecordedFlow] = ()
    node_id: int = 0
    clock_offset_us: int = 0

    def __post_init__(self) -> None:
        numbers = [session.number for session in self.sessions]
        if len({*numbers}) < len(numbers):
            raise ValueError(f"sessions {numbers} of a switch: expected each number once")
        for flow in self.flows:
            if not {*flow.sessions} <= {*numbers}:
                where = f"recorded flow {flow.src_addr} -> {flow.dst_addr}"
                raise ValueError(f"{where}: {flow.sessions}, and its switch has {numbers}")


@dataclass(frozen=True)
class State:
    """Of a session, in its switch: the next record's place, and records known not to be written."""

    psn: int
    slot: int
    lost: int
    unanswered: int = field(compare=False, default=0)


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], reporters: Mapping[str, Reporter]
) -> None:
    """Fill the tables of all switches, and begin the sessions.

    Raises TestbedError and finsy's P4ClientError.
    """
    _check_macs(reporters)
    await asyncio.gather(
        *(_configure(net, switch, reporters) for switch in switches.values())
    )  # fmt: skip


async def restart(switch: fy.Switch, session: Session, *, psn: int, slot: int = 0) -> None:
    """Begin a session anew: its next record has this PSN, and goes to this slot."""
    values = dict.fromkeys(_REGISTERS, 0) | {"roce_psn": psn, "roce_slot": slot}
    await switch.write(
        [~fy.P4RegisterEntry(name, index=session.number, data=value)
         for name, value in values.items()]
    )  # fmt: skip


async def events(switch: fy.Switch, session: Session) -> dict[str, int]:
    """What was counted of a session, by EVENTS."""
    first = session.number * _KINDS
    wanted = [fy.P4CounterEntry("roce_events", index=first + n) for n in range(len(EVENTS))]
    # finsy's overloads of read() name a coroutine; it is an async generator.
    found = switch.read(wanted)
    return {EVENTS[entry.index - first]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


async def state(switch: fy.Switch, session: Session) -> State:
    """Where a session is."""
    wanted = [fy.P4RegisterEntry(name, index=session.number) for name in _REGISTERS[:4]]
    found = [entry.data async for entry in switch.read(wanted)]  # type: ignore[attr-defined]
    return State(*found)


async def _configure(net: Network, switch: fy.Switch, reporters: Mapping[str, Reporter]) -> None:
    reporter = reporters.get(switch.name, Reporter([]))
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch.name)
    for session in reporter.sessions:
        clones = fy.P4CloneSessionEntry(session.number)
        async for old in switch.read([clones]):  # type: ignore[attr-defined]
            await switch.delete([old])
        port = net.port(switch.name, ways[session.host][0])
        await switch.insert([fy.P4CloneSessionEntry(session.number, replicas=[port])])
        await restart(switch, session, psn=session.peer.psn)
    node = fy.Action("set_node", node_id=reporter.node_id,
                     offset_us=reporter.clock_offset_us % (1 << CLOCK_BITS))  # fmt: skip
    await reconcile(
        switch,
        [
            fy.P4TableEntry("node", action=node, is_default_action=True),
            *forwarding_entries(net, switch.name),
            *_ways_to_reporters(net, switch.name, reporters),
            *(entry for session in reporter.sessions
              for entry in session.entries(net.host(session.host).MAC())),
            *(flow.entry() for flow in reporter.flows),
        ],
    )  # fmt: skip


def _check_macs(reporters: Mapping[str, Reporter]) -> None:
    """Each switch needs its own: what is sent to one would end at another."""
    owners: dict[str, str] = {}
    for name, reporter in reporters.items():
        for session in reporter.sessions:
            if (other := owners.setdefault(session.mac, name)) != name:
                raise TestbedError(
                    f"{other} and {name}: sessions of both have the MAC address {session.mac}: "
                    "expected addresses whose last four bytes differ"
                )


def _ways_to_reporters(
    net: Network, switch: str, reporters: Mapping[str, Reporter]
) -> list[fy.P4TableEntry]:
    """Entries by which answers to the other switches come there."""
    found = []
    for name, reporter in reporters.items():
        if name != switch:
            way = next_hops(net.topo.links(), [*net.topo.hosts(), name], switch)[name][0]
            action = fy.Action("forward", port=net.port(switch, way))
            found += [
                fy.P4TableEntry("forwarding", match=fy.Match({"hdr.ethernet.dst_addr": mac}),
                                action=action)
                for mac in sorted({session.mac for session in reporter.sessions})
            ]  # fmt: skip
    return found


def _gid(address: str) -> int:
    """An address as a GID: those of IPv4 as ::ffff:a.b.c.d."""
    parsed = ip_address(address)
    return int(IPv6Address(f"::ffff:{parsed}") if isinstance(parsed, IPv4Address) else parsed)
