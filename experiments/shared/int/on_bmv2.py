"""INT on bmv2: rates, clock offsets and bounds of reported values.

A panel switch (minip4, between bmv2 and the links) shapes the traffic of each bmv2 switch, so the
queues of bmv2 stay almost empty. Each bmv2 has its own clock. A bmv2 timestamps a packet at some
time between the two captures of the panel switch.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from collectors.int.application import Collector
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.readout import RESOLUTION_US, Readouts
from experiments.shared.int.end_to_end import Interval
from experiments.shared.int.reports import OURS
from experiments.shared.int.truth import Queue, SwitchTransit, around, read
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.capacity_probe import MAX_QUEUEING_DELAY_US, probe_flows
from telemark.errors import InvalidRunError, note_invalid
from telemark.network import Network
from telemark.session.clock import Clock
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord

# Max queueing delay at a sustained rate. With alternate marking, the block length sets a lower
# maximum.
INT_DELAY_US = 500_000.0


async def slowdown(
    topo: Topo, program: str, domain: Callable[[Network], Domain], flows: Sequence[Flow], run: Run,
    *, max_delay_us: float = MAX_QUEUEING_DELAY_US,
) -> float:  # fmt: skip
    """Return the factor by which rates must be lower on bmv2; 1 on minip4.

    A probe sends the flows over `topo`, whose links have no rate limit, with the INT domain
    `domain`.
    """
    if run.target != "bmv2":
        return 1.0
    options = cpu_ports(topo)
    with Network(topo, run, program=program, name="probe", switch_options=options) as net:
        net.run_application("collector", Collector(OURS))
        async with connections(net) as switches:
            await configure(net, switches, domain(net))
            capacity = await probe_flows(net, flows, run, max_delay_us)
    net.discard()
    return 1 / capacity.share


def limit_queues(net: Network, path: Sequence[str], rate_pps: int, depth: int) -> None:
    """Limit the rate of the bmv2 queues on a path, so that these queues fill.

    Without a limit, the output buffer of bmv2 (128 packets) and the socket buffer fill first. INT
    does not report the contents of these buffers.
    """
    for near, far in pairwise(path):
        net.switch(near).set_queue(net.port(near, far), rate_pps=rate_pps, depth=depth)


async def find_clocks(
    switches: Mapping[str, fy.Switch], clock: Clock
) -> dict[str, tuple[int, float]]:
    """Return the clock offset of each switch to `clock` and its error bound, in us.

    The run is inconclusive if an error exceeds the bound for bmv2 clocks.
    """
    found = {}
    for name, switch in switches.items():
        async with Readouts(switch) as readouts:
            offset_us, error_us = await readouts.clock_offset(
                clock, good_us=Bmv2Switch.clock_error_us / 4
            )
        if error_us > Bmv2Switch.clock_error_us:
            note_invalid(f"{name}: clock offset is only known to {error_us:.0f} us")
        found[name] = round(offset_us), error_us + RESOLUTION_US
    return found


def read_inside(net: Network, flow: Flow, path: Sequence[str]) -> list[Interval]:
    """Return the times at which each packet entered and left each bmv2, in the order of sending.

    Requires that the network neither loses nor reorders packets of the flow.
    """
    return [
        (
            _ours(net.capture(switch, before, "out", inner=True), flow),
            _ours(net.capture(switch, after, "in", inner=True), flow),
        )
        for before, switch, after in around(flow, path)
    ]


def read_queue(net: Network, switch: str, after: str) -> Queue:
    """Return the packets that left bmv2 for a neighbour.

    `arrived_ns` is the time at which a packet entered bmv2. The queue then contained 0 to
    `max_queued` packets. `max_queued` is the number of packets in bmv2 for the same port. Requires
    that the network neither loses nor reorders packets.
    """
    left = read(net.capture(switch, after, "in", inner=True))
    went = np.concatenate([
        read(net.capture(switch, n, "out", inner=True)) for n in net.neighbours(switch)
    ])  # fmt: skip
    went = went[np.argsort(went[["port", "number"]])]
    into_ns = went["time_ns"][np.searchsorted(went[["port", "number"]], left[["port", "number"]])]
    ahead = np.arange(len(left)) - np.searchsorted(left["time_ns"], into_ns, "right")
    return Queue(left, into_ns, np.zeros(len(left), np.int64), np.maximum(ahead, 0))


def read_ahead(net: Network, switch: str, after: str, flow: Flow) -> NDArray[np.int64]:
    """Return for each packet of a flow how many packets for the same port were already in bmv2.

    This number is an upper bound of the queue length that the packet met in bmv2.
    """
    queue = read_queue(net, switch, after)
    return queue.max_queued[queue.left["port"] == flow.port]


def read_transits(
    net: Network, flow: Flow, path: Sequence[str]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the time in bmv2 (us, rounded up) and the packets ahead, per switch and packet.

    Packets ahead are packets in bmv2 for the same port. The values are upper bounds of the reported
    latencies and queues. Raises InvalidRunError if bmv2 dropped packets of the flow.
    """
    found = []
    for before, switch, after in around(flow, path):
        into_ns = _ours(net.capture(switch, before, "out", inner=True), flow)
        out_ns = _ours(net.capture(switch, after, "in", inner=True), flow)
        if len(into_ns) != len(out_ns):
            raise InvalidRunError(f"{switch}: bmv2 dropped {len(into_ns) - len(out_ns)} packets")
        found.append(((out_ns - into_ns) // 1000 + 1, read_ahead(net, switch, after, flow)))
    return found


def unseen(
    first: SwitchTransit, inside: Sequence[Interval], record: FlowRecord,
    clocks: Mapping[str, tuple[int, float]],
) -> Interval:  # fmt: skip
    """Return bounds (ns) of the delay of each packet outside of the switches and their links.

    The result is the delay on the way to the first bmv2, plus the delay behind the last bmv2.
    """
    received_ns = np.zeros(record.flow.count, np.int64)
    received_ns[record.received["sequence"]] = record.received["received_ns"]
    error_ns = round(2000 * max(error_us for _, error_us in clocks.values()))
    (into_first, out_first), (into_last, out_last) = inside[0], inside[-1]
    min_ns = into_first - first.arrived_ns + received_ns - out_last
    max_ns = out_first - first.arrived_ns + received_ns - into_last
    return min_ns - error_ns, max_ns + error_ns


def _ours(path: object, flow: Flow) -> NDArray[np.int64]:
    frames = read(path)  # type: ignore[arg-type]
    ours: NDArray[np.int64] = frames["time_ns"][frames["port"] == flow.port]
    return ours
