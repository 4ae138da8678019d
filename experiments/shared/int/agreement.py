"""What edges and switches say of a flow's packets, held against each other and against the truth.

Of times there is no tolerance: those of a packet are in the order in which they happened, or a
stamp is wrong. All are whole microseconds, rounded down, which keeps their order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from experiments.shared.ampm.truth import NEVER
from experiments.shared.int.edges import DELAY_US, LINKS, PLACES, SWITCHES, Outcome, Times


class Enclosed(NamedTuple):
    """Delays of the packets that passed a link, us, in the order of sending."""

    told: NDArray[np.int64]  # by the postcards of its ends
    least: NDArray[np.int64]  # that the truth allows
    most: NDArray[np.int64]
    wrong: int  # packets that have a stamp outside of what encloses it


def enclosures(outcome: Outcome) -> dict[tuple[str, str], Enclosed]:
    """Of each link, the packets that passed it and have postcards of both ends.

    At h1 its edge and s1 stamp while the sender's call lasts, in this order. A switch stamps what
    leaves before its link delays it, and the next one stamps it during the call that hands it over.
    So does h2's kernel, before the packet comes to the edge; and s3 what tells of its stamp.
    """
    truth, told = outcome.truth, outcome.told
    sent_us, handed_us, received_us = (
        each // 1000 for each in (truth.sent_ns, truth.handed_ns, truth.received_ns)
    )
    edge = told["h2"]
    found = {}
    for near, far in LINKS:
        before, after = told[near].left_us, told[far].came_us
        if near not in SWITCHES:
            chain = [sent_us, before, after, handed_us]
            least, most = np.zeros_like(before), handed_us - sent_us
        else:
            sending_us, over_us = (
                each // 1000 for each in (outcome.handling[near].sending_ns,
                                          outcome.handling[near].sent_ns)
            )  # fmt: skip
            left_us = truth.time_ns[Point(near, "departures")] // 1000
            free_us = before + DELAY_US
            if far in SWITCHES:
                chain = [free_us, sending_us, after, over_us]
                least, most = sending_us - left_us, over_us - left_us
            else:
                chain = [free_us, sending_us, received_us, after, edge.known_us]
                least, most = received_us - left_us, edge.known_us - left_us
        passed = outcome.is_at(far) & (before != NEVER) & (after != NEVER)
        wrong = descending([each[passed] for each in chain])
        found[near, far] = Enclosed((after - before)[passed], least[passed], most[passed], wrong)
    return found


def descending(times_us: Sequence[Times]) -> int:
    """Packets of which a time is before the one that must come first."""
    return int(np.any(np.diff(times_us, axis=0) < 0, axis=0).sum())


def stamps_apart(outcome: Outcome) -> int:
    """Stamps in switches' postcards that are not those of their captures, to the microsecond."""
    wrong = 0
    for place in SWITCHES:
        for name, reported_us in (("arrivals", outcome.told[place].came_us),
                              ("departures", outcome.told[place].left_us)):  # fmt: skip
            true_us = outcome.truth.time_ns[Point(place, name)] // 1000
            wrong += np.count_nonzero((reported_us >= 0) & (reported_us != true_us))
    return int(wrong)


def pulses_apart(outcome: Outcome) -> int:
    """Pulses that a place stamped at another time than a postcard may say of the same packet.

    A switch has one stamp for both. An edge has two programs, and each takes its own: that of the
    pulse has the ends that the postcard's has.
    """
    truth, told = outcome.truth, outcome.told
    ends = {
        "h1": (truth.sent_ns // 1000, told["s1"].came_us),
        "h2": (truth.received_ns // 1000, told["h2"].known_us),
    }
    wrong = 0
    for place in PLACES:
        stamps = {"arrivals": told[place].came_us, "departures": told[place].left_us}
        for name, stamped_us in stamps.items():
            bounds = ends.get(place, (stamped_us, stamped_us))
            wrong += _pulses_outside(outcome, Point(place, name), *bounds)
    return wrong


def _pulses_outside(outcome: Outcome, point: Point, least: Times, most: Times) -> int:
    is_pulse = outcome.truth.pulse & outcome.is_at(point.switch)
    wrong = 0
    for report in outcome.blocks:
        record = report.known_records(outcome.record.flow.id)[point]
        (which,) = np.nonzero(is_pulse & (outcome.truth.block == report.block))
        inside = (least[which] <= record.pulse_us) & (record.pulse_us <= most[which])
        wrong += int(record.pulses != len(which) or not inside.all())
    return wrong
