"""Clock offsets between neighbouring switches.

Offsets are computed from packets in both directions of a link.

The measured latency of a link is the actual latency plus the clock offset between the two ends. The
two directions have opposite clock offsets. So the estimated offset is half of the difference
between the minimum measured latencies of both directions. The estimate is exact if both directions
have the same actual latency. Otherwise, its error is half of the difference between the actual
latencies. No actual latency is negative, so the error is at most half of the sum of both actual
latencies. The sum of both measured latencies equals the sum of both actual latencies.
"""

from itertools import pairwise
from typing import NamedTuple

from collectors.int.application import Findings


class ClockOffset(NamedTuple):
    """Clock offset of node `after`: its clock is ahead of the clock of its neighbour `before`."""

    before: int  # node ids
    after: int
    ahead_ns: float
    error_ns: float  # maximum error, without the error from the resolution of timestamps


def clock_offsets(findings: Findings) -> list[ClockOffset]:
    """Return the clock offsets between all neighbours that have packets in both directions.

    The clocks must run at the same rate. Each hop needs an ingress time and an egress time.
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
