"""Requests with random fields: each gets a status, and none causes a Python exception."""

import asyncio
import random
from collections.abc import Awaitable
from typing import Any

import grpc
import pytest
from finsy.proto import p4r
from google.protobuf.descriptor import FieldDescriptor as Fd
from harness import asynchronous, bench, info

from minip4.runtime.service import arbitration

ROUNDS = 300
NUMBERS = (0, 0, 1, 1, 2, 3, 9, 255, 511, 512, 65536, 2**31 - 1, -1, -(2**31))
PREFIXES = {
    "action_id": 0x01, "table_id": 0x02, "value_set_id": 0x03, "action_profile_id": 0x11,
    "counter_id": 0x12, "meter_id": 0x14, "register_id": 0x16, "digest_id": 0x17,
}  # fmt: skip
BYTES = (b"", b"\0", b"\1", b"\1", b"\0\0\0\5", b"\xff" * 2, b"\xff" * 6, b"\x80" + b"\0" * 16)


def known_ids(program: str) -> list[int]:
    """Return the ids of all objects in the P4Info of a program."""
    found = []
    for field, value in info(program).ListFields():
        if field.is_repeated:
            found += [o.preamble.id for o in value if hasattr(o, "preamble")]
    return found


def scribble(message: Any, rng: random.Random, ids: list[int], depth: int = 0) -> Any:
    """Set random fields of a message to random values. Return the message."""
    chosen = {oneof.name: rng.choice(oneof.fields).name for oneof in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if field.containing_oneof and chosen[field.containing_oneof.name] != name:
            continue
        if rng.random() < (0.4 if depth > 1 else 0) and name not in ("type", "table_id"):
            continue
        if field.type == Fd.TYPE_MESSAGE:
            if field.message_type.full_name.startswith("google") or depth > 6:
                continue
            if field.is_repeated:
                for _ in range(rng.randrange(3)):
                    scribble(getattr(message, name).add(), rng, ids, depth + 1)
            else:
                getattr(message, name).SetInParent()
                scribble(getattr(message, name), rng, ids, depth + 1)
        elif not field.is_repeated:
            setattr(message, name, value_of(field, rng, ids))
    return message


def value_of(field: Any, rng: random.Random, ids: list[int]) -> Any:
    if field.type == Fd.TYPE_BYTES:
        return rng.choice(BYTES)
    if field.type == Fd.TYPE_STRING:
        return "x"
    if field.type == Fd.TYPE_BOOL:
        return rng.random() < 0.1
    if field.type == Fd.TYPE_ENUM:
        return rng.choice(field.enum_type.values[-3:]).number
    if field.name.endswith("_id"):
        fitting = [i for i in ids if i >> 24 == PREFIXES.get(field.name)] or [1, 2, 3]
        return rng.choice(fitting if rng.random() < 0.95 else ids)
    number = rng.choice(NUMBERS)
    return abs(number) if field.type in (Fd.TYPE_UINT32, Fd.TYPE_UINT64) else number


@pytest.mark.parametrize("program", ["control", "extras"])
@pytest.mark.parametrize("seed", range(3))
@asynchronous
async def test_every_request_gets_an_answer(program: str, seed: int) -> None:
    rng, ids = random.Random(seed), known_ids(program)
    async with bench(program) as running:
        answers = set()
        for _ in range(ROUNDS):
            update = scribble(p4r.Update(), rng, ids)
            answers.add(await answer(running.write(update, atomicity=rng.randrange(3))))
            answers.add(await answer(running.read(update.entity)))
        assert {grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN} <= answers
        assert await running.read(p4r.Entity(table_entry=p4r.TableEntry())) is not None


async def answer(call: Awaitable[Any]) -> grpc.StatusCode:
    """Return the status of a call. Raise its error if a Python exception caused it.

    For such an exception, gRPC returns "Unexpected <class ...>".
    """
    try:
        await call
    except grpc.aio.AioRpcError as error:
        if "Unexpected" in error.details():
            raise
        return error.code()
    return grpc.StatusCode.OK


@asynchronous
async def test_a_client_that_reads_nothing_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbitration, "MAX_QUEUED", 30)
    monkeypatch.setattr(arbitration, "MAX_ANSWERS", 10)
    count, bad = 1000, p4r.StreamMessageRequest()
    bad.packet.payload = b"refused and sent back, for there is no metadata".ljust(50_000)
    async with bench(primary=False) as running:
        stream = await running.arbitrate(1)
        await stream.read()
        (client,) = running.device.arbitration.primaries()

        async def flood() -> None:
            for _ in range(count):
                await stream.write(bad)

        flooding = asyncio.create_task(flood())
        while client.queue.qsize() < 40:
            await asyncio.sleep(0)
        for _ in range(1000):
            await asyncio.sleep(0)
            assert client.queue.qsize() <= 40
        for _ in range(count):  # a client that reads at last gets all responses
            assert (await stream.read()).HasField("error")
        await flooding


@asynchronous
async def test_digests_go_on_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    async with bench("extras") as running:
        pipeline = running.device.running
        assert pipeline is not None
        monkeypatch.setattr(pipeline.idle_timeouts, "collect", lambda: 1 // 0)
        while len(told) < 2:
            await asyncio.sleep(0.01)
        assert isinstance(told[0]["exception"], ZeroDivisionError)
