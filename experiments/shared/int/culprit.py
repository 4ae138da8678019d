"""Which queue was the longest, and who filled it: by reports of INT alone."""

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
    """SIGHTING: a row each time that a packet came to a queue, as switches told; by time.

    `flow` is its destination port, `bits` those of the IP packet that was reported.
    """
    count = kept.reports["hops"].astype(np.int64)
    of = kept.reports[np.repeat(np.arange(len(count)), count)]
    place = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)  # on the path
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
    """The queue that was the longest of all, and what came to it, from when it was last empty until
    it was so long: `came`, SIGHTING; before that `usual` came."""

    node: int
    egress: int
    usual: NDArray[np.void]
    came: NDArray[np.void]

    @classmethod
    def of(cls, seen: NDArray[np.void]) -> "Culprit":
        """Of all sightings."""
        worst = seen[np.argmax(seen["occupancy"])]
        there = seen[(seen["node"] == worst["node"]) & (seen["egress"] == worst["egress"])]
        grown = there["time_ns"] <= worst["time_ns"]
        is_empty = grown & (there["occupancy"] == 0)
        since_ns = there["time_ns"][is_empty].max(initial=there["time_ns"][0])
        usual = there["time_ns"] < since_ns
        return cls(int(worst["node"]), int(worst["egress"]), there[usual], there[grown & ~usual])

    @cached_property
    def more_bps(self) -> dict[int, float]:
        """By how much more each flow sent than before, bits a second."""
        flows = np.unique(self.came["flow"]).tolist()
        return {flow: _rate_bps(self.came, flow) - _rate_bps(self.usual, flow) for flow in flows}

    @property
    def flow(self) -> int:
        """Which of them it was."""
        return max(self.more_bps, key=lambda flow: self.more_bps[flow])


def _rate_bps(seen: NDArray[np.void], flow: int) -> float:
    if len(seen) < 2:
        return 0.0
    lasts_ns = int(seen["time_ns"][-1] - seen["time_ns"][0])
    return 1e9 * float(seen["bits"][seen["flow"] == flow].sum()) / max(lasts_ns, 1)
