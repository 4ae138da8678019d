"""Traffic in virtual time: flows and TCP connections on the event queue."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from minip4.engine.errors import InvalidArgument
from minip4.simulator.tcp import TcpSpec
from minip4.simulator.virtual import FlowSpec, Virtual
from telemark.backends.backend import derive_seed
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import FailedRunError, TestbedError
from telemark.traffic.flows import (
    HEADERS_BYTES,
    AnyFlow,
    AnyRecord,
    Flow,
    FlowRecord,
    Schedule,
    instant_records,
)
from telemark.traffic.tcp import TcpFlow, TcpRecord

POLL_NS = 10_000_000  # interval at which the end of TCP flows is checked


class VirtualTrafficDriver:
    """TrafficDriver in virtual time."""

    late_remedy: ClassVar[str] = ""

    def __init__(
        self, virtual: Virtual, clock: VirtualClock, hosts: Mapping[str, int],
        flows: Sequence[AnyFlow], schedules: Mapping[int, Schedule], *, seed: int,
    ) -> None:  # fmt: skip
        self._virtual = virtual
        self._clock = clock
        self._hosts = hosts
        self._flows = [flow for flow in flows if isinstance(flow, Flow)]
        self._tcp_flows = [flow for flow in flows if isinstance(flow, TcpFlow)]
        self._schedules = schedules
        self._seed = seed
        self._start_ns = 0
        self._numbers: dict[int, int] = {}  # map from flow id to number in the event queue
        self._connections: dict[int, int] = {}  # map from TCP flow id to number in the event queue

    async def prepare(self) -> int:
        """Return the current time, because no preparation is needed."""
        return self._clock.now_ns()

    def begin(self, start_ns: int) -> None:
        """Add all flows to the event queue."""
        self._start_ns = start_ns
        for flow in self._flows:
            try:
                self._numbers[flow.id] = self._virtual.add_flow(self._spec(flow))
            except InvalidArgument as error:
                raise TestbedError(f"{flow.destination}: {error}") from error
        for tcp_flow in self._tcp_flows:
            try:
                number = self._virtual.connections.add(self._tcp_spec(tcp_flow))
            except InvalidArgument as error:
                raise TestbedError(f"{tcp_flow.source}: {error}") from error
            self._connections[tcp_flow.id] = number

    def counts(self, flows: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """See TrafficDriver.counts(). After stop(), no flow is known."""
        found = {}
        for flow in flows:
            if flow in self._numbers:
                found[flow] = self._virtual.flow_counts(self._numbers[flow])
            elif flow in self._connections:
                found[flow] = self._virtual.connections.byte_counts(self._connections[flow])
        return found

    def _spec(self, flow: Flow) -> FlowSpec:
        schedule = self._schedules[flow.id]
        return FlowSpec(
            source=self._hosts[flow.source],
            destination=self._hosts[flow.destination],
            id=flow.id,
            source_port=flow.source_port,
            destination_port=flow.port,
            tos=flow.dscp << 2,
            ttl=flow.ttl,
            payload=flow.size - HEADERS_BYTES,
            count=flow.count,
            start_ns=self._start_ns + schedule.after_ns,
            rate_pps=flow.rate_pps,
            due_ns=schedule.due_ns,
        )

    def _tcp_spec(self, flow: TcpFlow) -> TcpSpec:
        isn = derive_seed(self._seed, f"tcp {flow.id}")
        return TcpSpec(
            source=self._hosts[flow.source],
            destination=self._hosts[flow.destination],
            isn=(isn & 0xFFFFFFFF, isn >> 16 & 0xFFFFFFFF),
            source_port=flow.source_port,
            destination_port=flow.port,
            tos=flow.dscp << 2,
            congestion=flow.congestion,
            ecn=flow.has_ecn,
            size_bytes=flow.size_bytes * max(flow.requests, 1),
            duration_ns=round(flow.duration_s * 1e9),
            start_ns=self._start_ns + round(flow.after_s * 1e9),
            rate_bps=flow.rate_bps,
            on_ns=round(flow.on_s * 1e9),
            off_ns=round(flow.off_s * 1e9),
            request_bytes=flow.size_bytes if flow.requests else 0,
            response_bytes=flow.response_bytes,
            think_ns=round(flow.think_s * 1e9),
        )

    async def _await_acknowledgements(self) -> None:
        """Wait until all TCP flows have ended. Raises FailedRunError if one failed."""
        connections = self._virtual.connections
        for flow in self._tcp_flows:
            number = self._connections[flow.id]
            while not connections.is_over(number):
                await self._clock.sleep_until(self._clock.now_ns() + POLL_NS)
            result = connections.result(number)
            if result.was_reset:
                raise FailedRunError(
                    f"flow {flow.id}: connection from {flow.source} to {flow.destination}: refused "
                    "or reset"
                )
            if result.has_failed:
                raise FailedRunError(
                    f"flow {flow.id}: connection from {flow.source} to {flow.destination}: timeout "
                    "(no acknowledgement for 10 s)"
                )

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """See Traffic.finish(). In virtual time, senders always keep their rates."""
        duration_ns = max((s.after_ns + s.duration_ns for s in self._schedules.values()), default=0)
        await self._await_acknowledgements()
        end_ns = max(self._start_ns + duration_ns, self._clock.now_ns())
        await self._clock.sleep_until(end_ns + round(drain_s * 1e9))
        records: dict[int, AnyRecord] = {}
        for flow in self._flows:
            result = self._virtual.flow_result(self._numbers[flow.id])
            records[flow.id] = FlowRecord(
                flow, instant_records(result.sent), result.received, largest_lag_ns=0,
                kernel_drops=0, foreign=result.foreign, dscp_changed=result.dscp_changed,
            )  # fmt: skip
        for tcp_flow in self._tcp_flows:
            tcp = self._virtual.connections.result(self._connections[tcp_flow.id])
            records[tcp_flow.id] = TcpRecord(tcp_flow, tcp.progress, tcp.received, tcp.answers)
        return records

    async def stop(self) -> None:
        """End the flows, and free the memory that they use."""
        for number in self._numbers.values():
            self._virtual.remove_flow(number)
        self._numbers.clear()
        for number in self._connections.values():
            self._virtual.connections.remove(number)
        self._connections.clear()
