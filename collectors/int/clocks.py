"""How far switches' clocks are apart: by links that packets crossed in both directions.

A link's latency, as told, is what the link took and how far the clock behind it is ahead of the one
before it. Of the least latencies there and back half the difference is the offset: exact where both
ways take as long, wrong by half of what they differ by. No way takes less than nothing, so it is
never wrong by more than half of their sum.
"""

from itertools import pairwise
from typing import NamedTuple

from collectors.int.application import Findings


class ClockOffset(NamedTuple):
    """Of two neighbours, in ns: the clock of `after` is ahead of that of `before`, by so much."""

    before: int  # node ids
    after: int
    ahead_ns: float
    error_ns: float  # at most, beside the stamps' own resolution


def clock_offsets(findings: Findings) -> list[ClockOffset]:
    """Of all neighbours between which packets went both ways, by node ids.

    Clocks are taken to keep pace with each other. Needs ingress and egress times of each hop.
    """
    min_ns: dict[tuple[int, int], int] = {}
    for flow in findings.flows:
        for before, after in pairwise(flow["path"][: flow["hops"]]):
            link = after["link_ns"]
            if link["count"]:
                ends = int(before["node"]), int(after["node"])
                min_ns[ends] = min(int(link["least"]), min_ns.get(ends, int(link["least"])))
    return [
        ClockOffset(one, other, (there - min_ns[other, one]) / 2,
                    (there + min_ns[other, one]) / 2)
        for (one, other), there in sorted(min_ns.items())
        if one < other and (other, one) in min_ns
    ]  # fmt: skip
