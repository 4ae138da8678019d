"""The longest queue and the flow that filled it, from INT reports alone."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from experiments.shared.int.reports import Kept

SIGHTING = np.dtype([
    ("time_ns", "<i8"), ("node", "<u4"), ("egress", "<u2"), ("occupancy", "<i8"),
    ("flow", "<u2"), ("bits", "<i8"),
])  # fmt: skip


def sightings(kept: Kept) -> NDArray[np.void]:
    """Return a SIGHTING for each reported arrival of a packet at a queue, ordered by time.

    `flow` is the destination port, `bits` the size of the reported IP packet.
    """
    count = kept.reports["hops"].astype(np.int64)
    of = kept.reports[np.repeat(np.arange(len(count)), count)]
    place = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)  # position on the path
    hops = kept.hops[of["first_hop"].astype(np.int64) + place]
    rows = np.zeros(len(of), SIGHTING)
    rows["time_ns"] = hops["ingress_ns"]
    for name in ("node", "egress", "occupancy"):
        rows[name] = hops[name]
    rows["flow"] = of["key"]["destination_port"]
    rows["bits"] = 8 * of["ip_length"].astype(np.int64)
    return rows[np.argsort(rows["time_ns"], kind="stable")]


@dataclass(frozen=True)
class Culprit:
    """Longest queue and the packets that arrived at it.

    `arrived` (SIGHTING) are the arrivals since the queue was last empty, until its max. `usual` are
    the arrivals before that.
    """

    node: int
    egress: int
    usual: NDArray[np.void]
    arrived: NDArray[np.void]

    @classmethod
    def of(cls, seen: NDArray[np.void]) -> "Culprit":
        """Find the longest queue in all sightings."""
        worst = seen[np.argmax(seen["occupancy"])]
        there = seen[(seen["node"] == worst["node"]) & (seen["egress"] == worst["egress"])]
        grown = there["time_ns"] <= worst["time_ns"]
        is_empty = grown & (there["occupancy"] == 0)
        since_ns = there["time_ns"][is_empty].max(initial=there["time_ns"][0])
        usual = there["time_ns"] < since_ns
        return cls(int(worst["node"]), int(worst["egress"]), there[usual], there[grown & ~usual])

    @cached_property
    def more_bps(self) -> dict[int, float]:
        """Return by how many bits/s the rate of each flow increased."""
        flows = np.unique(self.arrived["flow"]).tolist()
        return {flow: _rate_bps(self.arrived, flow) - _rate_bps(self.usual, flow) for flow in flows}

    @property
    def flow(self) -> int:
        """The flow with the largest rate increase."""
        return max(self.more_bps, key=lambda flow: self.more_bps[flow])


def _rate_bps(seen: NDArray[np.void], flow: int) -> float:
    if len(seen) < 2:
        return 0.0
    lasts_ns = int(seen["time_ns"][-1] - seen["time_ns"][0])
    return 1e9 * float(seen["bits"][seen["flow"] == flow].sum()) / max(lasts_ns, 1)
