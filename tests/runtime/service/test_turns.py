"""Long requests pause, so that the event loop can run other tasks. Their length has limits."""

import asyncio

import grpc
import pytest
from finsy.proto import p4r
from harness import asynchronous, bench, entry, exact, insert

from minip4.runtime.service import pipeline as pipeline_module
from minip4.runtime.service import server

EVERYTHING = p4r.Entity(table_entry=p4r.TableEntry())
UPDATES = [
    insert(entry("switching", {"hdr.ethernet.destination": exact(bytes((i,)))}, ("drop", {})))
    for i in range(1, 101)
]
SWITCHING = p4r.Entity(table_entry=p4r.TableEntry(table_id=UPDATES[0].entity.table_entry.table_id))


class Counter:
    """Counter of the iterations of the event loop."""

    rounds = 0

    async def count(self) -> None:
        while True:
            self.rounds += 1
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["read", "write", "atomic"])
@asynchronous
async def test_a_long_request_pauses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In real time, a request may pause after each table, read entry and update.

    In this test, each kind of request pauses at least 100 times. In virtual time, it never pauses.
    """
    monkeypatch.setattr(pipeline_module, "TURN_S", 0.0)
    async with bench() as running:
        pipeline, rounds = running.device.running_pipeline, []
        counter = Counter()
        counting = asyncio.create_task(counter.count())
        for has_pauses in (True, False):
            service = server.Service(running.device, None, has_pauses=has_pauses)  # type: ignore[arg-type]
            before = counter.rounds
            if kind == "read":
                for table in list(pipeline.schema.tables.values()):
                    pipeline.schema.tables |= {10**6 + i: table for i in range(100)}
                await service._next_response(pipeline, pipeline.read(EVERYTHING))
            else:
                request = p4r.WriteRequest(device_id=1, updates=UPDATES)
                request.election_id.low = 1
                request.atomicity = {"write": 0, "atomic": 2}[kind]  # type: ignore[assignment]
                await service._write(request)
            rounds.append(counter.rounds - before)
        counting.cancel()
    assert rounds[0] >= 100
    assert rounds[1] == 0


@pytest.mark.parametrize("kind", ["action_profile_member", "digest_entry", "meter_entry"])
@asynchronous
async def test_a_read_of_many_entities_that_are_not_there_pauses(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_module, "TURN_S", 0.0)
    asked = p4r.Entity()
    getattr(asked, kind).SetInParent()
    async with bench() as running:
        pipeline = running.device.running_pipeline
        counter = Counter()
        counting = asyncio.create_task(counter.count())
        service = server.Service(running.device, None)  # type: ignore[arg-type]
        entities = server._entities(pipeline, p4r.ReadRequest(entities=[asked] * 100))
        assert not (await service._next_response(pipeline, entities)).entities
        counting.cancel()
    assert counter.rounds >= 100


@asynchronous
async def test_a_write_waits_for_a_read_of_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that runs in parallel with a write of many entries returns none of them, or all."""
    monkeypatch.setattr(pipeline_module, "TURN_S", 0.0)
    async with bench() as running:
        reads = [asyncio.create_task(running.read(SWITCHING)) for _ in range(20)]
        await running.write(*UPDATES)
        assert {len(found) for found in await asyncio.gather(*reads)} <= {0, len(UPDATES)}
        assert len(await running.read(SWITCHING)) == len(UPDATES)


@asynchronous
async def test_a_write_is_completed_though_its_controller_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline_module, "TURN_S", 0.0)
    async with bench() as running:
        pipeline = running.device.running_pipeline
        begun = asyncio.Event()
        write_one = pipeline._write_one

        def first_begins(update: p4r.Update) -> object:
            begun.set()
            return write_one(update)

        monkeypatch.setattr(pipeline, "_write_one", first_begins)
        writing = asyncio.create_task(running.write(*UPDATES))
        await begun.wait()
        writing.cancel()
        while len(await running.read(SWITCHING)) < len(UPDATES):
            await asyncio.sleep(0.01)


@asynchronous
async def test_a_write_request_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_UPDATES", 99)
    async with bench() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.write(*UPDATES)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert caught.value.details() == (
            "WriteRequest: 100 updates; expected at most 99 in one request"
        )
        await running.write(*UPDATES[1:])


@asynchronous
async def test_a_message_has_a_limit() -> None:
    async with bench() as running:
        request = p4r.WriteRequest(role="x" * (server.MAX_MESSAGE_BYTES + 1))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.stub.Write(request)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
