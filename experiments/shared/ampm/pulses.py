"""Counts the blocks in which the first switch did not choose exactly one pulse."""

import numpy as np

from controllers.ampm.records import Point
from controllers.ampm.schedule import PULSE_WINDOW_SHIFT, Schedule
from controllers.ampm.watch import Method
from experiments.shared.ampm.truth import Interval, Truth, stamped_between
from telemark.network import Network


def blocks_without_one(
    net: Network, truth: Truth, method: Method, schedule: Schedule, blocks: range
) -> int:
    """Count blocks with more than one pulse, and blocks without a required pulse."""
    if not method & (Method.PULSE | Method.MULTIPLEXED):
        return 0
    left_ns = truth.time_ns[Point(truth.path[0], "departures")]
    stamped = stamped_between(net, truth.path[0], (truth.sent_ns, truth.handed_ns), left_ns)
    return wrong_blocks(truth, stamped, method, schedule, blocks)


def wrong_blocks(
    truth: Truth, stamped_ns: Interval, method: Method, schedule: Schedule, blocks: range
) -> int:
    """Count blocks with a wrong number of pulses, from bounds of the timestamps.

    A block must have a pulse under two conditions. At least one packet was certainly timestamped in
    the pulse window. No packet that was possibly timestamped in this window was lost, because a
    lost packet may have been the pulse.
    """
    length_ns = 1000 * schedule.block_us
    begin_ns, end_ns = length_ns // 4, 3 * length_ns // 4
    if Method.MULTIPLEXED in method:
        begin_ns, end_ns = length_ns // 2, length_ns // 2 + (length_ns >> PULSE_WINDOW_SHIFT)
    earliest_ns, latest_ns = (times_ns - truth.block * length_ns for times_ns in stamped_ns)
    surely = (earliest_ns >= begin_ns) & (latest_ns < end_ns)
    maybe = (latest_ns >= begin_ns) & (earliest_ns < end_ns)
    left = truth.passed(Point(truth.path[0], "departures"))
    wrong = 0
    for block in blocks:
        here = truth.block == block
        pulses = np.count_nonzero(truth.pulse & here)
        must = (surely & here).any() and left[maybe & here].all()
        wrong += int(pulses > 1 or (must and not pulses))
    return wrong
