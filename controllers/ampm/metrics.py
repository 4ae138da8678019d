"""Blocks of alternate marking as Prometheus metrics: packets, loss and delay of each segment."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from controllers.ampm.records import (
    Delay,
    Point,
    PointRecord,
    Record,
    mean_delay,
    pulse_delay,
)
from controllers.ampm.watch import FlowPath, Method, Multipoint, NamedPoint_co, WatchedFlow

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Records = Mapping[Point, PointRecord | None]
_COLOURED, _PULSED = Method.STEP | Method.MULTIPLEXED, Method.PULSE | Method.MULTIPLEXED


class BlockMetrics:
    """Sums over all blocks so far.

    A block of a flow counts only if its records are known at all points, and if no segment has more
    packets at its end than at its start. So all sums of a flow are over the same blocks, and only
    increase. A segment is a switch (`s1`), or what is between two switches (`s1-s2`). A flow with
    several paths has no segments. `read` are the registers that are read.
    """

    def __init__(
        self, flows: Mapping[WatchedFlow, FlowPath[NamedPoint_co]], read: Collection[Record]
    ) -> None:
        self._flows = {flow.number: (flow, path) for flow, path in flows.items()}
        self._has_means = Record.BLOCK in read
        self._blocks: Counter[tuple[str, str]] = Counter()
        self._packets: Counter[tuple[str, str, str]] = Counter()
        self._bytes: Counter[tuple[str, str, str]] = Counter()
        self._lost: Counter[tuple[str, str]] = Counter()
        self._delays: dict[tuple[str, str], tuple[int, float]] = {}  # number and sum in us

    def add(self, records: Mapping[int, Records]) -> None:
        """Add the records of a block: see BlockReport."""
        for number, of_flow in records.items():
            self._blocks[str(number), self._add(number, of_flow)] += 1

    def _add(self, number: int, records: Records) -> str:
        """Add the records of a flow; return whether they are complete."""
        flow, path = self._flows[number]
        known = {point: record for point, record in records.items() if record is not None}
        if len(known) < len(records):
            return "incomplete"
        segments = {} if isinstance(path, Multipoint) else {
            (str(number), _name(first, second)): (known[first], known[second])
            for first, second in pairwise(known)
        }  # fmt: skip
        if flow.methods & _COLOURED:
            lost = {
                key: first.packets - second.packets for key, (first, second) in segments.items()
            }
            if any(count < 0 for count in lost.values()):
                return "inexact"
            self._lost.update(lost)
        for point, record in known.items():
            at = str(number), point.switch, point.name
            self._packets[at] += record.packets
            self._bytes[at] += record.bytes
        for key, (first, second) in segments.items():
            delay = self._delay(flow.methods, first, second)
            if delay.delay_us is not None and not delay.problem:
                count, sum_us = self._delays.get(key, (0, 0.0))
                self._delays[key] = count + 1, sum_us + delay.delay_us
        return "complete"

    def _delay(self, methods: Method, first: PointRecord, second: PointRecord) -> Delay:
        """Return the delay of the pulse if the method has pulses, or else the mean delay."""
        if methods & _PULSED:
            return pulse_delay(first, second)
        if self._has_means:
            return mean_delay(first, second)
        return Delay(first.block, None)

    def metrics(self) -> "Iterator[Metric]":
        """Return all metrics."""
        # takes 0.05 s, which runs without --metrics do not need
        from prometheus_client.core import SummaryMetricFamily  # noqa: PLC0415

        from telemark.metrics.prometheus import counter  # noqa: PLC0415

        at, on = ("flow", "switch", "point"), ("flow", "segment")
        yield counter("ampm_blocks", "Blocks of a flow.", ("flow", "result"), self._blocks.items())
        yield counter("ampm_packets", "Packets of a flow at a point.", at, self._packets.items())
        yield counter("ampm_bytes", "Bytes of a flow at a point.", at, self._bytes.items())
        yield counter("ampm_lost_packets", "Packets lost on a segment.", on, self._lost.items())
        delays = SummaryMetricFamily(
            "ampm_delay_seconds", "Delay of a segment, one value per block.", labels=on
        )
        for segment, (count, sum_us) in self._delays.items():
            delays.add_metric(segment, count, sum_us / 1e6)
        yield delays


def _name(first: Point, second: Point) -> str:
    return first.switch if first.switch == second.switch else f"{first.switch}-{second.switch}"
