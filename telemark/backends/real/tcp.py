"""TCP flow in real time; c/tcp_send.c sends it and c/tcp_receive.c receives it."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from telemark.backends.real.flow_processes import FlowProcesses
from telemark.errors import FailedRunError, TestbedError
from telemark.traffic.tcp import ANSWERS, PROGRESS, RECEIVED, TcpFlow, TcpRecord


class TcpProcesses(FlowProcesses):
    """Sender and receiver of a TCP connection."""

    def __init__(self, hosts: Mapping[str, Any], folder: Path, flow: TcpFlow) -> None:
        super().__init__(hosts, folder, flow)
        self._tcp_flow = flow

    async def finish_sending(self) -> None:
        """Wait until all data is acknowledged. Raises FailedRunError if the connection failed."""
        try:
            await self._sender.await_word("acknowledged")
        except TestbedError as error:
            raise FailedRunError(str(error)) from error

    async def record(self) -> TcpRecord:
        """Close the connection, first at the receiver, and read the records of both ends."""
        self._receiver.process.send_signal(signal.SIGTERM)
        await self._receiver.output()
        await self._sender.output()
        return TcpRecord(
            self._tcp_flow,
            np.fromfile(self._path("sent"), PROGRESS),
            np.fromfile(self._path("received"), RECEIVED),
            np.fromfile(self._path("answers"), ANSWERS),
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
