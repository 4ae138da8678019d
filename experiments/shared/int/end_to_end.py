"""Comparison of the delay between the hosts' veth interfaces with INT's hop and link latencies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.shared.int.reports import ReportedHops
from experiments.shared.int.truth import NEVER, SwitchTransit, read
from telemark.network import Network
from telemark.traffic.flows import Flow, FlowRecord

Interval = tuple[NDArray[np.int64], NDArray[np.int64]]
RESOLUTION_NS = 1000  # resolution of timestamps, which are rounded down


@dataclass(frozen=True)
class Accounts:
    """Delay components of each received and reported packet, in the order of sending, in ns.

    INT does not measure the path after the egress timestamp of the last switch. This path consists
    of the link to the host and of the thread that delivers packets from this link.
    """

    whole: NDArray[
        np.int64
    ]  # between the kernel timestamps at the sender's and the receiver's veth
    hops: NDArray[np.int64]  # sum of the reported hop latencies
    links: NDArray[np.int64]  # sum of the link latencies, from the reported times of neighbours
    min_unseen: NDArray[np.int64]
    max_unseen: NDArray[np.int64]

    @property
    def residual(self) -> NDArray[np.int64]:
        """Host-to-host delay minus hop and link latencies."""
        return self.whole - self.hops - self.links

    @property
    def unaccounted_frames(self) -> int:
        """Count packets whose residual differs from the part that INT does not measure."""
        low, high = self.min_unseen - RESOLUTION_NS, self.max_unseen + RESOLUTION_NS
        return int(np.sum((self.residual <= low) | (self.residual >= high)))


def read_accounts(
    reported: ReportedHops, truth: Sequence[SwitchTransit], record: FlowRecord, unseen_ns: Interval
) -> Accounts:
    """Return the delay components of a flow; `unseen_ns` bounds the delay that INT omits."""
    received_ns = np.zeros(record.flow.count, np.int64)
    received_ns[record.received["sequence"]] = record.received["received_ns"]
    known = reported.is_reported & (received_ns > 0)
    hops = {name: reported.hops[name].astype(np.int64)
            for name in ("latency_ns", "ingress_ns", "egress_ns")}  # fmt: skip
    links = hops["ingress_ns"][:, 1:] - hops["egress_ns"][:, :-1]
    return Accounts(
        whole=(received_ns - truth[0].arrived_ns)[known],
        hops=hops["latency_ns"].sum(axis=1)[known],
        links=links.sum(axis=1)[known],
        min_unseen=unseen_ns[0][known],
        max_unseen=unseen_ns[1][known],
    )


def behind(times_ns: Interval, last: SwitchTransit) -> Interval:
    """Return times relative to the departure of each packet from the last switch."""
    min_ns, max_ns = (each - last.left_ns for each in times_ns)
    return min_ns, max_ns


def handed_over(net: Network, flow: Flow, last: str) -> Interval:
    """Return the bounds of each packet's arrival at the veth interface of the receiving host.

    `last` is the last switch. In real time, the bounds are the start and the end of its send call,
    from the stamp log. The bounds are NEVER if the packet was not delivered.
    """
    times = []
    for what in ("sending", "sent"):
        frames = read(net.capture(last, flow.destination, what))
        ours = frames[frames["port"] == flow.port]
        times.append(np.full(flow.count, NEVER, np.int64))
        times[-1][ours["number"]] = ours["time_ns"]
    return times[0], times[1]
