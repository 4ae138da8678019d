"""Traffic in real time: processes in the hosts' namespaces, which all use the same clock."""

import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from telemark.backends.real.flow_processes import FlowProcesses, build_program
from telemark.errors import IDLE_MACHINE, FailedRunError, InvalidRunError, TestbedError
from telemark.traffic import tcp
from telemark.traffic.flows import (
    HEADERS_BYTES,
    RECEIVED,
    SENT,
    AnyFlow,
    AnyRecord,
    Flow,
    FlowRecord,
    RateError,
    Schedule,
)
from telemark.traffic.tcp import TcpFlow, TcpRecord

BURST = 32  # maximum number of datagrams per batch of a late sender
MAX_LAG_NS = 500_000_000  # a sender that is later than this stops
END_LAG_NS = 50_000_000  # max lag of a flow at its end: this time plus 1 % of the flow's duration
CHECK_S = 1.0  # time between two checks that all switches run
RATE_NOT_KEPT = 3  # exit status with which c/send.c reports that it did not keep its rate


class UdpProcesses(FlowProcesses):
    """Sender and receiver of paced datagrams: c/send.c, c/receive.c."""

    def __init__(
        self, hosts: Mapping[str, Any], folder: Path, flow: Flow, schedule: Schedule, counts: int
    ) -> None:
        super().__init__(hosts, folder, flow, counts)
        self._udp_flow = flow
        self._schedule = schedule
        self._start_ns = 0
        self._totals: dict[str, int] = {}  # counts reported by the sender

    def begin(self, start_ns: int) -> None:
        """Send the start time to the sender."""
        self._start_ns = start_ns
        super().begin(start_ns)

    async def finish_sending(self) -> None:
        """Wait for the end of the sender. Raises RateError if it did not keep its rate."""
        output = await self._sender.output(RATE_NOT_KEPT)
        self._totals = json.loads(output)
        allowed_ns = END_LAG_NS + self._schedule.duration_ns / 100
        is_late = self._totals["last_lag_ns"] > allowed_ns
        if is_late or self._sender.process.returncode == RATE_NOT_KEPT:
            lasted_ns = max(self._totals["last_ns"] - self._start_ns, 1)
            raise RateError(
                f"flow {self._flow.id} of {self._flow.source}: rate too high for this machine: "
                f"requested {self._udp_flow.rate_pps:.0f} packets/s, "
                f"sent {1e9 * self._totals['sent'] / lasted_ns:.0f}",
                f"lower the rate or {IDLE_MACHINE}",
            )

    async def record(self) -> FlowRecord:
        """Stop the receiver and read the records of both ends."""
        self._receiver.process.send_signal(signal.SIGTERM)
        received: dict[str, int] = json.loads(await self._receiver.output())
        return FlowRecord(
            self._udp_flow,
            np.fromfile(self._path("sent"), SENT),
            np.fromfile(self._path("received"), RECEIVED),
            self._totals["largest_lag_ns"],
            received["kernel_drops"],
            received["foreign"],
            received["dscp_changed"],
        )

    def _receiver_command(self) -> list[Any]:
        flow = self._udp_flow
        return ["receive", flow.port, flow.id, flow.size - HEADERS_BYTES, flow.dscp << 2,
                self._path("received")]  # fmt: skip

    def _sender_command(self) -> list[Any]:
        flow, due = self._udp_flow, "-"
        if self._schedule.due_ns is not None:
            due = str(self._path("due"))
            self._schedule.due_ns.tofile(due)
        return ["send", self._hosts[flow.destination].IP(), flow.port, flow.source_port, flow.id,
                flow.rate_pps, flow.count, flow.size - HEADERS_BYTES, flow.dscp << 2,
                flow.ttl, BURST, MAX_LAG_NS, self._path("sent"), due]  # fmt: skip


class TcpProcesses(FlowProcesses):
    """Sender and receiver of a TCP connection: c/tcp_send.c, c/tcp_receive.c."""

    def __init__(self, hosts: Mapping[str, Any], folder: Path, flow: TcpFlow, counts: int) -> None:
        super().__init__(hosts, folder, flow, counts)
        self._tcp_flow = flow

    async def finish_sending(self) -> None:
        """Wait until all data is acknowledged. Raises FailedRunError if the connection failed."""
        try:
            await self._sender.await_word("acknowledged")
        except TestbedError as error:
            raise FailedRunError(str(error)) from error

    async def record(self) -> TcpRecord:
        """Close the connection, at the receiver first. Then read the records of both ends."""
        self._receiver.process.send_signal(signal.SIGTERM)
        await self._receiver.output()
        await self._sender.output()
        return TcpRecord(
            self._tcp_flow,
            np.fromfile(self._path("sent"), tcp.PROGRESS),
            np.fromfile(self._path("received"), tcp.RECEIVED),
            np.fromfile(self._path("answers"), tcp.ANSWERS),
        )

    def _receiver_command(self) -> list[Any]:
        return ["tcp_receive", self._flow.port, self._tcp_flow.size_bytes,
                self._tcp_flow.response_bytes, self._path("received")]  # fmt: skip

    def _sender_command(self) -> list[Any]:
        flow = self._tcp_flow
        return ["tcp_send", self._hosts[flow.destination].IP(), flow.port, flow.source_port,
                flow.dscp << 2, flow.size_bytes, round(flow.duration_s * 1e9), flow.rate_bps,
                flow.congestion, int(flow.has_ecn), round(flow.on_s * 1e9),
                round(flow.off_s * 1e9), flow.requests, flow.response_bytes,
                round(flow.think_s * 1e9), self._path("sent"), self._path("answers")]  # fmt: skip


class FrameSender:
    """Process that sends frames over the host's interface; the constructor starts it."""

    def __init__(
        self, host: Any, path: Path, times_ns: Sequence[int], frames: Sequence[bytes]
    ) -> None:
        self._host = host.name
        self._count = len(frames)
        with path.open("wb") as file:
            file.write(np.uint64(len(frames)).tobytes())
            file.write(np.asarray(times_ns, np.uint64).tobytes())
            file.write(np.array([len(frame) for frame in frames], np.uint32).tobytes())
            file.writelines(frames)
        program = str(build_program("send_frames"))
        command = [*host.enter(), program, str(host.defaultIntf()), str(path), str(MAX_LAG_NS)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def finish(self, timeout_s: float) -> None:
        """Wait until the last frame is sent or the timeout has passed. Then stop the process.

        Raises InvalidRunError if a frame was sent too late, and TestbedError if a frame could not
        be sent.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self._process.terminate()
        output, errors = self._process.communicate()
        if self._process.returncode == RATE_NOT_KEPT:
            totals = json.loads(output)
            raise InvalidRunError(
                f"frames of {self._host}: {totals['sent']} of {self._count} sent, the last "
                f"{totals['largest_lag_ns'] / 1e6:.0f} ms late",
                f"lower the rate or {IDLE_MACHINE}",
            )
        if self._process.returncode:
            raise TestbedError(f"frames of {self._host}: {errors.decode().strip()}")

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()


# time to send the start time to all senders: in total, and per flow
LEAD_NS, LEAD_PER_FLOW_NS = 20_000_000, 200_000


class ProcessTrafficDriver:
    """TrafficDriver in real time. `counts` is the same as in FlowProcesses."""

    late_remedy: ClassVar[str] = f", or {IDLE_MACHINE}"

    def __init__(
        self, hosts: Mapping[str, Any], folder: Path, flows: Sequence[AnyFlow],
        schedules: Mapping[int, Schedule], counts: int, *, check_alive: Callable[[], None],
    ) -> None:  # fmt: skip
        self._check_alive = check_alive
        self._after_ns = {flow.id: round(flow.after_s * 1e9) for flow in flows}
        self._flows: dict[int, UdpProcesses | TcpProcesses] = {
            flow.id: TcpProcesses(hosts, folder, flow, counts) if isinstance(flow, TcpFlow)
            else UdpProcesses(hosts, folder, flow, schedules[flow.id], counts)
            for flow in flows
        }  # fmt: skip

    async def prepare(self) -> int:
        """Start all processes; return when all receivers listen and all senders are ready."""
        for flow in self._flows.values():
            await flow.launch()
        for flow in self._flows.values():
            await flow.await_ready()
        return time.monotonic_ns() + LEAD_NS + LEAD_PER_FLOW_NS * len(self._flows)

    def begin(self, start_ns: int) -> None:
        """Send each sender the start time of its flow."""
        for number, flow in self._flows.items():
            flow.begin(start_ns + self._after_ns[number])

    def counts(self, _flows: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """Return nothing, because the server process of the page reads them from memory."""
        return {}

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """Wait until all packets are sent, and then for `drain_s`; return the records.

        Raises RateError, which contains the records, if a sender did not keep its rate. Raises
        TestbedError if a program failed, or if a switch has stopped.
        """
        records = asyncio.ensure_future(self._finish(drain_s))
        try:
            while not (await asyncio.wait([records], timeout=CHECK_S))[0]:
                self._check_alive()
            return records.result()
        finally:
            records.cancel()
            await asyncio.wait([records])  # otherwise, stop() could not read the same pipes

    async def _finish(self, drain_s: float) -> dict[int, AnyRecord]:
        late: RateError | None = None
        for flow in self._flows.values():
            try:
                await flow.finish_sending()
            except RateError as error:
                late = late or error
        await asyncio.sleep(drain_s)
        records = {number: await flow.record() for number, flow in self._flows.items()}
        if late is not None:
            late.records = records
            raise late
        return records

    async def stop(self) -> None:
        """Kill all processes."""
        for flow in self._flows.values():
            await flow.stop()
