"""Network of a switch that records packets, and a collector behind another switch.

h1, h3 - s1 - s2 - h2: s1 writes records of packets from h1 to h3 into the memory of h2
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import finsy as fy
import numpy as np

from collectors.roce.application import Responder, Writer
from collectors.roce.endpoint import Counts, Peer, Target, Transport
from collectors.roce.region import HOP, TCP
from controllers.connection import connections, cpu_ports
from controllers.roce.metrics import publishing
from controllers.roce.running import ANSWERS, events
from controllers.roce.session import Content, Reporter, Session, configure
from controllers.roce.watch import RecordedFlow
from telemark.apps.application import Application, Host
from telemark.capacity_probe import CapacityEstimate, probe_program
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from telemark.traffic.received import Frames
from topologies.basic import Dumbbell

PROGRAM = "p4src/roce/roce.p4"
SWITCH, COLLECTOR, RECEIVER = "s1", "h2", "h3"
COLLECTOR_ADDR = "10.0.0.2"
PEER = Peer("10.0.9.1", qpn=0x11, psn=0xFFFF00)  # first PSN, chosen so that PSNs wrap soon
# expected drop reasons: responses end in a switch, and the switch sends no records during hold-off
EXPECTED = ("ingress", "miss", "egress")
DELAY_US = 500  # delay of the link between the switches
LINK_BPS = 1_000_000_000  # link rate of a capacity probe

RECORDS = {
    Content.FLOWS: TCP,
    Content.FLOWS_AND_HOPS: np.dtype([("flow", TCP), ("hop", HOP)]),
    Content.COUNTERS: np.dtype("<u8"),  # native byte order, in which responders execute FETCH ADD
}


@dataclass(frozen=True)
class Collection:
    """Ring of `slots` slots, the content of its records, and options of the session."""

    slots: int
    content: Content = Content.FLOWS
    transport: Transport = Transport.RC
    session: tuple[tuple[str, Any], ...] = ()
    file: str | None = None  # file in the folder of the run for the memory; None: no file
    hold_us: float = 0  # delay of the responder, see Host.frames()

    def responder(self, run: Run) -> Responder:
        """Return the responder that receives the records."""
        path = run.folder / self.file if self.file else None
        writer = Writer(PEER, RECORDS[self.content], self.slots, path, self.transport)
        return Responder(COLLECTOR_ADDR, [writer], hold_us=self.hold_us, receives=4096)


@dataclass(frozen=True)
class Running:
    """Running network in which a switch writes records."""

    net: Network
    switch: fy.Switch
    session: Session


@dataclass
class Taken:
    """Memory and counts of the collector after the network has stopped."""

    file: bytes = b""
    counts: Counts = field(default_factory=Counts)


class FrameRecorder(Application):
    """Application that records all frames of its host; the result is a list of frames."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    def start(self, host: Host) -> None:
        """Start to record."""
        host.frames(self.on_frames, hold_us=1000)

    def on_frames(self, frames: Frames) -> None:
        """Record frames."""
        self._kept += [each.frame for each in frames]

    def result(self) -> Any:
        """Return the frames in the order of arrival."""
        return self._kept


@asynccontextmanager
async def reporting(
    run: Run, name: str, collection: Collection, rate_bps: int, program: str = PROGRAM, *,
    keeps: bool = True, captures: bool = True,
) -> AsyncIterator[Running]:  # fmt: skip
    """Run a network with the responder as first application.

    `rate_bps` is the rate of the link between the switches. If `keeps` is set, a FrameRecorder on
    h3 is the second application.
    """
    with network(run, name, rate_bps, program, captures=captures) as net:
        responder = collection.responder(run)
        net.run_application(COLLECTOR, responder)
        if keeps:
            net.run_application(RECEIVER, FrameRecorder())
        async with (
            writing(net, collection, responder.targets[0]) as running,
            publishing(run.metrics, running.switch, running.session),
        ):
            yield running


@contextmanager
def network(
    run: Run, name: str, rate_bps: int, program: str, *, captures: bool = True
) -> Iterator[Network]:
    """Return the network without applications."""
    topo = Dumbbell(2, rate_bps=rate_bps, delay_us=DELAY_US, queue_packets=10_000)
    with Network(
        topo, run, program=program, name=name, capture=captures, expected_drops=EXPECTED,
        switch_options=cpu_ports(topo),
    ) as net:  # fmt: skip
        yield net


@asynccontextmanager
async def writing(net: Network, collection: Collection, target: Target) -> AsyncIterator[Running]:
    """Configure the switch to write to a target."""
    session = Session(1, COLLECTOR, PEER, target, content=collection.content,
                      **dict(collection.session))  # fmt: skip
    reporters = {SWITCH: Reporter([session], [RecordedFlow("0.0.0.0/0", "0.0.0.0/0")], node_id=1)}
    async with connections(net) as switches:
        await configure(net, switches, reporters)
        yield Running(net, switches[SWITCH], session)


async def find_capacity(
    run: Run, collection: Collection, rate_pps: int, program: str = PROGRAM
) -> CapacityEstimate:
    """Find the fraction of the requested rate at which bmv2 can record packets.

    The probe sends the packets in a separate network.
    """
    in_memory = replace(collection, file=None)
    async with reporting(
        run, "probe", in_memory, LINK_BPS, program, keeps=False, captures=False
    ) as running:  # fmt: skip
        net = running.net

        async def count() -> int:
            return (await events(running.switch, running.session))["sent"]

        flow = Flow(1, "h1", RECEIVER, rate_pps, rate_pps)
        capacity = await probe_program(net, flow, count, run)
    net.discard()
    return capacity


async def settle(run: Run, settle_ns: int, count: Callable[[], Awaitable[object]]) -> None:
    """Wait until all packets in flight have arrived; on bmv2, until counters no longer change."""
    last = None
    while True:
        await run.clock.sleep_until(run.clock.now_ns() + settle_ns)
        counted = await count() if run.target == "bmv2" else None
        if counted == last:
            return
        last = counted


def reject_bmv2_drops(net: Network, counts: Mapping[str, int]) -> None:
    """Make the run inconclusive if bmv2 dropped frames, for example on a loaded machine.

    `counts` are the events() of a session that recorded all packets. The recording switch receives
    these packets and the responses of the collector. This switch sends packets, records and probes.
    The other switch forwards all these frames.
    """
    if "inner" not in net.counters[SWITCH]:
        return  # only bmv2 drops frames if the machine is loaded
    sent, answers = counts["sent"], sum(counts[each] for each in ANSWERS)
    there, beyond = (net.counters[name]["inner"] for name in net.topo.switches())
    missing = {
        f"before {SWITCH}'s program": there["into"] - sent - answers,
        f"behind {SWITCH}'s program": 2 * sent + counts["probed"] - there["out"],
        "in the other switch": beyond["into"] - beyond["out"],
    }
    for where, number in missing.items():
        if number > 0:
            note_invalid(f"{net.name}: bmv2 dropped {number} frames {where}")
