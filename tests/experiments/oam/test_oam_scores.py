"""Scores of a method: which incidents it detects and locates, and the errors of its values."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from experiments.shared.oam.incidents import PERIOD_S, SPINES, Incident, Kind, plan
from experiments.shared.oam.observations import DELAY, LOSS, PATH, Event, Observed, Sample, Segments
from experiments.shared.oam.run import INT_XD, Outcome, Truth
from experiments.shared.oam.scores import (
    Score,
    count_false_alarms,
    count_located_losses,
    score,
)

S, MS = 1_000_000_000, 1_000_000
START_NS = 100 * S
INCIDENT = Incident(Kind.LOSS, "s3", 1.0, 1.5)
LINK = ("s1", "s3")


def outcome(delays_ns: dict[float, int] | None = None) -> Outcome:
    """Return an outcome with data packets: send time (s) -> delay, or -1 if it was lost."""
    packets = delays_ns or {0.5: 2 * MS, 1.2: 2 * MS, 1.3: -1, 1.4: 5 * MS, 2.5: 3 * MS}
    sent_ns = [START_NS + round(at_s * S) for at_s in packets]
    truth = Truth(np.array(sent_ns), np.array([*packets.values()]))
    unused: Any = None
    return Outcome(
        method=INT_XD, start_ns=START_NS, truth=truth, spines={}, pings=None, sessions=[],
        kept=None, nodes={}, egress={}, blocks=[], added_bytes=0, accounting=unused,
    )  # fmt: skip


def event(at_s: float, kind: str = LOSS, where: tuple[str, str] | None = LINK) -> Event:
    """Return an event that is known 20 ms after its packet."""
    at_ns = START_NS + round(at_s * S)
    return Event(kind, at_ns, at_ns, at_ns + 20 * MS, where)


def scored(observed: Observed, incident: Incident = INCIDENT) -> Score:
    [found] = score(outcome(), observed, [incident])
    return found


@pytest.mark.parametrize(
    ("events", "detected", "located"),
    [
        ([], False, False),
        ([event(1.2)], True, True),
        ([event(1.2, where=None)], True, False),
        ([event(1.2, where=("s1", "s4"))], True, False),
        ([event(1.2, kind=DELAY)], False, False),
        ([event(0.9)], False, False),
        ([event(1.7)], False, False),
        ([event(1.55)], True, True),  # packets that the incident delayed
    ],
    ids=["none", "right", "anywhere", "other link", "other kind", "before", "after", "draining"],
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


def test_events_outside_of_incidents_of_their_kind_are_false_alarms() -> None:
    events = [event(1.2), event(1.2, kind=PATH), event(3.0)]
    assert count_false_alarms(outcome(), Observed(events), [INCIDENT]) == 2


def test_a_located_loss_is_at_the_place_and_the_time_of_its_incident() -> None:
    other = replace(INCIDENT, spine="s4", start_s=2.0, end_s=2.5)
    events = [event(1.2), event(2.2, where=other.where), event(1.2, where=other.where), event(2.2)]
    assert count_located_losses(outcome(), Observed(events), [INCIDENT, other]) == 2


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
    slow = replace(INCIDENT, kind=Kind.SLOW)
    found = scored(Observed(samples=samples), slow)
    assert (found.added_delay_ms, found.true_added_delay_ms) == (2, 3)
    assert scored(Observed(samples=samples[:1]), slow).added_delay_ms == 0


def test_a_segment_reports_delays_above_its_own_minimum() -> None:
    segments = Segments()
    for where, delay_ns in ((LINK, 500_000), (LINK, 1_000_000), (LINK, 1_000_001),
                            (("s3", "s3"), 2_000_000)):  # fmt: skip
        segments.add(where, delay_ns, delay_ns, delay_ns, 7)
    assert [*segments.events(500_000)] == [Event(DELAY, 1_000_001, 1_000_001, 7, LINK)]


def test_each_kind_of_incident_meets_each_spine_and_incidents_do_not_overlap() -> None:
    found = plan(2, seed=3)
    assert sorted((each.kind.value, each.spine) for each in found) == sorted(
        2 * [(kind.value, spine) for kind in Kind for spine in SPINES]
    )
    gaps = [after.start_s - before.end_s for before, after in pairwise(found)]
    assert 0.1 < min(gaps) <= max(gaps) < 1.5 * PERIOD_S
