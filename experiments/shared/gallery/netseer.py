"""NetSeer: network of two switches, and the expected reports, from captures.

h1 - s1 = s2 - h2, h3; c1 and c2 are the collectors of s1 and s2. The first link from s1 to s2 is
slow and lossy.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from experiments.shared.gallery import traces
from experiments.shared.xdp.streams import Stream
from telemark.accounting import pcap
from telemark.network import Network

DROP, LOSS, CONGESTION, PATH = range(1, 5)
KINDS = {DROP: "drop", LOSS: "loss", CONGESTION: "congestion", PATH: "path change"}
NO_ROUTE = "00:00:00:00:0f:ff"  # address for which no switch has a route
EVENT_BYTES = 24
ETHERTYPE, EVENTS, NOTICE = slice(12, 14), (0x88, 0xB6), (0x88, 0xB5)
NUMBER, HEADER = slice(42, 46), 14  # offsets in a frame: packet number, end of Ethernet
NUMBERS = 1 << 16
FIRST, SECOND, COLLECTOR = 2, 3, 4  # ports; the first two lead to the other switch
REPORT_SESSION, NOTICE_SESSIONS = 1, 10

Event = tuple[int, int, int, int]  # kind, flow, packets, detail: event_t in netseer.p4


class TwoSwitches(Topo):
    """Two switches with two links between them."""

    def build(self, **first: float) -> None:
        """`first` are parameters of the first link, in the direction to s2."""
        self.addSwitch("s1")
        self.addSwitch("s2")
        for host, switch, port in (("h1", "s1", 1), ("c1", "s1", COLLECTOR), ("h2", "s2", 1),
                                   ("c2", "s2", COLLECTOR), ("h3", "s2", 5)):  # fmt: skip
            self.addLink(self.addHost(host), switch, port2=port)
        self.addLink("s1", "s2", port1=FIRST, port2=FIRST, params1=first)
        self.addLink("s1", "s2", port1=SECOND, port2=SECOND)


def route(net: Network, host: str, port: int) -> fy.P4TableEntry:
    """Return the entry that forwards packets for a host."""
    match = fy.Match({"hdr.ethernet.dst_addr": net.host(host).MAC()})
    return fy.P4TableEntry("forwarding", match=match, action=fy.Action("forward", port=port))


async def configure(net: Network, switches: Mapping[str, fy.Switch]) -> None:
    """Set the routes, and the clone sessions for reports and notices."""
    sessions = [
        fy.P4CloneSessionEntry(number, replicas=[port])
        for number, port in ((REPORT_SESSION, COLLECTOR), (NOTICE_SESSIONS + FIRST, FIRST),
                             (NOTICE_SESSIONS + SECOND, SECOND))
    ]  # fmt: skip
    hosts = ("h2", "h3")
    await switches["s1"].insert([*(route(net, host, FIRST) for host in hosts), *sessions])
    routes = [route(net, host, net.port("s2", host)) for host in hosts]
    await switches["s2"].insert([*routes, *sessions])


def make_frames(
    net: Network, stream: Stream, unrouted: int, last: int
) -> tuple[list[bytes], NDArray[np.bool_]]:
    """Return the frames of a trace, and which of them have a route.

    The flows alternate between the destinations h2 and h3. One flow in `unrouted` has no route. The
    final `last` packets are for h2.
    """
    macs = [net.host("h2").MAC(), net.host("h3").MAC(), NO_ROUTE]
    target = np.where(stream.numbers % unrouted == 0, macs.index(NO_ROUTE), stream.numbers % 2)
    target[-last:] = 0
    addresses = [bytes.fromhex(mac.replace(":", "")) for mac in macs]
    frames = traces.make_frames(stream, net.host("h1").MAC(), macs[0])
    return (
        [addresses[to] + frame[6:] for to, frame in zip(target.tolist(), frames, strict=True)],
        target != macs.index(NO_ROUTE),
    )


@dataclass
class GroupCache:
    """Model of group caching. `slots` has the flow and the number of unreported events."""

    size: int
    every: int
    reports: list[Event] = field(default_factory=list)
    slots: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, kind: int, flow: int, detail: int) -> None:
        """Process an event."""
        slot = slot_of(flow, self.size)
        owner, waiting = self.slots.get(slot, (0, 0))
        if owner == flow:
            waiting += 1
            if waiting == self.every:
                self.reports.append((kind, flow, waiting, detail))
                waiting = 0
        else:
            self.reports.append((kind, flow, 1, detail))
            if waiting:
                self.reports.append((kind, owner, waiting, detail))
            waiting = 0
        self.slots[slot] = flow, waiting


def slot_of(flow: int, slots: int) -> int:
    """Return the slot of a flow."""
    return zlib.crc32(flow.to_bytes(13, "big")) % slots


@dataclass(frozen=True)
class Packets:
    """Packets of a capture: times, and their numbers in the trace."""

    time_ns: NDArray[np.int64]
    number: NDArray[np.int64]


def join(parts: Sequence[Packets]) -> Packets:
    """Return the packets of several captures in order of time."""
    times = np.concatenate([each.time_ns for each in parts])
    order = np.argsort(times, kind="stable")
    return Packets(times[order], np.concatenate([each.number for each in parts])[order])


@dataclass(frozen=True)
class Captures:
    """Captures of a run; the network has stopped."""

    entered: Packets  # packets that arrived at s1 from h1
    first: Packets  # packets that left s1 by the first link
    second: Packets
    crossed: Packets  # packets that arrived at s2, over both links
    left: Sequence[tuple[int, Packets]]  # packets that left s2, by port
    notices: NDArray[np.int64]  # columns: time, first missing number, count
    reports: dict[tuple[str, int], list[Event]]  # (switch, kind) -> reports
    report_bytes: int  # bytes of all frames with reports
    traffic_bytes: int


def read_captures(net: Network) -> Captures:
    """Read the captures of a network."""
    first, second = (f"s1-eth{port}" for port in (FIRST, SECOND))
    back = pcap.read(net.capture("s1", first, "in"), 64)
    is_notice = (back.bytes[:, ETHERTYPE] == NOTICE).all(axis=1)
    fields = back.bytes[is_notice, HEADER : HEADER + 4].copy().view(">u2").astype(np.int64)
    collectors = {f"s{n}": net.capture(f"s{n}", f"c{n}", "out") for n in (1, 2)}
    return Captures(
        _packets(net.capture("s1", "h1", "in")),
        _packets(net.capture("s1", first, "out")), _packets(net.capture("s1", second, "out")),
        join([_packets(net.capture("s2", f"s2-eth{port}", "in")) for port in (FIRST, SECOND)]),
        [(net.port("s2", host), _packets(net.capture("s2", host, "out"))) for host in ("h2", "h3")],
        np.column_stack([back.time_ns[is_notice].astype(np.int64), fields]),
        {(switch, kind): [*events] for switch, path in collectors.items()
         for kind, events in groupby(sorted(read_reports(path), key=kind_of), kind_of)},
        sum(int(pcap.read(path, 16).length.sum()) for path in collectors.values()),
        int(pcap.read(net.capture("s1", "h1", "in"), 16).length.sum()),
    )  # fmt: skip


def kind_of(event: Event) -> int:
    """Return the kind of an event."""
    return event[0]


def _packets(path: Path) -> Packets:
    """Return the packets of the trace, which are IPv4."""
    frames = pcap.read(path, 64)
    is_data = (frames.bytes[:, ETHERTYPE] == (8, 0)).all(axis=1)
    numbers = frames.bytes[is_data, NUMBER].copy().view(">u4")[:, 0]
    return Packets(frames.time_ns[is_data].astype(np.int64), numbers.astype(np.int64))


def read_reports(path: Path) -> list[Event]:
    """Return the reported events of a capture."""
    found = []
    for frame in pcap.iterate_frames(path):
        for at in range(HEADER, len(frame.bytes), EVENT_BYTES):
            row = frame.bytes[at : at + EVENT_BYTES]
            numbers = (row[0:1], row[1:14], row[14:18], row[18:24])
            kind, flow, count, detail = (int.from_bytes(each, "big") for each in numbers)
            found.append((kind, flow, count, detail))
    return found


@dataclass(frozen=True)
class Setting:
    """Trace and parameters of the program."""

    keys: Sequence[int]  # flow of each packet
    # whether each packet has a route; packets without a route are dropped
    is_routed: NDArray[np.bool_]
    slots: int  # number of slots of a group cache
    paths: int  # number of slots of the table of paths
    ring: int
    every: int
    congested_us: int


@dataclass
class Expected:
    """Events and reports that the captures predict."""

    # (switch, kind) -> reports
    reports: dict[tuple[str, int], list[Event]] = field(default_factory=dict)
    # for each packet with an event: switch, kind, flow, and ports (of path changes)
    events: list[tuple[str, int, int, int]] = field(default_factory=list)
    # first missing number, and number of missing packets
    gaps: list[tuple[int, int]] = field(default_factory=list)
    losses_found: int = 0  # number of lost packets whose flow was still in the ring

    def add(self, events: Sequence[tuple[str, int, int, int, int]], given: "Setting") -> None:
        """Add events of one switch and kind, and their reports.

        An event is a switch, kind, flow, ports and detail.
        """
        cache = GroupCache(given.slots, given.every)
        self.events += [each[:4] for each in events]
        for switch, kind, flow, _, detail in events:
            cache.add(kind, flow, detail)
            self.reports[switch, kind] = cache.reports


def expect(found: Captures, given: Setting) -> Expected:
    """Compute the events and the reports from captures."""
    expected = Expected()
    entered = found.entered.number
    is_routed = given.is_routed[entered]
    drops = entered[~is_routed].tolist()
    expected.add([("s1", DROP, given.keys[number], 0, 0) for number in drops], given)
    by_second = np.isin(entered, found.second.number)
    _expect_losses(found, is_routed & ~by_second, given, expected)
    ways = [(1 << 16 | FIRST, found.first), (1 << 16 | SECOND, found.second)]
    _expect_departures("s1", found.entered, ways, given=given, expected=expected)
    ways = []
    for port, packets in found.left:
        is_second = np.isin(packets.number, found.second.number)
        ways += [
            (source << 16 | port, Packets(packets.time_ns[which], packets.number[which]))
            for source, which in ((FIRST, ~is_second), (SECOND, is_second))
        ]
    _expect_departures("s2", found.crossed, ways, given=given, expected=expected)
    return expected


def _expect_losses(
    found: Captures, to_first: NDArray[np.bool_], given: Setting, expected: Expected
) -> None:
    """Add the losses on the first link: gaps, notices, and events whose flow is in the ring."""
    sent = found.entered.number[to_first]
    times = found.entered.time_ns[to_first]
    (arrived,) = np.nonzero(np.isin(sent, found.crossed.number))
    before = np.concatenate([[-1], arrived[:-1]])
    for last, now in zip(before.tolist(), arrived.tolist(), strict=True):
        lost = range(last + 1, now)
        if lost:
            expected.gaps.append((lost[0] % NUMBERS, len(lost)))
    events, missing = [], 0  # `missing` is the number of the missing packet, without wrapping
    for time_ns, first, count in found.notices.tolist():
        missing += (first - missing) % NUMBERS
        issued = int(np.searchsorted(times, time_ns, "right"))
        for number in range(missing, min(missing + count, len(sent))):
            event = ("s1", LOSS, given.keys[int(sent[number])], 0)
            if number >= issued - given.ring:
                events.append((*event, number % NUMBERS))
            else:  # the ring has overwritten the flow
                expected.events.append(event)
    expected.add(events, given)
    expected.losses_found = len(events)


def _expect_departures(
    switch: str, entered: Packets, ways: Sequence[tuple[int, Packets]], *, given: Setting,
    expected: Expected,
) -> None:  # fmt: skip
    """Add the path changes and the congestion of the packets that left a switch.

    An element of `ways` is a path (two ports), and the packets that left on this path.
    """
    path = np.zeros(len(given.keys), np.int64)
    arrived_us = np.zeros(len(given.keys), np.int64)
    arrived_us[entered.number] = entered.time_ns // 1000
    for way, packets in ways:
        path[packets.number] = way
    left = join([packets for _, packets in ways])
    slots: dict[int, tuple[int, int]] = {}
    reports: list[Event] = []
    changes = set()
    for packet, way in zip(left.number.tolist(), path[left.number].tolist(), strict=True):
        flow = given.keys[packet]
        slot = slot_of(flow, given.paths)
        if slots.get(slot) != (flow, way):
            reports.append((PATH, flow, 1, way))
            changes.add((switch, PATH, flow, way))
        slots[slot] = flow, way
    expected.reports[switch, PATH] = reports
    expected.events += sorted(changes)
    spent_us = left.time_ns // 1000 - arrived_us[left.number]
    slow = spent_us > given.congested_us
    waited = zip(left.number[slow].tolist(), spent_us[slow].tolist(), strict=True)
    expected.add([(switch, CONGESTION, given.keys[packet], 0, us) for packet, us in waited], given)


@dataclass(frozen=True)
class Sample:
    """Result of one run."""

    ring: int
    slots: int
    seed: int
    coverage: float  # fraction of the flow events that were reported
    losses_found: float  # fraction of the lost packets whose flow was found
    overhead: float  # bytes of events / bytes of the traffic
    frame_overhead: float  # bytes of the frames with reports / bytes of the traffic
    # number of packets with an event, by kind; for path changes: number of changes
    packets: dict[str, int]
    reports: dict[str, int]
    different: int  # number of reports that differ from the model
    wrong_notices: int  # number of notices that differ from the gaps


def compare(found: Captures, expected: Expected, given: Setting, seed: int) -> Sample:
    """Compare the reports with those that the captures predict."""
    keys = found.reports.keys() | expected.reports.keys()
    pairs = [(found.reports.get(key, []), expected.reports.get(key, [])) for key in keys]
    reported = {
        (switch, kind, flow, detail if kind == PATH else 0)
        for (switch, kind), events in found.reports.items() for _, flow, _, detail in events
    }  # fmt: skip
    flow_events = set(expected.events)
    packets = Counter(KINDS[kind] for _, kind, _, _ in expected.events)
    reports: Counter[str] = Counter()
    for (_, kind), events in found.reports.items():
        reports[KINDS.get(kind, "unknown")] += len(events)
    gaps = zip_longest(map(tuple, found.notices[:, 1:].tolist()), expected.gaps)
    return Sample(
        given.ring, given.slots, seed,
        len(flow_events & reported) / len(flow_events),
        expected.losses_found / max(1, packets["loss"]),
        EVENT_BYTES * reports.total() / found.traffic_bytes,
        found.report_bytes / found.traffic_bytes,
        dict(packets), dict(reports),
        sum(a != b for pair in pairs for a, b in zip_longest(*pair)),
        sum(a != b for a, b in gaps),
    )  # fmt: skip
