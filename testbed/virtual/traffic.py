"""Flows in virtual time: sources and listeners on the event queue."""

from collections.abc import Mapping, Sequence

from minip4.engine.errors import InvalidArgument
from minip4.simulator.virtual import FlowSpec, Virtual
from testbed.errors import TestbedError
from testbed.traffic import (
    HEADERS_BYTES,
    AnyFlow,
    AnyRecord,
    Flow,
    FlowRecord,
    Schedule,
    sent_at_once,
)
from testbed.virtual.clock import VirtualClock


class VirtualCarrier:
    """See testbed.traffic.Carrier."""

    def __init__(
        self, virtual: Virtual, clock: VirtualClock, hosts: Mapping[str, int],
        flows: Sequence[AnyFlow], schedules: Mapping[int, Schedule],
    ) -> None:  # fmt: skip
        """Raises TestbedError for TCP."""
        self._virtual = virtual
        self._clock = clock
        self._hosts = hosts
        self._flows = [flow for flow in flows if isinstance(flow, Flow)]
        for flow in flows:
            if not isinstance(flow, Flow):
                raise TestbedError(
                    f"flow {flow.id} of {flow.source}: TCP needs kernels: use --time real"
                )
        self._schedules = schedules
        self._start_ns = 0
        self._numbers: dict[int, int] = {}  # flow id -> number in the event queue

    async def prepare(self) -> int:
        """All is ready at once."""
        return self._clock.now_ns()

    def begin(self, start_ns: int) -> None:
        """Put the flows into the event queue."""
        self._start_ns = start_ns
        for flow in self._flows:
            try:
                self._numbers[flow.id] = self._virtual.add_flow(self._spec(flow))
            except InvalidArgument as error:
                raise TestbedError(f"{flow.destination}: {error}") from error

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

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """See Traffic.finish(): a sender in virtual time always keeps its rate."""
        lasts_ns = max((s.after_ns + s.lasts_ns for s in self._schedules.values()), default=0)
        end_ns = max(self._start_ns + lasts_ns, self._clock.now_ns())
        await self._clock.sleep_until(end_ns + round(drain_s * 1e9))
        records: dict[int, AnyRecord] = {}
        for flow in self._flows:
            result = self._virtual.flow_result(self._numbers[flow.id])
            records[flow.id] = FlowRecord(
                flow, sent_at_once(result.sent), result.received, largest_lag_ns=0,
                kernel_drops=0, foreign=result.foreign, dscp_changed=result.dscp_changed,
            )  # fmt: skip
        return records

    async def stop(self) -> None:
        """End the flows, and free what is kept of them."""
        for number in self._numbers.values():
            self._virtual.remove_flow(number)
        self._numbers.clear()
