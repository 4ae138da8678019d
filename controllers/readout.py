"""Readout packets read and write registers of a switch; see p4src/include/readout.p4.

Readout packets work on every target. P4Runtime servers that were built with PI do not support
registers. Usage with a connected switch:

    async with Readouts(switch) as readouts:
        await readouts.read(record, index)
"""

import asyncio
import itertools
import math
from contextlib import suppress
from dataclasses import dataclass

import finsy as fy

from telemark.errors import TestbedError
from telemark.session.clock import Clock

ATTEMPTS = 5
TIMEOUT_S = 0.2
AT_ONCE = 32
"""Maximum number of requests without a response. finsy's queue drops packets if it has 50."""

MOST_ROUNDS = 200
"""Maximum number of round trips in one measurement of a clock."""

CLOCK = 0
"""Number of a record without registers. Of its response, only `switch_us` is used."""

CLOCK_BITS = 48
"""Clocks of switches count microseconds modulo 2^CLOCK_BITS."""

RESOLUTION_US = 1  # resolution of the clocks of switches

_WRITE = 0x8000  # flag in a record number, see readout.p4
_VALUES = 4  # number of 64-bit values in a write request


@dataclass(frozen=True)
class Readout:
    """Response of a switch: its clock, and the ingress and egress registers of a record."""

    switch_us: int
    arrival: tuple[int, int, int, int]
    departure: tuple[int, int, int, int]


class ReadoutTimeoutError(TestbedError):
    """A switch did not respond."""


class Readouts:
    """Sends readout packets to one connected switch; an async context manager.

    If a request gets no response, it is sent again. `read` raises ReadoutTimeoutError.
    """

    def __init__(self, switch: fy.Switch) -> None:
        self.name: str = switch.name
        self._switch = switch
        self._numbers = itertools.count()
        self._waiting: dict[bytes, asyncio.Future[fy.P4PacketIn]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)
        self._sending = asyncio.Lock()
        self._receiver: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Readouts":
        self._receiver = asyncio.create_task(self._receive())
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._receiver is not None:
            self._receiver.cancel()
            with suppress(asyncio.CancelledError):
                await self._receiver

    async def read(self, record: int, index: int = 0) -> Readout:
        """Read the registers of the record with number `record` at `index`.

        All values of ingress registers are from the same time. All values of egress registers are
        from the same time, too, which may differ from that of the ingress.
        """
        answer, _ = await self._ask_until_answered(record, index)
        return answer

    async def write(self, record: int, index: int, *values: int) -> None:
        """Write up to four 64-bit values into the registers of `record` at `index`.

        The other values of the cell become 0. When this returns, the write is complete, and no late
        copy of the request will be executed. Raises ReadoutTimeoutError. Raises ValueError if the
        program cannot write this record.
        """
        given = [*values, *[0] * (_VALUES - len(values))]
        data = b"".join(value.to_bytes(8, "big") for value in given)
        answer, attempts = await self._ask_until_answered(record | _WRITE, index, data)
        if answer.arrival != tuple(given):
            raise ValueError(f"switch {self.name}: its program does not write record {record}")
        if attempts > 1:  # a late copy of this request must not overwrite later changes
            await self.read(CLOCK)

    async def _ask_until_answered(
        self, record: int, index: int, data: bytes = b""
    ) -> tuple[Readout, int]:
        """Send a request until a response arrives.

        Return the response, and how often the request was sent.
        """
        async with self._room:
            for attempt in range(1, ATTEMPTS + 1):
                with suppress(asyncio.TimeoutError):
                    return _decode(await self._ask(record, index, data)), attempt
        raise ReadoutTimeoutError(
            f"switch {self.name}: no response to {ATTEMPTS} readout packets; run it with "
            f"--cpu-port 255 and a program that includes readout.p4"
        )

    async def clock_offset(
        self, clock: Clock, rounds: int = 20, good_us: float = math.inf
    ) -> tuple[float, float]:
        """Return the offset from the switch's clock to `clock`, and its maximum error, both in us.

        The offset is computed from the shortest of several round trips. The switch timestamps each
        response in whole microseconds. If the clocks have different rates, the offset is valid only
        at the time of the call. If the error exceeds `good_us`, e.g. on a loaded machine, more
        round trips follow, up to MOST_ROUNDS.
        """
        trips: list[tuple[int, int, int]] = []
        while len(trips) < rounds or (
            len(trips) < MOST_ROUNDS and _half_of(min(trips)[0]) > good_us
        ):
            before_ns = clock.now_ns()
            answer = await self.read(CLOCK)
            after_ns = clock.now_ns()
            trips.append((after_ns - before_ns, before_ns, answer.switch_us))
        trip_ns, before_ns, switch_us = min(trips)
        doubled_ns = 2 * (before_ns - 1000 * switch_us) + trip_ns - 1000 * RESOLUTION_US
        return doubled_ns % (2000 << CLOCK_BITS) / 2000, _half_of(trip_ns)

    async def _ask(self, record: int, index: int, data: bytes = b"") -> fy.P4PacketIn:
        number = next(self._numbers).to_bytes(8, "big")
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with self._sending:  # a gRPC stream accepts one message at a time
                await self._switch.write(
                    [fy.P4PacketOut(data + number, record=record, index=index)]
                )
            return await asyncio.wait_for(answer, TIMEOUT_S)
        finally:
            del self._waiting[number]

    async def _receive(self) -> None:
        async for packet in self._switch.read_packets():
            answer = self._waiting.get(packet.payload)
            if answer is not None and not answer.done():  # otherwise the response arrived too late
                answer.set_result(packet)


def _half_of(trip_ns: int) -> float:
    """Return the maximum error (us) of an offset that was computed from one round trip.

    This error is half of the duration of the round trip, plus half of the resolution.
    """
    return trip_ns / 2000 + RESOLUTION_US / 2


def _decode(packet: fy.P4PacketIn) -> Readout:
    first, second = (
        tuple(int(packet[f"{point}_{number}"]) for number in range(4))
        for point in ("arrival", "departure")
    )
    return Readout(int(packet["switch_us"]), first, second)  # type: ignore[arg-type]  # four each
