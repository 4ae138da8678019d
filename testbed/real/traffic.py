"""Flows in real time: a sending and a receiving process for each, in the hosts' namespaces."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minip4 import simulator
from minip4.native import build
from testbed.errors import TestbedError
from testbed.traffic import HEADERS_BYTES, RECEIVED, SENT, Flow, FlowRecord, Schedule

C_FOLDER = Path(__file__).parent / "c"
BURST = 32  # datagrams that a sender which fell behind sends at once, at most
MAX_LAG_NS = 500_000_000  # a sender further behind its schedule gives up
END_LAG_NS = 50_000_000  # a sender may end this late, and later by a hundredth of its duration
RATE_NOT_KEPT = 3  # exit status of testbed/real/c/send.c


def executable(program: str) -> Path:
    """The sender or the receiver, ready to run: testbed/real/c/send.c or receive.c."""
    return build.program([C_FOLDER / f"{program}.c"], include=[simulator.C_FOLDER])


class ProcessCarrier:
    """See testbed.traffic.Carrier."""

    def __init__(
        self, hosts: Mapping[str, Any], folder: Path, flows: Sequence[Flow],
        schedules: Mapping[int, Schedule],
    ) -> None:  # fmt: skip
        self._hosts = hosts
        self._folder = folder
        self._flows = flows
        self._schedules = schedules  # by flow id
        self._receivers: dict[int, asyncio.subprocess.Process] = {}
        self._senders: dict[int, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        """Return when the receivers listen and the senders wait for their time."""
        for flow in self._flows:
            self._receivers[flow.id] = await self._start_receiver(flow)
        for flow in self._flows:
            self._senders[flow.id] = await self._start_sender(flow)

    async def finish(self, drain_s: float) -> dict[int, FlowRecord]:
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
        return self._folder / f"flow-{flow.id}.{what}"

    async def _start(self, host: str, program: str, *arguments: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._hosts[host].enter(), executable(program), *map(str, arguments),
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
        schedule, due = self._schedules[flow.id], "-"
        if schedule.due_ns is not None:
            due = str(self._path(flow, "due"))
            schedule.due_ns.tofile(due)
        return await self._start(
            flow.source, "send", self._hosts[flow.destination].IP(), flow.port, flow.id,
            flow.rate_pps, flow.count, flow.size - HEADERS_BYTES, flow.dscp << 2, BURST,
            schedule.start_ns, MAX_LAG_NS, self._path(flow, "sent"), due,
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
        schedule = self._schedules[flow.id]
        allowed_ns = END_LAG_NS + (schedule.end_ns - schedule.start_ns) / 100
        if totals["last_lag_ns"] > allowed_ns or sender.returncode:
            kept_pps = 1e9 * totals["sent"] / max(totals["last_ns"] - schedule.start_ns, 1)
            raise TestbedError(
                f"rate too high for this machine: asked {flow.rate_pps:.0f} packets/s, "
                f"kept {kept_pps:.0f}: lower the rate, or leave the machine more idle"
            )
        return totals

    async def stop(self) -> None:
        """End what still runs."""
        for process in (*self._senders.values(), *self._receivers.values()):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
        self._senders.clear()
        self._receivers.clear()
