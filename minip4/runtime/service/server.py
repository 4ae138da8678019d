"""The P4Runtime gRPC service: checks permissions and passes requests to the device."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import NoReturn

import grpc
from finsy.proto import U128, p4r, p4r_grpc

from minip4.runtime.service.arbitration import Client, check_device
from minip4.runtime.service.device import Device
from minip4.runtime.service.pipeline import Pipeline, Turns
from minip4.runtime.service.stream import Messages
from minip4.runtime.status import (
    Code,
    StatusError,
    details,
    exhausted,
    invalid,
    write_status,
)

API_VERSION = "1.4.1"
KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS = 15_000, 10_000
# maximum entities per ReadResponse; a response must stay well below a client's limit of 4 MB
READ_CHUNK = 500
# maximum size of a request; gRPC rejects larger ones with RESOURCE_EXHAUSTED
MAX_MESSAGE_BYTES = 64 << 20
MAX_UPDATES = 1 << 20  # maximum number of updates in a WriteRequest

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second switch on the same port must get an error
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 64 * 1024),
    # Keepalives detect controllers whose host vanished, so that they do not stay primary. A
    # controller may send keepalives, too, at most every 5 s.
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


class Service(p4r_grpc.P4RuntimeServicer):
    """The P4Runtime calls.

    Without `has_pauses` (in virtual time), each call runs without pauses.
    """

    def __init__(self, device: Device, messages: Messages, *, has_pauses: bool = True) -> None:
        self._device = device
        self._messages = messages
        self._has_pauses = has_pauses

    async def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: grpc.aio.ServicerContext
    ) -> p4r.CapabilitiesResponse:
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.aio.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        try:
            self._check_writer(request)
            await self._device.set_config(request.action, request.config)
        except StatusError as error:
            await _abort(context, error)
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.aio.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        try:
            check_device(self._device.device_id, request.device_id)
            config = self._device.get_config(request.response_type)
        except StatusError as error:
            await _abort(context, error)
        return p4r.GetForwardingPipelineConfigResponse(config=config)

    async def Write(
        self, request: p4r.WriteRequest, context: grpc.aio.ServicerContext
    ) -> p4r.WriteResponse:
        try:
            writing = self._write(request)
            # A Write that has begun is completed, even if its controller disconnects (spec 5.3).
            errors = await (asyncio.shield(writing) if self._has_pauses else writing)
        except StatusError as error:
            await _abort(context, error)
        if any(errors):
            status = write_status(errors)
            await context.abort(Code.UNKNOWN, status.message, details(status))
        return p4r.WriteResponse()

    async def Read(
        self, request: p4r.ReadRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[p4r.ReadResponse]:
        try:
            check_device(self._device.device_id, request.device_id)
            pipeline = self._device.pipeline
            entities = _entities(pipeline, request)
            while (response := await self._next_response(pipeline, entities)).entities:
                yield response
        except StatusError as error:
            await _abort(context, error)

    async def StreamChannel(
        self,
        requests: AsyncIterator[p4r.StreamMessageRequest],
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        try:
            self._device.arbitration.join()
        except StatusError as error:
            await _abort(context, error)
        client = Client()
        reader = asyncio.create_task(self._take_all(client, requests))
        try:
            while (response := await client.take()) is not None:
                yield response
            await reader
        except StatusError as error:
            await _abort(context, error)
        finally:
            reader.cancel()
            self._device.arbitration.leave(client)

    async def _write(self, request: p4r.WriteRequest) -> list[StatusError | None]:
        async with self._device.access:
            self._check_writer(request)
            if request.atomicity not in p4r.WriteRequest.Atomicity.values():
                raise invalid(f"atomicity {request.atomicity}, expected 0 to 2")
            if len(request.updates) > MAX_UPDATES:
                raise exhausted(
                    f"WriteRequest: {len(request.updates)} updates; expected at most {MAX_UPDATES} "
                    "in one request"
                )
            turns = Turns(has_pauses=self._has_pauses)
            return await self._device.pipeline.write(request.updates, request.atomicity, turns)

    async def _next_response(
        self, pipeline: Pipeline, entities: Iterator[p4r.Entity | None]
    ) -> p4r.ReadResponse:
        """Return up to READ_CHUNK entities; an empty list marks the end."""
        response = p4r.ReadResponse()
        turns = Turns(has_pauses=self._has_pauses)
        async with self._device.access:
            if pipeline.closed:
                raise StatusError(Code.ABORTED, "another pipeline was committed during the read")
            for entity in entities:
                if entity is not None:
                    response.entities.append(entity)
                    if len(response.entities) == READ_CHUNK:
                        break
                await turns.pause()
        return response

    async def _take_all(
        self, client: Client, requests: AsyncIterator[p4r.StreamMessageRequest]
    ) -> None:
        """Handle the messages of a controller until it closes its stream.

        A StatusError ends the stream.
        """
        try:
            async for request in requests:
                self._handle(client, request)
                await client.room()
        finally:
            client.queue.put_nowait(None)

    def _handle(self, client: Client, request: p4r.StreamMessageRequest) -> None:
        """Handle one message; only a failed arbitration raises an error that ends the stream."""
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._device.arbitration.update(client, request.arbitration)
            return
        try:
            self._messages.take(client, request)
        except StatusError as error:
            response = p4r.StreamMessageResponse()
            response.error.canonical_code = error.code.value[0]
            response.error.message = error.message
            if kind == "packet":
                response.error.packet_out.packet_out.CopyFrom(request.packet)
            elif kind == "digest_ack":
                response.error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
            client.send(response)

    def _check_writer(
        self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest
    ) -> None:
        election_id = U128.decode(request.election_id)
        self._device.arbitration.check(
            request.device_id, request.role, request.role_id, election_id
        )


async def serve(
    service: Service, address: str, credentials: grpc.ServerCredentials | None = None
) -> tuple[grpc.aio.Server, int]:
    """Start the server on HOST:PORT (0 selects any free port); return the server and its port.

    Uses TLS if `credentials` are given. Raises OSError if the address is not available.
    """
    server = grpc.aio.server(options=_OPTIONS)
    p4r_grpc.add_P4RuntimeServicer_to_server(service, server)
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise OSError(str(error)) from error
    await server.start()
    return server, port


def _entities(pipeline: Pipeline, request: p4r.ReadRequest) -> Iterator[p4r.Entity | None]:
    for entity in request.entities:
        yield from pipeline.read(entity)
        yield None  # the generator may yield no entity for many steps; None lets the caller pause


async def _abort(context: grpc.aio.ServicerContext, error: StatusError) -> NoReturn:
    await context.abort(error.code, error.message)
    raise AssertionError("abort() returned") from error
