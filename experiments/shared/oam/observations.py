"""Events and delays that each method observes: lost packets, late packets, and changed paths."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from collectors.int.index import Limits
from controllers.ampm.clusters import Cluster, flow_graph, monitoring_links, partition
from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, PointRecord, mean_delay, pulse_delay
from experiments.shared.oam.incidents import (
    RECEIVER,
    SENDER,
    SINK_LEAF,
    SOURCE_LEAF,
    SPINES,
    Where,
    fabric,
)
from experiments.shared.oam.run import (
    ALL_FLOWS,
    MARKINGS,
    MULTIPOINT,
    ONE_BIT,
    POSTCARDS,
    SWITCHES,
    Outcome,
)
from experiments.shared.oam.truth import (
    ARRIVAL,
    DEPARTURE,
    PROBE_SENT,
    PROBE_TAKEN,
    REPLY_TAKEN,
    MeasuredDelay,
    ProbeRecord,
)
from telemark.apps.icmp import PingRecord
from telemark.apps.stamp.statistics import measure_path

# A delay is an event if it exceeds the minimum by more than this. In real time, the machine itself
# sometimes delays packets by milliseconds.
LATE_NS = {"virtual": 500_000, "real": 4_000_000}
TIMEOUT_NS = 100_000_000  # a probe without an answer is lost after this time
SETTLE_NS = round(Limits().settle_us * 1000)  # time for all reports of a packet to arrive
LOSS, DELAY, PATH = "loss", "delay", "path"
Places = tuple[Where, ...]
"""An event happened at one of these links and switches."""
ANYWHERE: Places = ()  # somewhere between the hosts
Times = tuple[int, int, int]
"""Times of the first and the last packet of an event, and the time at which a method knows it."""

REROUTED: Places = ((SOURCE_LEAF, SOURCE_LEAF),)  # the source leaf selects the path


class Event(NamedTuple):
    """Event that a method noticed, about packets with times from `first_ns` to `last_ns`."""

    kind: str
    first_ns: int
    last_ns: int
    known_ns: int  # time at which the method knows it
    where: Places
    packets: int = 1  # number of lost packets
    measured: MeasuredDelay | None = None  # delay of the packets, if they are late


class Sample(NamedTuple):
    """End-to-end delay of packets with times from `first_ns` to `last_ns`."""

    first_ns: int
    last_ns: int
    delay_ns: float


@dataclass
class Observed:
    """All that a method observed."""

    events: list[Event] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    # shortest delays, which decide which packets are late
    shortest: list[MeasuredDelay] = field(default_factory=list)
    probes_ns: list[int] | None = None  # send times of probes; None for methods without probes
    reports: int = 0  # reports, switch readouts or probes


class Segments:
    """Delays per part of the path. Add all delays before you call find_late()."""

    def __init__(self) -> None:
        self._seen: defaultdict[Places, list[tuple[MeasuredDelay, Times]]] = defaultdict(list)

    def add(self, where: Places, measured: MeasuredDelay, times: Times) -> None:
        """Add a delay. `times` are the times of the packets that have this delay."""
        self._seen[where].append((measured, times))

    def find_late(self, late_ns: int, found: Observed) -> None:
        """Add an event per delay that exceeds the minimum of its segment by `late_ns`."""
        for where, seen in self._seen.items():
            shortest = min((measured for measured, _ in seen), key=lambda each: each.delay_ns)
            found.shortest.append(shortest)
            found.events += [
                Event(DELAY, *times, where, measured=measured) for measured, times in seen
                if measured.delay_ns > shortest.delay_ns + late_ns
            ]  # fmt: skip


def observe(outcome: Outcome, late_ns: int) -> Observed:
    """Return what the method of a run observed; see LATE_NS."""
    if outcome.kept is not None:
        return _observed_by_reports(outcome, late_ns)
    if outcome.method == MULTIPOINT:
        return _observed_by_clusters(outcome, late_ns)
    if outcome.method in MARKINGS:
        return _observed_by_marking(outcome, late_ns)
    return _observed_by_probes(outcome.probes, late_ns)


def _observed_by_probes(probes: Mapping[int, ProbeRecord], late_ns: int) -> Observed:
    probes_ns: list[int] = []
    found = Observed(probes_ns=probes_ns)
    for flow, record in probes.items():
        sent_ns = record.sent_ns.tolist()
        probes_ns += sent_ns
        found.reports += len(sent_ns)
        answers = [*_answers(flow, record)]
        segments = Segments()
        for _, seen, known_ns in answers:
            at_ns = int(seen.start_ns)
            found.samples.append(Sample(at_ns, at_ns, seen.delay_ns))
            segments.add(ANYWHERE, seen, (at_ns, at_ns, known_ns))
        segments.find_late(late_ns, found)
        found.events += _unanswered(sent_ns, {sequence for sequence, *_ in answers})
    return found


def _unanswered(sent_ns: Sequence[int], answered: Container[int]) -> Iterator[Event]:
    """Yield the loss of each probe that has no answer."""
    for sequence, at_ns in enumerate(sent_ns):
        if sequence not in answered:
            yield Event(LOSS, at_ns, at_ns, at_ns + TIMEOUT_NS, ANYWHERE)


def _answers(flow: int, record: ProbeRecord) -> Iterator[tuple[int, MeasuredDelay, int]]:
    """Yield the number of each answered probe, its delay, and when the delay is known.

    STAMP measures the one-way delay, and ping the round-trip delay.
    """
    if isinstance(record, PingRecord):
        for sequence, at_ns, known_ns, _ in record.replies.tolist():
            yield (
                sequence,
                MeasuredDelay(flow, (PROBE_SENT,), at_ns, (REPLY_TAKEN,), known_ns),
                known_ns,
            )
        return
    path = measure_path(record)
    arrays = path.sequence, path.sent_ns, path.forward_ns, path.round_trip_ns
    for sequence, at_ns, forward_ns, round_trip_ns in zip(
        *(array.tolist() for array in arrays), strict=True
    ):
        seen = MeasuredDelay(flow, (PROBE_SENT,), at_ns, (PROBE_TAKEN,), at_ns + forward_ns)
        yield sequence, seen, at_ns + round_trip_ns


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
            continue  # the report of this switch was lost
        at_ns = packet.transits[SOURCE_LEAF].ingress_ns
        route = [packet.transits[name] for name in SWITCHES if name in packet.transits]
        times = at_ns, at_ns, packet.known_ns
        for each in route:
            measured = MeasuredDelay(
                port, (Point(each.switch, ARRIVAL),), each.ingress_ns,
                (Point(each.switch, DEPARTURE),), each.ingress_ns + each.latency_ns,
            )  # fmt: skip
            segments.add(((each.switch, each.switch),), measured, times)
        for one, other in pairwise(route):
            measured = MeasuredDelay(
                port, (Point(one.switch, DEPARTURE),), one.egress_ns,
                (Point(other.switch, ARRIVAL),), other.ingress_ns,
            )  # fmt: skip
            segments.add(((one.switch, other.switch),), measured, times)
        last = route[-1]
        if last.switch == SINK_LEAF:
            found.samples.append(Sample(at_ns, at_ns, last.egress_ns - at_ns))
        elif outcome.method in POSTCARDS:
            where = ((last.switch, last.next_switch),)
            found.events.append(Event(LOSS, at_ns, at_ns, packet.known_ns + SETTLE_NS, where))
        if packet.spine is not None:
            if spines.setdefault(port, packet.spine) != packet.spine:
                found.events.append(Event(PATH, *times, REROUTED))
            spines[port] = packet.spine
    segments.find_late(late_ns, found)
    return found


def _block_times(outcome: Outcome, block: BlockReport) -> Times:
    schedule = outcome.schedule
    start_ns = 1000 * schedule.start_us(block.block)
    end_ns = start_ns + 1000 * schedule.block_us
    return start_ns, end_ns, 1000 * schedule.reading_us(block.block)


def _used_spines(records: Mapping[Point, PointRecord]) -> dict[str, int]:
    """Return the number of packets at each spine that received any."""
    used = {name: records[Point(name, ARRIVAL)].packets for name in SPINES}
    return {name: packets for name, packets in used.items() if packets}


def _observed_by_marking(outcome: Outcome, late_ns: int) -> Observed:
    found = Observed(reports=len(outcome.blocks) * len(SWITCHES))
    segments = Segments()
    spines: dict[int, set[str]] = {}  # flow -> spines that it used in the last block
    for block in outcome.blocks:
        times = _block_times(outcome, block)
        for flow in block.records:
            records = block.known_records(flow)
            used = _used_spines(records)
            if not used:
                continue
            if used.keys() - spines.setdefault(flow, {*used}):
                found.events.append(Event(PATH, *times, REROUTED))
            spines[flow] = {*used}
            path = [SOURCE_LEAF, max(used, key=lambda name: used[name]), SINK_LEAF]
            found.events += _losses(records, path, times)
            points = [Point(switch, name) for switch in path for name in (ARRIVAL, DEPARTURE)]
            for one, other in (*pairwise(points), (points[0], points[-1])):
                seen = _measured_delay(outcome, records, flow, one, other)
                if seen is None:
                    continue
                span_ns = _span_ns(times, seen)
                if (one, other) == (points[0], points[-1]):
                    found.samples.append(Sample(*span_ns, seen.delay_ns))
                else:
                    segments.add(((one.switch, other.switch),), seen, (*span_ns, times[2]))
    segments.find_late(late_ns, found)
    return found


def _measured_delay(
    outcome: Outcome, records: Mapping[Point, PointRecord], flow: int, one: Point, other: Point
) -> MeasuredDelay | None:  # fmt: skip
    """Return the times of the pulse, or the mean times of a block, at two points of a flow."""
    before, after = records[one], records[other]
    port = outcome.ports[flow]
    if outcome.method == ONE_BIT:
        return _mean_delay(outcome, port, ((one,), before), ((other,), after))
    if pulse_delay(before, after).problem:
        return None
    return MeasuredDelay(port, (one,), 1000 * before.pulse_us, (other,), 1000 * after.pulse_us)


def _mean_delay(
    outcome: Outcome, port: int | None, start: tuple[Sequence[Point], PointRecord],
    end: tuple[Sequence[Point], PointRecord],
) -> MeasuredDelay | None:  # fmt: skip
    """Return the mean times of a block at points with these records; None after a loss."""
    (one, before), (other, after) = start, end
    if mean_delay(before, after).problem:
        return None
    start_us = outcome.schedule.start_us(before.block)
    mean_ns = [1000 * (start_us + each.sum_us / each.packets) for each in (before, after)]
    return MeasuredDelay(port, tuple(one), mean_ns[0], tuple(other), mean_ns[1], before.block)


def _observed_by_clusters(outcome: Outcome, late_ns: int) -> Observed:
    """Return what multipoint alternate marking observed, of all data flows together.

    The counters and mean delays are those of clusters. The points at which a hashed sample was
    taken show the links of the sampled packet.
    """
    found = Observed(reports=len(outcome.blocks) * len(SWITCHES))
    segments = Segments()
    topo = fabric()
    graph = flow_graph(topo.links(), topo.hosts(), [SENDER], [RECEIVER])
    clusters = partition(monitoring_links(graph, graph))
    ends = Point(SOURCE_LEAF, ARRIVAL), Point(SINK_LEAF, DEPARTURE)
    [whole] = partition(monitoring_links(graph, ends))
    last: dict[str, int] = {}  # packets at each used spine in the last block
    for block in outcome.blocks:
        times = _block_times(outcome, block)
        records = block.known_records(ALL_FLOWS)
        used = _used_spines(records)
        # In the last block of the traffic, few packets may miss a spine by chance.
        if last and used.keys() != last.keys() and sum(used.values()) > sum(last.values()) / 2:
            found.events.append(Event(PATH, *times, REROUTED))
        last = used
        for cluster in clusters:
            where = tuple(sorted((one.switch, other.switch) for one, other in cluster.links))
            if (lost := cluster.loss(records)) > 0:
                found.events.append(Event(LOSS, *times, where, lost))
            for each, seen in _cluster_delays(outcome, records, cluster):
                segments.add(each, seen, (*_span_ns(times, seen), times[2]))
        found.samples += [Sample(*_span_ns(times, seen), seen.delay_ns)
                          for _, seen in _cluster_delays(outcome, records, whole)]  # fmt: skip
    segments.find_late(late_ns, found)
    return found


def _cluster_delays(
    outcome: Outcome, records: Mapping[Point, PointRecord], cluster: Cluster
) -> Iterator[tuple[Places, MeasuredDelay]]:
    """Yield the mean times at a cluster, and the times of sampled packets at its links."""
    first, second = cluster.records(records)
    mean = _mean_delay(outcome, None, (cluster.inputs, first), (cluster.outputs, second))
    if mean is not None:
        yield tuple(sorted((one.switch, other.switch) for one, other in cluster.links)), mean
    known = first.samples.keys() & second.samples.keys()
    for one, other in sorted(cluster.links):
        starts, ends = records[one].samples, records[other].samples
        for digest in sorted(known & starts.keys() & ends.keys()):
            times_ns = 1000 * starts[digest], 1000 * ends[digest]
            seen = MeasuredDelay(None, (one,), times_ns[0], (other,), times_ns[1])
            yield ((one.switch, other.switch),), seen


def _span_ns(times: Times, seen: MeasuredDelay) -> tuple[int, int]:
    """Return the time of a packet, or of the whole block for a mean."""
    return times[:2] if seen.block is not None else (round(seen.start_ns),) * 2


def _losses(
    records: Mapping[Point, PointRecord], path: Sequence[str], times: Times
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
            yield Event(LOSS, *times, (where,), before - after)
