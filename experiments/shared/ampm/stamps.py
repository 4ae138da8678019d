"""Bounds of packet times, independent of the timestamps of switches, and checks of their order.

In real time, hosts and switches read the clock before and after each send call. The clock readings
bound the time at which the frame reaches the other end of the veth pair. Checks therefore need no
tolerance. If the times of a packet are not in causal order, a timestamp is wrong. On a loaded
machine, the bounds are wider but still correct.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from controllers.readout import RESOLUTION_US
from experiments.shared.ampm.truth import NEVER, Interval, Truth
from telemark.accounting import pcap
from telemark.network import Network
from telemark.results import statistics
from telemark.results.report import Check
from telemark.traffic.flows import Flow

Times = NDArray[np.int64]  # times in ns, by sequence number; NEVER if the event did not happen


@dataclass(frozen=True)
class Handling:
    """Times at which the thread of a switch handled the packets of a flow.

    The times are independent of the timestamps that the switch gives to packets.
    """

    taken_ns: Times  # received from the ring; on bmv2, arrived at the panel switch from bmv2
    sending_ns: Times  # start of the send call, after the emulated link
    sent_ns: Times  # end of the send call


def read_handling(
    net: Network, flows: Sequence[Flow], path: Sequence[str]
) -> dict[int, dict[str, Handling]]:
    """Read the stamp log of a network; return flow id -> switch of its path -> handling."""
    found: dict[int, dict[str, Handling]] = {flow.id: {} for flow in flows}
    for (source, destination), some in _by_hosts(flows).items():
        nodes = [source, *path, destination]
        for before, switch, after in zip(nodes, nodes[1:], nodes[2:], strict=False):
            taken = (
                net.capture(switch, after, "taken", inner=True) if net.has_panels
                else net.capture(switch, before, "taken")
            )  # fmt: skip
            calls = (net.capture(switch, after, what) for what in ("sending", "sent"))
            times = [pcap.read_flows(file, some) for file in (taken, *calls)]
            for flow in some:
                arrays = [np.full(flow.count, NEVER, np.int64) for _ in times]
                for array, seen in zip(arrays, times, strict=True):
                    array[seen[flow.id].sequence] = seen[flow.id].time_ns
                found[flow.id][switch] = Handling(*arrays)
    return found


def read_inside(
    net: Network, flows: Sequence[Flow], path: Sequence[str], clock_errors_us: Mapping[str, float]
) -> dict[int, dict[str, Interval]]:
    """Return the bounds of bmv2 timestamps, as flow id -> switch of its path -> interval.

    bmv2 timestamps a packet while the packet is behind the panel switch (minip4, between bmv2 and
    the links). The clock error of bmv2 widens the interval. A frame enters bmv2 after the panel
    switch has timestamped it. The frame has left bmv2 when it is back at the panel switch.
    """
    found: dict[int, dict[str, Interval]] = {flow.id: {} for flow in flows}
    for (source, destination), some in _by_hosts(flows).items():
        nodes = [source, *path, destination]
        for before, switch, after in zip(nodes, nodes[1:], nodes[2:], strict=False):
            entering, leaving = (
                pcap.read_flows(net.capture(switch, neighbour, what, inner=True), some)
                for neighbour, what in ((before, "out"), (after, "in"))
            )
            error_ns = round(1000 * (clock_errors_us[switch] + RESOLUTION_US))
            for flow in some:
                into, out = (np.full(flow.count, NEVER, np.int64) for _ in range(2))
                into[entering[flow.id].sequence] = entering[flow.id].time_ns - error_ns
                out[leaving[flow.id].sequence] = leaving[flow.id].time_ns + error_ns
                found[flow.id][switch] = into, out
    return found


def _by_hosts(flows: Sequence[Flow]) -> dict[tuple[str, str], list[Flow]]:
    groups: dict[tuple[str, str], list[Flow]] = {}
    for flow in flows:
        groups.setdefault((flow.source, flow.destination), []).append(flow)
    return groups


def passages(
    truth: Truth, handling: Mapping[str, Handling], inside: Mapping[str, Interval]
) -> dict[Point, Interval]:
    """Return bounds of packet times at all points of the path, without timestamps of switches.

    In virtual time there is no `handling`, because only links and queues take time. `inside`:
    bounds of both timestamps of each bmv2 switch.
    """
    if inside:
        return {point: inside[point.switch] for point in truth.time_ns}
    first, last = truth.path[0], truth.path[-1]
    found = {point: (times_ns, times_ns) for point, times_ns in truth.time_ns.items()}
    found[Point(first, "arrivals")] = truth.sent_ns, truth.handed_ns
    found[Point(last, "departures")] = truth.received_ns, truth.received_ns
    if handling:
        for before, switch in pairwise(truth.path):
            called = handling[before]
            found[Point(switch, "arrivals")] = called.sending_ns, called.sent_ns
        come, _ = found[Point(last, "arrivals")]
        found[Point(last, "departures")] = come, truth.received_ns
    return found


def between_us(earlier: Interval, later: Interval) -> tuple[NDArray[np.float64], ...]:
    """Return min and max times between two passages of packets; NaN for packets that missed one."""
    known = np.logical_and.reduce([times != NEVER for times in (*earlier, *later)])
    min_ns, max_ns = later[0] - earlier[1], later[1] - earlier[0]
    return tuple(np.where(known, span_ns / 1000, np.nan) for span_ns in (min_ns, max_ns))


def steps(
    truth: Truth, handling: Mapping[str, Handling], delays_us: Sequence[float]
) -> dict[str, tuple[Times, Times]]:
    """Return pairs of (earlier, later) times for each step of a packet along the path.

    A key is the name of a check: it describes packets that violate the order of this step.
    `delays_us` are the delays of the links between switches.
    """
    found: dict[str, tuple[Times, Times]] = {}
    before = (truth.sent_ns, truth.handed_ns)
    for switch, link_us in zip(truth.path, [*delays_us, 0.0], strict=True):
        arrived, left = (truth.time_ns[Point(switch, name)] for name in ("arrivals", "departures"))
        own = handling[switch]
        free = np.where(left == NEVER, NEVER, left + round(1000 * link_us))
        found |= {
            f"at {switch} before their send call": (before[0], arrived),
            f"at {switch} after their send call": (arrived, before[1]),
            f"taken by {switch} before arrival": (arrived, own.taken_ns),
            f"leaving {switch} before they were taken": (own.taken_ns, left),
            f"sent by {switch} before departure plus link delay": (free, own.sending_ns),
        }
        before = own.sending_ns, own.sent_ns
    kernel_ns = truth.received_ns
    found |= {
        f"received before departure from {truth.path[-1]}": (left, kernel_ns),
        f"received after the send call of {truth.path[-1]}": (kernel_ns, own.sent_ns),
    }
    return found


def order_checks(found: Mapping[str, Sequence[tuple[Times, Times]]]) -> list[Check]:
    """Check the order of times of each step for every packet; keys describe violations."""
    checks = []
    for what, pairs in found.items():
        wrong = 0
        for earlier, later in pairs:
            # if the later event happened, the earlier event must have happened, too
            came = later != NEVER
            wrong += int(np.count_nonzero(came & ((earlier > later) | (earlier == NEVER))))
        checks.append(Check(f"packets {what}", wrong, 0))
    return checks


def widths(truth: Truth, handling: Mapping[str, Handling]) -> dict[str, NDArray[np.float64]]:
    """Return timestamp uncertainties (us) at the start and the end of the path."""
    first, last = truth.path[0], truth.path[-1]
    left = truth.time_ns[Point(last, "departures")]
    spans = {
        f"arrival at {first}": (truth.sent_ns, truth.handed_ns),
        f"departure from {last}": (left, handling[last].sent_ns),
    }
    came = truth.passed(Point(first, "arrivals")), truth.passed(Point(last, "departures"))
    return {
        name: (after - before)[passed] / 1000
        for (name, (before, after)), passed in zip(spans.items(), came, strict=True)
    }


def width_metrics(found: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, float]]:
    """Return percentiles of timestamp uncertainties."""
    return {
        f"{name}: timestamp uncertainty (us)": statistics.percentiles(w)
        for name, w in found.items()
    }
