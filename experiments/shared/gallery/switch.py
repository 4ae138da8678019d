"""Network of the gallery's sketches: a trace from h1 passes one switch and arrives at h2."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import finsy as fy
import numpy as np
from mininet.topo import SingleSwitchTopo
from numpy.typing import NDArray

from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from controllers.readout import Readouts
from experiments.shared.gallery.traces import NUMBER_AT, make_frames
from experiments.shared.xdp.streams import Stream
from telemark.accounting import pcap
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.session.run import Run

SWITCH, SOURCE, DESTINATION = "s1", "h1", "h2"
LEAD_NS, SETTLE_NS = 100_000_000, 300_000_000
# Packet rate of a trace. At much higher rates, bmv2 drops packets without reporting a reason.
RATES_PPS: Mapping[str, int] = {"minip4": 50_000, "bmv2": 1_000}


@dataclass
class OneSwitch:
    """Running network h1 - s1 - h2. s1 forwards by MAC address, and runs a program on a trace."""

    net: Network
    switch: fy.Switch
    _run: Run
    sent: int = 0  # number of packets of the trace

    async def replay(self, stream: Stream) -> None:
        """Send the packets of a trace, and wait until the switch has processed them."""
        await replay(self.net, self._run, stream)
        self.sent += len(stream.numbers)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send frames from h1, and wait until the switch has processed them."""
        await send(self.net, self._run, frames)
        self.sent += len(frames)

    async def read(self, record: int, cells: int) -> NDArray[np.uint64]:
        """Read a record at the indices below `cells`, see read_record()."""
        return await read_record(self.switch, record, cells)

    def lost(self) -> int:
        """Return how many packets of traces the switch did not forward.

        The network must have stopped. The number includes packets that did not reach the switch. If
        bmv2 lost packets, the run is inconclusive, because bmv2 drops packets at high rates.
        """
        missing = self.sent - len(pcap.read(self.net.capture(SWITCH, DESTINATION, "out")).length)
        if missing and self._run.target == "bmv2":
            note_invalid(f"{self.net.name}: bmv2 did not forward {missing} of {self.sent} packets")
        return missing


@asynccontextmanager
async def one_switch(
    run: Run, name: str, program: str, defines: Mapping[str, int],
    entries: Sequence[fy.P4TableEntry],
) -> AsyncIterator[OneSwitch]:  # fmt: skip
    """Start the network and insert `entries`, which set default actions, into s1."""
    topo = SingleSwitchTopo(2)
    with Network(
        topo, run, program=program, defines=defines, name=name, switch_options=cpu_ports(topo)
    ) as net:
        async with connection(net, SWITCH) as switch:
            await switch.insert(forwarding_entries(net, SWITCH))
            await switch.modify(entries)
            yield OneSwitch(net, switch, run)


async def replay(net: Network, run: Run, stream: Stream) -> None:
    """Send the packets of a trace from h1 to h2, and wait until the switches processed them."""
    frames = make_frames(stream, net.host(SOURCE).MAC(), net.host(DESTINATION).MAC())
    await send(net, run, frames)


async def send(net: Network, run: Run, frames: Sequence[bytes]) -> None:
    """Send frames from h1, and wait until the switches processed them."""
    start_ns = run.clock.now_ns() + LEAD_NS
    times = start_ns + (np.arange(len(frames)) * (1e9 / RATES_PPS[run.target])).astype(np.int64)
    net.send_frames(SOURCE, times.tolist(), frames)
    await run.clock.sleep_until(int(times[-1]) + SETTLE_NS)


async def read_record(switch: fy.Switch, record: int, cells: int) -> NDArray[np.uint64]:
    """Read the indices below `cells` of a record (p4src/include/readout.p4).

    A row per index has the four values of ingress, and then those of egress. Raises
    ReadoutTimeoutError.
    """
    async with Readouts(switch) as readouts:
        answers = await asyncio.gather(*(readouts.read(record, at) for at in range(cells)))
    return np.array([[*each.arrival, *each.departure] for each in answers], np.uint64)


def packet_numbers(net: Network, switch: str, neighbour: str, what: str) -> NDArray[np.int64]:
    """Return the numbers of the trace's packets in a capture (Network.capture)."""
    frames = pcap.read(net.capture(switch, neighbour, what)).bytes
    return frames[:, NUMBER_AT : NUMBER_AT + 4].copy().view(">u4").ravel().astype(np.int64)
