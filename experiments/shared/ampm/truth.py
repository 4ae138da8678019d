"""What really happened to flows, packet by packet, without asking a switch.

Captures say where packets were. Of which block they are says when they came to the first switch,
and that says their sender: a frame is at the other end of a veth before the call that sends it
returns.
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
from telemark.errors import InvalidRunError
from telemark.network import Network
from telemark.traffic.flows import Flow, FlowRecord

NEVER = -1


@dataclass(frozen=True)
class Truth:
    """One flow. All arrays have an element for each sequence number."""

    path: Sequence[str]
    block: NDArray[np.int64]  # as the first switch had to assign it; NEVER: it did not come there
    pulse: NDArray[np.bool_]  # it left the first switch as a pulse
    time_ns: dict[Point, NDArray[np.int64]]  # when it was at a point; NEVER: it was not
    sent_ns: NDArray[np.int64]  # before its sender's call ...
    handed_ns: NDArray[np.int64]  # ... and after it
    received_ns: NDArray[np.int64]  # when its receiver's kernel had it; NEVER: it did not

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
    methods: Method | Mapping[Flow, Method], records: Mapping[int, FlowRecord],
) -> dict[int, Truth]:  # fmt: skip
    """The truth about each flow, by its id, along its path (its switches, the first one first).

    When the network has ended. `methods`: of all flows, or of each. `records`: of their hosts, by
    the flows' ids. Raises TestbedError when it cannot be told of which block a packet is.
    """
    wanted: dict[Path, list[Flow]] = {}  # so that each capture is read once
    for flow, path in paths.items():
        for file in _captures(net, flow, path).values():
            wanted.setdefault(file, []).append(flow)
    found = {file: pcap.read_flows(file, flows) for file, flows in wanted.items()}
    truths = {}
    for flow, path in paths.items():
        frames = {point: found[file][flow.id] for point, file in _captures(net, flow, path).items()}
        times = {p: _by_sequence(flow, seen, seen.time_ns) for p, seen in frames.items()}
        marked = frames[Point(path[0], "departures")]
        if net.has_panels:  # behind which queues are: what they drop has its mark already
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
    """The capture of each point: what comes in arrives, what goes out, before the link, departs."""
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
    """A value for each sequence number; NEVER where there is no frame."""
    found = np.full(flow.count, NEVER, np.int64)
    found[frames.sequence if isinstance(frames, FlowFrames) else frames["sequence"]] = values
    return found


Interval = tuple[NDArray[np.int64], NDArray[np.int64]]


def stamped_between(
    net: Network, first: str, sender: Interval, departed_ns: NDArray[np.int64]
) -> Interval:
    """Between which times of the common clock the first switch took a packet's stamp: while it was
    sent. One whose clock is not the common one takes it later, before the packet leaves."""
    before_ns, after_ns = sender
    error_ns = round(1000 * net.switch(first).clock_error_us)
    if error_ns:
        after_ns = np.maximum(after_ns, departed_ns)
    return before_ns - error_ns, after_ns + error_ns


def _blocks(
    stamped: Interval, captured_ns: NDArray[np.int64], colour: NDArray[np.int64] | None,
    is_known: NDArray[np.bool_], block_us: int,
) -> NDArray[np.int64]:  # fmt: skip
    """The first switch's block of each packet: that in which it was stamped.

    Where a block begins while a packet is stamped, its colour decides between the two; of one that
    has none (pulse marking alone, or it never left) the capture does.
    """
    earliest, latest = (time_ns // (1000 * block_us) for time_ns in stamped)
    block = np.clip(captured_ns // (1000 * block_us), earliest, latest)
    if colour is None:
        return block
    decided = (earliest != latest) & is_known
    if np.any(latest[decided] - earliest[decided] > 1):
        raise InvalidRunError("sending a packet took longer than a block")
    return np.where(decided, np.where(earliest & 1 == colour, earliest, latest), block)
