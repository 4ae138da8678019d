"""Busy times of a link, computed from the times of all frames that its switch sent."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from experiments.shared.ampm.measurement import Outcome


def taken_in(outcome: Outcome, flow: int, switch: str) -> NDArray[np.int64]:
    """Return the time at which a switch received each packet; in virtual time, the arrival time."""
    handling = outcome.handling.get(flow)
    if handling:
        return handling[switch].taken_ns
    return outcome.truths[flow].time_ns[Point(switch, "arrivals")]


@dataclass(frozen=True)
class Link:
    """Outgoing link of a switch, from captures.

    Arrays have one element per sent frame, in order.
    """

    taken_ns: NDArray[np.int64]  # time at which the switch received the frame from its port
    left_ns: NDArray[np.int64]  # time at which the frame left the queue
    end_ns: NDArray[np.float64]  # time at which the transmission of the frame ended

    @classmethod
    def of(cls, outcome: Outcome, switch: str, rate_bps: float) -> "Link":
        """Return the link after `switch` in one run."""
        taken, left, end = [], [], []
        sent = Point(switch, "departures")
        for number, truth in outcome.truths.items():
            through = truth.passed(sent)
            taken.append(taken_in(outcome, number, switch)[through])
            left.append(truth.time_ns[sent][through])
            end.append(left[-1] + outcome.sent[number].flow.size * 8e9 / rate_bps)
        order = np.argsort(np.concatenate(taken), kind="stable")
        return cls(*(np.concatenate(parts)[order] for parts in (taken, left, end)))

    def free_ns(self, time_ns: int) -> float:
        """Return the time by which the link has sent all frames received before `time_ns`."""
        before = np.searchsorted(self.taken_ns, time_ns, side="left")
        return float(self.end_ns[before - 1]) if before else 0.0

    def waiting(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the queue length at each time at which the switch received a frame."""
        before = np.searchsorted(self.taken_ns, times_ns, side="left")
        return np.asarray(before - np.searchsorted(self.left_ns, times_ns, side="right"))
