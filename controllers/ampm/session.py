"""Session of a collector with one switch: it connects, fills tables, and reads records.

After a restart of the switch, it does this again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

import finsy as fy
import grpc
from finsy.proto import p4r

from controllers.ampm.records import Place, Record, difference_us
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Watch, schedule_entries
from controllers.readout import RESOLUTION_US, Readout, Readouts, ReadoutTimeoutError
from controllers.tables import reconcile
from telemark.errors import TestbedError
from telemark.session.clock import Clock

COUNTERS = ("arrivals", "departures")
REGISTERS = {
    Record.BLOCK: ("block", ("block_us", "packets", "sum_us", "first_us")),
    Record.PULSE: ("pulse", ("block_us", "pulses", "pulse_us", "packets")),
    Record.SAMPLE: ("sample", ("block_us", "samples", "sample_us", "hashes")),
}
"""Names of the registers of each record, in the order of readout packets. They are in the controls
`<name>_arrivals` (ingress) and `<name>_departures` (egress).
"""

CLOCK_ROUNDS = 20  # number of round trips in one measurement of a clock offset
GOOD_CLOCK_US = 500.0  # more round trips follow until the error is at most this value,
FOUND_CLOCK_US = 2000.0  # or at most this value if there are no bounds


Counts = dict[tuple[str, int], tuple[int, int]]
"""Map from (counter name, index) to the counts of packets and bytes."""


class SwitchUnreachableError(TestbedError):
    """A switch does not respond, or its response is invalid."""


@dataclass(frozen=True)
class Cells:
    """Cells to read from a switch: counter indices and register locations."""

    counters: tuple[int, ...] = ()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Reading:
    """Values read from the counters and registers of a switch."""

    counts: Counts
    registers: dict[Place, Readout]


class ClockError(TestbedError):
    """The error of a switch's clock is larger than the bound."""


class PlaceSession(Protocol):
    """Session of a collector with one measuring point.

    The measuring point is a switch (Session) or the edge program on a host (edge.py).
    """

    name: str
    clock_error_us: float
    ahead_us: tuple[float, float] | None
    read_bytes: int  # length of all requests and responses of bulk reads

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def fill(self, *, marking: bool) -> None: ...
    async def set_clock(self, clock: Clock, bounds: Bounds | None) -> None: ...
    async def check_clock(self, clock: Clock, bounds: Bounds) -> None: ...
    async def read(self, colour: int) -> Reading | None: ...


class Edge(Protocol):
    """A measuring point that is not a switch. It can create its own session."""

    @property
    def name(self) -> str: ...
    def session(
        self, schedule: Schedule, watches: Sequence[Watch], cells: tuple[Cells, Cells]
    ) -> PlaceSession: ...


class Session:
    """Session with a switch: the switch's table entries, and the cells to read for each colour.

    `observing` are the entries of flows that other switches mark. `marking` are the entries of
    flows that this switch marks. All methods raise SwitchUnreachableError.
    """

    def __init__(
        self, hop: Hop, schedule: Schedule, *, observing: Sequence[fy.P4TableEntry],
        marking: Sequence[fy.P4TableEntry], cells: tuple[Cells, Cells],
    ) -> None:  # fmt: skip
        self.name = hop.name
        self._hop = hop
        self._switch = hop.switch
        self._schedule = schedule
        self._observing = observing
        self._marking = marking
        self._cells = cells
        self._offset_us = (hop.clock_offset_us or 0) + hop.clock_ahead_us
        self.clock_error_us = 0.0  # maximum error of a measured clock offset
        self.read_bytes = 0
        self._readouts = Readouts(hop.switch)
        # connection for bulk reads
        self._client = fy.P4Client(hop.switch.address, wait_for_ready=False)
        self._open = AsyncExitStack()
        schema = hop.switch.p4info
        self._slots_id = schema.tables["slots"].id
        self._counter_ids = {schema.counters[name].id: name for name in COUNTERS}
        self._register_ids = {
            schema.registers[f"{control}_{point}.{register}"].id: (record, 4 * place + number)
            for record, (control, registers) in REGISTERS.items()
            for place, point in enumerate(COUNTERS)
            for number, register in enumerate(registers)
        }
        self._requests: dict[tuple[Cells, bool], p4r.ReadRequest] = {}
        # by how much the switch's clock is ahead: minimum and maximum from the last check_clock()
        self.ahead_us: tuple[float, float] | None = None
        self._ready = False
        self._by_packets = False  # True if registers are read by readout packets; set in open()

    async def open(self) -> None:
        """Connect. If the connection was lost, connect again."""
        await self.close()
        # must be False here, so that _reads_registers() tries to read registers over P4Runtime
        self._by_packets = False
        with self._reaching():
            await self._open.enter_async_context(self._switch)
            await self._open.enter_async_context(self._readouts)
            await self._open.enter_async_context(self._client)
            self._by_packets = not await self._reads_registers()
        self._ready = True

    async def close(self) -> None:
        """Disconnect; the switch keeps running."""
        self._ready = False
        await self._open.aclose()

    async def fill(self, *, marking: bool) -> None:
        """Write the entries that the switch lacks.

        Entries of flows that the switch marks are written only with `marking`. Forwarding entries
        are written last. Otherwise, a restarted switch would forward unmarked packets, and later
        switches would count these packets in a wrong block.
        """
        entries = [*schedule_entries(self._schedule, self._offset_us), *self._observing]
        with self._reaching():
            if marking:
                await reconcile(self._switch, [*entries, *self._marking, *self._hop.entries])
            else:
                wanted = [*entries, *self._hop.entries]
                await reconcile(self._switch, wanted, may_stay=self._marking)

    async def set_clock(self, clock: Clock, bounds: Bounds | None) -> None:
        """Measure the offset of the clock, unless it is given, and check the clock.

        The error must be within the bounds (None: no bounds). Raises ClockError.
        """
        if self._hop.clock_offset_us is None:
            # The error must be at most half of the bound, because another clock may have the same
            # error in the opposite direction.
            good_us = FOUND_CLOCK_US if bounds is None else bounds.clock_error_us / 2
            with self._reaching():
                offset_us, self.clock_error_us = await self._readouts.clock_offset(
                    clock, CLOCK_ROUNDS, min(good_us, GOOD_CLOCK_US)
                )
            if self.clock_error_us > good_us:
                raise ClockError(
                    f"switch {self.name}: its clock offset has an error of up to "
                    f"{self.clock_error_us:.0f} us; expected at most {good_us:.0f} us, half of "
                    f"the bound between two clocks"
                )
            self._offset_us = round(offset_us) + self._hop.clock_ahead_us
        if bounds is not None:
            await self.check_clock(clock, bounds, CLOCK_ROUNDS)

    async def check_clock(self, clock: Clock, bounds: Bounds, rounds: int = 3) -> None:
        """Raise ClockError if the error of the switch's clock certainly exceeds the bound.

        Sets `ahead_us` to the minimum and the maximum by which the switch's clock may be ahead of
        `clock`. If the check failed, sets it to None.
        """
        self.ahead_us = None
        with self._reaching():
            offset_us, error_us = await self._readouts.clock_offset(clock, rounds)
        ahead_us = difference_us(round(offset_us), self._offset_us)
        found_us = abs(ahead_us) - error_us
        if found_us > bounds.clock_error_us + RESOLUTION_US:
            raise ClockError(
                f"switch {self.name}: its clock error is at least {found_us:.0f} us, which "
                f"exceeds the bound of {bounds.clock_error_us:.0f} us"
            )
        self.ahead_us = ahead_us - error_us, ahead_us + error_us

    async def read(self, colour: int) -> Reading | None:
        """Read the cells of one colour.

        Returns None if the tables are empty, as after a restart.
        """
        if not (self._ready and self._switch.is_up):
            await self.open()
        cells = self._cells[colour]
        with self._reaching():
            reading = await self._read(cells)
            if reading is not None and self._by_packets:
                answers = await asyncio.gather(*(self._readouts.read(*p) for p in cells.places))
                reading.registers.update(zip(cells.places, answers, strict=True))
        return reading

    async def _read(self, cells: Cells) -> Reading | None:
        """Read all cells with one request."""
        registers: dict[Place, list[int]] = {}  # eight values: four for arrival, four for departure
        reading = Reading({}, {})
        has_entries = False
        request = self._request(cells)
        self.read_bytes += request.ByteSize()
        async for reply in self._client.request_iter(request):
            self.read_bytes += reply.ByteSize()
            for entity in reply.entities:
                if entity.HasField("counter_entry"):
                    counter = entity.counter_entry
                    key = self._counter_ids[counter.counter_id], counter.index.index
                    reading.counts[key] = counter.data.packet_count, counter.data.byte_count
                elif entity.HasField("register_entry"):
                    register = entity.register_entry
                    record, number = self._register_ids[register.register_id]
                    values = registers.setdefault((record, register.index.index), [0] * 8)
                    values[number] = int.from_bytes(register.data.bitstring, "big")
                else:
                    has_entries = True
        if not has_entries:
            return None
        for place, (a, b, c, d, e, f, g, h) in registers.items():
            # time 0 means that no clock was read
            reading.registers[place] = Readout(0, (a, b, c, d), (e, f, g, h))
        return reading

    def _request(self, cells: Cells) -> p4r.ReadRequest:
        """Return a request for all cells.

        The request also reads the table entries that show whether the tables are filled.
        """
        if (cells, self._by_packets) in self._requests:
            return self._requests[cells, self._by_packets]
        entities = [p4r.Entity(table_entry=p4r.TableEntry(table_id=self._slots_id))]
        entities += [
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=number, index=p4r.Index(index=i)))
            for number in self._counter_ids
            for i in cells.counters
        ]
        if not self._by_packets:
            entities += [
                p4r.Entity(register_entry=p4r.RegisterEntry(
                    register_id=number, index=p4r.Index(index=i)))
                for number, (record, _) in self._register_ids.items()
                for wanted, i in cells.places if wanted is record
            ]  # fmt: skip
        request = p4r.ReadRequest(device_id=self._switch.device_id, entities=entities)
        self._requests[cells, self._by_packets] = request
        return request

    async def _reads_registers(self) -> bool:
        """Return whether the P4Runtime server can read registers.

        Servers that were built with PI cannot.
        """
        try:
            await self._read(Cells(places=((Record.BLOCK, 0),)))
        except fy.P4ClientError as error:
            if error.code is fy.GRPCStatusCode.UNIMPLEMENTED:
                return False
            raise
        return True

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (fy.P4ClientError, ReadoutTimeoutError, grpc.aio.UsageError) as error:
            reason = error.message if isinstance(error, fy.P4ClientError) else error
            message = f"switch {self.name}: no response: {reason}"
            raise SwitchUnreachableError(message) from error
