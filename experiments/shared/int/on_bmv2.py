"""INT on bmv2: clocks that have to be found, and between what and what its values can be.

A bmv2 sits behind a panel, whose links shape what leaves: so its own queues stay almost empty. Each
has a clock of its own, and stamps a packet some time while it is inside, behind the panel.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.readout import RESOLUTION_US, Readouts
from experiments.shared.int.end_to_end import Interval
from experiments.shared.int.truth import SwitchTransit, around, read
from telemark.backends.real.targets.bmv2 import Bmv2Switch
from telemark.errors import InvalidRunError
from telemark.network import Network
from telemark.session.clock import Clock
from telemark.traffic.flows import Flow, FlowRecord

SLOWER = 8  # rates on bmv2, of those on minip4
MANY_REPORTS_SLOWER = 32  # where reports, marks or grouping cost a bmv2 more than forwarding


def limit_queues(net: Network, path: Sequence[str], rate_pps: int, depth: int) -> None:
    """Let no more packets/s leave bmv2's queues between neighbours of a path: so these fill.

    Behind bmv2 its output buffer (128 packets) and its socket's would fill first, unseen by INT.
    """
    for near, far in pairwise(path):
        net.switch(near).set_queue(net.port(near, far), rate_pps=rate_pps, depth=depth)


async def find_clocks(
    switches: Mapping[str, fy.Switch], clock: Clock
) -> dict[str, tuple[int, float]]:
    """Of each switch, what to add to its clock to get `clock`, and how wrong that may be, in us.

    Raises TestbedError for one that is found less well than bmv2's clocks are promised to be.
    """
    found = {}
    for name, switch in switches.items():
        async with Readouts(switch) as readouts:
            offset_us, error_us = await readouts.clock_offset(
                clock, good_us=Bmv2Switch.clock_error_us / 4
            )
        if error_us > Bmv2Switch.clock_error_us:
            raise InvalidRunError(f"the clock of {name} was found to {error_us:.0f} us only")
        found[name] = round(offset_us), error_us + RESOLUTION_US
    return found


def read_inside(net: Network, flow: Flow, path: Sequence[str]) -> list[Interval]:
    """When each packet, in the order of sending, went into each bmv2 of a path and was out of it.

    For networks that neither lose packets of the flow nor change their order.
    """
    return [
        (
            _ours(net.capture(switch, before, "out", inner=True), flow),
            _ours(net.capture(switch, after, "in", inner=True), flow),
        )
        for before, switch, after in around(flow, path)
    ]


def read_ahead(net: Network, switch: str, after: str, flow: Flow) -> NDArray[np.int64]:
    """How many packets for the same port were inside when each of a flow's went in: at most so many
    can have waited in bmv2's queue."""
    left = read(net.capture(switch, after, "in", inner=True))
    went = np.concatenate([
        read(net.capture(switch, n, "out", inner=True)) for n in net.neighbours(switch)
    ])  # fmt: skip
    went = went[np.argsort(went[["port", "number"]])]
    into_ns = went["time_ns"][np.searchsorted(went[["port", "number"]], left[["port", "number"]])]
    ahead = np.arange(len(left)) - np.searchsorted(left["time_ns"], into_ns, "right")
    return np.maximum(ahead, 0)[left["port"] == flow.port]


def read_transits(
    net: Network, flow: Flow, path: Sequence[str]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return for each bmv2 of a path how long packets of a flow were inside (us, rounded up), and
    behind how many others for their port: no stamp or queue in a report can be more.

    Raises InvalidRunError where a bmv2 dropped some of them.
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
    """What INT does not see of each packet, ns, at least and at most: what comes before the first
    bmv2's stamp, and behind the last one's."""
    received_ns = np.zeros(record.flow.count, np.int64)
    received_ns[record.received["sequence"]] = record.received["received_ns"]
    error_ns = round(2000 * max(error_us for _, error_us in clocks.values()))
    (into_first, out_first), (into_last, out_last) = inside[0], inside[-1]
    min_ns = into_first - first.came_ns + received_ns - out_last
    max_ns = out_first - first.came_ns + received_ns - into_last
    return min_ns - error_ns, max_ns + error_ns


def _ours(path: object, flow: Flow) -> NDArray[np.int64]:
    frames = read(path)  # type: ignore[arg-type]
    ours: NDArray[np.int64] = frames["time_ns"][frames["port"] == flow.port]
    return ours
