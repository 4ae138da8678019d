"""Counters, registers, multicast groups and clone sessions, over P4Runtime."""

import grpc
import pytest
from finsy.proto import p4d, p4r
from harness import (
    asynchronous,
    bench,
    delete,
    entry,
    error_details,
    info,
    insert,
    lpm,
    modify,
    named,
)


def counter(alias: str, index: int | None, data: p4r.CounterData | None = None) -> p4r.Entity:
    message = p4r.CounterEntry(counter_id=named(info().counters, alias).preamble.id, data=data)
    if index is not None:
        message.index.index = index
    return p4r.Entity(counter_entry=message)


def register(alias: str, index: int | None, value: bytes | None = None) -> p4r.Entity:
    message = p4r.RegisterEntry(register_id=named(info().registers, alias).preamble.id)
    if value is not None:
        message.data.CopyFrom(p4d.P4Data(bitstring=value))
    if index is not None:
        message.index.index = index
    return p4r.Entity(register_entry=message)


@asynchronous
async def test_counters_read_one_and_all_and_can_be_set() -> None:
    async with bench() as running:
        data = p4r.CounterData(packet_count=3, byte_count=300)
        await running.write(modify(counter("port_counter", 2, data)))
        assert await running.read(counter("port_counter", 2)) == [counter("port_counter", 2, data)]
        cells = await running.read(counter("port_counter", None))
        assert [c.counter_entry.index.index for c in cells] == list(range(16))
        assert [c.counter_entry.data.packet_count for c in cells] == [0, 0, 3] + [0] * 13
        every = await running.read(p4r.Entity(counter_entry=p4r.CounterEntry()))
        assert len(every) == 16 + 4
        await running.write(modify(counter("port_counter", None, p4r.CounterData())))
        assert await running.read(counter("port_counter", 2)) == [
            counter("port_counter", 2, p4r.CounterData())
        ]


@asynchronous
async def test_a_packet_counter_shows_no_bytes() -> None:
    async with bench() as running:
        await running.write(
            modify(counter("packet_counter", 1, p4r.CounterData(packet_count=1, byte_count=9)))
        )
        data = p4r.CounterData(packet_count=1)
        assert await running.read(counter("packet_counter", 1)) == [
            counter("packet_counter", 1, data)
        ]


@asynchronous
async def test_direct_counters_belong_to_entries() -> None:
    async with bench() as running:
        match = {"hdr.ipv4.destination": lpm(b"\x0a\x00\x00\x00", 8)}
        route = entry("route", match, ("drop", {}))
        place = p4r.TableEntry(table_id=route.table_entry.table_id, match=route.table_entry.match)
        data = p4r.CounterData(packet_count=2, byte_count=128)
        count = p4r.Entity(
            direct_counter_entry=p4r.DirectCounterEntry(table_entry=place, data=data)
        )
        await running.write(insert(route), modify(count))
        assert await running.read(count) == [count]
        assert await running.read(p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry())) == [
            count
        ]
        asked = p4r.Entity(table_entry=p4r.TableEntry(table_id=place.table_id))
        asked.table_entry.counter_data.SetInParent()
        (shown,) = await running.read(asked)
        assert shown.table_entry.counter_data == data


@asynchronous
async def test_a_batch_that_fails_restores_counts() -> None:
    async with bench() as running:
        match = {"hdr.ipv4.destination": lpm(b"\x0a\x00\x00\x00", 8)}
        route = entry("route", match, ("drop", {}), counter_data=p4r.CounterData(packet_count=9))
        await running.write(insert(route))
        asked = entry("route", {}, None, counter_data=p4r.CounterData())
        assert await running.read(asked) == [route]
        with pytest.raises(grpc.aio.AioRpcError):
            await running.write(
                delete(route),
                modify(counter("port_counter", 1, p4r.CounterData(packet_count=4))),
                modify(register("wide", 1, b"\x05")),
                insert(multicast(3, (1, 1))),
                delete(multicast(9)),
                atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC,
            )
        assert await running.read(asked) == [route]
        assert await running.read(
            counter("port_counter", 1), register("wide", 1), multicast(0)
        ) == [counter("port_counter", 1, p4r.CounterData()), register("wide", 1, b"\0")]


@asynchronous
async def test_registers_of_any_width_and_whole_arrays() -> None:
    async with bench() as running:
        wide = b"\xff" * 16
        await running.write(
            modify(register("wide", 3, wide)), modify(register("last_seen", None, b"\x07"))
        )
        assert await running.read(register("wide", 3)) == [register("wide", 3, wide)]
        assert await running.read(register("wide", None)) == [
            *(register("wide", i, b"\0") for i in range(3)),
            register("wide", 3, wide),
        ]
        every = await running.read(p4r.Entity(register_entry=p4r.RegisterEntry()))
        assert sorted(map(str, every)) == sorted(
            map(
                str,
                [
                    *(register("wide", i, b"\0") for i in range(3)),
                    register("wide", 3, wide),
                    *(register("last_seen", i, b"\x07") for i in range(8)),
                ],
            )
        )


def multicast(group: int, *copies: tuple[int, int]) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.packet_replication_engine_entry.multicast_group_entry
    message.multicast_group_id = group
    for port, instance in copies:
        message.replicas.add(egress_port=port, instance=instance)
    return entity


def clone(session: int, *copies: tuple[int, int], **fields: int) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.packet_replication_engine_entry.clone_session_entry
    message.session_id = session
    for port, instance in copies:
        message.replicas.add(egress_port=port, instance=instance)
    for name, value in fields.items():
        setattr(message, name, value)
    return entity


@pytest.mark.parametrize("make", [multicast, clone])
@asynchronous
async def test_groups_and_sessions_live_and_die(make: type) -> None:
    async with bench() as running:
        first, changed = make(5, (1, 1), (2, 1)), make(5, (3, 0))
        await running.write(insert(first), insert(make(6)))
        assert await running.read(make(5)) == [first]
        await running.write(modify(changed))
        assert await running.read(make(0)) == [changed, make(6)]
        for update, code in (
            (insert(first), grpc.StatusCode.ALREADY_EXISTS),
            (modify(make(7)), grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running.write(update)
            assert error_details(caught.value)[0].canonical_code == code.value[0]
        await running.write(delete(make(5)), delete(make(6)))
        assert await running.read(make(0)) == []


REFUSED = {
    "counter index": (modify(counter("port_counter", 16)), "index 16, expected 0 to 15"),
    "register index": (modify(register("wide", 4, b"\1")), "index 4, expected 0 to 3"),
    "negative index": (modify(register("wide", -1, b"\1")), "index -1, expected 0 to 3"),
    "register width": (
        modify(register("last_seen", 0, b"\1" + bytes(6))),
        "register MyIngress.last_seen: value 0x1000000000000 does not fit in 48 bits",
    ),
    "register without data": (modify(register("wide", 0)), "no data given, expected bitstring"),
    "inserted register": (insert(register("wide", 0, b"\1")), "it can only be modified"),
    "inserted counter": (insert(counter("port_counter", 0)), "it can only be modified"),
    "group 0": (insert(multicast(0)), "expected an id of 1 to 65535"),
    "copy twice": (insert(multicast(1, (1, 1), (1, 1))), "have the same port and instance"),
    "port of a copy": (insert(multicast(1, (512, 0))), "port 512, expected 0 to 511"),
    "session too large": (insert(clone(32768)), "expected an id of 1 to 32767"),
    "class of service": (insert(clone(1, class_of_service=1)), "class_of_service"),
    "empty entity": (insert(p4r.Entity()), "the entity is empty"),
    "no type": (p4r.Update(entity=multicast(1)), "the update has no type"),
    "extern": (insert(p4r.Entity(extern_entry=p4r.ExternEntry())), "extern_entry"),
}


@pytest.mark.parametrize(("update", "message"), REFUSED.values(), ids=REFUSED.keys())
@asynchronous
async def test_a_write_is_refused(update: p4r.Update, message: str) -> None:
    async with bench() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(update)
        (detail,) = error_details(caught.value)
        assert message in detail.message
