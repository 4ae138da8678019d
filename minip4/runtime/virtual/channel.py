"""A gRPC channel without a network: calls go directly to services in the same event loop.

In virtual time, the event loop must know all pending calls. The virtual clock stands still until
these calls are done, so they run in the same order in each run.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from unittest import mock

import grpc
from grpc.aio import AioRpcError, Metadata

from minip4.runtime.service.server import Service

SCHEME = "virtual:"

T = TypeVar("T")
Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]


class Clock(Protocol):
    """Virtual time, in nanoseconds."""

    def now_ns(self) -> int: ...
    async def sleep_until(self, time_ns: int) -> None: ...


class ControlPlane:
    """The settings that all channels of a network share, such as the message delay."""

    def __init__(self, clock: Clock, delay_ns: int = 0) -> None:
        self._clock = clock
        self.delay_ns = delay_ns
        self.calls = 0  # number of calls since the start

    def due_ns(self) -> int:
        """Return the arrival time of a message that is sent now."""
        return self._clock.now_ns() + self.delay_ns

    async def until(self, due_ns: int) -> None:
        if self.delay_ns:
            await self._clock.sleep_until(due_ns)

    async def pass_once(self) -> None:
        await self.until(self.due_ns())


class Context:
    """The context of a call in a service: it can abort the call with an error."""

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        raise _error(code, details, Metadata(*trailing_metadata))


class LocalChannel:
    """A replacement of grpc.aio.Channel, with the methods that P4Runtime clients use."""

    def __init__(self, service: Service, plane: ControlPlane) -> None:
        self._service = service
        self._plane = plane
        self._streams: list[_Stream] = []

    async def __aenter__(self) -> "LocalChannel":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """End the streams; all other calls have already ended."""
        for stream in self._streams:
            stream.cancel()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    def unary_unary(
        self, method: str, request_serializer: Serializer, response_deserializer: Deserializer,
        **_options: object,
    ) -> Any:  # fmt: skip
        handler = self._handler(method)

        async def call(request: Any, *, timeout: float | None = None, **_options: object) -> Any:
            self._begin(timeout)
            copy = type(request).FromString(request_serializer(request))
            await self._plane.pass_once()
            response = await handler(copy, Context())
            await self._plane.pass_once()
            return response_deserializer(response.SerializeToString())

        return call

    def unary_stream(
        self, method: str, request_serializer: Serializer, response_deserializer: Deserializer,
        **_options: object,
    ) -> Any:  # fmt: skip
        handler = self._handler(method)

        async def call(
            request: Any, *, timeout: float | None = None, **_options: object
        ) -> AsyncIterator[Any]:
            self._begin(timeout)
            copy = type(request).FromString(request_serializer(request))
            await self._plane.pass_once()
            # The whole response belongs to one point in time: no update runs between its messages.
            responses = [response async for response in handler(copy, Context())]
            await self._plane.pass_once()
            for response in responses:
                yield response_deserializer(response.SerializeToString())

        return call

    def stream_stream(
        self, method: str, request_serializer: Serializer, response_deserializer: Deserializer,
        **_options: object,
    ) -> Any:  # fmt: skip
        handler = self._handler(method)

        def call(**_options: object) -> _Stream:
            stream = _Stream(handler, request_serializer, response_deserializer, self._plane)
            self._streams.append(stream)
            return stream

        return call

    stream_unary = stream_stream  # neither P4Runtime nor gNMI has such a method

    def _handler(self, method: str) -> Callable[..., Any]:
        """Return the service's method by its path, such as `/p4.v1.P4Runtime/Write`."""
        _, service, name = method.split("/")
        if service == "p4.v1.P4Runtime":
            return getattr(self._service, name)
        return _unimplemented(method)

    def _begin(self, timeout: float | None) -> None:
        self._plane.calls += 1
        if timeout is not None and 2 * self._plane.delay_ns > timeout * 1e9:
            raise _error(
                grpc.StatusCode.DEADLINE_EXCEEDED, "the delay of the control plane is longer"
            )


class _Stream:
    """One StreamChannel call; a task runs the service."""

    def __init__(
        self, handler: Callable[..., AsyncIterator[Any]], request_serializer: Serializer,
        response_deserializer: Deserializer, plane: ControlPlane,
    ) -> None:  # fmt: skip
        self._serialize = request_serializer
        self._deserialize = response_deserializer
        self._requests: _Pipe[Any] = _Pipe(plane)
        self._responses: _Pipe[bytes] = _Pipe(plane)
        self._task = asyncio.create_task(self._serve(handler))

    async def _serve(self, handler: Callable[..., AsyncIterator[Any]]) -> None:
        try:
            async for response in handler(aiter(self._requests), Context()):
                self._responses.put(response.SerializeToString())
        finally:
            self._responses.close()

    async def write(self, request: Any) -> None:
        if self._task.done():
            self._raise_outcome()
        self._requests.put(type(request).FromString(self._serialize(request)))

    async def done_writing(self) -> None:
        self._requests.close()

    async def read(self) -> Any:
        """Return the next message, or grpc.aio.EOF at the end.

        Raises AioRpcError if the service failed.
        """
        async for message in self._responses:
            return self._deserialize(message)
        await asyncio.wait([self._task])
        self._raise_outcome()
        return grpc.aio.EOF

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._all()

    async def _all(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    def cancel(self) -> bool:
        return self._task.cancel()

    def done(self) -> bool:
        return self._task.done()

    def _raise_outcome(self) -> None:
        if self._task.cancelled():
            raise asyncio.CancelledError
        error = self._task.exception()
        if error is not None:
            raise error


class _Pipe(Generic[T]):
    """A queue that preserves the order of messages.

    Each message becomes available when it is due.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._messages: deque[tuple[int, T]] = deque()
        self._closed = False
        self._changed = asyncio.Event()

    def put(self, message: T) -> None:
        self._messages.append((self._plane.due_ns(), message))
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> "_Pipe[T]":
        return self

    async def __anext__(self) -> T:
        while not self._messages:
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        await self._plane.until(self._messages[0][0])
        return self._messages.popleft()[1]


@contextlib.contextmanager
def local_channels(services: Mapping[str, Service], plane: ControlPlane) -> Iterator[None]:
    """Make grpc.aio.insecure_channel() connect to `services` for targets `virtual:NAME`.

    Clients need no changes. Other targets and gRPC's blocking API are not supported.
    """
    insecure_channel = grpc.aio.insecure_channel

    def local(target: str, *arguments: Any, **options: Any) -> Any:
        if target in services:
            return LocalChannel(services[target], plane)
        return insecure_channel(target, *arguments, **options)

    with mock.patch.object(grpc.aio, "insecure_channel", local):
        yield


def _unimplemented(method: str) -> Callable[..., Any]:
    async def refuse(_request: object, context: Context) -> NoReturn:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}")

    return refuse


def _error(code: grpc.StatusCode, details: str, trailing: Metadata | None = None) -> AioRpcError:
    return AioRpcError(code, Metadata(), trailing or Metadata(), details)
