"""A DTA translator: its sessions, and the stores of its services. P4: p4src/dta/.

responder = Responder(...)      # or another endpoint: it provides the targets
session = WriteSession(1, "collector", peer, responder.targets[0])
service = Service("10.0.0.2", [KeyWriteStore(words=1, slots=1 << 16)])
translator = Translator([session], [service])
async with connections(net) as switches:
    await configure(net, switches, {"s1": translator})
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import finsy as fy

from controllers.dta.stores import MAX_COPIES, Store
from controllers.forwarding import forwarding_entries
from controllers.readout import Readouts
from controllers.roce.queue_pair import QueuePair
from controllers.roce.running import begin, check_macs, port_of, replace, ways_to_writers
from controllers.tables import reconcile
from telemark.network import Network

EVENTS = {
    "malformed": 1, "out of range": 2, "not configured": 3, "duplicate": 4, "out of order": 5,
    "too fast": 6, "column twice": 7, "translated": 8, "recovered": 9, "nacked": 10,
    "restarted": 11,
}  # fmt: skip
"""Names of the event counters per reporter. The values are the kinds of p4src/dta/plan.p4."""
OUTCOMES = [*EVENTS][:8]
"""Events that exclude each other; each report causes exactly one of them."""

REPORTERS = 256
_KINDS = 16  # number of counter indices that belong to each reporter
_WINDOW = 1024  # number of latest reports that a translator tracks per reporter
# Readout records of p4src/dta/sequence.p4. A write to the second record clears _CELLS_PER_WRITE
# cells.
_REPORTER_STATE, _REPORTER_WINDOW, _CELLS_PER_WRITE = 6, 7, 8
_NACK_CLONES = 256  # clone session for NACKs through port 0; other ports follow


@dataclass(frozen=True)
class WriteSession(QueuePair):
    """A session whose queue pair executes RDMA writes."""

    @property
    def has_atomics(self) -> bool:
        """See QueuePair."""
        return False


@dataclass(frozen=True)
class CounterSession(QueuePair):
    """A session for counters. Its queue pair executes RDMA FETCH ADDs."""

    @property
    def has_atomics(self) -> bool:
        """See QueuePair."""
        return True


@dataclass(frozen=True)
class Service:
    """A service. The translator writes reports to `address` into these stores."""

    address: str  # IPv4
    stores: Sequence[Store]


@dataclass(frozen=True)
class TrackedReporter:
    """A reporter whose sequence numbers the translator tracks.

    For reports in the format of the prototype, `number` is 0.
    """

    address: str  # IPv4
    number: int = 0


@dataclass(frozen=True)
class Rate:
    """Maximum rate of requests in a session. The translator drops reports above this rate."""

    session: int
    requests_per_s: float
    burst: int = 1  # maximum number of requests that may follow each other without a gap

    def __post_init__(self) -> None:
        where = f"rate of session {self.session}"
        if not 1 <= 1e9 / self.requests_per_s < 1 << 32:
            raise ValueError(f"{where}: {self.requests_per_s:g} requests/s: expected 0.24 to 1e9")
        if not self.burst >= 1 or (self.burst - 1) * 1e9 / self.requests_per_s >= 1 << 32:
            raise ValueError(
                f"{where}: a burst of {self.burst}: expected at least 1, sent within 4 s"
            )

    def entry(self) -> fy.P4TableEntry:
        """Return the entry of the table of rates for this rate."""
        interval_ns = round(1e9 / self.requests_per_s)
        action = fy.Action("limit", interval_ns=interval_ns,
                           burst_ns=(self.burst - 1) * interval_ns)  # fmt: skip
        return fy.P4TableEntry("rates", match=fy.Match({"session": self.session}), action=action)


@dataclass(frozen=True)
class Translator:
    """A translator: sessions, services, tracked reporters and rates.

    Raises ValueError for invalid parameters.
    """

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
            raise ValueError(f"{len(self.reporters)} reporters: expected at most {REPORTERS - 1}")
        for service in self.services:
            for store in service.stores:
                for number in store.sessions:
                    self._check(service.address, store, by_number.get(number), number)
        self._check_registers()
        keys = [f"{entry.table_id} {dict(entry.match or {})}" for entry in self.entries()]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"a translator has two entries for {min(twice)}: expected one")

    @staticmethod
    def _check(address: str, store: Store, session: QueuePair | None, number: int) -> None:
        where = f"service {address}, session {number}"
        if session is None:
            raise ValueError(f"{where}: its translator has no such session")
        if problem := store.problem_of(session):
            raise ValueError(f"{where}: {problem}")

    def _check_registers(self) -> None:
        owned = [
            (store.registers, service) for service in self.services for store in service.stores
        ]
        for ((kind, one), first), ((other_kind, other), second) in combinations(owned, 2):
            both = range(max(one.start, other.start), min(one.stop, other.stop))
            if kind == other_kind and both:
                raise ValueError(
                    f"services {first.address} and {second.address}: both use {kind} {both[0]} to "
                    f"{both[-1]} of the translator; change `first`"
                )

    def entries(self) -> list[fy.P4TableEntry]:
        """Return the table entries for reports."""
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
    """Fill the tables of translators, and start the sessions of the translators.

    Ignores other switches. Raises TestbedError and finsy's P4ClientError.
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
    """Create the multicast groups that make 1 to 8 copies of a report of a session.

    The instance of a replica is the number of the copy.
    """
    for copies in range(1, MAX_COPIES + 1):
        replicas = [(port, copy) for copy in range(copies)]
        await replace(
            switch, fy.P4MulticastGroupEntry(session << 3 | copies - 1, replicas=replicas)
        )


async def events(switch: fy.Switch, reporter: int = 0) -> dict[str, int]:
    """Return the event counts of a translator for its nth reporter.

    The number 0 means all reporters that are not tracked.
    """
    names = {reporter * _KINDS + kind: name for name, kind in EVENTS.items()}
    wanted = [fy.P4CounterEntry("dta_events", index=index) for index in names]
    # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
    found = switch.read(wanted)
    return {names[entry.index]: entry.packet_count async for entry in found}  # type: ignore[attr-defined]


async def restart_reporter(switch: fy.Switch, reporter: int, *, sequence: int = 0) -> None:
    """Set the sequence number that the translator expects next from its nth reporter."""
    windows = range(reporter * _WINDOW, (reporter + 1) * _WINDOW, _CELLS_PER_WRITE)
    async with Readouts(switch) as readouts:
        await readouts.write(_REPORTER_STATE, reporter, sequence)
        await asyncio.gather(*(
            readouts.write(_REPORTER_WINDOW, cell // _CELLS_PER_WRITE) for cell in windows
        ))  # fmt: skip


async def missing_reports(switch: fy.Switch, reporter: int) -> int:
    """Return how many reports of a reporter are missing. Raises ReadoutTimeoutError."""
    async with Readouts(switch) as readouts:
        return (await readouts.read(_REPORTER_STATE, reporter)).arrival[1]
