"""Flows in real time: processes in the hosts' namespaces, which all begin by one clock."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from telemark.backends.real.tcp import TcpProcesses
from telemark.backends.real.udp import UdpProcesses
from telemark.errors import IDLE_MACHINE
from telemark.traffic.flows import AnyFlow, AnyRecord, Schedule
from telemark.traffic.tcp import TcpFlow

LEAD_NS, LEAD_OF_FLOW_NS = 20_000_000, 200_000  # for telling senders when their flows begin


class ProcessTrafficDriver:
    """See telemark.traffic.flows.Carrier."""

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
        """Return when all receivers listen and all senders wait to be told when to begin."""
        for flow in self._flows.values():
            await flow.launch()
        for flow in self._flows.values():
            await flow.await_ready()
        return time.monotonic_ns() + LEAD_NS + LEAD_OF_FLOW_NS * len(self._flows)

    def begin(self, start_ns: int) -> None:
        """Tell each sender when its flow begins."""
        for number, flow in self._flows.items():
            flow.begin(start_ns + self._after_ns[number])

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """Wait until all is sent, and `drain_s` longer for what is on its way.

        The books tell whether that was long enough. Raises TestbedError when a sender did not
        keep its rate, or when a program failed.
        """
        for flow in self._flows.values():
            await flow.finish_sending()
        await asyncio.sleep(drain_s)
        return {number: await flow.record() for number, flow in self._flows.items()}

    async def stop(self) -> None:
        """End what still runs."""
        for flow in self._flows.values():
            await flow.stop()
