"""What really happened to packets at switches: by captures of their ports."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
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
    """A flow at one switch. All arrays have an element for each packet, in the order of sending."""

    came_ns: NDArray[np.int64]  # NEVER: it did not; and so with the others
    left_ns: NDArray[np.int64]
    # Packets that waited in the queue when it came to it. Of one that left it at that very
    # nanosecond captures do not tell, nor in real time of those that left it until the switch had
    # taken it in: so the least, and the most.
    min_queued: NDArray[np.int64]
    max_queued: NDArray[np.int64]

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Which packets left the switch."""
        return self.left_ns != NEVER


EMPTY_QUEUES = "links are shaped behind it, and so its own queues stay empty"


def require_minip4(run: Run, why: str) -> None:
    """Raise TestbedError where the experiment asks for what is not to be had of bmv2."""
    if run.target == "bmv2":
        raise TestbedError(f"--target bmv2: {why}; take --target minip4")


@dataclass(frozen=True)
class Queue:
    """All that left a switch for one of its neighbours, in the order in which it did. Arrays as
    those of Passage."""

    left: NDArray[np.void]  # FRAME
    came_ns: NDArray[np.int64]
    min_queued: NDArray[np.int64]
    max_queued: NDArray[np.int64]

    def passage(self, flow: Flow) -> SwitchTransit:
        """What there is of a flow."""
        ours = self.left["port"] == flow.port
        fields = self.came_ns, self.left["time_ns"], self.min_queued, self.max_queued
        arrays = [np.full(flow.count, NEVER, np.int64) for _ in fields]
        for array, values in zip(arrays, fields, strict=True):
            array[self.left["number"][ours]] = values[ours]
        return SwitchTransit(*arrays)


def read_queue(net: Network, switch: str, after: str, *, stamped: bool) -> Queue:
    """Of a port with one queue, that packets leave in the order in which they came, when the net
    has ended. So those wait before a packet that left before it, and after it had come.

    `stamped`: in real time, of a network with a stamp log.

    Captures are cut where INT may hide a packet's sequence number. So here the n-th packet of a
    flow is the n-th that comes and leaves: for networks that neither lose packets nor change their
    order, which the receiver's records tell.
    """
    left = read(net.capture(switch, after, "out"))
    came, taken = (_all_that(net, switch, what) for what in ("in", "taken" if stamped else "in"))
    which = np.searchsorted(came[["port", "number"]], left[["port", "number"]])
    came_ns, taken_ns = came["time_ns"][which], taken["time_ns"][which]
    order = np.arange(len(left))
    least = np.maximum(order - np.searchsorted(left["time_ns"], taken_ns, "right"), 0)
    most = np.maximum(order - np.searchsorted(left["time_ns"], came_ns, "left"), 0)
    return Queue(left, came_ns, least, most)


def read_passages(
    net: Network, flow: Flow, path: Sequence[str], *, stamped: bool
) -> list[SwitchTransit]:
    """Of a flow at each switch of its path (the first one first): see read_queue()."""
    return [
        read_queue(net, switch, after, stamped=stamped).passage(flow)
        for _, switch, after in around(flow, path)
    ]


def around(flow: Flow, path: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each switch of a flow's path between what comes before and after it."""
    nodes = [flow.source, *path, flow.destination]
    return [*zip(nodes, nodes[1:], nodes[2:], strict=False)]


def _all_that(net: Network, switch: str, what: str) -> NDArray[np.void]:
    """What captures of all ports of a switch have, by port and number."""
    found = np.concatenate([read(net.capture(switch, n, what)) for n in net.neighbours(switch)])
    return found[np.argsort(found[["port", "number"]])]


def read(path: Path) -> NDArray[np.void]:
    """The UDP datagrams of a capture: FRAME, in order of time; numbered by destination port."""
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
