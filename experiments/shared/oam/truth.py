"""Ground truth of data packets and probes: when each one passed each point, from captures.

minip4 timestamps a packet at the time of the capture. bmv2 timestamps it between the captures on
both sides of bmv2, and the time of a bmv2 clock has an error. So each time is an interval.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from experiments.shared.oam.incidents import (
    RECEIVER,
    SENDER,
    SINK_LEAF,
    SOURCE_LEAF,
    SPINES,
)
from telemark.accounting import pcap
from telemark.apps.icmp import ECHO_REPLY, ECHO_REQUEST, PingRecord
from telemark.apps.stamp.packets import PORT as STAMP_PORT
from telemark.apps.stamp.sender import SessionRecord
from telemark.network import Network
from telemark.traffic.flows import Flow

NEVER = -1
RESOLUTION_NS = 1000  # resolution of the times that methods report
BEFORE = {SOURCE_LEAF: (SENDER,), SINK_LEAF: SPINES, **dict.fromkeys(SPINES, (SOURCE_LEAF,))}
AFTER = {SOURCE_LEAF: SPINES, SINK_LEAF: (RECEIVER,), **dict.fromkeys(SPINES, (SINK_LEAF,))}
ARRIVAL, DEPARTURE = "arrivals", "departures"
SEGMENTS = tuple({
    segment: None for spine in SPINES for segment in pairwise(
        Point(switch, name) for switch in (SOURCE_LEAF, spine, SINK_LEAF)
        for name in (ARRIVAL, DEPARTURE)
    )
})  # fmt: skip
"""Parts of all paths: each switch, and each link between switches."""
PROBE_SENT, PROBE_TAKEN = Point(SENDER, DEPARTURE), Point(RECEIVER, ARRIVAL)
REPLY_TAKEN = Point(SENDER, ARRIVAL)

Interval = tuple[NDArray[np.int64], NDArray[np.int64]]
ProbeRecord = PingRecord | SessionRecord


class MeasuredDelay(NamedTuple):
    """Delay between two points, according to a method. Each point is one of several."""

    flow: int | None  # UDP port, or identifier of ping; None: any flow
    start: tuple[Point, ...]
    start_ns: float
    end: tuple[Point, ...]
    end_ns: float
    block: int | None = None  # None: one packet; otherwise, times are means of this block

    @property
    def delay_ns(self) -> float:
        """Delay between the points."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class PointTimes:
    """When packets passed points; arrays have one element per packet."""

    flow: NDArray[np.int64]
    times: Mapping[Point, Interval]  # lower and upper bound; NEVER if a packet did not pass
    block: NDArray[np.int64] | None = None  # block of alternate marking

    def bounds(self, points: Sequence[Point]) -> Interval:
        """Return when packets passed one of these points. A packet passes at most one of them."""
        low, high = zip(*(self.times[point] for point in points), strict=True)
        return np.maximum.reduce(low), np.maximum.reduce(high)

    def match(self, seen: MeasuredDelay) -> NDArray[np.intp]:
        """Return the packets with the times of `seen`, or of a block with these mean times."""
        ends = ((self.bounds(seen.start), seen.start_ns), (self.bounds(seen.end), seen.end_ns))
        chosen = np.logical_and.reduce([low != NEVER for (low, _), _ in ends])
        if seen.flow is not None:
            chosen &= self.flow == seen.flow
        if seen.block is not None:
            chosen &= self.block == seen.block
        packets = np.flatnonzero(chosen)
        if not len(packets):
            return packets
        agrees = np.ones(len(packets), np.bool_)
        for bounds, at_ns in ends:
            # Relative to the measured time, because means of such large numbers are inexact.
            low, high = (bound[packets] - at_ns for bound in bounds)
            if seen.block is not None:
                low, high = low.mean(), high.mean()
            agrees &= (low <= RESOLUTION_NS) & (high >= -RESOLUTION_NS)
        return packets[agrees]

    def find_late(self, start: Point, end: Point, late_ns: int) -> NDArray[np.intp]:
        """Return the packets whose delay certainly exceeds the minimum by `late_ns`.

        That is, it does so for all times within the bounds.
        """
        (start_low, start_high), (end_low, end_high) = self.times[start], self.times[end]
        packets = np.flatnonzero((start_low != NEVER) & (end_low != NEVER))
        if not len(packets):
            return packets
        # A measured delay is the difference of two times, and so is the measured minimum. Each of
        # these four times may have an error of RESOLUTION_NS.
        limit_ns = (end_high - start_low)[packets].min() + late_ns + 4 * RESOLUTION_NS
        return packets[(end_low - start_high)[packets] > limit_ns]

    def crossed(self, seen: MeasuredDelay, spine: str) -> bool:
        """Return whether `seen` describes a packet that crossed a spine."""
        low, _ = self.times[Point(spine, ARRIVAL)]
        return bool(np.any(low[self.match(seen)] != NEVER))


@dataclass(frozen=True)
class Truth:
    """All data packets; the arrays have one element per packet."""

    sent_ns: NDArray[np.int64]  # arrival time at the first switch
    # time from then to the departure from the last switch; -1 means that the packet was lost
    delay_ns: NDArray[np.int64]

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Return which packets were lost."""
        return self.delay_ns < 0


class Family(NamedTuple):
    """How to find the packets of hosts in captures."""

    ethertype: int
    source: int  # offset of the source address
    udp: int  # offset of the UDP header in frames without telemetry
    number: int  # offset of the last 32 bits of the sequence number, from the start of the payload
    is_after_udp: bool  # whether telemetry is behind the UDP header, or in front of it


IPV4 = Family(0x0800, 26, 34, 6, is_after_udp=True)
IPV6 = Family(0x86DD, 22, 54, 0, is_after_udp=False)
ETHERTYPE, DSCP, PROTOCOL, UDP, ICMP = 12, 15, 23, 17, 1


@dataclass(frozen=True)
class HostTraffic:
    """Flows of the hosts that send, and how to find their packets."""

    family: Family
    addresses: Mapping[str, bytes]  # addresses of SENDER and CROSS_SENDER
    flows: Sequence[Flow]

    def read(self, path: Path, host: str = SENDER) -> "Packets":
        """Read the packets of a host's flows from a capture."""
        family, address = self.family, self.addresses[host]
        frames = pcap.read(path)
        data = frames.bytes
        own = data[:, family.source : family.source + len(address)]
        ours = (_number(data, ETHERTYPE, 2) == family.ethertype) & (own == [*address]).all(axis=1)
        if family is IPV4:
            ours &= data[:, PROTOCOL] == UDP
        flows = [flow for flow in self.flows if flow.source == host]
        size = flows[0].size if flows else 0
        data, length = data[ours], frames.length[ours].astype(np.int64)
        added = length - size
        port = _number(data, family.udp + 2 + (0 if family.is_after_udp else added), 2)
        chosen = np.isin(port, [flow.port for flow in flows])
        data, port = data[chosen], port[chosen]
        number = _number(data, family.udp + 8 + family.number + added[chosen], 4)
        return Packets(
            key=port << 32 | number, time_ns=frames.time_ns[ours][chosen].astype(np.int64),
            dscp=data[:, DSCP] >> 2, total_bytes=int(frames.length.sum()), bytes=size * len(port),
        )  # fmt: skip


class Packets(NamedTuple):
    """Packets of flows in a capture."""

    key: NDArray[np.int64]  # UDP port and sequence number
    time_ns: NDArray[np.int64]
    dscp: NDArray[np.uint8]
    total_bytes: int  # bytes of all frames in the capture
    bytes: int  # bytes of the flows' packets, without telemetry


def read_truth(
    net: Network, traffic: HostTraffic, clock_errors_us: Mapping[str, float], schedule: Schedule
) -> tuple[Truth, PointTimes]:
    """Return the data packets, and when they passed the switches."""
    sent = traffic.read(net.capture(SOURCE_LEAF, SENDER, "in"))
    order = np.argsort(sent.key)
    key, sent_ns = sent.key[order], sent.time_ns[order]

    def times(paths: Iterable[Path]) -> NDArray[np.int64]:
        found = np.full(len(key), NEVER)
        for path in paths:
            packets = traffic.read(path)
            found[np.searchsorted(key, packets.key)] = packets.time_ns
        return found

    left_ns = times([net.capture(SINK_LEAF, RECEIVER, "out")])
    truth = Truth(sent_ns, np.where(left_ns == NEVER, NEVER, left_ns - sent_ns))
    bounds: dict[Point, Interval] = {}
    for switch in (SOURCE_LEAF, *SPINES, SINK_LEAF):
        arrival, departure = Point(switch, ARRIVAL), Point(switch, DEPARTURE)
        if net.has_panels:
            error_ns = round(1000 * clock_errors_us[switch])
            low = times(net.capture(switch, n, "out", inner=True) for n in BEFORE[switch])
            high = times(net.capture(switch, n, "in", inner=True) for n in AFTER[switch])
            passed = (low != NEVER) & (high != NEVER)
            bounds[arrival] = bounds[departure] = (
                np.where(passed, low - error_ns, NEVER), np.where(passed, high + error_ns, NEVER)
            )  # fmt: skip
        else:
            bounds[arrival] = (times(net.capture(switch, n, "in") for n in BEFORE[switch]),) * 2
            bounds[departure] = (times(net.capture(switch, n, "out") for n in AFTER[switch]),) * 2
    low, high = bounds[Point(SOURCE_LEAF, ARRIVAL)]
    colour = np.zeros(len(key), np.int64)
    for spine in SPINES:
        what = ("in", True) if net.has_panels else ("out", False)
        marked = traffic.read(net.capture(SOURCE_LEAF, spine, what[0], inner=what[1]))
        colour[np.searchsorted(key, marked.key)] = marked.dscp & 1
    first, last = (bound // (1000 * schedule.block_us) for bound in (low, high))
    block = np.where(first & 1 == colour, first, last)
    return truth, PointTimes(key >> 32, bounds, block)


def read_spines(seen: PointTimes) -> dict[int, str]:
    """Return the spine to which most packets of each flow went."""
    passed = {spine: seen.times[Point(spine, ARRIVAL)][0] != NEVER for spine in SPINES}
    return {
        port: max(SPINES, key=lambda each: np.count_nonzero(passed[each] & (seen.flow == port)))
        for port in np.unique(seen.flow).tolist()
    }


def read_probes(net: Network, records: Mapping[int, ProbeRecord], *, stamped: bool) -> PointTimes:
    """Return when hosts sent and received probes.

    `records` are the records of senders, by source port or by the identifier of ping. The upper
    bound of the time at which a host received a probe is the end of the send call of the switch.
    """
    pings = any(isinstance(record, PingRecord) for record in records.values())
    sent_ns = {(flow, number): at_ns for flow, record in records.items()
               for number, at_ns in enumerate(record.sent_ns.tolist())}  # fmt: skip
    keys = list(sent_ns)

    def times(switch: str, neighbour: str, what: str, *, replies: bool) -> NDArray[np.int64]:
        path = net.capture(switch, neighbour, what)
        found = _read_pings(path, replies=replies) if pings else _read_test_packets(path)
        return np.array([found.get(key, NEVER) for key in keys], np.int64)

    entered_ns = times(SOURCE_LEAF, SENDER, "in", replies=False)
    bounds = {PROBE_SENT: (np.array([*sent_ns.values()], np.int64), entered_ns)}
    for spine in SPINES:
        bounds[Point(spine, ARRIVAL)] = (times(SOURCE_LEAF, spine, "out", replies=False),) * 2
    end, switch, host = (
        (REPLY_TAKEN, SOURCE_LEAF, SENDER) if pings else (PROBE_TAKEN, SINK_LEAF, RECEIVER)
    )
    low, high = (times(switch, host, what, replies=True)
                 for what in ("out", "sent" if stamped else "out"))  # fmt: skip
    bounds[end] = low, high
    return PointTimes(np.array([flow for flow, _ in keys], np.int64), bounds)


def _read_test_packets(path: Path) -> dict[tuple[int, int], int]:
    """Return the times of STAMP test packets, by source port and sequence number."""
    frames = pcap.read(path)
    data = frames.bytes
    ours = (_number(data, ETHERTYPE, 2) == IPV4.ethertype) & (data[:, PROTOCOL] == UDP)
    ours &= _number(data, IPV4.udp + 2, 2) == STAMP_PORT
    return _times(frames, ours, IPV4.udp, (IPV4.udp + 8, 4))


def _read_pings(path: Path, *, replies: bool) -> dict[tuple[int, int], int]:
    """Return the times of echo requests or replies, by identifier and sequence number."""
    frames = pcap.read(path)
    data = frames.bytes
    ours = (_number(data, ETHERTYPE, 2) == IPV4.ethertype) & (data[:, PROTOCOL] == ICMP)
    ours &= data[:, IPV4.udp] == (ECHO_REPLY if replies else ECHO_REQUEST)
    return _times(frames, ours, IPV4.udp + 4, (IPV4.udp + 6, 2))


def _times(
    frames: pcap.Frames, ours: NDArray[np.bool_], flow: int, number: tuple[int, int]
) -> dict[tuple[int, int], int]:
    """Return the times of frames by flow (16 bits) and number, at these offsets."""
    data = frames.bytes[ours]
    keys = zip(_number(data, flow, 2).tolist(), _number(data, *number).tolist(), strict=True)
    return dict(zip(keys, frames.time_ns[ours].tolist(), strict=True))


def _number(data: NDArray[np.uint8], at: int | NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the big-endian number at an offset in each frame."""
    columns = np.broadcast_to(at, len(data))[:, None] + np.arange(size)
    digits = np.take_along_axis(data, columns, axis=1).astype(np.int64)
    return np.asarray(digits @ (256 ** np.arange(size)[::-1]))
