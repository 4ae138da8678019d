"""UDP flow in real time; c/send.c sends it and c/receive.c receives it."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from telemark.backends.real.flow_processes import FlowProcesses
from telemark.errors import IDLE_MACHINE
from telemark.traffic.flows import (
    HEADERS_BYTES,
    RECEIVED,
    SENT,
    Flow,
    FlowRecord,
    RateError,
    Schedule,
)

BURST = 32  # maximum number of datagrams per batch of a late sender
MAX_LAG_NS = 500_000_000  # a sender that is later than this gives up
END_LAG_NS = 50_000_000  # maximum lag at the end, in addition to 1 % of the duration
RATE_NOT_KEPT = 3  # exit status of c/send.c if it did not keep the rate


class UdpProcesses(FlowProcesses):
    """Sender and receiver of paced datagrams."""

    def __init__(
        self, hosts: Mapping[str, Any], folder: Path, flow: Flow, schedule: Schedule
    ) -> None:
        super().__init__(hosts, folder, flow)
        self._udp_flow = flow
        self._schedule = schedule
        self._start_ns = 0
        self._totals: dict[str, int] = {}  # counts of the sender

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
