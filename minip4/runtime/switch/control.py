"""The control socket of a switch process: links, queues and counters at run time.

The switch receives JSON objects on a Unix socket, one per line, and responds to each with a JSON
object. P4Runtime has no messages for these calls. simple_switch has Thrift calls for them.
"""

import argparse
import asyncio
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from minip4.errors import Minip4Error
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.switch.options import QueueOptions
from minip4.runtime.switch.port_options import LINK_KEYS, QUEUE_KEYS, checked
from minip4.runtime.switch.port_settings import PortSettings

LINE_LIMIT = 1 << 20
DEADLINE_S = 10.0


class Target(Protocol):
    """The switch that the control socket changes and reads."""

    @property
    def dataplane(self) -> Dataplane: ...
    def wake(self) -> None: ...
    def counters(self) -> dict[str, Any]: ...


class ControlServer:
    def __init__(self, target: Target, settings: PortSettings) -> None:
        self._target = target
        self._settings = settings
        self._calls: dict[str, Callable[[dict[str, Any]], Any]] = {
            "set_link": self._set_link,
            "set_queue": self._set_queue,
            "counters": lambda values: self._target.counters(),
        }
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        """Listen on a socket that only this user can access. Raises Minip4Error."""
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX)
        os.fchmod(listener.fileno(), 0o600)  # unlike a umask, it does not affect other switches
        try:
            listener.bind(os.fspath(path))
        except OSError as error:
            listener.close()
            raise Minip4Error(f"--control {path}: {error.strerror or error}") from error
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=LINE_LIMIT)
        self._path = path

    def stop(self) -> None:
        """Stop listening and close the connections."""
        for connection in self._connections:
            connection.cancel()
        if self._server is not None and self._path is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while line := await reader.readline():
                writer.write(json.dumps(self.answer(line)).encode() + b"\n")
                await writer.drain()
        # the line is too long, or the client has disconnected
        except (ValueError, ConnectionError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    def answer(self, line: bytes) -> dict[str, Any]:
        """Return the response to one request."""
        try:
            request = json.loads(line)
            name = request.pop("call")
            _ = self._calls[name]
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            known = ", ".join(self._calls)
            return {"error": f'expected a JSON object with "call": one of {known}'}
        try:
            return {"result": self.call(name, request)}
        except Minip4Error as error:
            return {"error": str(error)}

    def call(self, name: str, values: dict[str, Any]) -> Any:
        """Perform one of the calls. Raises Minip4Error."""
        try:
            return self._calls[name](values)
        except argparse.ArgumentTypeError as error:
            raise Minip4Error(str(error)) from None

    def _set_link(self, values: dict[str, Any]) -> None:
        changes = checked(values, LINK_KEYS)
        self._settings.set_link(self._target.dataplane, changes.pop("port"), changes)
        self._target.wake()

    def _set_queue(self, values: dict[str, Any]) -> None:
        changes = QueueOptions(**checked(values, QUEUE_KEYS))
        self._settings.set_queue(self._target.dataplane, changes)
        self._target.wake()


def call(path: Path, name: str, **values: Any) -> Any:
    """Send a call to a switch over its control socket; return the result. Raises Minip4Error."""
    try:
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answers:
            connection.settimeout(DEADLINE_S)
            connection.connect(str(path))
            connection.sendall(json.dumps({"call": name, **values}).encode() + b"\n")
            answer = json.loads(answers.readline())
    except (OSError, ValueError) as error:
        raise Minip4Error(f"{path}: no response from a switch: {error}") from error
    if "error" in answer:
        raise Minip4Error(f"{path}: {answer['error']}")
    return answer["result"]


def _remove_stale(path: Path) -> None:
    """Remove the socket of a killed switch.

    A socket with a listener stays.
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return
    if not is_socket:
        raise Minip4Error(f"--control {path}: a file with this name exists")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(DEADLINE_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise Minip4Error(f"--control {path}: another switch uses this socket")
