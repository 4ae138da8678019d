"""What really happened to flows, packet by packet: found in captures, without asking a switch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from testbed import capture
from testbed.capture import FlowFrames
from testbed.network import Network
from testbed.traffic import Flow

NEVER = -1
EDGE_US = 2  # around an edge, where a capture's time and the switch's may be on two sides of it


@dataclass(frozen=True)
class Truth:
    """One flow. All arrays have an element for each sequence number."""

    schedule: Schedule
    block: NDArray[np.int64]  # as the first switch assigned it; NEVER: it did not come there
    pulse: NDArray[np.bool_]  # it left the first switch as a pulse
    time_ns: dict[Point, NDArray[np.int64]]  # when it was at a point; NEVER: it was not

    def passed(self, point: Point) -> NDArray[np.bool_]:
        """Which packets were at a point."""
        return self.time_ns[point] != NEVER

    def packets(self, point: Point, blocks: range) -> NDArray[np.int64]:
        """How many packets of each block were at a point."""
        return self._count(self.passed(point), blocks)

    def lost(self, first: Point, second: Point, blocks: range) -> NDArray[np.int64]:
        """How many packets of each block were at the first point, and not at the second."""
        return self._count(self.passed(first) & ~self.passed(second), blocks)

    def delays_ns(self, first: Point, second: Point, block: int) -> NDArray[np.int64]:
        """What each packet of a block that was at both points took between them."""
        both = self.passed(first) & self.passed(second) & (self.block == block)
        return (self.time_ns[second] - self.time_ns[first])[both]

    def _count(self, chosen: NDArray[np.bool_], blocks: range) -> NDArray[np.int64]:
        within = chosen & (self.block >= blocks.start) & (self.block < blocks.stop)
        return np.bincount(self.block[within] - blocks.start, minlength=len(blocks))


def read_truths(
    net: Network, paths: Mapping[Flow, Sequence[str]], schedule: Schedule,
    methods: Method | Mapping[Flow, Method], first_offset_us: int = 0,
) -> dict[int, Truth]:  # fmt: skip
    """The truth about each flow, by its id, along its path (its switches, the first one first).

    When the network has ended. `methods`: of all flows, or of each. `first_offset_us` is how far
    the clocks of the first switches are ahead of the clock of the captures.
    """
    wanted: dict[Path, list[Flow]] = {}  # so that each capture is read once
    for flow, path in paths.items():
        for file in _captures(net, flow, path).values():
            wanted.setdefault(file, []).append(flow)
    found = {file: capture.read_flows(file, flows) for file, flows in wanted.items()}
    truths = {}
    for flow, path in paths.items():
        frames = {point: found[file][flow.id] for point, file in _captures(net, flow, path).items()}
        times = {p: _by_sequence(flow, seen, seen.time_ns) for p, seen in frames.items()}
        marked = frames[Point(path[0], "departures")]
        dscp = _by_sequence(flow, marked, marked.dscp)
        arrived_ns = times[Point(path[0], "arrivals")]
        of_flow = methods if isinstance(methods, Method) else methods[flow]
        # Captures of a target with clocks of its own are taken long before it stamps a frame.
        own_clock = net.switch(path[0]).clock_error_us > 0
        edge_us = schedule.block_us // 4 if own_clock else EDGE_US
        block = _blocks(arrived_ns // 1000 + first_offset_us, dscp, schedule, of_flow, edge_us)
        inverted = Method.MULTIPLEXED in of_flow
        pulse = (dscp & 1 != block & 1) if inverted else (dscp & 2 != 0)
        block[arrived_ns == NEVER] = NEVER
        truths[flow.id] = Truth(schedule, block, pulse & (dscp != NEVER), times)
    return truths


def _captures(net: Network, flow: Flow, path: Sequence[str]) -> dict[Point, Path]:
    """The capture of each point: what comes in arrives, what goes out, before the link, departs."""
    nodes = [flow.source, *path, flow.destination]
    files = {}
    for before, switch in pairwise(nodes[:-1]):
        files[Point(switch, "arrivals")] = net.capture(switch, before, "in")
    for switch, after in pairwise(nodes[1:]):
        files[Point(switch, "departures")] = net.capture(switch, after, "out")
    return files


def _by_sequence(flow: Flow, frames: FlowFrames, values: NDArray[np.integer]) -> NDArray[np.int64]:
    """A value for each sequence number; NEVER where there is no frame."""
    found = np.full(flow.count, NEVER, np.int64)
    found[frames.sequence] = values
    return found


def _blocks(
    arrived_us: NDArray[np.int64], dscp: NDArray[np.int64], schedule: Schedule, methods: Method,
    edge_us: int,
) -> NDArray[np.int64]:  # fmt: skip
    """The first switch's block of each packet: that in which it arrived.

    Its stamp and the capture's may lie on two sides of a block's edge: there, and no further than
    `edge_us` from it, the colour decides. All else that is coloured wrongly is an error.
    """
    block = arrived_us >> schedule.block_shift
    if not methods & (Method.STEP | Method.MULTIPLEXED):
        return block
    into_us = arrived_us & (schedule.block_us - 1)
    near_edge = np.minimum(into_us, schedule.block_us - into_us) < edge_us
    decided = near_edge & (dscp != NEVER)
    return np.where(decided, schedule.attribute(arrived_us, dscp & 1), block)
