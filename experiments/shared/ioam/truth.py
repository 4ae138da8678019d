"""Ground truth of packets at the nodes of the path, from captures of switch ports.

The IPv6 flow label numbers the packets. There are no captures at Linux routers, so captures of
their neighbours bound their times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from telemark.accounting import pcap
from telemark.network import Network

NEVER = -1
Interval = tuple[NDArray[np.int64], NDArray[np.int64]]
LABEL_MASK = 0xFFFFF
IPV6 = (0x86, 0xDD)
UNIQUE_LOCAL = (0xFD, 0x00)  # start of the source addresses of packets and tunnels


@dataclass(frozen=True)
class NodeTruth:
    """Bounds of the true values of each packet at one node, by packet number.

    `arrived_ns` and `left_ns` are times of CLOCK_MONOTONIC. `queued` is the number of packets that
    waited at the egress port when the packet arrived. NEVER means that the packet did not pass.
    """

    arrived_ns: Interval
    left_ns: Interval
    queued: Interval


def read_times(path: Path, count: int) -> NDArray[np.int64]:
    """Return the time of each packet in a capture, in ns; NEVER for packets not in it."""
    frames = pcap.read(path)
    # Linux may also send packets of its own, whose sources are link-local.
    is_ours = (frames.bytes[:, 12:14] == IPV6).all(axis=1)
    is_ours &= (frames.bytes[:, 22:24] == UNIQUE_LOCAL).all(axis=1)
    labels = np.ascontiguousarray(frames.bytes[is_ours, 14:18]).view(">u4")[:, 0] & LABEL_MASK
    times = np.full(count, NEVER, np.int64)
    times[labels] = frames.time_ns[is_ours]
    return times


def read_truth(
    net: Network, path: Sequence[str], count: int, *, stamped: bool, clock_error_ns: int | None
) -> list[NodeTruth]:
    """Return ground truth for each node of the path; the network must have stopped.

    `stamped`: True in real time, if the network has a stamp log. `clock_error_ns` is for bmv2: the
    known error of its clocks. bmv2 stamps packets at any time while they are inside bmv2.
    """
    found = []
    for around in zip(["h1", *path[:-1]], path, [*path[1:], "h2"], strict=True):
        if around[1] not in net.topo.switches():
            found.append(_linux(net, around, count, stamped=stamped))
        elif clock_error_ns is not None:
            found.append(_bmv2(net, around, count, clock_error_ns))
        else:
            found.append(_minip4(net, around, count, stamped=stamped))
    return found


Around = tuple[str, str, str]  # a node, between the nodes before and after it


def _linux(net: Network, around: Around, count: int, *, stamped: bool) -> NodeTruth:
    before, node, after = around
    sent = read_times(net.capture(before, node, "sending" if stamped else "out"), count)
    got = read_times(net.capture(after, node, "in"), count)
    none = np.zeros(count, np.int64)
    return NodeTruth((sent, got), (sent, got), (none, none))


def _minip4(net: Network, around: Around, count: int, *, stamped: bool) -> NodeTruth:
    before, node, after = around
    arrived = read_times(net.capture(node, before, "in"), count)
    taken = read_times(net.capture(node, before, "taken" if stamped else "in"), count)
    left = read_times(net.capture(node, after, "out"), count)
    queued = _queued(taken, left), _queued(arrived, left)
    return NodeTruth((arrived, arrived), (left, left), queued)


def _bmv2(net: Network, around: Around, count: int, error_ns: int) -> NodeTruth:
    before, node, after = around
    into = read_times(net.capture(node, before, "out", inner=True), count)
    out = read_times(net.capture(node, after, "in", inner=True), count)
    times = (into - error_ns, out + error_ns)
    return NodeTruth(times, times, (np.zeros(count, np.int64), _queued(into, out)))


def _queued(arrived_ns: NDArray[np.int64], left_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each packet how many packets were in front of it in the queue at its arrival."""
    passed = np.sort(left_ns[left_ns != NEVER])
    place = np.searchsorted(passed, left_ns)
    return np.maximum(place - np.searchsorted(passed, arrived_ns, "right"), 0)
