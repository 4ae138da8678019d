"""Collector: reads counters and registers of switches per block, and reports incomplete blocks.

The collector reads the values of each block half a block after the end of the block. At that time,
the colour of the block is idle: no packet of the block is still in flight, and no packet of the
next block of the same colour has arrived (RFC 9341 section 3.1). If a reading was late or failed,
or if a switch restarted or had a clock error, the collector reports the switch's records of the
block as unknown.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TypeVar

from controllers.ampm.metrics import BlockMetrics
from controllers.ampm.records import (
    OverwrittenError,
    Point,
    PointRecord,
    Record,
    cell_of,
    places_of,
    point_records,
)
from controllers.ampm.schedule import Schedule, colour_of
from controllers.ampm.session import (
    COUNTERS,
    Cells,
    ClockError,
    Counts,
    Edge,
    PlaceSession,
    Reading,
    Session,
    SwitchUnreachableError,
)
from controllers.ampm.watch import (
    Bounds,
    FlowPath,
    Hop,
    Method,
    WatchedFlow,
    check_distinct,
    check_limits,
    check_paths,
    watch_at,
    watch_entry,
)
from controllers.readout import RESOLUTION_US
from telemark.errors import InvalidRunError
from telemark.metrics.folder import MetricsFolder
from telemark.session.clock import Clock, ReadableClock

T = TypeVar("T")

RETRIES = 8  # maximum number of retries of a failed reading, if time permits


@dataclass(frozen=True)
class BlockReport:
    """Records of one block.

    `records` maps each flow number to a map from point to record. An unknown record is None.
    `problems` lists why records are unknown; it is empty if the block is complete.
    """

    block: int
    records: dict[int, dict[Point, PointRecord | None]]
    problems: list[str]

    @property
    def complete(self) -> bool:
        """True if all records are known: those of every flow at every point."""
        return not self.problems

    def known_records(self, flow: int) -> dict[Point, PointRecord]:
        """Return the records of a flow by point. Raises InvalidRunError if a record is unknown."""
        known = {point: each for point, each in self.records[flow].items() if each is not None}
        if len(known) < len(self.records[flow]):
            raise InvalidRunError(
                self.problems[0] if self.problems else f"block {self.block} is incomplete"
            )
        return known


@dataclass
class _Totals:
    """Last stable counter values of one colour on a switch; if unknown, `problem` says why."""

    counts: Counts | None = None
    problem: str = "there is no earlier reading"


@dataclass
class _Part:
    """A switch's records of a block.

    `records` maps a flow number to a pair: the record at arrival and the record at departure.
    """

    records: dict[int, tuple[PointRecord, PointRecord]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class _UnknownError(Exception):
    """A switch's records of a block are unknown; the message gives the reason."""


class _NotReadError(_UnknownError):
    """The switch was not read while its counters were stable."""


class Collector:
    """Controller that makes switches mark and measure `flows`, and reads the switches' records.

    `flows` maps each flow to its path, which is a sequence of switches, or to a Multipoint if it
    has several paths. The ends of a path may also be the edge programs of hosts (edge.py).

    The collector is an async context manager that connects to the switches. `bounds` are the
    maximum clock error and the maximum delay. None means that they are unknown, and nothing is
    checked. Otherwise, LimitError is raised if the methods of a flow are not exact within these
    bounds, for the block length of `schedule`. `records` are the registers to read in addition to
    the counters. None means all registers that the methods need. `async with` and watch() raise
    SwitchUnreachableError and ClockError. blocks() does not raise these errors, but adds them to
    the `problems` of the block.
    """

    def __init__(
        self, flows: Mapping[WatchedFlow, FlowPath[Hop | Edge]], schedule: Schedule,
        clock: Clock, *, bounds: Bounds | None, records: Collection[Record] | None = None,
        metrics: MetricsFolder | None = None,
    ) -> None:  # fmt: skip
        check_distinct(flows)
        check_paths(flows)
        if bounds is not None:
            for methods in {flow.methods for flow in flows}:
                check_limits(methods, schedule, bounds)
        self.schedule = schedule
        self._flows = flows
        self._clock = clock
        self._bounds = bounds
        self._guard_us = schedule.block_us / 4 if bounds is None else bounds.guard_us
        self._wanted = set(Record) if records is None else set(records)
        hops = {hop.name: hop for path in flows.values() for hop in path}
        self._seen = {
            name: [flow for flow, path in flows.items() if any(hop.name == name for hop in path)]
            for name in hops
        }
        self._sessions = {name: self._session(hop) for name, hop in hops.items()}
        self._totals = {name: [_Totals(), _Totals()] for name in hops}  # by colour
        self._open = AsyncExitStack()
        self._metrics = metrics
        self._sums = BlockMetrics(flows, self._wanted)

    async def __aenter__(self) -> "Collector":
        async with AsyncExitStack() as opening:
            for session in self._sessions.values():
                opening.push_async_callback(session.close)
            await _gather_all(session.open() for session in self._sessions.values())
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._open.aclose()

    async def watch(self) -> None:
        """Fill the tables of the switches. Entries that already exist are not written.

        Marking entries are written last. So no packet is marked before all switches are ready to
        count and to clear marks.
        """
        sessions = self._sessions.values()
        await _gather_all(s.set_clock(self._clock, self._bounds) for s in sessions)
        if self._bounds is not None:
            for problem in find_diverging_clocks(sessions, self._bounds).values():
                raise ClockError(problem)
        for marking in (False, True):
            await _gather_all(session.fill(marking=marking) for session in sessions)

    @property
    def clock_errors_us(self) -> dict[str, float]:
        """Maximum error of the measured clock offset of each switch; 0 if the offset was given."""
        return {name: session.clock_error_us for name, session in self._sessions.items()}

    @property
    def read_bytes(self) -> int:
        """Total length of the P4Runtime messages that read records (without readout packets)."""
        return sum(session.read_bytes for session in self._sessions.values())

    @property
    def cells_per_block(self) -> int:
        """Number of counters and of register records that are read per block, at all points."""
        cells = [self._cells(name, 0) for name in self._sessions]
        return len(COUNTERS) * sum(len(each.counters) + len(each.places) for each in cells)

    async def blocks(
        self, first: int, last: int, *, switches: Collection[str] | None = None,
        clock: ReadableClock | None = None,
    ) -> AsyncIterator[BlockReport]:  # fmt: skip
        """Yield the reports of blocks `first` to `last`, each in the middle of the following block.

        Call this before block `first` begins; otherwise that block is incomplete. The packet count
        of a block is the increase of a counter since the previous block of the same colour.
        `switches` are the switches to read; None means all. `clock` replaces the common clock, e.g.
        by a switch's own clock.
        """
        names = [name for name in self._sessions if switches is None or name in switches]
        clock = clock or self._clock
        for block in range(first - 2, last + 1):
            await clock.sleep_until(1000 * self.schedule.reading_us(block))
            parts = await _gather_all(self._part(self._sessions[n], block, clock) for n in names)
            if self._bounds is not None:
                wrong = find_diverging_clocks([self._sessions[n] for n in names], self._bounds)
                parts = [
                    _Part(problems=[*part.problems, f"block {block}: {wrong[name]}"])
                    if name in wrong else part
                    for name, part in zip(names, parts, strict=True)
                ]  # fmt: skip
            if block >= first:
                report = self._report(block, dict(zip(names, parts, strict=True)))
                if self._metrics is not None:
                    self._sums.add(report.records)
                    self._metrics.publish("ampm", self._sums.metrics())
                yield report

    def _session(self, place: Hop | Edge) -> PlaceSession:
        watches = [watch_at(self._flows[f], place.name, f) for f in self._seen[place.name]]
        cells = self._cells(place.name, 0), self._cells(place.name, 1)
        if not isinstance(place, Hop):
            return place.session(self.schedule, watches, cells)
        return Session(
            place, self.schedule, cells=cells,
            observing=[watch_entry(place, watch) for watch in watches if not watch.is_first],
            marking=[watch_entry(place, watch) for watch in watches if watch.is_first],
        )  # fmt: skip

    def _cells(self, switch: str, colour: int) -> Cells:
        flows = self._seen[switch]
        return Cells(
            tuple(cell_of(flow.number, colour) for flow in flows),
            tuple(
                place
                for flow in flows
                for record in sorted(_records_of(flow.methods) & self._wanted)
                for place in places_of(record, flow.number, colour)
            ),
        )

    def _report(self, block: int, parts: Mapping[str, _Part]) -> BlockReport:
        records: dict[int, dict[Point, PointRecord | None]] = {}
        for flow, path in self._flows.items():
            of_flow = records[flow.number] = {}
            for hop in path:
                part = parts.get(hop.name, _Part())
                found = part.records.get(flow.number, (None, None))
                for name, record in zip(COUNTERS, found, strict=True):
                    of_flow[Point(hop.name, name)] = record
        return BlockReport(block, records, [p for part in parts.values() for p in part.problems])

    async def _part(self, session: PlaceSession, block: int, clock: ReadableClock) -> _Part:
        """Return a switch's records of a block."""
        totals, colour = self._totals[session.name], colour_of(block)
        part = _Part()
        try:
            reading = await self._read(session, block, clock)
            before, totals[colour] = totals[colour], _Totals(reading.counts)
            if self._bounds is not None:
                await session.check_clock(self._clock, self._bounds)
            if before.counts is None:
                raise _UnknownError(
                    f"switch {session.name}: no previous counter values: {before.problem}"
                )
        except _NotReadError as error:
            totals[colour] = _Totals(problem=f"block {block} was not read")
            part.problems.append(f"block {block}: {error}")
            return part
        except (SwitchUnreachableError, ClockError, _UnknownError) as error:
            part.problems.append(f"block {block}: {error}")
            return part
        for flow in self._seen[session.name]:
            try:
                part.records[flow.number] = self._records(flow, block, before.counts, reading)
            except (OverwrittenError, _UnknownError) as error:
                where = f"block {block}: switch {session.name}, flow {flow.number}"
                part.problems.append(f"{where}: {error}")
        return part

    async def _read(self, session: PlaceSession, block: int, clock: ReadableClock) -> Reading:
        """Read the cells of a block. If a reading fails, retry while the counters are stable."""
        deadline_us = self.schedule.start_us(block + 2) - self._guard_us
        pause_us = (deadline_us - self.schedule.reading_us(block)) / RETRIES
        problem = ""
        while (left_us := deadline_us - _now_us(clock)) > 0:
            try:
                reading = await asyncio.wait_for(self._try_to_read(session, block), left_us / 1e6)
            except SwitchUnreachableError as error:
                problem = str(error)
            except asyncio.TimeoutError:
                problem = problem or f"switch {session.name} did not answer in {left_us:.0f} us"
            else:
                problem = ""
                if _now_us(clock) <= deadline_us:
                    return reading
            again_us = min(_now_us(clock) + pause_us, deadline_us)
            await clock.sleep_until(round(1000 * again_us))
        raise _NotReadError(
            problem
            or f"switch {session.name} was read {-left_us:.0f} us after its counters stopped "
            f"being stable; use blocks longer than {self.schedule.block_us} us"
        )

    async def _try_to_read(self, session: PlaceSession, block: int) -> Reading:
        reading = await session.read(colour_of(block))
        if reading is not None:
            return reading
        totals = self._totals[session.name]
        totals[:] = [_Totals(problem="it restarted"), _Totals(problem="it restarted")]
        await session.set_clock(self._clock, self._bounds)
        await session.fill(marking=True)
        reading = await session.read(colour_of(block))
        if reading is not None:  # valid start values: this colour's next block has not begun yet
            totals[colour_of(block)] = _Totals(reading.counts)
        raise _UnknownError(f"switch {session.name} restarted: its tables and counts were lost")

    def _records(
        self, flow: WatchedFlow, block: int, before: Counts, reading: Reading
    ) -> tuple[PointRecord, PointRecord]:
        """Compute a switch's records of a flow from the switch's registers and counters."""
        cell = cell_of(flow.number, block)
        records = []
        for name, record in zip(
            COUNTERS,
            point_records(self.schedule, flow.number, block, reading.registers),
            strict=True,
        ):
            now, earlier = reading.counts[name, cell], before[name, cell]
            packets, size = now[0] - earlier[0], now[1] - earlier[1]
            if packets < 0:
                raise _UnknownError(f"its counter {name} decreased")
            records.append(replace(record, packets=packets, bytes=size))
        return records[0], records[1]


def find_diverging_clocks(sessions: Iterable[PlaceSession], bounds: Bounds) -> dict[str, str]:
    """Return an error message for each switch whose clock differs too much from another switch's.

    Two clocks may differ too much although each of them is close enough to the common clock.
    """
    ahead = {s.name: s.ahead_us for s in sessions if s.ahead_us is not None}
    if not ahead:
        return {}
    first, last = max(ahead, key=lambda n: ahead[n][0]), min(ahead, key=lambda n: ahead[n][1])
    found = {}
    for name, (min_us, max_us) in ahead.items():
        by_us, other = max((min_us - ahead[last][1], last), (ahead[first][0] - max_us, first))
        if by_us > bounds.clock_error_us + 2 * RESOLUTION_US:
            found[name] = (
                f"switch {name}: its clock differs from that of {other} by at least {by_us:.0f} "
                f"us, which exceeds the bound of {bounds.clock_error_us:.0f} us"
            )
    return found


async def _gather_all(coroutines: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Wait for all coroutines; return their results, or raise the first exception."""
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # it contains no exception


def _now_us(clock: ReadableClock) -> int:
    return clock.now_ns() // 1000


def _records_of(methods: Method) -> set[Record]:
    """Return the registers in which these methods record."""
    records = {Record.BLOCK}
    if methods & (Method.PULSE | Method.MULTIPLEXED):
        records.add(Record.PULSE)
    if Method.HASHED in methods:
        records.add(Record.SAMPLE)
    return records
