"""Action profiles, meters, digests, value sets and idle timeouts over P4Runtime."""

from typing import Any

import grpc
import pytest
from finsy.proto import p4r
from harness import (
    Bench,
    asynchronous,
    bench,
    call,
    delete,
    entry,
    error_details,
    exact,
    info,
    insert,
    modify,
    named,
)

SOURCE, DESTINATION = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
FRAME = DESTINATION + SOURCE + bytes.fromhex("1234") + b"payload"
BALANCED = "balanced.implementation"


def profile_id(alias: str) -> int:
    return int(named(info("extras").action_profiles, alias).preamble.id)


def member(number: int, port: int, alias: str = BALANCED) -> p4r.Entity:
    message = p4r.ActionProfileMember(action_profile_id=profile_id(alias), member_id=number)
    message.action.CopyFrom(call("forward", {"port": bytes((port,))}, "extras"))
    return p4r.Entity(action_profile_member=message)


def group(number: int, *members: tuple[int, int], alias: str = BALANCED) -> p4r.Entity:
    message = p4r.ActionProfileGroup(action_profile_id=profile_id(alias), group_id=number)
    for member_id, weight in members:
        message.members.add(member_id=member_id, weight=weight)
    return p4r.Entity(action_profile_group=message)


def to(table: str, **action: Any) -> p4r.Entity:
    entity = entry(
        table, {"hdr.ethernet.destination": exact(DESTINATION)}, None, program_name="extras"
    )
    entity.table_entry.action.CopyFrom(p4r.TableAction(**action))
    return entity


def one_shot(*ports: int, **fields: Any) -> p4r.ActionProfileActionSet:
    message = p4r.ActionProfileActionSet(**fields)
    for port in ports:
        action = call("forward", {"port": bytes((port,))}, "extras")
        message.action_profile_actions.add(action=action, weight=1)
    return message


def ports_of(running: Bench, frames: int = 64) -> set[int]:
    """Return the ports by which frames from many sources leave."""
    running.driver.left.clear()
    for i in range(frames):
        running.driver.arrive(1, DESTINATION + bytes((2, 0, 0, 0, 1, i)) + FRAME[12:])
    return {port for port, _ in running.driver.left}


@asynchronous
async def test_members_and_groups_carry_packets() -> None:
    async with bench("extras") as running:
        entities = [member(1, 11), member(2, 12), group(7, (1, 1), (2, 2))]
        target = to("balanced", action_profile_group_id=7)
        await running.write(*(insert(e) for e in entities), insert(target))
        for entity in (*entities, target):
            assert await running.read(entity) == [entity]
        assert ports_of(running) == {11, 12}
        await running.write(modify(member(2, 13)))
        assert ports_of(running) == {11, 13}
        await running.write(modify(group(7, (1, 1))))
        assert ports_of(running) == {11}
        single = to("balanced", action_profile_member_id=2)
        await running.write(modify(single))
        assert ports_of(running) == {13}
        assert await running.read(single) == [single]


@asynchronous
async def test_members_and_groups_in_use_cannot_be_deleted() -> None:
    async with bench("extras") as running:
        target = to("balanced", action_profile_group_id=7)
        await running.write(insert(member(1, 11)), insert(group(7, (1, 1))), insert(target))
        for entity in (member(1, 11), group(7)):
            with pytest.raises(grpc.aio.AioRpcError):
                await running.write(delete(entity))
            assert len(await running.read(entity)) == 1
        await running.write(delete(target), delete(group(7)), delete(member(1, 11)))


@asynchronous
async def test_an_action_set_is_a_group_of_the_entry_s_own() -> None:
    async with bench("extras") as running:
        for ports in ((11, 12), (13,)):
            target = to("balanced", action_profile_action_set=one_shot(*ports))
            await running.write(modify(target) if ports == (13,) else insert(target))
            assert await running.read(target) == [target]
            assert ports_of(running) == set(ports)
        for _ in range(40):  # in total, more members than the profile has room for
            await running.write(delete(target))
            await running.write(insert(target))
        assert await running.read(member(0, 0)) == []


@pytest.mark.parametrize(
    ("entity", "code"),
    [
        (to("direct", action_profile_member_id=9), grpc.StatusCode.NOT_FOUND),
        (to("balanced", action_profile_group_id=9), grpc.StatusCode.NOT_FOUND),
        (to("direct", action_profile_group_id=9), grpc.StatusCode.INVALID_ARGUMENT),
        (to("direct", action=call("drop", {}, "extras")), grpc.StatusCode.INVALID_ARGUMENT),
        (group(1, (9, 1)), grpc.StatusCode.NOT_FOUND),
        (group(1, (9, 0)), grpc.StatusCode.INVALID_ARGUMENT),
        (group(1, alias="direct.implementation"), grpc.StatusCode.INVALID_ARGUMENT),
        (
            to("balanced", action_profile_action_set=one_shot(1, action_selection_mode="RANDOM")),
            grpc.StatusCode.UNIMPLEMENTED,
        ),
    ],
)
@asynchronous
async def test_profiles_refuse(entity: p4r.Entity, code: grpc.StatusCode) -> None:
    async with bench("extras") as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(insert(entity))
        assert error_details(caught.value)[0].canonical_code == code.value[0]


def meter(index: int | None, config: p4r.MeterConfig | None = None) -> p4r.Entity:
    number = named(info("extras").meters, "port_meter").preamble.id
    message = p4r.MeterEntry(meter_id=number, config=config)
    if index is not None:
        message.index.index = index
    return p4r.Entity(meter_entry=message)


SLOW = p4r.MeterConfig(cir=1, cburst=1, pir=2, pburst=2)


@asynchronous
async def test_a_meter_limits_its_port() -> None:
    async with bench("extras") as running:
        forward = to("direct", action_profile_member_id=1)
        await running.write(insert(member(1, 11, "direct.implementation")), insert(forward))
        await running.write(modify(meter(1, SLOW)))
        assert await running.read(meter(1)) == [meter(1, SLOW)]
        assert await running.read(meter(None)) == [
            meter(0), meter(1, SLOW), meter(2), meter(3)
        ]  # fmt: skip
        for _ in range(20):
            running.driver.arrive(1, FRAME)
        assert 1 <= len(running.driver.left) <= 3
        running.driver.left.clear()
        await running.write(modify(meter(1)))
        for _ in range(20):
            running.driver.arrive(1, FRAME)
        assert len(running.driver.left) == 20


@asynchronous
async def test_a_direct_meter_belongs_to_its_entry() -> None:
    async with bench("extras") as running:
        source = known_source()
        place = p4r.TableEntry(table_id=source.table_entry.table_id, match=source.table_entry.match)
        limit = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=place, config=SLOW))
        await running.write(insert(source), modify(limit))
        assert await running.read(limit) == [limit]
        none = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=place))
        await running.write(modify(none))
        assert await running.read(limit) == [none]


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        (meter(4, SLOW), "index 4, expected 0 to 3"),
        (meter(0, p4r.MeterConfig(cir=2, pir=1)), "cir 2 is above pir 1"),
        (meter(0, p4r.MeterConfig(cir=-1)), "negative rate or burst"),
    ],
)
@asynchronous
async def test_meters_refuse(entity: p4r.Entity, text: str) -> None:
    async with bench("extras") as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(modify(entity))
        assert text in error_details(caught.value)[0].message


def known_source(**fields: Any) -> p4r.Entity:
    match = {"hdr.ethernet.source": exact(SOURCE)}
    return entry("sources", match, ("known", {}), program_name="extras", **fields)


def digest(**config: int) -> p4r.Entity:
    number = named(info("extras").digests, "learnt_t").preamble.id
    entity = p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=number))
    entity.digest_entry.config.CopyFrom(p4r.DigestEntry.Config(**config))
    return entity


@asynchronous
async def test_a_digest_is_listed_once_until_it_is_acknowledged() -> None:
    async with bench("extras", primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        # no controller has requested digests yet, so no digest list will contain this digest
        running.driver.arrive(7, FRAME)
        config = digest(max_list_size=2, max_timeout_ns=20_000_000, ack_timeout_ns=10**12)
        await running.write(insert(config))
        assert await running.read(config) == [config]
        for frame in (FRAME, FRAME, FRAME[:11] + b"\x09" + FRAME[12:]):
            running.driver.arrive(1, frame)
        listed = (await stream.read()).digest
        values = [[m.bitstring for m in d.struct.members] for d in listed.data]
        assert values == [[SOURCE, b"\x01"], [SOURCE[:5] + b"\x09", b"\x01"]]
        running.driver.arrive(2, FRAME)  # another digest; its list is not full
        second = (await stream.read()).digest
        assert [d.struct.members[1].bitstring for d in second.data] == [b"\x02"]
        acknowledgement = p4r.StreamMessageRequest()
        acknowledgement.digest_ack.digest_id = listed.digest_id
        acknowledgement.digest_ack.list_id = listed.list_id
        await stream.write(acknowledgement)
        # when the error of this message arrives, the switch has processed the message before it
        await stream.write(p4r.StreamMessageRequest())
        assert (await stream.read()).HasField("error")
        running.driver.arrive(2, FRAME)
        running.driver.arrive(1, FRAME)
        third = (await stream.read()).digest
        assert [d.struct.members[1].bitstring for d in third.data] == [b"\x01"]
        await running.write(delete(config))
        assert await running.read(config) == []


@asynchronous
async def test_an_idle_entry_is_reported() -> None:
    async with bench("extras", primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        idle = known_source(idle_timeout_ns=1_000_000)
        await running.write(insert(idle))
        notification = (await stream.read()).idle_timeout_notification
        assert list(notification.table_entry) == [idle.table_entry]
        asked = known_source()
        asked.table_entry.time_since_last_hit.SetInParent()
        (read,) = await running.read(asked)
        assert read.table_entry.time_since_last_hit.elapsed_ns >= 1_000_000


def value_set(*types: int) -> p4r.Entity:
    number = named(info("extras").value_sets, "special_types").preamble.id
    message = p4r.ValueSetEntry(value_set_id=number)
    for value in types:
        match = exact(value.to_bytes(2, "big"))
        match.field_id = 1
        message.members.add(match=[match])
    return p4r.Entity(value_set_entry=message)


@asynchronous
async def test_a_value_set_steers_the_parser() -> None:
    async with bench("extras") as running:
        assert await running.read(value_set()) == [value_set()]
        await running.write(modify(value_set(0x4321, 0x1234)))
        assert await running.read(value_set()) == [value_set(0x4321, 0x1234)]
        running.driver.arrive(1, FRAME)
        assert running.driver.left == [(9, FRAME)]
        await running.write(modify(value_set(0x4321)))
        running.driver.left.clear()
        running.driver.arrive(1, FRAME)
        assert [port for port, _ in running.driver.left] == [0]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(modify(value_set(0x4001, 0x4002, 0x4003, 0x4004, 0x4005)))
        assert (
            "5 members, but the program allows at most 4" in error_details(caught.value)[0].message
        )


@asynchronous
async def test_a_clone_session_makes_copies() -> None:
    async with bench("extras") as running:
        session = p4r.Entity()
        message = session.packet_replication_engine_entry.clone_session_entry
        message.session_id = 5
        message.packet_length_bytes = 16
        message.replicas.add(egress_port=21, instance=1)
        match = {"hdr.ethernet.type": exact(b"\x12\x34")}
        copied = entry("copied", match, ("copy", {}), program_name="extras")
        await running.write(insert(session), insert(copied))
        running.driver.arrive(1, FRAME)
        assert sorted(running.driver.left) == [(0, FRAME), (21, FRAME[:16])]
