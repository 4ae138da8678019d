"""Counts of meters by colour: MeterCounterData of meters, direct meters and table entries."""

import grpc
import pytest
from finsy.proto import p4r
from harness import Bench, asynchronous, bench, error_details, insert, modify
from test_extras import FRAME, SLOW, known_source, member, meter, to

SIZE = len(FRAME)
FRAMES = 5  # number of frames within a few ms: the first is green, the second yellow


def colours(green: int, yellow: int, red: int) -> p4r.MeterCounterData:
    """Return counts of frames by colour. All frames have the same size."""
    counts = (p4r.CounterData(packet_count=n, byte_count=n * SIZE) for n in (green, yellow, red))
    return p4r.MeterCounterData(**dict(zip(("green", "yellow", "red"), counts, strict=True)))


def counted(index: int | None, data: p4r.MeterCounterData, **fields: p4r.MeterConfig) -> p4r.Entity:
    entity = meter(index, **fields)
    entity.meter_entry.counter_data.CopyFrom(data)
    return entity


def send(running: Bench) -> None:
    for _ in range(FRAMES):
        running.driver.arrive(1, FRAME)


ASKED = p4r.MeterCounterData()


@asynchronous
async def test_a_meter_counts_each_colour() -> None:
    async with bench("extras") as running:
        send(running)
        assert await running.read(counted(1, ASKED)) == [counted(1, colours(FRAMES, 0, 0))]
        await running.write(modify(counted(1, ASKED, config=SLOW)))
        send(running)
        green_yellow_red = colours(1, 1, FRAMES - 2)
        assert await running.read(counted(1, ASKED)) == [counted(1, green_yellow_red, config=SLOW)]
        assert await running.read(meter(1)) == [meter(1, SLOW)], "only where it is asked for"
        await running.write(modify(meter(1)))
        assert await running.read(counted(1, ASKED)) == [counted(1, green_yellow_red)]
        await running.write(modify(counted(None, colours(7, 8, 9))))
        assert await running.read(counted(None, ASKED)) == [
            counted(i, colours(7, 8, 9)) for i in range(4)
        ]


@asynchronous
async def test_a_direct_meter_counts_for_its_entry() -> None:
    async with bench("extras") as running:
        source = known_source(meter_config=SLOW, meter_counter_data=colours(2, 0, 0))
        place = p4r.TableEntry(table_id=source.table_entry.table_id, match=source.table_entry.match)
        await running.write(insert(source))
        send(running)
        direct = p4r.DirectMeterEntry(table_entry=place, config=SLOW, counter_data=ASKED)
        (read,) = await running.read(p4r.Entity(direct_meter_entry=direct))
        assert read.direct_meter_entry.counter_data == colours(3, 1, FRAMES - 2)
        (shown,) = await running.read(known_source(meter_counter_data=ASKED))
        assert shown.table_entry.meter_counter_data == colours(3, 1, FRAMES - 2)
        await running.write(modify(known_source()))
        (shown,) = await running.read(known_source(meter_counter_data=ASKED))
        assert shown.table_entry.meter_counter_data == colours(3, 1, FRAMES - 2), "they stay"
        direct.counter_data.CopyFrom(colours(0, 0, 1))
        await running.write(modify(p4r.Entity(direct_meter_entry=direct)))
        (shown,) = await running.read(known_source(meter_counter_data=ASKED))
        assert shown.table_entry.meter_counter_data == colours(0, 0, 1)


@asynchronous
async def test_a_batch_that_fails_restores_them() -> None:
    async with bench("extras") as running:
        source = known_source(meter_counter_data=colours(2, 0, 0))
        await running.write(insert(source), modify(counted(1, colours(1, 2, 3))))
        with pytest.raises(grpc.aio.AioRpcError):
            await running.write(
                modify(counted(1, ASKED)),
                modify(known_source(meter_counter_data=ASKED)),
                insert(source),
                atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC,
            )
        assert await running.read(counted(1, ASKED)) == [counted(1, colours(1, 2, 3))]
        (shown,) = await running.read(known_source(meter_counter_data=ASKED))
        assert shown.table_entry.meter_counter_data == colours(2, 0, 0)


NEGATIVE = p4r.MeterCounterData(red=p4r.CounterData(packet_count=-1))


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (modify(counted(1, NEGATIVE)), "meter MyIngress.port_meter: negative count"),
        (insert(known_source(meter_counter_data=NEGATIVE)), "table MyIngress.sources: negative"),
    ],
)
@asynchronous
async def test_counts_are_refused(update: p4r.Update, text: str) -> None:
    async with bench("extras") as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(update)
        assert text in error_details(caught.value)[0].message


@asynchronous
async def test_counts_of_a_table_without_meter_are_refused() -> None:
    async with bench("extras") as running:
        await running.write(insert(member(1, 1, "direct.implementation")))
        plain = to("direct", action_profile_member_id=1)
        plain.table_entry.meter_counter_data.CopyFrom(ASKED)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(insert(plain))
        text = "table MyIngress.direct: meter_counter_data given, but the table has no direct meter"
        assert error_details(caught.value)[0].message == text
