"""Readouts of live switches over P4Runtime, and results from the records of two switches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import finsy as fy
import pytest
from ampm_path import L, frame, frame_ipv6
from harness import Bench, asynchronous, bench, compiled

from controllers.ampm import records
from controllers.ampm.records import PointRecord, Record, places_of, point_records
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Hop, Method, WatchedFlow, schedule_entries, watch_at, watch_entry
from controllers.readout import Readouts, ReadoutTimeoutError
from controllers.tables import reconcile

PROGRAM = str(Path(__file__).parents[2] / "p4src" / "ampm" / "ampm")
SCHEDULE = Schedule(L)
FLOW = 3
UDP = 17


class LivePath:
    """Two live switches, and a readout connection to each."""

    def __init__(self, benches: list[Bench], hops: list[Hop], readouts: list[Readouts]) -> None:
        self.benches = benches
        self.hops = hops
        self.readouts = readouts

    def send(self, sent_us: int, delay_us: int | None, number: int = 0) -> None:
        """Send a packet that reaches the second switch after `delay_us`.

        If `delay_us` is None, the packet is lost.
        """
        data = frame(number=number)
        for switch, time_us in zip(self.benches, (sent_us, sent_us + (delay_us or 0)), strict=True):
            ((_, data),) = switch.driver.engine.process(1, data, 1000 * time_us)
            if delay_us is None:
                return

    async def read(self, block: int) -> list[tuple[PointRecord, PointRecord]]:
        return [await read_block(r, FLOW, block) for r in self.readouts]


async def read_block(readouts: Readouts, flow: int, block: int) -> tuple[PointRecord, PointRecord]:
    """Read all records of a block by readout packets."""
    wanted = [
        place
        for record in (Record.BLOCK, Record.PULSE, Record.SAMPLE)
        for place in places_of(record, flow, block)
    ]
    answers = await asyncio.gather(*(readouts.read(*place) for place in wanted))
    return point_records(SCHEDULE, flow, block, dict(zip(wanted, answers, strict=True)))


async def watch(hops: list[Hop], flow: WatchedFlow) -> None:
    for hop in hops:
        entry = watch_entry(hop, watch_at(hops, hop.name, flow))
        await hop.switch.insert([entry])


@asynccontextmanager
async def path(methods: Method, folder: Path) -> AsyncIterator[LivePath]:
    p4info = folder / "ampm.p4info.txtpb"
    p4info.write_text(str(compiled(PROGRAM).p4info))
    async with AsyncExitStack() as stack:
        benches = [await stack.enter_async_context(bench(PROGRAM, primary=False)) for _ in "12"]
        hops = []
        for number, running in enumerate(benches):
            options = fy.SwitchOptions(p4info=p4info)
            switch = fy.Switch(f"s{number + 1}", running.address, options)
            hops.append(Hop(await stack.enter_async_context(switch)))
            await switch.write(
                [
                    ~fy.P4TableEntry(
                        "forwarding", action=fy.Action("forward", port=2), is_default_action=True
                    )
                ]
            )
            await reconcile(switch, schedule_entries(SCHEDULE, 0, sampling_shift=0))
        flow = WatchedFlow(FLOW, "10.0.0.1", "10.0.0.2", UDP, dst_port=5000, methods=methods)
        await watch(hops, flow)
        readouts = [await stack.enter_async_context(Readouts(hop.switch)) for hop in hops]
        yield LivePath(benches, hops, readouts)


METHODS = [Method.PULSE, Method.DOUBLE, Method.MULTIPLEXED, Method.STEP | Method.HASHED]


@pytest.mark.parametrize("methods", METHODS)
@asynchronous
async def test_delays_and_loss_of_live_switches(methods: Method, tmp_path: Path) -> None:
    async with path(methods, tmp_path) as running:
        for block in (6, 7):
            for number, at in enumerate((5, L // 2, L // 2 + 9, L - 200)):
                running.send(block * L + at, None if number == 2 else 100 + number, number)
        (_, first), (second, _) = await running.read(7)
        earlier = [points[i] for points, i in zip(await running.read(6), (1, 0), strict=True)]
    start_us = 7 * L
    if methods is not Method.PULSE:  # with a colour or a slot, packets are counted per block
        assert (first.packets, second.packets) == (4, 3)
        mean_us = records.mean_delay(first, second)
        assert mean_us.delay_us is not None
        assert mean_us.problem == "4 packets at the first point, 3 at the second"
        assert second.first_us - first.first_us == 100
    if methods & (Method.PULSE | Method.MULTIPLEXED):
        assert first.pulse_us == start_us + L // 2
        assert records.pulse_delay(first, second) == records.Delay(7, 101)
        assert records.pulse_loss((earlier[0], earlier[1]), (first, second)) == 1
    if methods & Method.HASHED:
        delays, unpaired = records.sample_delays(first, second)
        assert {*delays.values()} <= {100, 101, 103}
        assert delays
        assert unpaired == len(first.samples) - len(delays)


@asynchronous
async def test_many_records_are_read_at_once_each_with_its_own_answer(tmp_path: Path) -> None:
    async with path(Method.DOUBLE, tmp_path) as running:
        running.send(4 * L + L // 2, 7)
        asked = [(record, cell) for record in (Record.BLOCK, Record.PULSE) for cell in range(100)]
        answers = await asyncio.gather(*(running.readouts[1].read(*a) for a in asked))
        found = {a: r for a, r in zip(asked, answers, strict=True) if any(r.arrival)}
        at_us = L // 2 + 7
        assert {a: r.arrival for a, r in found.items()} == {
            (Record.BLOCK, 2 * FLOW): (4 * L, 1, at_us, 4 * L + at_us),
            (Record.PULSE, 2 * FLOW): (4 * L, 1, 4 * L + at_us, 1),
        }


class Forgetful:
    """Connection on which the first packets to the controller are lost."""

    def __init__(self, running: Bench, losses: int) -> None:
        self._receive = running.driver.cpu_receive
        self.losses = losses

    def __call__(self) -> list[bytes]:
        frames = self._receive()
        lost = min(self.losses, len(frames))
        self.losses -= lost
        return frames[lost:]


@asynchronous
async def test_a_lost_readout_is_asked_for_again(tmp_path: Path) -> None:
    async with path(Method.STEP, tmp_path) as running:
        first = running.benches[0]
        first.driver.cpu_receive = Forgetful(first, losses=3)  # type: ignore[method-assign]
        assert (await running.readouts[0].read(Record.BLOCK)).arrival == (0, 0, 0, 0)


@asynchronous
async def test_a_switch_that_never_answers_is_named(tmp_path: Path) -> None:
    async with path(Method.STEP, tmp_path) as running:
        second = running.benches[1]
        second.driver.cpu_receive = Forgetful(second, losses=99)  # type: ignore[method-assign]
        with pytest.raises(
            ReadoutTimeoutError, match="switch s2: no response to 5 readout packets"
        ):
            await running.readouts[1].read(Record.BLOCK)


class ClockAhead:
    """A clock that is `ahead_us` ahead of a switch's clock; each reading takes 40 us."""

    def __init__(self, running: Bench, ahead_us: int) -> None:
        self._driver = running.driver
        self._ahead_ns = 1000 * ahead_us

    def now_ns(self) -> int:
        self._ahead_ns += 40_000
        return self._driver._time_ns + self._ahead_ns

    async def sleep_until(self, time_ns: int) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("ahead_us", [0, 123_456_789, -5_000])
@asynchronous
async def test_a_clock_s_offset_is_found_within_the_bound(ahead_us: int, tmp_path: Path) -> None:
    async with path(Method.STEP, tmp_path) as running:
        clock = ClockAhead(running.benches[0], ahead_us)
        offset_us, error_us = await running.readouts[0].clock_offset(clock, rounds=3)
        assert 0 < error_us < 2000
        assert abs((offset_us - ahead_us + L) % (1 << 48) - L) <= error_us + 40 * 2 * 3


@asynchronous
async def test_an_ipv6_flow_is_watched_by_its_flow_mon_id(tmp_path: Path) -> None:
    async with path(Method.STEP, tmp_path) as running:
        flow = WatchedFlow(9, "fd00::1", "fd00::2", methods=Method.DOUBLE, flow_mon_id=0xABCDE)
        await watch(running.hops, flow)
        data = frame_ipv6(bytes.fromhex("1204ABCDE000"))
        for switch in running.benches:
            ((_, data),) = switch.driver.engine.process(1, data, 1000 * (5 * L + L // 2))
        assert data == frame_ipv6(bytes.fromhex("1204ABCDE000"))
        for readouts in running.readouts:
            arrival, departure = await read_block(readouts, 9, 5)
            assert arrival == departure
            assert (arrival.packets, arrival.sum_us, arrival.pulses) == (1, L // 2, 1)
