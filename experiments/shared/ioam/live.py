"""IOAM on the page of --watch: queue depth and transit delay per node, and paths of traces."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address

import numpy as np

from collectors.ioam.options import IPV6_BYTES, NodeData, Report, Trace, TraceFlag, parse_options
from experiments.shared.ioam.truth import NodeTruth
from telemark.traffic.received import Datagrams
from telemark.watch.display import Display, Series

SHOW_NS = 10_000_000  # minimum interval of decoded reports; the others are not shown
IPV6 = 41  # next header of a tunnel
QUANTITIES = {"queue depth": ("queue_depth", 1, "packets"),
              "transit delay": ("transit_delay", 1000, "µs")}  # fmt: skip


class LiveTraces:
    """Shows a sample of the reports with traces that one collector receives.

    The last node of a path reports a trace, so all values have the same time: that of the report.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self._next_ns = 0
        self._paths: dict[tuple[str | int, ...], list[str]] = {}

    def take(self, datagrams: Datagrams) -> None:
        """Show the last of these reports, at most one per SHOW_NS."""
        *_, last = datagrams
        if last.time_ns < self._next_ns:
            return
        report = Report.decode(last.payload)
        traces = [option for option in report.options if isinstance(option, Trace)]
        if not traces:
            return
        self._next_ns = last.time_ns + SHOW_NS
        for number, node in report.nodes:
            for series, value in self._values(number, node):
                self._display.add(series, [(last.time_ns, value)])
        numbers = [*(node.node for trace in traces for node in trace.nodes), report.node]
        if None not in numbers and not traces[0].flags & TraceFlag.OVERFLOW:
            self._show_path(report, [self._display.switch(number or 0) for number in numbers])

    def _values(self, number: int, node: NodeData) -> Iterator[tuple[Series, float]]:
        for quantity, (field, divisor, unit) in QUANTITIES.items():
            if node.is_available(field):
                series = Series("IOAM", quantity, self._display.switch(number), unit)
                yield series, getattr(node, field) / divisor

    def _show_path(self, report: Report, names: list[str]) -> None:
        ends = _endpoints(report.packet)
        if self._paths.get(ends) != names:
            self._paths[ends] = names
            self._display.path("IOAM", ends, names)


def show_truth(display: Display, path: Sequence[str], truth: Sequence[NodeTruth]) -> None:
    """Show the ground truth of all packets, at the times when they left the last node."""
    last_ns, _ = truth[-1].left_ns
    left = np.flatnonzero(last_ns >= 0)
    for switch, node in zip(path, truth, strict=True):
        delays_us = node.left_ns[0] // 1000 - node.arrived_ns[0] // 1000  # as a switch measures it
        for quantity, values in (("queue depth", node.queued[0]), ("transit delay", delays_us)):
            series = Series("IOAM", quantity, switch, QUANTITIES[quantity][2])
            points = zip(last_ns[left].tolist(), values[left].tolist(), strict=True)
            display.add(series, [], points)


def _endpoints(packet: bytes) -> tuple[str | int, ...]:
    """Return the endpoints of a packet, as in Display.path()."""
    at = 0
    next_header, _, length = parse_options(packet[IPV6_BYTES:])
    end = IPV6_BYTES + length
    if next_header == IPV6:
        at, end = end, end + IPV6_BYTES
    addresses = (str(IPv6Address(packet[at + first : at + first + 16])) for first in (8, 24))
    ports = (int.from_bytes(packet[end + first : end + first + 2], "big") for first in (0, 2))
    return (*addresses, *ports)
