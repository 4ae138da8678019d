"""Clock offsets between neighbouring switches, from packets in both directions of a link.

The measured latency of a link is its actual latency plus the clock offset between its two ends. The
offset is half the difference between the minimum measured latencies of the two directions. It is
exact if both directions have the same latency; otherwise its error is half of the difference
between the latencies. Since no latency is negative, the error is at most half of the sum of both
actual latencies. The sum of both measured latencies has the same value.
"""

from itertools import pairwise
from typing import NamedTuple

from collectors.int.application import Findings


class ClockOffset(NamedTuple):
    """Clock offset: the clock of node `after` is ahead of the clock of its neighbour `before`."""

    before: int  # node ids
    after: int
    ahead_ns: float
    error_ns: float  # maximum error, in addition to the timestamp resolution


def clock_offsets(findings: Findings) -> list[ClockOffset]:
    """Return the clock offsets between neighbours with packets in both directions.

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
