"""Comparison of edge reports, switch reports and ground truth.

Times have no tolerance. If the times of a packet are not in causal order, a timestamp is wrong. All
times are rounded down to microseconds, which preserves their order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from experiments.shared.ampm.truth import NEVER
from experiments.shared.int.edges import DELAY_US, LINKS, PLACES, SWITCHES, Outcome, Times


class Enclosed(NamedTuple):
    """Delays of the packets that passed a link, in us, in the order of sending."""

    reported: NDArray[np.int64]  # from the postcards of both nodes
    low: NDArray[np.int64]  # lower bound of the true delay
    high: NDArray[np.int64]
    wrong: int  # packets with a timestamp outside of its bounds


def enclosures(outcome: Outcome) -> dict[tuple[str, str], Enclosed]:
    """Return the delays on each link of those packets for which both nodes sent a postcard.

    The edge of h1 and then s1 timestamp a packet during the sender's send call. A switch timestamps
    a departing packet before its link delays it. The next node timestamps the packet during the
    send call of the link. The next node is a switch or h2. In h2, the kernel timestamps the packet
    before the edge gets it. Then s3 timestamps the postcard of that edge.
    """
    truth, reported = outcome.truth, outcome.reported
    sent_us, handed_us, received_us = (
        each // 1000 for each in (truth.sent_ns, truth.handed_ns, truth.received_ns)
    )
    edge = reported["h2"]
    found = {}
    for near, far in LINKS:
        before, after = reported[near].left_us, reported[far].arrived_us
        if near not in SWITCHES:
            chain = [sent_us, before, after, handed_us]
            low, high = np.zeros_like(before), handed_us - sent_us
        else:
            sending_us, over_us = (
                each // 1000 for each in (outcome.handling[near].sending_ns,
                                          outcome.handling[near].sent_ns)
            )  # fmt: skip
            left_us = truth.time_ns[Point(near, "departures")] // 1000
            free_us = before + DELAY_US
            if far in SWITCHES:
                chain = [free_us, sending_us, after, over_us]
                low, high = sending_us - left_us, over_us - left_us
            else:
                chain = [free_us, sending_us, received_us, after, edge.known_us]
                low, high = received_us - left_us, edge.known_us - left_us
        passed = outcome.is_at(far) & (before != NEVER) & (after != NEVER)
        wrong = descending([each[passed] for each in chain])
        found[near, far] = Enclosed((after - before)[passed], low[passed], high[passed], wrong)
    return found


def descending(times_us: Sequence[Times]) -> int:
    """Return how many packets have a time that is earlier than the previous time in `times_us`."""
    return int(np.any(np.diff(times_us, axis=0) < 0, axis=0).sum())


def stamps_apart(outcome: Outcome) -> int:
    """Count postcard timestamps of switches that differ from captures, in whole microseconds."""
    wrong = 0
    for place in SWITCHES:
        for name, reported_us in (("arrivals", outcome.reported[place].arrived_us),
                              ("departures", outcome.reported[place].left_us)):  # fmt: skip
            true_us = outcome.truth.time_ns[Point(place, name)] // 1000
            wrong += np.count_nonzero((reported_us >= 0) & (reported_us != true_us))
    return int(wrong)


def pulses_apart(outcome: Outcome) -> int:
    """Count pulses whose timestamp is inconsistent with the postcard of the same packet.

    A switch uses one timestamp for pulse and postcard. An edge has one program for each, so its two
    timestamps differ but have the same bounds.
    """
    truth, reported = outcome.truth, outcome.reported
    ends = {
        "h1": (truth.sent_ns // 1000, reported["s1"].arrived_us),
        "h2": (truth.received_ns // 1000, reported["h2"].known_us),
    }
    wrong = 0
    for place in PLACES:
        stamps = {"arrivals": reported[place].arrived_us, "departures": reported[place].left_us}
        for name, stamped_us in stamps.items():
            bounds = ends.get(place, (stamped_us, stamped_us))
            wrong += _pulses_outside(outcome, Point(place, name), *bounds)
    return wrong


def _pulses_outside(outcome: Outcome, point: Point, low: Times, high: Times) -> int:
    is_pulse = outcome.truth.pulse & outcome.is_at(point.switch)
    wrong = 0
    for report in outcome.blocks:
        record = report.known_records(outcome.record.flow.id)[point]
        (which,) = np.nonzero(is_pulse & (outcome.truth.block == report.block))
        inside = (low[which] <= record.pulse_us) & (record.pulse_us <= high[which])
        wrong += int(record.pulses != len(which) or not inside.all())
    return wrong
