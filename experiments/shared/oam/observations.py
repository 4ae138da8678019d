"""Events and delays that each method observes: lost packets, late packets, and changed paths."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from collectors.int.index import Limits
from controllers.ampm.records import Point, PointRecord, mean_delay, pulse_delay
from experiments.shared.int.marking import SCHEDULE
from experiments.shared.oam.incidents import SINK_LEAF, SOURCE_LEAF, SPINES, Where
from experiments.shared.oam.run import (
    MARKINGS,
    ONE_BIT,
    POSTCARDS,
    SWITCHES,
    Outcome,
)
from telemark.apps.icmp import PingRecord
from telemark.apps.stamp.sender import SessionRecord
from telemark.apps.stamp.statistics import measure_path

# A delay is an event if it exceeds the minimum by more than this. In real time, the machine itself
# sometimes delays packets by milliseconds.
LATE_NS = {"virtual": 500_000, "real": 4_000_000}
TIMEOUT_NS = 100_000_000  # a probe without an answer is lost after this time
SETTLE_NS = round(Limits().settle_us * 1000)  # time for all reports of a packet to arrive
LOSS, DELAY, PATH = "loss", "delay", "path"


class Event(NamedTuple):
    """Something that a method noticed about packets of the time from `first_ns` to `last_ns`."""

    kind: str
    first_ns: int
    last_ns: int
    known_ns: int  # time at which the method knows it
    where: Where | None  # None: anywhere between the hosts
    packets: int = 1  # number of lost packets


class Sample(NamedTuple):
    """Delay from end to end, of packets of the time from `first_ns` to `last_ns`."""

    first_ns: int
    last_ns: int
    delay_ns: float


@dataclass
class Observed:
    """All that a method observed."""

    events: list[Event] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    probes_ns: list[int] | None = None  # send times of probes; None for methods without probes
    reports: int = 0  # reports, switch readouts or probes


class Segments:
    """Delays of the parts of the path. events() needs the minimum of all delays of a part."""

    def __init__(self) -> None:
        self._delays: defaultdict[Where, list[tuple[float, int, int, int]]] = defaultdict(list)

    def add(
        self, where: Where, delay_ns: float, first_ns: int, last_ns: int, known_ns: int
    ) -> None:  # fmt: skip
        """Add a delay of packets of the time from `first_ns` to `last_ns`."""
        self._delays[where].append((delay_ns, first_ns, last_ns, known_ns))

    def events(self, late_ns: int) -> Iterator[Event]:
        """Yield an event per delay that exceeds the minimum of its segment by `late_ns`."""
        for where, delays in self._delays.items():
            limit_ns = min(delays)[0] + late_ns
            for delay_ns, first_ns, last_ns, known_ns in delays:
                if delay_ns > limit_ns:
                    yield Event(DELAY, first_ns, last_ns, known_ns, where)


def observe(outcome: Outcome, late_ns: int) -> Observed:
    """Return what the method of a run observed; see LATE_NS."""
    if outcome.kept is not None:
        return _observed_by_reports(outcome, late_ns)
    if outcome.method in MARKINGS:
        return _observed_by_marking(outcome, late_ns)
    if outcome.pings is not None:
        return _observed_by_ping(outcome.pings, late_ns)
    return _observed_by_stamp(outcome.sessions, late_ns)


def _observed_by_ping(pings: PingRecord, late_ns: int) -> Observed:
    sent_ns = pings.sent_ns.tolist()
    found = Observed(probes_ns=sent_ns, reports=len(sent_ns))
    limit_ns = pings.round_trip_ns.min() + late_ns
    answered = set(pings.replies["sequence"].tolist())
    for at_ns, known_ns in pings.replies[["sent_ns", "received_ns"]].tolist():
        found.samples.append(Sample(at_ns, at_ns, known_ns - at_ns))
        if known_ns - at_ns > limit_ns:
            found.events.append(Event(DELAY, at_ns, at_ns, known_ns, None))
    found.events += _unanswered(sent_ns, answered)
    return found


def _unanswered(sent_ns: Sequence[int], answered: Container[int]) -> Iterator[Event]:
    """Yield the loss of each probe that has no answer."""
    for sequence, at_ns in enumerate(sent_ns):
        if sequence not in answered:
            yield Event(LOSS, at_ns, at_ns, at_ns + TIMEOUT_NS, None)


def _observed_by_stamp(sessions: Iterable[SessionRecord], late_ns: int) -> Observed:
    probes_ns: list[int] = []
    found = Observed(probes_ns=probes_ns)
    for session in sessions:
        path = measure_path(session)
        sent_ns = session.sent_ns.tolist()
        probes_ns += sent_ns
        found.reports += len(sent_ns)
        limit_ns = min(path.forward_ns) + late_ns
        round_trips = (path.sent_ns, path.forward_ns, path.round_trip_ns)
        for at_ns, forward_ns, round_trip_ns in zip(
            *(array.tolist() for array in round_trips), strict=True
        ):
            found.samples.append(Sample(at_ns, at_ns, forward_ns))
            if forward_ns > limit_ns:
                known_ns = at_ns + round_trip_ns
                found.events.append(Event(DELAY, at_ns, at_ns, known_ns, None))
        found.events += _unanswered(sent_ns, set(path.sequence.tolist()))
    return found


class SwitchTransit(NamedTuple):
    """A switch that a packet passed, as reported."""

    switch: str
    ingress_ns: int
    egress_ns: int
    latency_ns: int
    next_switch: str  # neighbour at the egress port


@dataclass
class ReportedPacket:
    """A packet and its reports. `known_ns` is the arrival time of the last report."""

    transits: dict[str, SwitchTransit] = field(default_factory=dict)
    known_ns: int = 0

    @property
    def spine(self) -> str | None:
        """Return the spine that reported the packet."""
        return next((each for each in SPINES if each in self.transits), None)


def _reported_packets(outcome: Outcome) -> dict[tuple[int, int], ReportedPacket]:
    """Return all reported packets by UDP port and number, in the order of their first reports."""
    assert outcome.kept is not None
    reports, hops = outcome.kept.reports, outcome.kept.hops
    names = ("node", "ingress_ns", "egress_ns", "latency_ns", "egress")
    columns = list(zip(*(hops[name].tolist() for name in names), strict=True))
    found: defaultdict[tuple[int, int], ReportedPacket] = defaultdict(ReportedPacket)
    for time_ns, port, number, first, count in zip(
        reports["time_ns"].tolist(), reports["key"]["destination_port"].tolist(),
        reports["packet"].tolist(), reports["first_hop"].tolist(), reports["hops"].tolist(),
        strict=True,
    ):  # fmt: skip
        if port not in outcome.spines:
            continue
        packet = found[port, number]
        packet.known_ns = max(packet.known_ns, time_ns)
        for node, ingress_ns, egress_ns, latency_ns, egress in columns[first : first + count]:
            switch = outcome.nodes[node]
            packet.transits[switch] = SwitchTransit(
                switch, ingress_ns, egress_ns, latency_ns, outcome.egress[switch, egress]
            )
    return found


def _observed_by_reports(outcome: Outcome, late_ns: int) -> Observed:
    assert outcome.kept is not None
    found = Observed(reports=len(outcome.kept.reports))
    segments = Segments()
    spines: dict[int, str] = {}
    for (port, _), packet in _reported_packets(outcome).items():
        if SOURCE_LEAF not in packet.transits:
            continue  # its report was lost
        at_ns = packet.transits[SOURCE_LEAF].ingress_ns
        route = [packet.transits[name] for name in SWITCHES if name in packet.transits]
        for each in route:
            where = each.switch, each.switch
            segments.add(where, each.latency_ns, at_ns, at_ns, packet.known_ns)
        for one, other in pairwise(route):
            link_ns = other.ingress_ns - one.egress_ns
            segments.add((one.switch, other.switch), link_ns, at_ns, at_ns, packet.known_ns)
        last = route[-1]
        if last.switch == SINK_LEAF:
            found.samples.append(Sample(at_ns, at_ns, last.egress_ns - at_ns))
        elif outcome.method in POSTCARDS:
            where = last.switch, last.next_switch
            found.events.append(Event(LOSS, at_ns, at_ns, packet.known_ns + SETTLE_NS, where))
        if packet.spine is not None:
            if spines.setdefault(port, packet.spine) != packet.spine:
                where = SOURCE_LEAF, SOURCE_LEAF
                found.events.append(Event(PATH, at_ns, at_ns, packet.known_ns, where))
            spines[port] = packet.spine
    found.events += segments.events(late_ns)
    return found


def _observed_by_marking(outcome: Outcome, late_ns: int) -> Observed:
    found = Observed(reports=len(outcome.blocks) * len(SWITCHES))
    segments = Segments()
    spines: dict[int, set[str]] = {}  # flow -> spines that it used in the last block
    for block in outcome.blocks:
        start_ns = 1000 * SCHEDULE.start_us(block.block)
        times = (start_ns, start_ns + 1000 * SCHEDULE.block_us,
                 1000 * SCHEDULE.reading_us(block.block))  # fmt: skip
        for flow in block.records:
            records = block.known_records(flow)
            used = {name: records[Point(name, "arrivals")].packets for name in SPINES}
            now = {name for name, packets in used.items() if packets}
            if not now:
                continue
            if now - spines.setdefault(flow, now):
                found.events.append(Event(PATH, *times, (SOURCE_LEAF, SOURCE_LEAF)))
            spines[flow] = now
            path = [SOURCE_LEAF, max(now, key=lambda name: used[name]), SINK_LEAF]
            found.events += _losses(records, path, times)
            for ends, sample in _delays(records, path, times, outcome.method):
                if ends == (SOURCE_LEAF, SINK_LEAF):
                    found.samples.append(sample)
                else:
                    segments.add(ends, sample.delay_ns, *sample[:2], times[2])
    found.events += segments.events(late_ns)
    return found


def _losses(
    records: Mapping[Point, PointRecord], path: Sequence[str], times: tuple[int, int, int]
) -> Iterator[Event]:
    """Yield the losses of a flow in a block. `path` has the spine of most packets."""
    first, spine, last = path

    def packets(point: str, *switches: str) -> int:
        return sum(records[Point(switch, point)].packets for switch in switches)

    segments = (
        ((first, first), packets("arrivals", first), packets("departures", first)),
        ((first, spine), packets("departures", first), packets("arrivals", *SPINES)),
        ((spine, spine), packets("arrivals", *SPINES), packets("departures", *SPINES)),
        ((spine, last), packets("departures", *SPINES), packets("arrivals", last)),
        ((last, last), packets("arrivals", last), packets("departures", last)),
    )
    for where, before, after in segments:
        if before > after:
            yield Event(LOSS, *times, where, before - after)


def _delays(
    records: Mapping[Point, PointRecord], path: Sequence[str], times: tuple[int, int, int],
    method: str,
) -> Iterator[tuple[Where, Sample]]:  # fmt: skip
    """Yield the delays of a flow in a block: of each segment, and of the whole path."""
    points = [Point(switch, name) for switch in path for name in ("arrivals", "departures")]
    for one, other in (*pairwise(points), (points[0], points[-1])):
        before, after = records[one], records[other]
        if method == ONE_BIT:
            delay = mean_delay(before, after)
            span_ns = times[:2]
        else:
            delay = pulse_delay(before, after)
            span_ns = (1000 * before.pulse_us,) * 2
        if delay.delay_us is not None and not delay.problem:
            yield (one.switch, other.switch), Sample(*span_ns, 1000 * delay.delay_us)
