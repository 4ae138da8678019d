"""The connection of a BfRt script to a switch: blocking calls that use finsy's P4Runtime."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from queue import Queue
from typing import Any

import finsy as fy
from finsy.p4client import P4ClientError

from telemark.errors import TestbedError
from telemark.session.error_reporting import refusal

AT_ONCE = 1024  # max entries per write request
CONNECT_S = 20.0  # longest wait for the answer of a switch


class BfrtError(TestbedError):
    """A call that cannot be carried out. The message is one line."""


class Connection:
    """Blocking access to a switch, as scripts need it. finsy runs in a thread of its own.

    The connection becomes the primary one, also if another controller is connected.

    Raises BfrtError if there is no switch at the address (host:port).
    """

    def __init__(self, address: str, device_id: int) -> None:
        # finsy also requests gNMI, which these switches do not support, and logs what this raises
        logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
        # an election id above those of other controllers and of scripts that started earlier
        election_id = time.time_ns() // 1000
        options = fy.SwitchOptions(device_id=device_id, initial_election_id=election_id)
        self.switch = fy.Switch("switch", address, options)
        connected: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._stay_connected(connected))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        try:
            connected.result(CONNECT_S)
        except KeyboardInterrupt:
            self.close()
            raise
        except FutureTimeoutError:
            self.close()
            raise BfrtError(f"{address}: no P4Runtime answer within {CONNECT_S:g} s") from None
        except P4ClientError as error:
            self._thread.join()
            raise BfrtError(
                f"{address}: {refusal(error)}; expected the P4Runtime address of a running switch"
            ) from error
        except asyncio.CancelledError:
            raise BfrtError(
                f"{address}: cannot use the P4Info of the switch, for example since a table has"
                " two keys isValid()"
            ) from None

    def _run(self) -> None:
        self._loop.run_until_complete(self._task)
        for task in asyncio.all_tasks(self._loop):  # of gRPC; asyncio warns of tasks that remain
            task.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.close()

    async def _stay_connected(self, connected: Future[None]) -> None:
        try:
            async with self.switch:
                connected.set_result(None)
                await asyncio.Event().wait()  # until close()
        except (P4ClientError, asyncio.CancelledError) as error:
            if not connected.done():
                connected.set_exception(error)

    def close(self) -> None:
        """End the connection."""
        with suppress(RuntimeError):  # the loop of a failed connection is closed
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def subscribe(self, digest: str, received: Queue[tuple[str, list[Any]]]) -> None:
        """Put each list of messages of a digest into a queue, together with the digest's name."""

        async def receive() -> None:
            async for each in self.switch.read_digests(alias):
                received.put((digest, list(each)))
                await self.switch.write([each.ack()])

        alias = self.switch.p4info.digests[digest].alias
        self._loop.call_soon_threadsafe(lambda: self.switch.create_task(receive()))
        entry = fy.P4DigestEntry(alias, max_list_size=100, max_timeout_ns=10**7)
        exists = self.read(digest, fy.P4DigestEntry(alias))  # of an earlier script
        self.write(digest, [~entry if exists else +entry])

    def require_up(self, where: str) -> None:
        """Raise BfrtError if the connection has ended."""
        if not self.switch.is_up:
            raise BfrtError(f"{where}: the connection to the switch has ended")

    def write(self, where: str, updates: Sequence[Any]) -> None:
        """Write updates (finsy's +entity, ~entity, -entity). Raises BfrtError."""
        for first in range(0, len(updates), AT_ONCE):
            self._call(where, self.switch.write([*updates[first : first + AT_ONCE]]))

    def read(self, where: str, entity: Any) -> list[Any]:
        """Return the entities that match. Raises BfrtError."""

        async def collect() -> list[Any]:
            found: Any = self.switch.read(entity)  # see controllers.tables
            return [each async for each in found]

        return self._call(where, collect())

    def _call(self, where: str, coroutine: Any) -> Any:
        try:
            self.require_up(where)
        except BfrtError:
            coroutine.close()
            raise
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except P4ClientError as error:
            raise BfrtError(f"{where}: rejected by the switch: {refusal(error)}") from error
        except ValueError as error:  # a number is too large for P4Runtime
            raise BfrtError(f"{where}: {' '.join(str(error).split())}") from error
