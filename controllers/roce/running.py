"""Sessions in a running switch: start, state, and forwarding of responses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import finsy as fy

from controllers.readout import Readouts
from controllers.roce.queue_pair import QueuePair
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.topology.routes import next_hops

EVENTS = ("sent", "acked", "naked", "not ready", "refused", "resumed", "probed", "damaged",
          "out of region")  # fmt: skip
"""Event counters of a session, in the order of p4src/roce/session.p4."""
ANSWERS = ("acked", "naked", "not ready", "refused", "damaged")
"""Events that exclude each other; each response causes exactly one of them."""

_KINDS = 16  # number of counter indices that belong to each session
# Readout records of p4src/roce/session.p4.
_SESSION, _PSN = 1, 5

Writers = Mapping[str, Sequence[QueuePair]]
"""Map from each writing switch to its sessions."""


@dataclass(frozen=True)
class State:
    """State of a session in its switch.

    `psn` and `slot` are those of the next record. `lost` is the number of records that are
    known to be lost.
    """

    psn: int
    slot: int
    lost: int
    unanswered: int = field(compare=False, default=0)


async def begin(net: Network, switch: fy.Switch, sessions: Sequence[QueuePair]) -> None:
    """Start sessions. A session starts with the PSN that was agreed on at the connection setup."""
    for session in sessions:
        clones = fy.P4CloneSessionEntry(session.number, replicas=[port_of(net, switch, session)])
        await replace(switch, clones)
        await restart(switch, session, psn=session.peer.psn)


def port_of(net: Network, switch: fy.Switch, session: QueuePair) -> int:
    """Return the port through which the requests of a session leave a switch."""
    ways = next_hops(net.topo.links(), net.topo.hosts(), switch.name)
    return net.port(switch.name, ways[session.host][0])


async def replace(
    switch: fy.Switch, entry: fy.P4CloneSessionEntry | fy.P4MulticastGroupEntry
) -> None:
    """Insert an entry. If an earlier controller inserted the same entry, delete that one first."""
    await switch.delete([entry], strict=False)
    await switch.insert([entry])


async def restart(switch: fy.Switch, session: QueuePair, *, psn: int, slot: int = 0) -> None:
    """Restart a session.

    The next record has the PSN `psn` and is written to the slot `slot`. Raises ReadoutTimeoutError.
    """
    async with Readouts(switch) as readouts:
        await readouts.write(_SESSION, session.number, psn, slot)


async def set_psn(switch: fy.Switch, session: QueuePair, psn: int) -> None:
    """Change the PSN of a session's next record, but not its slot. Raises ReadoutTimeoutError."""
    async with Readouts(switch) as readouts:
        await readouts.write(_PSN, session.number, psn)


async def reconnect(net: Network, switch: fy.Switch, session: QueuePair) -> None:
    """Restart a session with another queue pair, e.g. after the collector has restarted.

    The number of the switch's own queue pair does not change. Raises finsy's P4ClientError.
    """
    await switch.modify(session.entries(net.host(session.host).MAC()))
    await restart(switch, session, psn=session.peer.psn)


async def events(switch: fy.Switch, session: QueuePair) -> dict[str, int]:
    """Return the event counts of a session, named as in EVENTS."""
    first = session.number * _KINDS
    wanted = [fy.P4CounterEntry("roce_events", index=first + n) for n in range(len(EVENTS))]
    # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
    found = switch.read(wanted)
    return {EVENTS[entry.index - first]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


async def state(switch: fy.Switch, session: QueuePair) -> State:
    """Return the state of a session. Raises ReadoutTimeoutError."""
    async with Readouts(switch) as readouts:
        return State(*(await readouts.read(_SESSION, session.number)).arrival)


def check_macs(writers: Writers) -> None:
    """Raise TestbedError if two switches have the same MAC address.

    With equal addresses, responses would go to the wrong switch.
    """
    owners: dict[str, str] = {}
    for name, sessions in writers.items():
        for session in sessions:
            if (other := owners.setdefault(session.mac, name)) != name:
                raise TestbedError(
                    f"{other} and {name}: sessions of both have the MAC address {session.mac}; "
                    f"use addresses whose last four bytes differ"
                )


def ways_to_writers(net: Network, switch: str, writers: Writers) -> list[fy.P4TableEntry]:
    """Return a switch's entries that forward responses to other switches that write."""
    found = []
    for name, sessions in writers.items():
        if name != switch:
            way = next_hops(net.topo.links(), [*net.topo.hosts(), name], switch)[name][0]
            action = fy.Action("forward", port=net.port(switch, way))
            found += [
                fy.P4TableEntry("forwarding", match=fy.Match({"hdr.ethernet.dst_addr": mac}),
                                action=action)
                for mac in sorted({session.mac for session in sessions})
            ]  # fmt: skip
    return found
