"""A DTA translator: its sessions, and which reports go there; the P4 side is p4src/dta/.

responder = Responder(...)      # or another endpoint: it tells the targets
session = WriteSession(1, "collector", peer, responder.targets[0])
service = Service("10.0.0.2", [KeyWriteStore(words=1, slots=1 << 16)])
translator = Translator([session], [service])
async with connections(net) as switches:
    await configure(net, switches, {"s1": translator})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import finsy as fy

from controllers.forwarding import forwarding_entries
from controllers.roce.queue_pair import QueuePair
from controllers.roce.running import begin, check_macs, port_of, replace, ways_to_writers
from controllers.tables import reconcile
from testbed.network import Network

MAX_COPIES = 8
KEY_WRITE_WORDS = (1, 3, 7)
COUNTER_BYTES = 8
EVENTS = {
    "malformed": 1, "out of range": 2, "not configured": 3, "duplicate": 4, "out of order": 5,
    "too fast": 6, "column twice": 7, "translated": 8, "recovered": 9, "nacked": 10,
    "begun anew": 11,
}  # fmt: skip
"""What is counted of a reporter: kinds of p4src/dta/plan.p4."""

REPORTERS = 256
_KINDS = 16  # counters of a reporter
_NACK_CLONES = 256  # clone session of port 0, by which NACKs go back


@dataclass(frozen=True)
class WriteSession(QueuePair):
    """A queue pair that is written to."""

    @property
    def has_atomics(self) -> bool:
        """See QueuePair."""
        return False


@dataclass(frozen=True)
class CounterSession(QueuePair):
    """A queue pair whose counters are added to."""

    @property
    def has_atomics(self) -> bool:
        """See QueuePair."""
        return True


class Store(Protocol):
    """What takes reports of a primitive: in one session, or spread over several by their keys."""

    @property
    def sessions(self) -> range: ...

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """Those of the translator's tables; `service` is the number of its service."""

    def problem_of(self, session: QueuePair) -> str:
        """What is wrong with a session of its; nothing: it is well."""


@dataclass(frozen=True)
class KeyWriteStore:
    """Takes Key-Writes of so many words into `slots` slots, a power of two, in each session.

    A checksum has 8 to 31 bits. Raises ValueError for what cannot be.
    """

    words: int
    slots: int
    checksum_bits: int = 31
    sessions: range = range(1, 2)

    def __post_init__(self) -> None:
        where = f"Key-Write store of {self.words} words"
        if self.words not in KEY_WRITE_WORDS:
            raise ValueError(f"{where}: expected one of {KEY_WRITE_WORDS}")
        if not 8 <= self.checksum_bits <= 31:
            raise ValueError(f"{where}: checksums of {self.checksum_bits} bits: expected 8 to 31")
        _check(where, self.slots, self.sessions)

    @property
    def slot_bytes(self) -> int:
        """Checksum and data."""
        return 4 + 4 * self.words

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        match = fy.Match({"service": service, "words": self.words})
        action = fy.Action(
            "write_key", **_spread(self.sessions), slot_mask=self.slots - 1,
            checksum_mask=(1 << self.checksum_bits) - 1,
        )  # fmt: skip
        return [fy.P4TableEntry("key_write_stores", match=match, action=action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        if session.has_atomics:
            return "it adds, and does not write: expected a WriteSession"
        return _too_small(session, self.slots * self.slot_bytes)


@dataclass(frozen=True)
class CounterStore:
    """Takes Key-Increments into rows of `slots` counters, a power of two: copy n into row n.

    Raises ValueError for what cannot be.
    """

    slots: int
    rows: int = MAX_COPIES
    sessions: range = range(1, 2)

    def __post_init__(self) -> None:
        where = f"Key-Increment store of {self.rows} rows"
        if not 1 <= self.rows <= MAX_COPIES:
            raise ValueError(f"{where}: expected 1 to {MAX_COPIES}")
        _check(where, self.slots, self.sessions)

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        action = fy.Action("add_to_key", **_spread(self.sessions), slot_mask=self.slots - 1)
        match = fy.Match({"service": service})
        return [fy.P4TableEntry("counter_stores", match=match, action=action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        if not session.has_atomics:
            return "it writes, and does not add: expected a CounterSession"
        return _too_small(session, self.rows * self.slots * COUNTER_BYTES)


@dataclass(frozen=True)
class Service:
    """Reports that are sent to `address` go into these stores."""

    address: str  # IPv4
    stores: Sequence[Store]


@dataclass(frozen=True)
class TrackedReporter:
    """Whose sequence numbers are minded; `number` is 0 of a reporter of the prototype."""

    address: str  # IPv4
    number: int = 0


@dataclass(frozen=True)
class Rate:
    """What a session's collector is asked to do at most; what is more is refused."""

    session: int
    requests_per_s: float
    burst: int = 1  # requests that may come at once

    def entry(self) -> fy.P4TableEntry:
        """Its entry in the table of rates."""
        interval_ns = round(1e9 / self.requests_per_s)
        action = fy.Action("limit", interval_ns=interval_ns,
                           burst_ns=(self.burst - 1) * interval_ns)  # fmt: skip
        return fy.P4TableEntry("rates", match=fy.Match({"session": self.session}), action=action)


@dataclass(frozen=True)
class Translator:
    """Raises ValueError for what cannot be."""

    sessions: Sequence[QueuePair]
    services: Sequence[Service]
    reporters: Sequence[TrackedReporter] = ()
    rates: Sequence[Rate] = ()

    def __post_init__(self) -> None:
        by_number = {session.number: session for session in self.sessions}
        if len(by_number) < len(self.sessions):
            numbers = [session.number for session in self.sessions]
            raise ValueError(f"sessions {numbers} of a translator: expected each number once")
        if len(self.reporters) >= REPORTERS:
            raise ValueError(f"{len(self.reporters)} reporters: expected {REPORTERS - 1} at most")
        for service in self.services:
            for store in service.stores:
                for number in store.sessions:
                    self._check(service.address, store, by_number.get(number), number)

    @staticmethod
    def _check(address: str, store: Store, session: QueuePair | None, number: int) -> None:
        where = f"service {address}, session {number}"
        if session is None:
            raise ValueError(f"{where}: its translator has none of this number")
        if problem := store.problem_of(session):
            raise ValueError(f"{where}: {problem}")

    def entries(self) -> list[fy.P4TableEntry]:
        """What it does with reports: entries of its tables."""
        found = [rate.entry() for rate in self.rates]
        for index, reporter in enumerate(self.reporters, 1):
            match = fy.Match({"hdr.ipv4.src_addr": reporter.address, "reporter": reporter.number})
            action = fy.Action("track", index=index)
            found.append(fy.P4TableEntry("reporters", match=match, action=action))
        for number, service in enumerate(self.services, 1):
            for store in service.stores:
                found += store.entries(number)
            match = fy.Match({"hdr.ipv4.dst_addr": service.address})
            action = fy.Action("serve", service=number)
            found.append(fy.P4TableEntry("services", match=match, action=action))
        return found


async def configure(
    net: Network, switches: Mapping[str, fy.Switch], translators: Mapping[str, Translator]
) -> None:
    """Fill the tables of translators, and begin their sessions.

    Other switches are left alone. Raises TestbedError and finsy's P4ClientError.
    """
    writers = {name: each.sessions for name, each in translators.items()}
    check_macs(writers)
    for name, translator in translators.items():
        switch = switches[name]
        await begin(net, switch, translator.sessions)
        for session in translator.sessions:
            await _make_groups(switch, session.number, port_of(net, switch, session))
        for neighbour in net.neighbours(name):
            port = net.port(name, neighbour)
            await replace(switch, fy.P4CloneSessionEntry(_NACK_CLONES + port, replicas=[port]))
        macs = {session.host: net.host(session.host).MAC() for session in translator.sessions}
        await reconcile(
            switch,
            [
                *forwarding_entries(net, name),
                *ways_to_writers(net, name, writers),
                *(entry for session in translator.sessions
                  for entry in session.entries(macs[session.host])),
                *translator.entries(),
            ],
        )  # fmt: skip


async def _make_groups(switch: fy.Switch, session: int, port: int) -> None:
    """Multicast groups that make 1 to 8 copies of a session's report: a copy's id is its number."""
    for copies in range(1, MAX_COPIES + 1):
        replicas = [(port, copy) for copy in range(copies)]
        await replace(
            switch, fy.P4MulticastGroupEntry(session << 3 | copies - 1, replicas=replicas)
        )


async def events(switch: fy.Switch, reporter: int = 0) -> dict[str, int]:
    """What was counted of a reporter, the nth of its translator's, by EVENTS; 0: of all others."""
    names = {reporter * _KINDS + kind: name for name, kind in EVENTS.items()}
    wanted = [fy.P4CounterEntry("dta_events", index=index) for index in names]
    # finsy's overloads of read() name a coroutine; it is an async generator.
    found = switch.read(wanted)
    return {names[entry.index]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


def _spread(sessions: range) -> dict[str, int]:
    return {"first_session": sessions[0], "sessions": len(sessions)}


def _check(where: str, slots: int, sessions: range) -> None:
    if slots.bit_count() != 1 or slots > 1 << 31:
        raise ValueError(f"{where}: {slots} slots: expected a power of 2 up to 2^31")
    if not sessions or sessions.step != 1 or sessions[0] < 1 or sessions[-1] > 255:
        raise ValueError(f"{where}: {sessions}: expected some of the sessions 1 to 255")


def _too_small(session: QueuePair, needed: int) -> str:
    if session.target.length < needed:
        return f"a region of {session.target.length} bytes: expected {needed} at least"
    return ""
