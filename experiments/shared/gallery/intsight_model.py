"""Model of IntSight: telemetry headers and reports, computed from captures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.shared.gallery.intsight import (
    EPOCH_SHIFT,
    FRAME_BYTES,
    LATENCY_US,
    PACKET_US,
    TELEMETRY_BYTES,
    Limits,
    PathFlow,
)
from minip4.simulator.shared import PAYLOAD
from telemark.accounting import pcap
from telemark.errors import InvalidRunError, note_invalid
from telemark.network import Network
from telemark.topology.links import ETHERNET_BYTES, IPV4_BYTES

IPV4, TELEMETRY = 0x0800, 0x88B5  # ethertypes
PROTOCOL, REPORT = 23, 224  # offset of the IPv4 protocol in a frame, and its value in reports
CONTENTION, SUSPICION, HIGH_DELAY, LOW_BANDWIDTH = 1, 2, 4, 8  # reasons of a report
HEADER = np.dtype([
    ("epoch", ">u4"), ("path", ">u2"), ("code", ">u2"), ("contention", "u1", 6),
    ("suspicion", "u1", 6), ("delay_us", ">u4"), ("packets", ">u4"), ("bytes", ">u4"),
    ("reserved", "u1"),
])  # fmt: skip
REPORT_HEADER = np.dtype([
    ("epoch", ">u4"), ("flow", ">u2"), ("path", ">u2"), ("contention", "u1", 6),
    ("suspicion", "u1", 6), ("late", ">u4"), ("ingress_packets", ">u4"), ("ingress_bytes", ">u4"),
    ("egress_packets", ">u4"), ("egress_bytes", ">u4"), ("reasons", "u1"),
])  # fmt: skip
FRAME = np.dtype([("time_ns", "<i8"), ("flow", "<i8"), ("number", "<i8")])
FIELDS = ("epoch", "path", "contention", "suspicion", "delay_us", "packets", "bytes")
REPORT_FIELDS = ("epoch", "flow", "path", "contention", "suspicion", "late", "ingress_packets",
                 "ingress_bytes", "egress_packets", "egress_bytes", "reasons")  # fmt: skip
# fields that do not depend on the times in a switch
TIMELESS = ("epoch", "path", "suspicion", "packets", "bytes")
TIMELESS_REPORT = tuple(name for name in REPORT_FIELDS if name not in ("late", "reasons"))
Rows = dict[str, NDArray[np.int64]]  # column -> values of the rows


@dataclass(frozen=True)
class Hop:
    """Packets that left a switch for one neighbour: arrays in the order of departure."""

    frames: NDArray[np.void]  # of type FRAME
    latency_us: NDArray[np.int64]  # difference of the timestamps of departure and arrival
    waiting: NDArray[np.int64]  # number of packets in the queue at the time of arrival


@dataclass(frozen=True)
class Outcome:
    """Observations of one flow, and what the model expects."""

    epochs: NDArray[np.int64]  # epochs of all sent packets
    wrong_headers: int  # number of headers at the last switch that differ from the model
    wrong_reports: int
    reports: Rows
    # reports of a model in which switches do not see `uncounted` packets of their queues
    partial_reports: Rows

    @property
    def points(self) -> tuple[int, int]:
        """Contention and suspicion points in all reports."""
        contention, suspicion = (
            int(np.bitwise_or.reduce(self.reports[name])) for name in ("contention", "suspicion")
        )
        return contention, suspicion


class Captures:
    """Captures of a network that has stopped, and a model of all headers and reports.

    Without `has_times`, captures do not show when a packet was in a switch. Then the model uses the
    observed epochs.
    """

    def __init__(self, net: Network, limits: Limits, *, has_times: bool) -> None:
        self._net = net
        self._limits = limits
        self._has_times = has_times
        self._hop = cache(self._read_hop)
        self._frames = cache(read_frames)

    def observe(self, path: PathFlow, uncounted: int) -> Outcome:
        """Return the observations of a flow, and what the model expects."""
        nodes = [path.source, *path.switches, path.destination]
        hops = [self._hop(*pair) for pair in pairwise(nodes[1:])]
        frames, telemetry = self._frames(self._net.capture(nodes[-2], nodes[-3], "in"))
        ours = frames["flow"] == path.number
        numbers, arrived = frames["number"][ours], _select(telemetry, ours)
        frames, _ = self._frames(self._net.capture(nodes[1], nodes[0], "in"))
        sent_ns = frames["time_ns"][frames["flow"] == path.number]
        if not self._has_times:
            if len(numbers) < len(sent_ns):
                raise InvalidRunError(f"{nodes[-2]}: packets of flow {path.number} were lost")
            sent_ns = arrived["epoch"] * (1000 << EPOCH_SHIFT)
            if (hops[-1].latency_us >= LATENCY_US).any():
                note_invalid(f"{nodes[-2]}: latency of at least {LATENCY_US} us without a queue")
        expected = self._model_headers(sent_ns, hops[:-1], path)
        whole = self._model_headers(sent_ns, hops, path)
        # The last switch adds its own data to the telemetry that arrives there.
        last = {name: whole[name] - expected[name] for name in FIELDS}
        partial = self._model_headers(sent_ns, hops, path, uncounted)
        reports = read_reports(self._net, nodes[-2])
        reports = _select(reports, reports["flow"] == path.number)
        observed = {name: arrived[name] + last[name][numbers] for name in FIELDS}
        names = (FIELDS, REPORT_FIELDS) if self._has_times else (TIMELESS, TIMELESS_REPORT)
        return Outcome(
            expected["epoch"], differing(arrived, _select(expected, numbers), names[0]),
            differing(reports, model_reports(observed, path), names[1]), reports,
            model_reports(_select(partial, numbers), path),
        )  # fmt: skip

    def _read_hop(self, switch: str, after: str) -> Hop:
        left, _ = self._frames(self._net.capture(switch, after, "out"))
        arrived = np.concatenate([
            self._frames(self._net.capture(switch, node, "in"))[0]
            for node in self._net.neighbours(switch)
        ])  # fmt: skip
        arrived = arrived[np.argsort(arrived[["flow", "number"]])]
        at = np.searchsorted(arrived[["flow", "number"]], left[["flow", "number"]])
        arrived_ns = arrived["time_ns"][at]
        gone = np.searchsorted(left["time_ns"], arrived_ns, "right")
        waiting = np.maximum(np.arange(len(left)) - gone, 0)
        return Hop(left, left["time_ns"] // 1000 - arrived_ns // 1000, waiting)

    def _model_headers(
        self, sent_ns: NDArray[np.int64], hops: Sequence[Hop], path: PathFlow, uncounted: int = 0
    ) -> Rows:
        """Return the telemetry of all packets of a flow after `hops`, in the order of sending.

        `sent_ns` are the arrivals at the first switch.
        """
        epoch = sent_ns // 1000 >> EPOCH_SHIFT
        packets = np.arange(len(epoch)) - np.searchsorted(epoch, epoch) + 1
        is_suspicious = packets * FRAME_BYTES >= self._limits.bytes
        delay_us, contention = np.zeros((2, len(epoch)), np.int64)
        for place, hop in enumerate(hops):
            ours = hop.frames["flow"] == path.number
            numbers = hop.frames["number"][ours]
            seen_us = np.maximum(hop.latency_us[ours] - round(uncounted * PACKET_US), 0)
            is_long = hop.waiting[ours] - uncounted >= self._limits.queue
            delay_us[numbers] += seen_us
            contention[numbers] |= ((seen_us >= LATENCY_US) | is_long).astype(np.int64) << place
        source = int(path.switches[0][1:])
        return {
            "epoch": epoch, "path": np.full(len(epoch), source << 6 | len(hops)),
            "contention": contention, "suspicion": is_suspicious * ((1 << len(hops)) - 1),
            "delay_us": delay_us, "packets": packets, "bytes": packets * FRAME_BYTES,
        }  # fmt: skip


def model_reports(headers: Rows, path: PathFlow) -> Rows:
    """Return the reports about a flow. `headers` is the telemetry of its packets after all hops."""
    starts = np.flatnonzero(np.diff(headers["epoch"], prepend=-1))
    ends = np.append(starts[1:], len(headers["epoch"]))
    late = (headers["delay_us"] >= path.max_delay_us) & (path.max_delay_us > 0)
    found = {
        "epoch": headers["epoch"][starts], "flow": np.full(len(starts), path.number),
        "path": headers["path"][starts],
        "contention": np.bitwise_or.reduceat(headers["contention"], starts),
        "suspicion": np.bitwise_or.reduceat(headers["suspicion"], starts),
        "late": np.add.reduceat(late.astype(np.int64), starts),
        "ingress_packets": headers["packets"][ends - 1],
        "ingress_bytes": headers["bytes"][ends - 1],
        "egress_packets": ends - starts, "egress_bytes": (ends - starts) * FRAME_BYTES,
    }  # fmt: skip
    is_lossy = found["egress_packets"] < found["ingress_packets"]
    found["reasons"] = (
        CONTENTION * (found["contention"] > 0) | SUSPICION * (found["suspicion"] > 0)
        | HIGH_DELAY * (found["late"] > 0)
        | LOW_BANDWIDTH * ((found["egress_bytes"] < path.min_bytes) & is_lossy)
    )  # fmt: skip
    is_reported = found["reasons"] > 0
    is_reported[-1] = False  # the last epoch has not ended
    return _select(found, is_reported)


def differing(found: Rows, expected: Rows, names: Sequence[str]) -> int:
    """Return how many rows differ in at least one of these columns."""
    counts = len(found[names[0]]), len(expected[names[0]])
    if counts[0] != counts[1]:
        return max(counts)
    return int(np.any([found[name] != expected[name] for name in names], axis=0).sum())


def read_frames(path: Path) -> tuple[NDArray[np.void], Rows]:
    """Return the frames of flows in a capture, and their telemetry; in the order of the capture."""
    captured = pcap.read(path)
    kinds = _ethertypes(captured)
    ours = np.isin(kinds, (IPV4, TELEMETRY))
    kinds, data = kinds[ours], captured.bytes[ours]
    found = np.zeros(len(data), FRAME)
    found["time_ns"] = captured.time_ns[ours]
    for kind, at in ((IPV4, 42), (TELEMETRY, 42 + TELEMETRY_BYTES)):
        payload = _view(data[kinds == kind], at, PAYLOAD)
        for name, field in (("flow", "flow"), ("number", "sequence")):
            found[name][kinds == kind] = payload[field]
    header = _view(data, ETHERNET_BYTES, HEADER)
    return found, {name: _integers(header[name]) for name in FIELDS}


def read_reports(net: Network, switch: str) -> Rows:
    """Return the reports of a switch."""
    captured = pcap.read(net.capture(switch, f"a{switch[1:]}", "out"))
    ours = (_ethertypes(captured) == IPV4) & (captured.bytes[:, PROTOCOL] == REPORT)
    rows = _view(captured.bytes[ours], ETHERNET_BYTES + IPV4_BYTES, REPORT_HEADER)
    found = {name: _integers(rows[name]) for name in REPORT_FIELDS}
    return {**found, "reasons": found["reasons"] >> 4}


def _ethertypes(captured: pcap.Frames) -> NDArray[np.int64]:
    return captured.bytes[:, 12:14] @ np.array([256, 1])


def _select(rows: Rows, which: NDArray[Any]) -> Rows:
    return {name: values[which] for name, values in rows.items()}


def _view(data: NDArray[np.uint8], at: int, kind: np.dtype[np.void]) -> NDArray[np.void]:
    return np.ascontiguousarray(data[:, at : at + kind.itemsize]).view(kind)[:, 0]


def _integers(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers as int64. Rows of a two-dimensional array are the bytes of 48-bit numbers."""
    if values.ndim == 1:
        return values.astype(np.int64)
    return values.astype(np.int64) @ (1 << 8 * np.arange(5, -1, -1))
