"""Scores of a method: which incidents it detects and locates, and the errors of its values."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from controllers.ampm.records import Point
from experiments.shared.oam.incidents import PERIOD_S, SPINES, Incident, Kind, Pace, plan
from experiments.shared.oam.observations import (
    ANYWHERE,
    DELAY,
    LOSS,
    PATH,
    Event,
    Observed,
    Places,
    Sample,
    Segments,
)
from experiments.shared.oam.run import BLOCKS, INT_XD, MARGINS_NS, Outcome
from experiments.shared.oam.scores import (
    Score,
    count_located_losses,
    count_missed_delays,
    count_wrong_delays,
    find_unexplained,
    score,
)
from experiments.shared.oam.truth import ARRIVAL, DEPARTURE, NEVER, MeasuredDelay, PointTimes, Truth

S, MS = 1_000_000_000, 1_000_000
START_NS = 100 * S
INCIDENT = Incident(Kind.LOSS, "s3", 1.0, 1.5)
SLOW = replace(INCIDENT, kind=Kind.SLOW)
LINK = ("s1", "s3")
OTHER_LINK = ("s1", "s4")
IN, OUT = Point("s1", ARRIVAL), Point("s1", DEPARTURE)


def outcome(
    delays_ns: dict[float, int] | None = None, incidents: tuple[Incident, ...] = (INCIDENT,)
) -> Outcome:
    """Return an outcome with data packets: send time (s) -> delay, or -1 if it was lost.

    Another packet was 1.2 s after the start at s1, departed 5 ms later, and crossed s3.
    """
    packets = delays_ns or {0.5: 2 * MS, 1.2: 2 * MS, 1.3: -1, 1.4: 5 * MS, 2.5: 3 * MS}
    sent_ns = [START_NS + round(at_s * S) for at_s in packets]
    truth = Truth(np.array(sent_ns), np.array([*packets.values()]))
    arrived = np.array([START_NS + round(1.2 * S)])
    never = np.array([NEVER])
    times = {IN: arrived, OUT: arrived + 5 * MS, Point("s3", ARRIVAL): arrived + 6 * MS,
             Point("s4", ARRIVAL): never}  # fmt: skip
    point_times = PointTimes(np.array([5001]), {point: (at, at) for point, at in times.items()})
    spans = {each: (START_NS + round(each.start_s * S), START_NS + round(each.end_s * S))
             for each in incidents}  # fmt: skip
    unused: Any = None
    return Outcome(
        method=INT_XD, truth=truth, point_times=point_times, spans=spans, clock_errors_us={},
        spines={}, ports={}, nodes={}, egress={}, added_bytes=0, accounting=unused,
        schedule=BLOCKS["minip4"][0], margins_ns=MARGINS_NS["virtual"],
    )  # fmt: skip


def event(at_s: float, kind: str = LOSS, where: Places = (LINK,)) -> Event:
    """Return an event that is known 20 ms after its packet."""
    at_ns = START_NS + round(at_s * S)
    return Event(kind, at_ns, at_ns, at_ns + 20 * MS, where)


def late(delay_ns: int = 5 * MS, at_s: float = 1.2) -> Event:
    """Return the event of a packet that was late at s1."""
    start_ns = START_NS + round(at_s * S)
    measured = MeasuredDelay(5001, (IN,), start_ns, (OUT,), start_ns + delay_ns)
    return event(at_s, DELAY, (("s1", "s1"),))._replace(measured=measured)


def scored(observed: Observed, incident: Incident = INCIDENT) -> Score:
    [found] = score(outcome(incidents=(incident,)), observed, [incident])
    return found


@pytest.mark.parametrize(
    ("events", "detected", "located"),
    [
        ([], False, False),
        ([event(1.2)], True, True),
        ([event(1.2, where=ANYWHERE)], True, False),
        ([event(1.2, where=(OTHER_LINK,))], True, False),
        ([event(1.2, where=(LINK, OTHER_LINK))], True, False),
        ([event(1.2, kind=DELAY)], False, False),
        ([event(0.9)], False, False),
        ([event(1.7)], False, False),
        ([event(1.55)], True, True),  # packets that the incident delayed
    ],
    ids=["none", "right", "anywhere", "other link", "cluster", "other kind", "before", "after",
         "draining"],
)  # fmt: skip
def test_an_incident_is_detected_by_events_of_its_kind_and_time(
    events: list[Event], detected: bool, located: bool
) -> None:
    found = scored(Observed(events))
    assert (found.detected, found.located) == (detected, located)


def test_the_time_to_detection_ends_when_the_first_event_is_known() -> None:
    late = event(1.3)
    early = event(1.4)._replace(known_ns=START_NS + round(1.31 * S))
    assert scored(Observed([late, early])).detection_s == pytest.approx(0.31)


def test_events_outside_of_incidents_of_their_kind_are_unexplained() -> None:
    events = [event(1.2), event(1.2, kind=PATH), event(3.0)]
    assert find_unexplained(outcome(), Observed(events)) == events[1:]


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (late(), 0),
        (late(5 * MS + 1000), 0),
        (late(15 * MS), 1),
        (late(at_s=1.25), 1),
        (late()._replace(measured=late().measured._replace(flow=5002)), 1),  # type: ignore[union-attr]
        (event(1.2), 0),
    ],
    ids=["true", "resolution", "other delay", "other time", "other flow", "loss"],
)  # fmt: skip
def test_a_delay_that_no_packet_had_is_wrong(found: Event, wrong: int) -> None:
    assert count_wrong_delays(outcome(), Observed([found])) == wrong


def test_a_wrong_shortest_delay_is_counted_because_it_makes_others_late() -> None:
    measured = late(1 * MS).measured
    assert measured is not None
    assert count_wrong_delays(outcome(), Observed(shortest=[measured])) == 1


@pytest.mark.parametrize(
    ("departures_ns", "shown", "missed"),
    [
        ((1000, 502_000, 5 * MS), [], 1),
        ((1000, 502_000, 5 * MS), [5 * MS], 0),
        ((1000, 502_000, 5 * MS), [1000], 1),
        ((1000, 600_000, 5 * MS), [5 * MS], 1),
        ((1000, NEVER, NEVER), [], 0),
    ],
    ids=["no event", "event", "event of another packet", "one of two", "lost in the switch"],
)
def test_a_late_packet_without_an_event_is_missed(
    departures_ns: tuple[int, ...], shown: list[int], missed: int
) -> None:
    """A packet counts as missed if it departs late from s1 and no event shows this delay.

    Three packets arrive at s1 at time 0.
    """
    departed = np.array(departures_ns)
    times = {Point(f"s{n}", name): (np.full(3, NEVER),) * 2
             for n in range(1, 5) for name in (ARRIVAL, DEPARTURE)}  # fmt: skip
    times |= {IN: (np.zeros(3, int),) * 2, OUT: (departed, departed)}
    events = [
        event(0, DELAY)._replace(measured=MeasuredDelay(1, (IN,), 0, (OUT,), delay))
        for delay in shown
    ]
    reports: Any = "reports"
    known = replace(
        outcome({0: 1, 1: 1, 2: 1}), kept=reports, point_times=PointTimes(np.ones(3, int), times)
    )
    assert count_missed_delays(known, Observed(events), 500_000) == missed
    lost = replace(known, truth=replace(known.truth, delay_ns=np.full(3, NEVER)))
    assert count_missed_delays(lost, Observed(events), 500_000) == 0
    assert count_missed_delays(replace(known, kept=None), Observed(events), 500_000) == 0


@pytest.mark.parametrize(("spine", "detected"), [("s3", True), ("s4", False)])
def test_a_delay_is_due_to_an_incident_only_if_the_packet_crossed_its_spine(
    spine: str, detected: bool
) -> None:
    assert scored(Observed([late()]), replace(SLOW, spine=spine)).detected == detected


def test_a_located_loss_is_at_the_place_and_the_time_of_its_incident() -> None:
    other = replace(INCIDENT, spine="s4", start_s=2.0, end_s=2.5)
    events = [event(1.2), event(2.2, where=(other.where,)), event(1.2, where=(other.where,)),
              event(2.2), event(2.2, where=(LINK, OTHER_LINK))]  # fmt: skip
    both = INCIDENT, other
    assert count_located_losses(outcome(incidents=both), Observed(events), both) == 3


def test_the_loss_ratio_refers_to_data_or_to_probes() -> None:
    events = [event(1.3)]
    assert (
        scored(Observed(events)).loss == scored(Observed(events)).true_loss == pytest.approx(1 / 3)
    )
    probes_ns = [START_NS + round(at_s * S) for at_s in (0.2, 1.1, 1.3, 1.9)]
    assert scored(Observed(events, probes_ns=probes_ns)).loss == 1 / 2


def test_the_added_delay_is_the_maximum_during_the_incident_minus_the_minimum() -> None:
    samples = [Sample(START_NS + round(at_s * S), START_NS + round(at_s * S), delay)
               for at_s, delay in ((0.5, 2 * MS), (1.2, 4 * MS), (2.5, 9 * MS))]  # fmt: skip
    found = scored(Observed(samples=samples), SLOW)
    assert (found.added_delay_ms, found.true_added_delay_ms) == (2, 3)
    assert scored(Observed(samples=samples[:1]), SLOW).added_delay_ms == 0


def test_a_segment_reports_delays_above_its_own_minimum() -> None:
    segments, found = Segments(), Observed()
    point_times = {
        delay_ns: MeasuredDelay(1, (IN,), 0, (OUT,), delay_ns)
        for delay_ns in (500_000, 1_000_000, 1_000_001, 2_000_000)
    }
    for delay_ns, measured in point_times.items():
        where = LINK if delay_ns < 2_000_000 else ("s3", "s3")
        segments.add((where,), measured, (delay_ns, delay_ns, 7))
    segments.find_late(500_000, found)
    late = point_times[1_000_001]
    assert found.events == [Event(DELAY, 1_000_001, 1_000_001, 7, (LINK,), measured=late)]
    assert found.shortest == [point_times[500_000], point_times[2_000_000]]


def test_each_kind_of_incident_meets_each_spine_and_incidents_do_not_overlap() -> None:
    found = plan(2, 3, Pace())
    assert sorted((each.kind.value, each.spine) for each in found) == sorted(
        2 * [(kind.value, spine) for kind in Kind for spine in SPINES]
    )
    gaps = [after.start_s - before.end_s for before, after in pairwise(found)]
    assert 0.1 < min(gaps) <= max(gaps) < 1.5 * PERIOD_S


def test_a_pace_stretches_all_durations() -> None:
    usual, slow = (plan(1, 3, Pace(stretch=stretch)) for stretch in (1, 2))
    assert [each.start_s for each in slow] == pytest.approx(
        [2 * each.start_s for each in usual], abs=2e-6
    )
    lasts = [[each.end_s - each.start_s for each in found] for found in (usual, slow)]
    assert lasts[1] == pytest.approx([2 * each for each in lasts[0]], abs=2e-6)
