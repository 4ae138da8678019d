"""FREQUENT: the frequent flows in a sliding window.

Golab et al., IMC 2003, section 3.

A window consists of basic windows. In each basic window, the kernel counts every flow, and user
space stores a summary: the flows with the most packets. In this basic window, a flow that is not in
the summary has at most as many packets as the smallest flow in the summary. delta is the sum of
these bounds over the window. Consider a flow with f packets in the window, of which `reported` are
in summaries. Then

f - delta <= reported <= f,

a reported flow (above delta) has more than delta packets, and every flow with more than 2 delta
packets is reported.

Two details differ from the paper. First, if a summary contains all flows, the bound for other flows
is 0. Second, if the table in the kernel was full, the number of packets of uncounted flows is added
to the bound. So the guarantees apply to any table size.
"""

from collections import Counter, deque
from dataclasses import dataclass

from ebpf.statistics.flows import Flows


@dataclass(frozen=True)
class Summary:
    """The largest flows of a basic window.

    No other flow has more than `bound` packets.
    """

    counts: dict[bytes, int]
    bound: int


class Frequent:
    """Summaries of the last `windows` basic windows. Each contains `listed` flows."""

    def __init__(self, listed: int, windows: int) -> None:
        self._listed = listed
        self._summaries: deque[Summary] = deque()
        self._windows = windows
        self.delta = 0
        self._counts: Counter[bytes] = Counter()

    def add(self, flows: Flows, uncounted: int = 0) -> None:
        """Add a basic window.

        `uncounted` is the number of packets of the flows for which the kernel's table had no room.
        """
        top = flows.top(self._listed)
        least = int(top.counts[-1]) if len(flows) > len(top) else 0
        self._put(Summary(top.as_dict(), least + uncounted))
        if len(self._summaries) > self._windows:
            self._drop(self._summaries.popleft())

    def _put(self, summary: Summary) -> None:
        self._summaries.append(summary)
        self.delta += summary.bound
        self._counts.update(summary.counts)

    def _drop(self, summary: Summary) -> None:
        self.delta -= summary.bound
        self._counts.subtract(summary.counts)
        self._counts = +self._counts  # removes flows whose count is 0

    def reported(self) -> dict[bytes, int]:
        """Return each flow whose count exceeds delta, with a lower bound of its packet count.

        Keys of flows are bytes.
        """
        return {flow: count for flow, count in self._counts.items() if count > self.delta}

    def at_most(self, flow: bytes) -> int:
        """Return an upper bound of the packet count of a flow.

        The bound is tighter if summaries contain the flow.
        """
        missing = (each.bound for each in self._summaries if flow not in each.counts)
        return self._counts[flow] + sum(missing)

    @property
    def pairs(self) -> int:
        """Return the number of stored counts: those of all summaries and of the whole window."""
        return sum(len(each.counts) for each in self._summaries) + len(self._counts)
