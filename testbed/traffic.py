"""Traffic: paced UDP flows between hosts, and exact records of what was sent and received."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from minip4.engine import build
from testbed.errors import TestbedError

if TYPE_CHECKING:
    from testbed.network import Network

C_FOLDER = Path(__file__).parent / "c"
HEADERS_BYTES = 14 + 20 + 8  # Ethernet, IPv4, UDP
PAYLOAD = np.dtype([("flow", ">u2"), ("sequence", ">u8"), ("sent_ns", ">u8")])  # then zeros
SENT = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8")])
RECEIVED = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8"), ("received_ns", "<u8")])
SMALLEST_FRAME, LARGEST_FRAME = 60, 9216  # bytes, without the frame check sequence
BURST = 32  # datagrams that a sender which fell behind sends at once, at most
MAX_LAG_NS = 500_000_000  # a sender further behind its schedule gives up
END_LAG_NS = 50_000_000  # a sender may end this late, and later by a hundredth of its duration
RATE_NOT_KEPT = 3  # exit status of testbed/c/send.c


@dataclass(frozen=True)
class Flow:
    """A UDP flow at a steady rate. Raises TestbedError for what cannot be sent."""

    id: int  # 0..65535, carried by each datagram
    source: str  # host names
    destination: str
    rate_pps: float
    count: int  # datagrams, sequence numbers 0..count-1
    size: int = 64  # bytes of the Ethernet frame, without the frame check sequence
    port: int = 0  # of the destination; 0: 5000 + id
    dscp: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "port", self.port or 5000 + self.id)
        for what, value, low, high in (
            ("id", self.id, 0, 0xFFFF),
            ("rate_pps", self.rate_pps, 1e-3, 1e8),
            ("count", self.count, 1, 2**48),
            ("size", self.size, SMALLEST_FRAME, LARGEST_FRAME),
            ("port", self.port, 1, 0xFFFF),
            ("dscp", self.dscp, 0, 63),
        ):
            if not low <= value <= high:
                raise TestbedError(f"flow {self.id}: {what} {value} is not from {low} to {high}")

    @property
    def duration_ns(self) -> int:
        """From the first datagram to the last, by schedule."""
        return int((self.count - 1) * 1e9 / self.rate_pps)


@dataclass(frozen=True)
class FlowRecord:
    """What happened to a flow. Times are CLOCK_MONOTONIC; rows are in order of time."""

    flow: Flow
    sent: NDArray[np.void]  # SENT
    received: NDArray[np.void]  # RECEIVED; received_ns is when the kernel took the frame in
    largest_lag_ns: int  # how far the sender was behind its schedule, at worst
    kernel_drops: int  # datagrams that found the receiving socket's buffer full
    foreign: int  # datagrams at the flow's port that are not of the flow
    dscp_changed: int  # datagrams that arrived with another DSCP than they were sent with

    @property
    def lost_sequences(self) -> NDArray[np.uint64]:
        """Sequence numbers that were sent and never received, ascending."""
        return np.setdiff1d(self.sent["sequence"], self.received["sequence"])


def executable(program: str) -> Path:
    """The sender or the receiver, ready to run: testbed/c/send.c or receive.c."""
    return build.program([C_FOLDER / f"{program}.c"])


class Traffic:
    """Flows that start together at `start_ns`; use with `async with`.

    On entry the receivers listen and the senders wait for their time; `finish()` waits for the
    end and returns the records. Leaving early ends the programs.
    """

    def __init__(self, net: "Network", flows: Sequence[Flow], start_ns: int) -> None:
        if len({flow.id for flow in flows}) < len(flows):
            raise TestbedError("two flows have the same id")
        self._net = net
        self._flows = flows
        self._start_ns = start_ns
        self._receivers: dict[int, asyncio.subprocess.Process] = {}
        self._senders: dict[int, asyncio.subprocess.Process] = {}

    async def __aenter__(self) -> "Traffic":
        try:
            for flow in self._flows:
                self._receivers[flow.id] = await self._start_receiver(flow)
            for flow in self._flows:
                self._senders[flow.id] = await self._start_sender(flow)
        except BaseException:
            await self._kill()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._kill()

    async def finish(self, drain_s: float = 0.3) -> dict[int, FlowRecord]:
        """Wait until all is sent, and `drain_s` longer for what is on its way.

        The books tell whether that was long enough. Raises TestbedError when a sender did not
        keep its rate, or when a program failed.
        """
        sent = {flow.id: await self._sender_totals(flow) for flow in self._flows}
        await asyncio.sleep(drain_s)
        records = {}
        for flow in self._flows:
            receiver = self._receivers.pop(flow.id)
            receiver.send_signal(signal.SIGTERM)
            output, errors = await receiver.communicate()
            if receiver.returncode:
                raise TestbedError(f"receiver of flow {flow.id}: {errors.decode().strip()}")
            received: dict[str, int] = json.loads(output)
            records[flow.id] = FlowRecord(
                flow,
                np.fromfile(self._path(flow, "sent"), SENT),
                np.fromfile(self._path(flow, "received"), RECEIVED),
                sent[flow.id]["largest_lag_ns"],
                received["kernel_drops"],
                received["foreign"],
                received["dscp_changed"],
            )
        return records

    def _path(self, flow: Flow, what: str) -> Path:
        return self._net.folder / f"flow-{flow.id}.{what}"

    async def _start(self, host: str, program: str, *arguments: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._net.host(host).enter(), executable(program), *map(str, arguments),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def _start_receiver(self, flow: Flow) -> asyncio.subprocess.Process:
        process = await self._start(
            flow.destination, "receive", flow.port, flow.id, flow.size - HEADERS_BYTES,
            flow.dscp << 2, self._path(flow, "received"),
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        if await process.stdout.readline() != b"ready\n":
            errors = (await process.stderr.read()).decode().strip()
            raise TestbedError(f"receiver of flow {flow.id} on {flow.destination}: {errors}")
        return process

    async def _start_sender(self, flow: Flow) -> asyncio.subprocess.Process:
        return await self._start(
            flow.source, "send", self._net.host(flow.destination).IP(), flow.port, flow.id,
            flow.rate_pps, flow.count, flow.size - HEADERS_BYTES, flow.dscp << 2, BURST,
            self._start_ns, MAX_LAG_NS, self._path(flow, "sent"),
        )  # fmt: skip

    async def _sender_totals(self, flow: Flow) -> dict[str, int]:
        """Wait for a sender's end, and judge whether it kept its rate."""
        sender = self._senders.pop(flow.id)
        try:
            output, errors = await sender.communicate()
        except BaseException:
            self._senders[flow.id] = sender  # to be killed on the way out
            raise
        if sender.returncode not in (0, RATE_NOT_KEPT):
            raise TestbedError(f"sender of flow {flow.id}: {errors.decode().strip()}")
        totals: dict[str, int] = json.loads(output)
        if totals["last_lag_ns"] > END_LAG_NS + flow.duration_ns / 100 or sender.returncode:
            kept_pps = 1e9 * totals["sent"] / max(totals["last_ns"] - self._start_ns, 1)
            raise TestbedError(
                f"rate too high for this machine: asked {flow.rate_pps:.0f} packets/s, "
                f"kept {kept_pps:.0f}: lower the rate, or leave the machine more idle"
            )
        return totals

    async def _kill(self) -> None:
        for process in (*self._senders.values(), *self._receivers.values()):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
        self._senders.clear()
        self._receivers.clear()
