"""A P4Runtime server with an engine, in this process, and functions that make messages for it."""

import asyncio
import functools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.runtime.service.device import Device
from minip4.runtime.service.pipeline import Pipeline, Turns
from minip4.runtime.service.server import Service, serve
from minip4.runtime.service.stream import Messages
from minip4.runtime.status import StatusError

PROGRAMS = Path(__file__).parent / "programs"
CPU_PORT = 255
TIMEOUT_S = 120  # timeout, long enough for a loaded machine
STEP_NS = 1_000_000  # time between two frames of LoopDriver


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test out of a coroutine."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), TIMEOUT_S))

    return run


@cache
def compiled(name: str = "control") -> Any:
    return compile_p4(PROGRAMS / f"{name}.p4")


def config(name: str = "control", cookie: int = 7) -> p4r.ForwardingPipelineConfig:
    program = compiled(name)
    message = p4r.ForwardingPipelineConfig(p4info=program.p4info)
    message.p4_device_config = json.dumps(program.bmv2_json).encode()
    message.cookie.cookie = cookie
    return message


class LoopDriver:
    """Replacement of the packet-socket driver. A test decides when frames pass the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cpu_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.left: list[tuple[int, bytes]] = []  # (port, frame) that left the switch
        self._for_cpu: list[bytes] = []
        self._time_ns = 0

    def swap(self, engine: Engine) -> None:
        self.engine = engine

    def arrive(self, port: int, frame: bytes) -> None:
        self._time_ns += STEP_NS
        for out, data in self.engine.process(port, frame, self._time_ns):
            if out == CPU_PORT:
                self._for_cpu.append(data)
                os.eventfd_write(self.cpu_fd, 1)
            else:
                self.left.append((out, data))

    def cpu_send(self, frame: bytes) -> bool:
        self.arrive(CPU_PORT, frame)
        return True

    def cpu_receive(self) -> list[bytes]:
        os.eventfd_read(self.cpu_fd)
        frames, self._for_cpu = self._for_cpu, []
        return frames


class Bench:
    """A running server, and a client of this server."""

    def __init__(self, device: Device, driver: LoopDriver, address: str) -> None:
        self.device = device
        self.driver = driver
        self.address = address
        self.channel = grpc.aio.insecure_channel(address)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.election_id = 1

    async def arbitrate(self, election_id: int, role: str = "") -> Any:
        """Open a stream, and send an arbitration message. Return the stream."""
        stream = self.stub.StreamChannel()
        await stream.write(arbitration(election_id, role))
        return stream

    async def write(self, *updates: p4r.Update, atomicity: int = 0, **fields: Any) -> None:
        request = p4r.WriteRequest(
            device_id=fields.get("device_id", 1),
            election_id=U128.encode(fields.get("election_id", self.election_id)),
            updates=updates,
            atomicity=atomicity,  # type: ignore[arg-type]
        )
        await self.stub.Write(request)

    async def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        request = p4r.ReadRequest(device_id=1, entities=entities)
        return [e async for response in self.stub.Read(request) for e in response.entities]

    async def push(self, action: int, message: p4r.ForwardingPipelineConfig | None) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1, election_id=U128.encode(self.election_id), action=action, config=message
        )
        await self.stub.SetForwardingPipelineConfig(request)


@asynccontextmanager
async def bench(name: str | None = "control", *, primary: bool = True) -> AsyncIterator[Bench]:
    """Run a server with this program. The name None means that the server has no pipeline."""
    engine = Engine(compiled(name or "control").bmv2_json)
    driver = LoopDriver(engine)
    device = Device(1, Engine, driver.swap)
    if name is not None:
        message = config(name)
        device.adopt(message.p4info, message.p4_device_config, engine)
    messages = Messages(device, driver, cpu_port=True)  # type: ignore[arg-type]
    server, port = await serve(Service(device, messages), "127.0.0.1:0")
    messages.start(driver.cpu_fd)
    running = Bench(device, driver, f"127.0.0.1:{port}")
    try:
        stream = await running.arbitrate(running.election_id) if primary else None
        if stream is not None:
            await stream.read()
        yield running
    finally:
        await running.channel.close()
        messages.stop()
        await server.stop(0)


def perform(
    pipeline: Pipeline, updates: Sequence[p4r.Update], atomicity: int
) -> list[StatusError | None]:
    """Write updates to a pipeline that has no server. Return the error of each update, or None."""
    return asyncio.run(pipeline.write(updates, atomicity, Turns(has_pauses=False)))


def arbitration(election_id: int, role: str = "", device_id: int = 1) -> p4r.StreamMessageRequest:
    request = p4r.StreamMessageRequest()
    request.arbitration.device_id = device_id
    request.arbitration.election_id.CopyFrom(U128.encode(election_id))
    if role:
        request.arbitration.role.name = role
    return request


def info(name: str = "control") -> p4i.P4Info:
    return compiled(name).p4info  # type: ignore[no-any-return]


def named(objects: Any, alias: str) -> Any:
    """Return the P4Info object with this alias."""
    return next(o for o in objects if o.preamble.alias == alias)


def entry(
    table: str,
    matches: dict[str, p4r.FieldMatch],
    action: tuple[str, dict[str, bytes]] | None,
    *,
    program_name: str = "control",
    **fields: Any,
) -> p4r.Entity:
    """Return a TableEntry. Match fields and parameters are given by their names."""
    program = info(program_name)
    meaning = named(program.tables, table)
    message = p4r.TableEntry(table_id=meaning.preamble.id, **fields)
    ids = {f.name: f.id for f in meaning.match_fields}
    for field_name, match in matches.items():
        match.field_id = ids[field_name]
        message.match.append(match)
    if action is not None:
        message.action.action.CopyFrom(call(*action, program_name))
    return p4r.Entity(table_entry=message)


def call(name: str, params: dict[str, bytes], program_name: str = "control") -> p4r.Action:
    """Return an action. Its parameters are given by their names."""
    called = named(info(program_name).actions, name)
    message = p4r.Action(action_id=called.preamble.id)
    param_ids = {p.name: p.id for p in called.params}
    for param, value in params.items():
        message.params.add(param_id=param_ids[param], value=value)
    return message


def exact(value: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(exact=p4r.FieldMatch.Exact(value=value))


def lpm(value: bytes, prefix_len: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(lpm=p4r.FieldMatch.LPM(value=value, prefix_len=prefix_len))


def ternary(value: bytes, mask: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(ternary=p4r.FieldMatch.Ternary(value=value, mask=mask))


def between(low: bytes, high: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(range=p4r.FieldMatch.Range(low=low, high=high))


def optional(value: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(optional=p4r.FieldMatch.Optional(value=value))


def insert(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=entity)


def modify(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.MODIFY, entity=entity)


def delete(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.DELETE, entity=entity)


def error_details(error: grpc.aio.AioRpcError) -> list[p4r.Error]:
    """Return the p4.v1.Error of each update of a failed write."""
    status = rpc_status.Status()
    status.ParseFromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    details = []
    for packed in status.details:
        detail = p4r.Error()
        assert packed.Unpack(detail)
        details.append(detail)
    return details
