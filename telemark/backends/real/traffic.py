"""Traffic in real time: processes in the hosts' namespaces that share one clock."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from telemark.backends.real.tcp import TcpProcesses
from telemark.backends.real.udp import UdpProcesses
from telemark.errors import IDLE_MACHINE
from telemark.traffic.flows import AnyFlow, AnyRecord, RateError, Schedule
from telemark.traffic.tcp import TcpFlow

LEAD_NS, LEAD_PER_FLOW_NS = 20_000_000, 200_000  # time to send the start time to all senders


class ProcessTrafficDriver:
    """TrafficDriver in real time."""

    late_remedy: ClassVar[str] = f", or {IDLE_MACHINE}"

    def __init__(
        self, hosts: Mapping[str, Any], folder: Path, flows: Sequence[AnyFlow],
        schedules: Mapping[int, Schedule],
    ) -> None:  # fmt: skip
        self._after_ns = {flow.id: round(flow.after_s * 1e9) for flow in flows}
        self._flows: dict[int, UdpProcesses | TcpProcesses] = {
            flow.id: TcpProcesses(hosts, folder, flow) if isinstance(flow, TcpFlow)
            else UdpProcesses(hosts, folder, flow, schedules[flow.id])
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

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """Wait until all packets are sent, and `drain_s` longer; return the records.

        Raises RateError, with the records, if a sender did not keep its rate, and TestbedError if
        a program failed.
        """
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
