"""Comparison of IOAM data with ground truth, packet by packet and node by node."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from collectors.ioam.options import (
    DirectExport,
    EdgeToEdge,
    NodeData,
    OptionType,
    Report,
    Trace,
    TraceFlag,
)
from controllers.ioam.flows import TraceOption
from experiments.shared.ioam.path import KINDS, NAMESPACE, SCHEMA, Kind, NodeIds, Packets
from experiments.shared.ioam.truth import NodeTruth
from telemark.results.report import Check

ONES = 0xFFFFFFFF
HOP_LIMIT = 64  # hop limit of sent packets, and of outer headers
NO_SCHEMA = 0xFFFFFF
# Fields that are compared with captures; all others have one right value.
MEASURED = ("seconds", "fraction", "transit_delay", "queue_depth")
IPV6_AT, HOP_LIMIT_AT = 14, 21  # offsets in a frame

WITH_ALL_TIMES = KINDS[0]  # the kind with times of all nodes
COLUMNS = ("arrival_error_us", "delay_us", "true_delay_us", "queue_packets", "min_queue_packets",
           "max_queue_packets")  # fmt: skip

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]  # measured and true values


@dataclass(frozen=True)
class Traced:
    """Packets of one network, their reports and ground truth; lists are in the order of the path.

    The clocks of switches show Unix time minus `offset_us`. `offset_ns` are the bounds of Unix time
    minus CLOCK_MONOTONIC, for Linux.
    """

    path: Sequence[str]
    switches: Sequence[str]
    ids: Sequence[NodeIds]
    packets: Packets
    reports: Sequence[Report]
    received: Sequence[bytes]  # received frames
    truth: Sequence[NodeTruth]
    offset_us: int
    offset_ns: tuple[int, int]
    has_tunnel: bool

    def kind(self, label: int) -> Kind:
        """Return the kind of a packet."""
        return KINDS[self.packets.kinds[label]]

    def edge_reports(self) -> list[Report]:
        """Return the reports of the last node."""
        return [report for report in self.reports if report.node == self.ids[-1].node]


@dataclass
class Errors:
    """Differences between IOAM data and ground truth, by node."""

    values: dict[str, int] = field(default_factory=dict)  # number of compared fields
    mismatches: dict[str, int] = field(default_factory=dict)  # number of wrong fields
    largest: dict[str, dict[str, float]] = field(default_factory=dict)
    delay_us: dict[str, Pair] = field(default_factory=dict)
    since_first_us: dict[str, Pair] = field(default_factory=dict)  # only packets WITH_ALL_TIMES
    queue: dict[str, Pair] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    incomplete: int = 0  # number of packets whose options have data of other nodes than expected

    def checks(self) -> list[Check]:
        """Check that all values equal ground truth."""
        return [
            Check("packets with data of other nodes", self.incomplete, 0),
            *(Check(f"{node}: wrong ids, ports, hop limits, constants", count, 0)
              for node, count in self.mismatches.items()),
            *(Check(f"{node}: max error of {what}", error, 0)
              for node, errors in self.largest.items() for what, error in errors.items()),
        ]  # fmt: skip

    def samples(self, mode: str) -> list[dict[str, object]]:
        """Return a row for each packet at each node."""
        return [{"mode": mode, **row} for row in self.rows]


def check_nodes(traced: Traced) -> Errors:
    """Compare the data of all nodes with ground truth."""
    errors = Errors(incomplete=count_incomplete(traced))
    found = by_node(traced)
    first: dict[int, tuple[float, float]] = {}
    for index, node in enumerate(traced.path):
        comparison = _Comparison(traced, index)
        for label, trace_type, data in found[node]:
            comparison.add(label, trace_type, data)
        if index == 0:
            first = {label: (us, true) for label, us, true in comparison.times}
        comparison.store(errors, first)
    return errors


def by_node(traced: Traced) -> dict[str, list[tuple[int, int, NodeData]]]:
    """Return for each node its data: packet number, trace type and fields."""
    numbers = {each.node: node for node, each in zip(traced.path, traced.ids, strict=True)}
    found: dict[str, list[tuple[int, int, NodeData]]] = {node: [] for node in traced.path}
    for report in traced.reports:
        kind = traced.kind(report.flow_label)
        label = report.flow_label
        found[numbers[report.node]].append((label, int(kind.option.trace_type), report.data))
        for trace in _traces(report):
            for node, data in zip(expected_nodes(traced.path, kind), trace.nodes, strict=False):
                found[node].append((label, trace.trace_type, data))
    return found


def expected_nodes(path: Sequence[str], kind: Kind) -> list[str]:
    """Return the nodes whose data the trace option of a packet must have at the last node."""
    if not isinstance(kind.option, TraceOption):
        return []
    nodes = [*path[:-1]]
    if kind.option.is_incremental:  # Linux does not support incremental options
        nodes = [node for node in nodes if not node.startswith("r")]
    return nodes[: kind.option.nodes]


def count_incomplete(traced: Traced) -> int:
    """Count edge reports whose trace option has other nodes, space or flags than expected."""
    wrong = 0
    for report in traced.edge_reports():
        option = traced.kind(report.flow_label).option
        if not isinstance(option, TraceOption):
            continue
        traces, nodes = _traces(report), expected_nodes(traced.path, traced.kind(report.flow_label))
        overflow = option.nodes < len(traced.path) - 1
        used = sum(len(data.encode(option.trace_type)) for trace in traces for data in trace.nodes)
        wrong += not (
            len(traces) == 1
            and len(traces[0].nodes) == len(nodes)
            and traces[0].flags == (TraceFlag.OVERFLOW if overflow else 0)
            and traces[0].namespace == NAMESPACE.number
            and traces[0].remaining == option.words - used // 4
        )
    return wrong


def _traces(report: Report) -> list[Trace]:
    return [option for option in report.options if isinstance(option, Trace)]


def _hop_limit(index: int, nodes: int, has_tunnel: bool) -> int:
    """Return the hop limit that the data of a node must have.

    A tunnel begins at the first node and ends at the last node, which does not decrement the hop
    limit of the outer header.
    """
    steps = min(index, nodes - 2) if has_tunnel else index + 1
    return HOP_LIMIT - steps


def _constants(node: str, ids: NodeIds, hop_limit: int) -> NodeData:
    """Return the data that have one right value at a node."""
    is_linux = node.startswith("r")
    schema, opaque = (SCHEMA[0], SCHEMA[1].encode()) if is_linux else (NO_SCHEMA, b"")
    return NodeData(
        hop_limit=hop_limit, node=ids.node, ingress=ids.ingress, egress=ids.egress,
        namespace_data=NAMESPACE.data, checksum=ONES, hop_limit_wide=hop_limit,
        node_wide=ids.node, ingress_wide=ids.ingress, egress_wide=ids.egress,
        namespace_data_wide=NAMESPACE.data_wide, buffer_occupancy=ONES, schema=schema,
        opaque=opaque,
        # Linux does not know its transit delay; its virtual interfaces have no queue.
        transit_delay=ONES if is_linux else None, queue_depth=0 if is_linux else None,
    )  # fmt: skip


class _Comparison:
    """Comparison of all data of one node."""

    def __init__(self, traced: Traced, index: int) -> None:
        self._traced, self._truth = traced, traced.truth[index]
        self._node = traced.path[index]
        self._is_linux = self._node.startswith("r")
        hop_limit = _hop_limit(index, len(traced.path), traced.has_tunnel)
        self._constants = _constants(self._node, traced.ids[index], hop_limit)
        self._values = self._mismatches = 0
        self._largest: dict[str, float] = defaultdict(float)
        self._delays: list[tuple[float, float]] = []
        self._queues: list[tuple[float, float]] = []
        self._rows: dict[int, dict[str, object]] = {}
        self.times: list[tuple[int, float, float]] = []  # packet, measured and true time in us

    def add(self, label: int, trace_type: int, data: NodeData) -> None:
        """Compare the data for one packet."""
        known = {name: value for name, value in vars(data).items()
                 if value is not None and name in MEASURED}  # fmt: skip
        right = self._constants
        if not self._is_linux:
            right = replace(right, transit_delay=data.transit_delay, queue_depth=data.queue_depth)
        right = replace(right, seconds=data.seconds, fraction=data.fraction)
        expected, _ = NodeData.decode(trace_type, right.encode(trace_type))
        for name, value in vars(expected).items():
            if value is not None and value not in ((), b""):
                self._values += 1
            self._mismatches += getattr(data, name) != value
        row: dict[str, object] = dict.fromkeys(COLUMNS, "")
        if "fraction" in known and "seconds" in known:
            row["arrival_error_us"] = self._compare_time(
                label, known["seconds"] * 1_000_000 + known["fraction"]
            )
        if not self._is_linux and "transit_delay" in known:
            row["delay_us"], row["true_delay_us"] = self._compare_delay(
                label, known["transit_delay"]
            )
        if not self._is_linux and "queue_depth" in known:
            low, high = (int(bound[label]) for bound in self._truth.queued)
            queue = known["queue_depth"]
            self._note("queue (packets)", queue, low, high)
            self._queues.append((queue, high))
            row |= {"queue_packets": queue, "min_queue_packets": low, "max_queue_packets": high}
        self._rows[label] = row

    def _compare_time(self, label: int, unix_us: int) -> float:
        arrived = [int(bound[label]) for bound in self._truth.arrived_ns]
        if self._is_linux:
            # A time in us was rounded down.
            low = (arrived[0] + self._traced.offset_ns[0]) // 1000
            high = (arrived[1] + self._traced.offset_ns[1]) // 1000
            error = self._note("arrival (us)", unix_us, low, high)
            monotonic_us = unix_us - self._traced.offset_ns[0] / 1000
        else:
            monotonic_us = unix_us - self._traced.offset_us
            low, high = (each // 1000 for each in arrived)
            error = self._note("arrival (us)", monotonic_us, low, high)
        self.times.append((label, monotonic_us, sum(arrived) / 2000))
        return error

    def _compare_delay(self, label: int, delay_ns: int) -> tuple[int, int]:
        (min_in, max_in), (min_out, max_out) = (
            tuple(int(bound[label]) // 1000 for bound in bounds)
            for bounds in (self._truth.arrived_ns, self._truth.left_ns)
        )
        # On bmv2, arrival and departure have the same bounds, so the lower bound is 0.
        low, high = max(min_out - max_in, 0), max_out - min_in
        self._note("transit delay (us)", delay_ns / 1000, low, high)
        self._delays.append((delay_ns / 1000, high))
        return delay_ns // 1000, high

    def _note(self, what: str, value: float, low: float, high: float) -> float:
        error = value - min(max(value, low), high)
        self._largest[what] = max(self._largest[what], abs(error))
        self._values += 1
        return error

    def store(self, errors: Errors, first: dict[int, tuple[float, float]]) -> None:
        """Add the results of this node to `errors`; `first` are the times at the first node."""
        since = [(us - first[label][0], true - first[label][1])
                 for label, us, true in self.times
                 if label in first and self._traced.kind(label) is WITH_ALL_TIMES]  # fmt: skip
        errors.values[self._node] = self._values
        errors.mismatches[self._node] = self._mismatches
        errors.largest[self._node] = dict(self._largest)
        errors.delay_us[self._node] = _pair(self._delays)
        errors.queue[self._node] = _pair(self._queues)
        errors.since_first_us[self._node] = _pair(since)
        errors.rows += [
            {"node": self._node, "packet": label, "kind": self._traced.kind(label).name, **row}
            for label, row in sorted(self._rows.items())
        ]


def _pair(values: Sequence[tuple[float, float]]) -> Pair:
    array = np.array(values, np.float64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def check_frames(traced: Traced) -> list[Check]:
    """Check that each packet arrived once, in order, and as it was sent.

    Routers decrement the hop limit. With a tunnel, only its two ends decrement it.
    """
    hop_limit = HOP_LIMIT - (2 if traced.has_tunnel else len(traced.path))
    expected = [frame[IPV6_AT:HOP_LIMIT_AT] + bytes([hop_limit]) + frame[HOP_LIMIT_AT + 1 :]
                for frame in traced.packets.frames]  # fmt: skip
    got = [frame[IPV6_AT:] for frame in traced.received]
    changed = len(set(got) - set(expected))
    lost = len(set(expected) - set(got))
    return [
        Check("packets changed on the path", changed, 0),
        Check("packets lost", lost - changed, 0),
        Check("packets received in order",
              sum(a == b for a, b in zip(got, expected, strict=False)), len(expected)),
        Check("frames at the receiver", len(got), len(expected)),
    ]  # fmt: skip


def check_exports(traced: Traced) -> list[Check]:
    """Check that each expected report arrived once: edge reports, and direct export."""
    labels = range(len(traced.packets.kinds))
    expected = {(traced.ids[-1].node, label) for label in labels}
    for number, switch in zip(traced.ids, traced.path, strict=True):
        if switch in traced.switches:
            expected |= {(number.node, label) for label in labels
                         if not isinstance(traced.kind(label).option, TraceOption)}  # fmt: skip
    found = [(report.node, report.flow_label) for report in traced.reports]
    numbers = defaultdict(set)
    for report in traced.reports:
        numbers[report.node].add(report.sequence)
    types = sum(report.option_type != _option_type(traced.kind(report.flow_label))
                for report in traced.reports)  # fmt: skip
    return [
        Check("reports", len(found), len(expected)),
        Check("missing reports", len(expected - set(found)), 0),
        Check("gaps in report numbers",
              sum(max(each) + 1 - len(each) for each in numbers.values()), 0),
        Check("reports with another option type", types, 0),
    ]  # fmt: skip


def _option_type(kind: Kind) -> OptionType:
    if not isinstance(kind.option, TraceOption):
        return OptionType.DEX
    return OptionType.INCREMENTAL if kind.option.is_incremental else OptionType.PREALLOCATED


def check_sequences(traced: Traced) -> list[Check]:
    """Check the numbers and times in edge-to-edge and DEX options, as the last node received them.

    The options of a flow are numbered from 0 in the order of sending.
    """
    kinds = traced.packets.kinds
    position = np.zeros(len(kinds), np.int64)
    for kind in range(len(KINDS)):
        ours = np.flatnonzero(kinds == kind)
        position[ours] = np.arange(len(ours))
    wrong = wrong_time = found = 0
    for report in traced.edge_reports():
        number = int(position[report.flow_label])
        for option in report.options:
            if isinstance(option, EdgeToEdge):
                found += 1
                wrong += any(each not in (None, number)
                             for each in (option.sequence64, option.sequence32))  # fmt: skip
                if option.seconds is not None:
                    node = _traces(report)[0].nodes[0]
                    wrong_time += (option.seconds, option.fraction) != (node.seconds, node.fraction)
            elif isinstance(option, DirectExport):
                wrong += (option.flow, option.sequence) != (int(kinds[report.flow_label]), number)
    with_e2e = sum(bool(KINDS[kind].e2e) for kind in kinds)
    return [
        Check("edge-to-edge options", found, with_e2e),
        Check("wrong sequence numbers", wrong, 0),
        Check("wrong edge-to-edge times", wrong_time, 0),
    ]
