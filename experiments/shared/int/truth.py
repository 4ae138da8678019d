"""Ground truth of packets at switches, from captures of their ports."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from telemark.accounting import pcap
from telemark.network import Network
from telemark.traffic.flows import Flow

NEVER = -1
IPV4, UDP = (0x08, 0x00), 17
ETHERTYPE, IDENTIFICATION, PROTOCOL, PORT = 12, 18, 23, 36  # offsets in a frame
FRAME = np.dtype([
    ("time_ns", "<i8"), ("length", "<i8"), ("identification", "<u2"), ("port", "<u2"),
    ("number", "<i8"),
])  # fmt: skip


@dataclass(frozen=True)
class SwitchTransit:
    """Packets of one flow at one switch; arrays are in the order of sending."""

    arrived_ns: NDArray[np.int64]  # in all arrays, NEVER means that the packet did not leave
    left_ns: NDArray[np.int64]
    # Bounds of the queue length on arrival. The bounds differ if another packet left in the same
    # nanosecond. In real time the bounds also differ if a packet left before the switch received
    # the arriving packet from its socket.
    min_queued: NDArray[np.int64]
    max_queued: NDArray[np.int64]

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Packets that left the switch."""
        return self.left_ns != NEVER


@dataclass(frozen=True)
class Queue:
    """All packets that left a switch for one neighbour, in order; arrays as in SwitchTransit."""

    left: NDArray[np.void]  # frames, as rows of type FRAME
    arrived_ns: NDArray[np.int64]
    min_queued: NDArray[np.int64]
    max_queued: NDArray[np.int64]

    def passage(self, flow: Flow) -> SwitchTransit:
        """Return the transit of the packets of one flow."""
        ours = self.left["port"] == flow.port
        fields = self.arrived_ns, self.left["time_ns"], self.min_queued, self.max_queued
        arrays = [np.full(flow.count, NEVER, np.int64) for _ in fields]
        for array, values in zip(arrays, fields, strict=True):
            array[self.left["number"][ours]] = values[ours]
        return SwitchTransit(*arrays)


def read_queue(net: Network, switch: str, after: str, *, stamped: bool) -> Queue:
    """Return the packets of a port with one FIFO queue; the network must have stopped.

    The queue that a packet met consists of the packets that left before it, but after its arrival.
    `stamped`: True in real time, if the network has a stamp log.

    Captures are truncated, and the sequence number of a packet with INT may be in the truncated
    part. Therefore packets are numbered in the order of capture. The order is right only if the
    network neither loses nor reorders packets. The records of the receiver show whether the network
    does so.
    """
    left = read(net.capture(switch, after, "out"))
    arrived, taken = (_all_that(net, switch, what) for what in ("in", "taken" if stamped else "in"))
    which = np.searchsorted(arrived[["port", "number"]], left[["port", "number"]])
    arrived_ns, taken_ns = arrived["time_ns"][which], taken["time_ns"][which]
    order = np.arange(len(left))
    low = np.maximum(order - np.searchsorted(left["time_ns"], taken_ns, "right"), 0)
    high = np.maximum(order - np.searchsorted(left["time_ns"], arrived_ns, "left"), 0)
    return Queue(left, arrived_ns, low, high)


def read_passages(
    net: Network, flow: Flow, path: Sequence[str], *, stamped: bool
) -> list[SwitchTransit]:
    """Return the transits of a flow at each switch of its path, in order; see read_queue()."""
    return [
        read_queue(net, switch, after, stamped=stamped).passage(flow)
        for _, switch, after in around(flow, path)
    ]


def around(flow: Flow, path: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return each switch of a flow's path with the nodes before and after it."""
    nodes = [flow.source, *path, flow.destination]
    return [*zip(nodes, nodes[1:], nodes[2:], strict=False)]


def _all_that(net: Network, switch: str, what: str) -> NDArray[np.void]:
    """Return the captured packets of all ports of a switch, sorted by UDP port and number."""
    found = np.concatenate([read(net.capture(switch, n, what)) for n in net.neighbours(switch)])
    return found[np.argsort(found[["port", "number"]])]


def read(path: Path) -> NDArray[np.void]:
    """Return the UDP datagrams (FRAME) of a capture in order of time, numbered per UDP port."""
    frames = pcap.read(path)
    data = frames.bytes
    is_udp = (data[:, ETHERTYPE : ETHERTYPE + 2] == IPV4).all(axis=1)
    is_udp &= data[:, PROTOCOL] == UDP
    found = np.zeros(np.count_nonzero(is_udp), FRAME)
    found["time_ns"], found["length"] = frames.time_ns[is_udp], frames.length[is_udp]
    for name, at in (("identification", IDENTIFICATION), ("port", PORT)):
        found[name] = np.ascontiguousarray(data[is_udp, at : at + 2]).view(">u2")[:, 0]
    order = np.argsort(found["port"], kind="stable")
    _, first, counts = np.unique(found["port"][order], return_index=True, return_counts=True)
    found["number"][order] = np.arange(len(found)) - np.repeat(first, counts)
    return found
