"""Arbitration: which of several controllers is the primary (P4Runtime spec 5)."""

import asyncio
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4r
from harness import Bench, arbitration, asynchronous, bench

from minip4.runtime.service import arbitration as limits

OK = grpc.StatusCode.OK.value[0]
ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS.value[0]
NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]


async def told(stream: Any) -> tuple[int, int]:
    """Return the status code and the election id of the next arbitration message."""
    update = (await stream.read()).arbitration
    return update.status.code, U128.decode(update.election_id)


@asynchronous
async def test_the_highest_election_id_is_primary() -> None:
    async with bench(primary=False) as running:
        first = await running.arbitrate(5)
        assert await told(first) == (OK, 5)
        backup = await running.arbitrate(3)
        assert await told(backup) == (ALREADY_EXISTS, 5)
        higher = await running.arbitrate(2**70)
        assert await told(higher) == (OK, 2**70)
        assert await told(first) == (ALREADY_EXISTS, 2**70)
        assert await told(backup) == (ALREADY_EXISTS, 2**70)


@asynchronous
async def test_election_id_zero_is_never_primary() -> None:
    async with bench(primary=False) as running:
        observer = await running.arbitrate(0)
        assert await told(observer) == (NOT_FOUND, 0)
        primary = await running.arbitrate(1)
        assert await told(primary) == (OK, 1)
        assert await told(observer) == (ALREADY_EXISTS, 1)


@asynchronous
async def test_backups_learn_that_the_primary_left_and_take_over() -> None:
    async with bench(primary=False) as running:
        primary = await running.arbitrate(5)
        await told(primary)
        backup = await running.arbitrate(4)
        await told(backup)
        await primary.done_writing()
        assert await told(backup) == (NOT_FOUND, 5)
        running.election_id = 5
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write()
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        await backup.write(arbitration(5))
        assert await told(backup) == (OK, 5)
        await running.write()


@asynchronous
async def test_a_primary_may_step_down() -> None:
    async with bench(primary=False) as running:
        primary = await running.arbitrate(5)
        await told(primary)
        await primary.write(arbitration(0))
        assert await told(primary) == (NOT_FOUND, 5)


@asynchronous
async def test_roles_have_primaries_of_their_own() -> None:
    async with bench(primary=False) as running:
        one = await running.arbitrate(5, "one")
        other = await running.arbitrate(5, "other")
        assert await told(one) == (OK, 5)
        assert await told(other) == (OK, 5)


ENDS = {
    "other device": (arbitration(6, device_id=2), grpc.StatusCode.NOT_FOUND, "device id 1"),
    "used id": (arbitration(5), grpc.StatusCode.INVALID_ARGUMENT, "Election id 5 already exists"),
}


@pytest.mark.parametrize(("message", "code", "text"), ENDS.values(), ids=ENDS.keys())
@asynchronous
async def test_a_bad_introduction_ends_the_stream(
    message: p4r.StreamMessageRequest, code: grpc.StatusCode, text: str
) -> None:
    async with bench(primary=False) as running:
        await told(await running.arbitrate(5))
        stream = running.stub.StreamChannel()
        await stream.write(message)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() == code
        assert text in caught.value.details()


@asynchronous
async def test_only_the_primary_may_write() -> None:
    async with bench() as running:
        for election_id, device_id, code in (
            (2, 1, grpc.StatusCode.PERMISSION_DENIED),
            (0, 1, grpc.StatusCode.PERMISSION_DENIED),
            (1, 9, grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await running.write(election_id=election_id, device_id=device_id)
            assert caught.value.code() == code


@asynchronous
async def test_anyone_may_read() -> None:
    async with bench(primary=False) as running:
        await running.read(p4r.Entity(table_entry=p4r.TableEntry()))
        reply = await running.stub.Capabilities(p4r.CapabilitiesRequest())
        assert reply.p4runtime_api_version.startswith("1.")


async def refusal(running: Bench, role: str = "") -> grpc.aio.AioRpcError:
    """Open a stream that the server must reject. Return the error that ends it."""
    # the server may reject the stream before the first message is written
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (await running.arbitrate(1, role)).read()
    return caught.value


async def end(running: Bench, stream: Any) -> None:
    """Close a stream. Wait until the server has removed the stream."""
    before = running.device.arbitration._streams
    await stream.done_writing()
    while running.device.arbitration._streams == before:
        await asyncio.sleep(0)


@asynchronous
async def test_a_role_without_streams_keeps_only_its_highest_election_id() -> None:
    """After the last stream of a role, the server stores only the role's highest election id.

    A lower id cannot become primary (spec 5.3). A role that never had a primary is forgotten.
    """
    async with bench(primary=False) as running:
        for election_id in (5, 0):
            stream = await running.arbitrate(election_id, f"role {election_id}")
            await told(stream)
            await end(running, stream)
        assert not running.device.arbitration._roles
        assert running.device.arbitration._highest == {"role 5": 5}
        late = await running.arbitrate(4, "role 5")
        assert await told(late) == (NOT_FOUND, 5)
        again = await running.arbitrate(6, "role 5")
        assert await told(again) == (OK, 6)
        assert not running.device.arbitration._highest


@asynchronous
async def test_the_number_of_roles_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ROLES", 2)
    async with bench(primary=False) as running:
        closed = await running.arbitrate(1, "one")
        await told(closed)
        await end(running, closed)
        await told(await running.arbitrate(1, "two"))
        error = await refusal(running, "three")
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "role 'three': the switch stores election ids of at most 2 roles" in error.details()
        assert await told(await running.arbitrate(2, "one")) == (OK, 2)
        assert await told(await running.arbitrate(1)) == (OK, 1)  # the default role does not count


@asynchronous
async def test_a_role_name_has_a_limit() -> None:
    async with bench(primary=False) as running:
        await told(await running.arbitrate(1, "x" * limits.MAX_ROLE_NAME))
        error = await refusal(running, "x" * (limits.MAX_ROLE_NAME + 1))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == "role name: 257 bytes; use at most 256"


@asynchronous
async def test_the_number_of_streams_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 2)
    async with bench(primary=False) as running:
        silent = running.stub.StreamChannel()  # this stream counts, although it has sent no message
        await silent.wait_for_connection()
        first = await running.arbitrate(1)
        await told(first)
        error = await refusal(running)
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "2 streams are open" in error.details()
        await end(running, first)
        assert await told(await running.arbitrate(2)) == (OK, 2)
