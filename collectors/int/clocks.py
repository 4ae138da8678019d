"""Clock offsets between neighbouring switches, from links that packets crossed in both directions.

The measured latency of a link is its actual latency plus the clock offset of its two ends. Half of
the difference between the minimum latencies in both directions is the offset. It is exact if both
directions are equally fast, and otherwise wrong by half of their difference. Since no latency is
negative, the error is at most half of the sum.
"""

from itertools import pairwise
from typing import NamedTuple

from collectors.int.application import Findings


class ClockOffset(NamedTuple):
    """Clock offset of two neighbours: the clock of `after` is ahead of that of `before`."""

    before: int  # node ids
    after: int
    ahead_ns: float
    error_ns: float  # maximum, in addition to the timestamp resolution


def clock_offsets(findings: Findings) -> list[ClockOffset]:
    """Return the offsets of all neighbours between which packets went both ways, by node id.

    Assumes that clocks run at the same rate. Needs the ingress and egress times of each hop.
    """
    min_ns: dict[tuple[int, int], int] = {}
    for flow in findings.flows:
        for before, after in pairwise(flow["path"][: flow["hops"]]):
            link = after["link_ns"]
            if link["count"]:
                ends = int(before["node"]), int(after["node"])
                min_ns[ends] = min(int(link["min"]), min_ns.get(ends, int(link["min"])))
    return [
        ClockOffset(one, other, (there - min_ns[other, one]) / 2,
                    (there + min_ns[other, one]) / 2)
        for (one, other), there in sorted(min_ns.items())
        if one < other and (other, one) in min_ns
    ]  # fmt: skip
