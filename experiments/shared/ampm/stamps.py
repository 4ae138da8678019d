"""When packets were where, as others say than the switch that stamps them, and in which order.

In real time the clock that is read before and after each call that hands a frame over, by hosts and
by switches, encloses the moment at which the frame is at the other end of a veth. So there is no
tolerance: all times of a packet are in the order in which they happened, or a stamp is wrong. A
busy machine makes enclosures wider, and never breaks them.
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

Times = NDArray[np.int64]  # ns by sequence number; NEVER: it did not happen


@dataclass(frozen=True)
class Handling:
    """When one switch handled the packets of a flow: by its thread, not by its stamps."""

    taken_ns: Times  # from the ring in which they had arrived; on bmv2, arrived from it
    sending_ns: Times  # the call that hands them over, behind the link, began ...
    sent_ns: Times  # ... and ended


def read_handling(
    net: Network, flows: Sequence[Flow], path: Sequence[str]
) -> dict[int, dict[str, Handling]]:
    """Of each flow, by its id, and each switch of its path; of a network with a stamp log."""
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
    """Between which times a bmv2 can have stamped each packet: while it was inside, behind the
    panel, and as far as its clock is known. Of each flow, by its id, and each switch of its path.

    A frame goes in after its panel has stamped it, and is out when it is at the panel's end.
    """
    found: dict[int, dict[str, Interval]] = {flow.id: {} for flow in flows}
    for (source, destination), some in _by_hosts(flows).items():
        nodes = [source, *path, destination]
        for before, switch, after in zip(nodes, nodes[1:], nodes[2:], strict=False):
            went, came = (
                pcap.read_flows(net.capture(switch, neighbour, what, inner=True), some)
                for neighbour, what in ((before, "out"), (after, "in"))
            )
            error_ns = round(1000 * (clock_errors_us[switch] + RESOLUTION_US))
            for flow in some:
                into, out = (np.full(flow.count, NEVER, np.int64) for _ in range(2))
                into[went[flow.id].sequence] = went[flow.id].time_ns - error_ns
                out[came[flow.id].sequence] = came[flow.id].time_ns + error_ns
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
    """Between which times each packet was at the points of its path, by all but their own stamps.

    Without `handling`, in virtual time, sending takes none, and so does all but links and queues.
    `inside`: of bmv2s, both of whose stamps lie there.
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
    """The least and the most that lies between two passages; NaN where there is none of either."""
    known = np.logical_and.reduce([times != NEVER for times in (*earlier, *later)])
    min_ns, max_ns = later[0] - earlier[1], later[1] - earlier[0]
    return tuple(np.where(known, span_ns / 1000, np.nan) for span_ns in (min_ns, max_ns))


def steps(
    truth: Truth, handling: Mapping[str, Handling], delays_us: Sequence[float]
) -> dict[str, tuple[Times, Times]]:
    """What comes first, and what comes after it, of each step of the packets' way.

    `delays_us`: of the links between the switches, in their order.
    """
    found: dict[str, tuple[Times, Times]] = {}
    before = (truth.sent_ns, truth.handed_ns)
    for switch, link_us in zip(truth.path, [*delays_us, 0.0], strict=True):
        arrived, left = (truth.time_ns[Point(switch, name)] for name in ("arrivals", "departures"))
        own = handling[switch]
        free = np.where(left == NEVER, NEVER, left + round(1000 * link_us))
        found |= {
            f"arrived at {switch} before it was sent there": (before[0], arrived),
            f"arrived at {switch} after it had been sent there": (arrived, before[1]),
            f"taken in by {switch} before it arrived": (arrived, own.taken_ns),
            f"left {switch} before it was taken in": (own.taken_ns, left),
            f"sent by {switch} before it had left, and its link": (free, own.sending_ns),
        }
        before = own.sending_ns, own.sent_ns
    kernel_ns = truth.received_ns
    found |= {
        f"received before {truth.path[-1]} stamped it": (left, kernel_ns),
        f"received after {truth.path[-1]} had handed it over": (kernel_ns, own.sent_ns),
    }
    return found


def order_checks(found: Mapping[str, Sequence[tuple[Times, Times]]]) -> list[Check]:
    """Each step in its order, for every packet; of steps of many flows, by what is wrong else."""
    checks = []
    for what, pairs in found.items():
        wrong = 0
        for earlier, later in pairs:
            came = later != NEVER  # then it also did what comes first
            wrong += int(np.count_nonzero(came & ((earlier > later) | (earlier == NEVER))))
        checks.append(Check(f"packets {what}", wrong, 0))
    return checks


def widths(truth: Truth, handling: Mapping[str, Handling]) -> dict[str, NDArray[np.float64]]:
    """How wide the enclosures of stamps are, us: where packets enter the path and leave it."""
    first, last = truth.path[0], truth.path[-1]
    left = truth.time_ns[Point(last, "departures")]
    spans = {
        f"the arrival at {first}": (truth.sent_ns, truth.handed_ns),
        f"the departure from {last}": (left, handling[last].sent_ns),
    }
    came = truth.passed(Point(first, "arrivals")), truth.passed(Point(last, "departures"))
    return {
        name: (after - before)[passed] / 1000
        for (name, (before, after)), passed in zip(spans.items(), came, strict=True)
    }


def width_metrics(found: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, float]]:
    """Their percentiles."""
    return {
        f"{name}: width of its enclosure, us": statistics.percentiles(w)
        for name, w in found.items()
    }
