"""Ground truth of flows, packet by packet, independent of switches.

Captures show which points a packet passed. The block of a packet follows from its arrival time at
the first switch. The clock readings of the sender bound this time, because a frame reaches the
other end of a veth pair before the send call returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from telemark.accounting import pcap
from telemark.accounting.pcap import FlowFrames
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.traffic.flows import Flow, FlowRecord

NEVER = -1


@dataclass(frozen=True)
class Truth:
    """Ground truth of one flow; arrays have an element per sequence number."""

    path: Sequence[str]
    # correct block; NEVER if the packet did not arrive at the first switch
    block: NDArray[np.int64]
    pulse: NDArray[np.bool_]  # whether the packet left the first switch as a pulse
    # time at each point; NEVER if the packet did not pass it
    time_ns: dict[Point, NDArray[np.int64]]
    sent_ns: NDArray[np.int64]  # start of the send call
    handed_ns: NDArray[np.int64]  # end of the send call
    # time at which the kernel of the receiver got the packet; NEVER if it was lost
    received_ns: NDArray[np.int64]

    def passed(self, point: Point) -> NDArray[np.bool_]:
        """Return which packets passed a point."""
        return self.time_ns[point] != NEVER

    def packets(self, point: Point, blocks: range) -> NDArray[np.int64]:
        """Return how many packets of each block passed a point."""
        return self._count(self.passed(point), blocks)

    def lost(self, first: Point, second: Point, blocks: range) -> NDArray[np.int64]:
        """Return how many packets of each block passed the first point but not the second."""
        return self._count(self.passed(first) & ~self.passed(second), blocks)

    def delays_ns(self, first: Point, second: Point, block: int) -> NDArray[np.int64]:
        """Return the delays of all packets of a block that passed both points."""
        both = self.passed(first) & self.passed(second) & (self.block == block)
        return (self.time_ns[second] - self.time_ns[first])[both]

    def _count(self, chosen: NDArray[np.bool_], blocks: range) -> NDArray[np.int64]:
        within = chosen & (self.block >= blocks.start) & (self.block < blocks.stop)
        return np.bincount(self.block[within] - blocks.start, minlength=len(blocks))


def read_truths(
    net: Network, paths: Mapping[Flow, Sequence[str]], schedule: Schedule,
    methods: Method | Mapping[Flow, Method], records: Mapping[int, FlowRecord],
) -> dict[int, Truth]:  # fmt: skip
    """Return the ground truth of each flow, by flow id, after the network has stopped.

    `paths` maps a flow to the switches of its path, in order. `methods` is one method for all flows
    or one per flow. `records` are the records of hosts by flow id. The run is inconclusive if the
    block of a packet is ambiguous.
    """
    wanted: dict[Path, list[Flow]] = {}  # read each capture only once
    for flow, path in paths.items():
        for file in _captures(net, flow, path).values():
            wanted.setdefault(file, []).append(flow)
    found = {file: pcap.read_flows(file, flows) for file, flows in wanted.items()}
    truths = {}
    for flow, path in paths.items():
        frames = {point: found[file][flow.id] for point, file in _captures(net, flow, path).items()}
        times = {p: _by_sequence(flow, seen, seen.time_ns) for p, seen in frames.items()}
        marked = frames[Point(path[0], "departures")]
        # The queue is in the panel switch, and packets enter it after bmv2 has marked them. So the
        # capture behind bmv2 also has the marks of packets that the queue drops.
        if net.has_panels:
            _, after = [*path, flow.destination][:2]
            marked = pcap.read_flow(net.capture(path[0], after, "in", inner=True), flow)
        dscp = _by_sequence(flow, marked, marked.dscp)
        of_flow = methods if isinstance(methods, Method) else methods[flow]
        record = records[flow.id]
        sent_ns, handed_ns = (
            _by_sequence(flow, record.sent, record.sent[what]) for what in ("sent_ns", "handed_ns")
        )
        came = times[Point(path[0], "arrivals")], times[Point(path[0], "departures")]
        stamped = stamped_between(net, path[0], (sent_ns, handed_ns), came[1])
        colour = dscp & 1 if of_flow & (Method.STEP | Method.MULTIPLEXED) else None
        block = _blocks(stamped, came[0], colour, dscp != NEVER, schedule.block_us)
        inverted = Method.MULTIPLEXED in of_flow
        pulse = (dscp & 1 != block & 1) if inverted else (dscp & 2 != 0)
        block[came[0] == NEVER] = NEVER
        truths[flow.id] = Truth(
            path, block, pulse & (dscp != NEVER), times, sent_ns, handed_ns,
            _by_sequence(flow, record.received, record.received["received_ns"]),
        )  # fmt: skip
    return truths


def _captures(net: Network, flow: Flow, path: Sequence[str]) -> dict[Point, Path]:
    """Return the capture of each point: "in" for arrivals, and "out" for departures."""
    nodes = [flow.source, *path, flow.destination]
    files = {}
    for before, switch in pairwise(nodes[:-1]):
        files[Point(switch, "arrivals")] = net.capture(switch, before, "in")
    for switch, after in pairwise(nodes[1:]):
        files[Point(switch, "departures")] = net.capture(switch, after, "out")
    return files


def _by_sequence(
    flow: Flow, frames: FlowFrames | NDArray[np.void], values: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return one value per sequence number, NEVER if there is no frame."""
    found = np.full(flow.count, NEVER, np.int64)
    found[frames.sequence if isinstance(frames, FlowFrames) else frames["sequence"]] = values
    return found


Interval = tuple[NDArray[np.int64], NDArray[np.int64]]


def stamped_between(
    net: Network, first: str, sender: Interval, departed_ns: NDArray[np.int64]
) -> Interval:
    """Return the bounds of the timestamps of the first switch, in the common clock.

    The switch timestamps a packet during the send call. A switch with its own clock (bmv2) does so
    later, before the packet leaves.
    """
    before_ns, after_ns = sender
    error_ns = round(1000 * net.switch(first).clock_error_us)
    if error_ns:
        after_ns = np.maximum(after_ns, departed_ns)
    return before_ns - error_ns, after_ns + error_ns


def _blocks(
    stamped: Interval, captured_ns: NDArray[np.int64], colour: NDArray[np.int64] | None,
    is_known: NDArray[np.bool_], block_us: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the block in which the first switch timestamped each packet.

    If a block begins within the bounds of the timestamp, the colour of the packet decides. A packet
    has no colour if only pulse marking is used or if it was dropped; then the time of the capture
    decides.
    """
    earliest, latest = (time_ns // (1000 * block_us) for time_ns in stamped)
    block = np.clip(captured_ns // (1000 * block_us), earliest, latest)
    if colour is None:
        return block
    decided = (earliest != latest) & is_known
    if np.any(latest[decided] - earliest[decided] > 1):
        note_invalid("sending a packet took longer than a block")
    return np.where(decided, np.where(earliest & 1 == colour, earliest, latest), block)
