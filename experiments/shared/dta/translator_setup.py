"""Network of a reporting host, a translator, and a collector with memory.

h1 - s1 - h2: s1 writes reports from h1 to h2 into the memory of h2
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import finsy as fy
import numpy as np
from mininet.topo import SingleSwitchTopo

from controllers.connection import connections, cpu_ports
from controllers.dta.manager.fabric import Area, collector
from controllers.dta.metrics import publishing
from controllers.dta.translator import (
    OUTCOMES,
    TrackedReporter,
    Translator,
    configure,
    events,
)
from controllers.roce import running as roce
from controllers.roce.queue_pair import QueuePair
from controllers.roce.running import state
from experiments.shared.roce.reporting import settle
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.run import Run

PROGRAM = "p4src/dta/translator.p4"
SWITCH, REPORTER, COLLECTOR = "s1", "h1", "h2"
REPORTER_ADDR, COLLECTOR_ADDR = "10.0.0.1", "10.0.0.2"
# expected drop reasons: reports and responses end in the switch
EXPECTED = ("ingress", "miss", "egress")
# wait before the first report and after the last report
LEAD_NS, SETTLE_NS = 100_000_000, 300_000_000
PSNS = 1 << 24
WINDOW = 64  # number of frames that are sent to bmv2 at a time; libpcap can buffer more
# interval of polls of bmv2's counters; number of polls without progress until the run gives up
POLL_NS, MAX_IDLE_POLLS = 20_000_000, 50


@dataclass(frozen=True)
class Running:
    """Running network with a translator."""

    net: Network
    switch: fy.Switch
    sessions: Sequence[QueuePair]
    reporters: int  # number of reporters whose sequence numbers are tracked
    _run: Run

    async def send(self, frames: Sequence[bytes], rate_pps: float) -> None:
        """Send frames from h1 at a constant rate and wait until they are processed.

        With bmv2, whose rate is lower and depends on the machine, WINDOW frames are sent at a time.
        The run is inconclusive if bmv2 drops a frame.
        """
        if self._run.target == "bmv2":
            for first in range(0, len(frames), WINDOW):
                part = frames[first : first + WINDOW]
                goal = await self._translated() + len(part)
                await self._send(part, rate_pps)
                if missing := await self._wait_for(goal):
                    note_invalid(f"{self.net.name}: bmv2 dropped {missing} of {len(part)} reports")
        else:
            await self._send(frames, rate_pps)
        await self.settle()

    async def settle(self) -> None:
        """Wait until all packets in flight have arrived."""
        await settle(self._run, SETTLE_NS, self._counted)

    async def _send(self, frames: Sequence[bytes], rate_pps: float) -> None:
        start_ns = self._run.clock.now_ns() + LEAD_NS
        times = (start_ns + np.arange(len(frames)) * (1e9 / rate_pps)).astype(np.int64).tolist()
        self.net.send_frames(REPORTER, times, frames)
        await self._run.clock.sleep_until(times[-1])

    async def _translated(self) -> int:
        """Return the number of reports that the program of the switch has received."""
        counts = [await events(self.switch, number) for number in range(self.reporters + 1)]
        return sum(each[outcome] for each in counts for outcome in OUTCOMES)

    async def _counted(self) -> tuple[int, int]:
        """Return the counts of reports and requests in the switch."""
        sent = [await roce.events(self.switch, session) for session in self.sessions]
        return await self._translated(), sum(each["sent"] for each in sent)

    async def _wait_for(self, goal: int) -> int:
        """Wait until the program has received `goal` reports; return how many are missing."""
        last, idle = await self._translated(), 0
        while last < goal and idle < MAX_IDLE_POLLS:
            await self._run.clock.sleep_until(self._run.clock.now_ns() + POLL_NS)
            counted = await self._translated()
            last, idle = counted, 0 if counted > last else idle + 1
        return goal - last

    async def requests(self) -> int:
        """Return the number of requests that the switch has sent in all sessions."""
        sent = [await state(self.switch, session) for session in self.sessions]
        return sum(
            (each.psn - session.peer.psn) % PSNS
            for each, session in zip(sent, self.sessions, strict=True)
        )


@asynccontextmanager
async def translating(
    run: Run, name: str, areas: Sequence[Area], program: str = PROGRAM, reporters: int = 0
) -> AsyncIterator[Running]:
    """Start a network with the responder as application; its memory has the given areas.

    `reporters` is the number of tracked reporters at h1, which are numbered from 0.
    """
    there = collector(COLLECTOR, COLLECTOR_ADDR, areas, run.folder)
    tracked = [TrackedReporter(REPORTER_ADDR, number) for number in range(reporters)]
    translator = Translator(there.sessions, [there.service], tracked)
    topo = SingleSwitchTopo(2)
    with Network(
        topo, run, program=program, name=name, capture=False, expected_drops=EXPECTED,
        switch_options=cpu_ports(topo),
    ) as net:  # fmt: skip
        net.run_application(COLLECTOR, there.responder)
        async with connections(net) as switches:
            await configure(net, switches, {SWITCH: translator})
            async with publishing(run.metrics, switches, {SWITCH: translator}, {}):
                yield Running(net, switches[SWITCH], there.sessions, reporters, run)


def checks(name: str, net: Network, requests: int) -> list[Check]:
    """Check executed and rejected requests of the collector, and the packet accounting.

    If an ACK is late, as on a loaded machine, the switch sends a probe, which counts as a
    duplicate.
    """
    counts = net.applications[0].result.counts
    refused = counts.refused.total() - counts.refused["DUPLICATE"]
    return [
        Check(f"{name}: executed requests", counts.accepted.total(), requests),
        Check(f"{name}: rejected requests", refused, 0),
        *PacketAccounting.from_network(net, {}).checks(name),
    ]
