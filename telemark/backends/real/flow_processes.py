"""Processes that send and receive a flow in real time."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minip4 import simulator
from minip4.native import build, layouts
from minip4.native.layouts import Shared
from telemark.errors import TestbedError
from telemark.traffic import flows, tcp
from telemark.traffic.flows import AnyFlow
from telemark.watch import flow_counts

C_FOLDER = Path(__file__).parent / "c"
RECORDS = (
    Shared("records.h", "struct flow_sent", flows.SENT),
    Shared("records.h", "struct flow_received", flows.RECEIVED),
    Shared("records.h", "struct tcp_progress", tcp.PROGRESS),
    Shared("records.h", "struct tcp_received", tcp.RECEIVED),
    Shared("records.h", "struct tcp_answer", tcp.ANSWERS),
)


def build_program(program: str) -> Path:
    """Compile a program of telemark/backends/real/c if needed; return its path."""
    include = [C_FOLDER, simulator.C_FOLDER]
    return build.program([C_FOLDER / f"{program}.c"], layouts.checks(RECORDS), include=include)


@dataclass(frozen=True)
class End:
    """Process at one end of a flow, and the name of this end in messages."""

    name: str
    process: asyncio.subprocess.Process

    async def await_word(self, word: str) -> None:
        """Wait until the process prints a word.

        Raises TestbedError if the process exits without it.
        """
        assert self.process.stdout is not None
        if await self.process.stdout.readline() != f"{word}\n".encode():
            _, errors = await self.process.communicate()
            raise TestbedError(f"{self.name}: {errors.decode().strip()}")

    async def output(self, *other_status: int) -> bytes:
        """Wait for the end of the process; return its stdout.

        Raises TestbedError if the exit status is neither 0 nor `other_status`.
        """
        output, errors = await self.process.communicate()
        if self.process.returncode not in (0, *other_status):
            raise TestbedError(f"{self.name}: {errors.decode().strip()}")
        return output


class FlowProcesses(ABC):
    """The sending and the receiving process of a flow.

    Subclasses define the arguments of both programs, and read the results of the programs.
    `counts` is the descriptor of watch/flow_counts.py; -1 without --watch.
    """

    def __init__(self, hosts: Mapping[str, Any], folder: Path, flow: AnyFlow, counts: int) -> None:
        self._hosts = hosts
        self._folder = folder
        self._flow = flow
        self._counts = counts
        self._ends: list[End] = []
        self._sender: End
        self._receiver: End

    async def launch(self) -> None:
        """Start both processes without waiting for them."""
        flow = self._flow
        self._receiver = await self._start(
            f"receiver of flow {flow.id} at {flow.destination}, port {flow.port}",
            flow.destination, *self._receiver_command(), *self._count(flow_counts.RECEIVED),
        )  # fmt: skip
        self._sender = await self._start(
            f"sender of flow {flow.id} at {flow.source}, port {flow.source_port}",
            flow.source, *self._sender_command(), *self._count(flow_counts.SENT),
        )  # fmt: skip

    async def await_ready(self) -> None:
        """Wait until the receiver listens and the sender is ready."""
        for end in self._ends:
            await end.await_word("ready")

    def begin(self, start_ns: int) -> None:
        """Send the start time to the sender."""
        assert self._sender.process.stdin is not None
        self._sender.process.stdin.write(b"%d\n" % start_ns)

    async def stop(self) -> None:
        """Kill both processes."""
        for end in self._ends:
            with contextlib.suppress(ProcessLookupError):
                end.process.kill()
            await end.process.communicate()

    @abstractmethod
    def _receiver_command(self) -> list[Any]: ...

    @abstractmethod
    def _sender_command(self) -> list[Any]: ...

    def _count(self, end: int) -> list[int]:
        """Return the arguments with which a program finds the place of its count."""
        return [self._counts, 2 * self._flow.id + end]

    def _path(self, suffix: str) -> Path:
        return self._folder / f"flow-{self._flow.id}.{suffix}"

    async def _start(self, name: str, host: str, program: str, *arguments: Any) -> End:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._hosts[host].enter(), build_program(program), *map(str, arguments),
            stdin=pipe, stdout=pipe, stderr=pipe,
            pass_fds=() if self._counts < 0 else (self._counts,),
        )  # fmt: skip
        self._ends.append(End(name, process))
        return self._ends[-1]
