"""Members of groups and of action sets: their watch ports, and the limits of their number."""

import grpc
import pytest
from finsy.proto import p4r
from harness import Bench, asynchronous, bench, call, error_details, insert, modify
from test_extras import group, member, ports_of, to


def watching(*members: tuple[int, bytes]) -> p4r.Entity:
    """Return group 7. Each of its members watches a port."""
    entity = group(7)
    for number, port in members:
        entity.action_profile_group.members.add(member_id=number, weight=1, watch_port=port)
    return entity


def action_set(*ports: int) -> p4r.Entity:
    """Return an action set with an action for each port.

    An action watches its port by the older field.
    """
    message = p4r.ActionProfileActionSet()
    for port in ports:
        action = call("forward", {"port": bytes((port % 256,))}, "extras")
        message.action_profile_actions.add(action=action, weight=1, watch=port)
    return to("balanced", action_profile_action_set=message)


async def write_group(running: Bench) -> list[p4r.Entity]:
    entities = [member(1, 11), member(2, 12), watching((1, b"\x0b"), (2, b"\0\x0c"))]
    target = to("balanced", action_profile_group_id=7)
    await running.write(*(insert(e) for e in (*entities, target)))
    return [entities[2], target]


async def write_action_set(running: Bench) -> list[p4r.Entity]:
    target = action_set(11, 12)
    await running.write(insert(target))
    return [target]


@pytest.mark.parametrize("write", [write_group, write_action_set])
@asynchronous
async def test_a_member_whose_port_is_down_is_skipped(write: type) -> None:
    async with bench("extras") as running:
        written = await write(running)
        assert ports_of(running) == {11, 12}
        running.device.set_port(11, is_up=False)
        assert ports_of(running) == {12}
        for entity in written:  # a read returns each entity as it was written
            assert await running.read(entity) == [entity]
        running.device.set_port(12, is_up=False)
        assert ports_of(running) == {0}, "no member is left: as of an empty group"
        running.device.set_port(11, is_up=True)
        assert ports_of(running) == {11}


@asynchronous
async def test_groups_written_while_a_port_is_down() -> None:
    async with bench("extras") as running:
        running.device.set_port(11, is_up=False)
        await write_group(running)
        assert ports_of(running) == {12}
        await running.write(modify(watching((1, b"\x0b"))))
        assert ports_of(running) == {0}
        running.device.set_port(11, is_up=True)
        assert ports_of(running) == {11}
        await running.write(modify(group(7, (2, 1))))
        running.device.set_port(11, is_up=False)
        assert ports_of(running) == {12}, "no member watches port 11 any more"


@pytest.mark.parametrize(
    ("entity", "code", "text"),
    [
        (watching((1, b"\x01\xff")), grpc.StatusCode.INVALID_ARGUMENT,
         "watch port 511, expected 0 to 510"),
        (watching((1, b"\x02\0")), grpc.StatusCode.OUT_OF_RANGE, "0x200 does not fit in 9 bits"),
        (action_set(600), grpc.StatusCode.INVALID_ARGUMENT, "watch port 600, expected 0 to 510"),
    ],
)  # fmt: skip
@asynchronous
async def test_a_watch_port_is_refused(
    entity: p4r.Entity, code: grpc.StatusCode, text: str
) -> None:
    async with bench("extras") as running:
        await running.write(insert(member(1, 11)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(insert(entity))
        (detail,) = error_details(caught.value)
        assert detail.canonical_code == code.value[0]
        assert text in detail.message
        assert "action profile balanced.implementation" in detail.message


def sized(max_size: int, *weights: int) -> p4r.Entity:
    entity = group(7, *((1, weight) for weight in weights))
    entity.action_profile_group.max_size = max_size
    return entity


EXHAUSTED, INVALID = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("update", "code", "text"),
    [
        (insert(sized(-1)), INVALID, "max_size -1, expected 0 to 16"),
        (insert(sized(17)), INVALID, "max_size 17, expected 0 to 16"),
        (
            insert(sized(3, 2, 2)),
            EXHAUSTED,
            "the sum of the weights is 4, but its max_size allows 3",
        ),
        (
            insert(sized(0, 9, 8)),
            EXHAUSTED,
            "the sum of the weights is 17, but the program allows 16",
        ),
        (
            modify(sized(5, 1)),
            INVALID,
            "max_size 5, but it was created with 4; the max_size of a group cannot change",
        ),
        (
            modify(sized(4, 2, 3)),
            EXHAUSTED,
            "the sum of the weights is 5, but its max_size allows 4",
        ),
    ],
)
@asynchronous
async def test_a_group_has_a_size(update: p4r.Update, code: grpc.StatusCode, text: str) -> None:
    async with bench("extras") as running:
        await running.write(insert(member(1, 11)))
        if update.type == p4r.Update.MODIFY:
            await running.write(insert(sized(4, 4)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(update)
        (detail,) = error_details(caught.value)
        assert (detail.canonical_code, text in detail.message) == (code.value[0], True)


@asynchronous
async def test_an_action_set_may_count_members() -> None:
    async with bench("extras") as running:
        target = action_set(1, 2)
        actions = target.table_entry.action.action_profile_action_set
        for action in actions.action_profile_actions:
            action.weight = 10
        with pytest.raises(grpc.aio.AioRpcError):
            await running.write(insert(target))
        actions.size_semantics = p4r.ActionProfileActionSet.SUM_OF_MEMBERS
        await running.write(insert(target))
        assert await running.read(target) == [target]
