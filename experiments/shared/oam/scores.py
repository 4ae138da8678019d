"""Comparison of what a method observed with the incidents and with ground truth."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controllers.ampm.records import Point
from experiments.shared.oam.incidents import Incident, Kind, Span
from experiments.shared.oam.observations import (
    DELAY,
    LOSS,
    PATH,
    Event,
    Observed,
)
from experiments.shared.oam.run import Outcome
from experiments.shared.oam.truth import SEGMENTS

EVENT_OF = {Kind.LOSS: LOSS, Kind.QUEUE: DELAY, Kind.SLOW: DELAY, Kind.REROUTE: PATH}


@dataclass(frozen=True)
class Score:
    """What a method knows about one incident. Unknown values are NaN or 0."""

    method: str
    incident: Incident
    detected: bool
    located: bool
    detection_s: float  # time from the start of the incident until it is known
    loss: float  # measured loss ratio during the incident
    true_loss: float
    added_delay_ms: float  # maximum delay during the incident minus the minimum delay of the run
    true_added_delay_ms: float


def score(outcome: Outcome, observed: Observed, incidents: Sequence[Incident]) -> list[Score]:
    """Return the score of a method for each incident."""
    return [_score(outcome, observed, each) for each in incidents]


def find_unexplained(outcome: Outcome, observed: Observed) -> list[Event]:
    """Return the events outside of incidents of their kind."""
    return [
        event for event in observed.events
        if not any(event.kind == EVENT_OF[each.kind] and _overlaps(event, _span_ns(outcome, each))
                   for each in outcome.spans)
    ]  # fmt: skip


def count_wrong_delays(outcome: Outcome, observed: Observed) -> int:
    """Count the late packets and blocks whose times differ from ground truth.

    Also count wrong shortest delays, because they would make other delays seem late.
    """
    late = [event.measured for event in observed.events if event.measured is not None]
    return sum(not len(outcome.point_times.match(each)) for each in (*late, *observed.shortest))


def count_missed_delays(outcome: Outcome, observed: Observed, late_ns: int) -> int:
    """Count the late packets of each switch and link that no event shows; see LATE_NS.

    Return 0 for methods that do not report each delivered packet.
    """
    if outcome.kept is None:
        return 0
    shown: defaultdict[tuple[Sequence[Point], Sequence[Point]], set[int]] = defaultdict(set)
    for event in observed.events:
        if (seen := event.measured) is not None:
            shown[seen.start, seen.end].update(outcome.point_times.match(seen).tolist())
    missed = 0
    for start, end in SEGMENTS:
        late = outcome.point_times.find_late(start, end, late_ns)
        missed += len({*late[~outcome.truth.lost[late]].tolist()} - shown[(start,), (end,)])
    return missed


def count_located_losses(
    outcome: Outcome, observed: Observed, incidents: Sequence[Incident]
) -> int:  # fmt: skip
    """Count the lost packets at the time and the place (or cluster) of an incident with loss."""
    return sum(
        event.packets for event in observed.events
        if event.kind == LOSS and any(
            each.kind is Kind.LOSS and each.where in event.where
            and _overlaps(event, _span_ns(outcome, each)) for each in incidents
        )
    )  # fmt: skip


def _score(outcome: Outcome, observed: Observed, incident: Incident) -> Score:
    truth = outcome.truth
    span = start_ns, end_ns = _span_ns(outcome, incident)
    events = [
        event for event in observed.events
        if event.kind == EVENT_OF[incident.kind] and _overlaps(event, span)
        # In real time, the machine may also delay a packet on the other spine.
        and (event.measured is None or outcome.point_times.crossed(event.measured, incident.spine))
    ]  # fmt: skip
    in_span = (truth.sent_ns >= start_ns) & (truth.sent_ns <= end_ns)
    known_ns = min((event.known_ns for event in events), default=np.nan)
    passed = ~truth.lost
    base_ns = truth.delay_ns[passed].min()
    return Score(
        method=outcome.method,
        incident=incident,
        detected=bool(events),
        located=any(event.where == (incident.where,) for event in events),
        detection_s=(known_ns - outcome.spans[incident][0]) / 1e9,
        loss=_measured_loss(observed, events, span, int(np.count_nonzero(in_span)), incident),
        true_loss=float(truth.lost[in_span].mean()),
        added_delay_ms=_measured_delay_ms(observed, span),
        true_added_delay_ms=float(truth.delay_ns[in_span & passed].max() - base_ns) / 1e6,
    )


def _measured_loss(
    observed: Observed, events: Sequence[Event], span: Span, packets: int,
    incident: Incident,
) -> float:  # fmt: skip
    """Return the loss ratio: of probes, or of all packets that the data flows sent."""
    if incident.kind is not Kind.LOSS:
        return float("nan")
    lost = sum(event.packets for event in events)
    if observed.probes_ns is not None:
        packets = sum(span[0] <= each <= span[1] for each in observed.probes_ns)
    return lost / packets if packets else float("nan")


def _measured_delay_ms(observed: Observed, span: Span) -> float:
    delays = [each.delay_ns for each in observed.samples
              if each.last_ns >= span[0] and each.first_ns <= span[1]]  # fmt: skip
    if not delays:
        return 0.0
    return (max(delays) - min(each.delay_ns for each in observed.samples)) / 1e6


def _span_ns(outcome: Outcome, incident: Incident) -> Span:
    (begin_ns, end_ns), (ahead_ns, grace_ns) = outcome.spans[incident], outcome.margins_ns
    return begin_ns - ahead_ns, end_ns + grace_ns


def _overlaps(event: Event, span: Span) -> bool:
    return event.last_ns >= span[0] and event.first_ns <= span[1]
