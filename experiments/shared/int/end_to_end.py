"""From veth to veth: do hop and link latencies, as told, account for what the kernels saw?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.shared.int.reports import Told
from experiments.shared.int.truth import NEVER, SwitchTransit, read
from telemark.network import Network
from telemark.traffic.flows import Flow, FlowRecord

Interval = tuple[NDArray[np.int64], NDArray[np.int64]]
RESOLUTION_NS = 1000  # of stamps: told sums begin and end with one that was rounded down


@dataclass(frozen=True)
class Accounts:
    """Of each packet that was received and reported, in the order of sending; all in ns.

    INT does not see what comes behind the last switch's egress timestamp: its link to the host, and
    how late its thread hands over what has come out of that.
    """

    whole: NDArray[np.int64]  # between the kernels' stamps at the sender's and the receiver's veth
    hops: NDArray[np.int64]  # sum of the told latencies
    links: NDArray[np.int64]  # sum of what lies between two told times, of neighbours
    min_unseen: NDArray[np.int64]
    max_unseen: NDArray[np.int64]

    @property
    def residual(self) -> NDArray[np.int64]:
        """What hops and links do not account for."""
        return self.whole - self.hops - self.links

    @property
    def unaccounted_frames(self) -> int:
        """Packets whose residual is another than what INT does not see."""
        low, high = self.min_unseen - RESOLUTION_NS, self.max_unseen + RESOLUTION_NS
        return int(np.sum((self.residual <= low) | (self.residual >= high)))


def read_accounts(
    told: Told, truth: Sequence[SwitchTransit], record: FlowRecord, unseen_ns: Interval
) -> Accounts:
    """Of a flow. `unseen_ns`: the least and the most that INT does not see, of each packet."""
    received_ns = np.zeros(record.flow.count, np.int64)
    received_ns[record.received["sequence"]] = record.received["received_ns"]
    known = told.is_reported & (received_ns > 0)
    hops = {name: told.hops[name].astype(np.int64)
            for name in ("latency_ns", "ingress_ns", "egress_ns")}  # fmt: skip
    links = hops["ingress_ns"][:, 1:] - hops["egress_ns"][:, :-1]
    return Accounts(
        whole=(received_ns - truth[0].came_ns)[known],
        hops=hops["latency_ns"].sum(axis=1)[known],
        links=links.sum(axis=1)[known],
        min_unseen=unseen_ns[0][known],
        max_unseen=unseen_ns[1][known],
    )


def behind(times_ns: Interval, last: SwitchTransit) -> Interval:
    """How much later than packets left the last switch."""
    min_ns, max_ns = (each - last.left_ns for each in times_ns)
    return min_ns, max_ns


def handed_over(net: Network, flow: Flow, last: str) -> Interval:
    """Between which times each packet of a flow came to its host's veth, behind the switch `last`;
    in real time, of a network with a stamp log: the call that hands it over begins before that, and
    ends after it. NEVER: it did not."""
    times = []
    for what in ("sending", "sent"):
        frames = read(net.capture(last, flow.destination, what))
        ours = frames[frames["port"] == flow.port]
        times.append(np.full(flow.count, NEVER, np.int64))
        times[-1][ours["number"]] = ours["time_ns"]
    return times[0], times[1]
