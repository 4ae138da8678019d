"""Storage of all reports, for experiments that examine single packets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.int.application import Collector, Findings
from collectors.int.decoder import Decoded, Encoding
from collectors.int.native import GROUP, HOP, REPORT
from controllers.int.domain import node_id
from experiments.shared.int.truth import SwitchTransit, around
from telemark.apps.application import Host
from telemark.network import Network
from telemark.traffic.flows import Flow

# Marks and units of Telemark switches, see docs/reference/int.md.
OURS = Encoding(port=32767, dscp=0x04, dscp_mask=0x3C, timestamp_unit_ns=1000, latency_unit_ns=1000)


# Stored fields of a report. All fields together would need three times as much memory.
OF_GROUP = np.dtype([(name, GROUP[name]) for name in ("node", "sequence")])
OF_REPORT = np.dtype([
    (name, REPORT[name]) for name in
    ("time_ns", "node", "packet", "key", "hops", "first_hop", "ip_length", "dscp", "reason")
])  # fmt: skip
OF_HOP = np.dtype([
    (name, HOP[name]) for name in
    ("node", "ingress", "egress", "ingress_ns", "egress_ns", "latency_ns", "occupancy")
])  # fmt: skip


class Kept(NamedTuple):
    """Findings of a collector and all reports in the order of arrival."""

    findings: Findings
    groups: NDArray[np.void]  # group header of the datagram of each report (OF_GROUP)
    reports: NDArray[np.void]  # rows of type OF_REPORT; `first_hop` is an index into `hops`
    hops: NDArray[np.void]  # OF_HOP


class KeepingCollector(Collector):
    """Collector that also stores all reports of Telemark switches; its result is a Kept."""

    def __init__(self) -> None:
        super().__init__(OURS)

    def start(self, host: Host) -> None:
        """Listen."""
        super().start(host)
        self._parts = [(np.zeros(0, OF_GROUP), np.zeros(0, OF_REPORT), np.zeros(0, OF_HOP))]
        self._kept_hops = 0

    def take(self, part: Decoded) -> None:
        """Process decoded reports and store them."""
        super().take(part)
        reports = _only(part.reports, OF_REPORT)
        reports["first_hop"] += self._kept_hops
        self._kept_hops += len(part.hops)
        groups = _only(part.groups[part.reports["group"]], OF_GROUP)
        self._parts.append((groups, reports, _only(part.hops, OF_HOP)))

    def result(self) -> Any:
        """Return all stored reports; the last report must have arrived."""
        arrays = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return Kept(super().result(), *arrays)


def _only(rows: NDArray[np.void], kept: np.dtype[np.void]) -> NDArray[np.void]:
    """Return a copy of the rows with only the fields of `kept`."""
    found = np.empty(len(rows), kept)
    for name in kept.names or ():
        found[name] = rows[name]
    return found


class ReportedHops(NamedTuple):
    """For each packet (by sequence number): the report of the last switch (INT-MD)."""

    is_reported: NDArray[np.bool_]
    hops: NDArray[np.void]  # OF_HOP, shape (packets, hops); zeros for another number of hops


def reported_by(net: Network, kept: Kept, path: Sequence[str], last: SwitchTransit) -> ReportedHops:
    """Return the reports of the last switch by packet.

    The last switch numbers reports from 0 in the order in which packets leave it. `last` contains
    the times at which they leave.
    """
    left = np.flatnonzero(last.passed)
    left = left[np.argsort(last.left_ns[left], kind="stable")]
    is_ours = (kept.groups["node"] == node_id(net, path[-1])) & (
        kept.groups["sequence"] < len(left)
    )
    reports, packets = kept.reports[is_ours], left[kept.groups["sequence"][is_ours]]
    is_reported = np.zeros(len(last.left_ns), np.bool_)
    is_reported[packets] = True
    hops = np.zeros((len(is_reported), len(path)), OF_HOP)
    whole = reports["hops"] == len(path)
    first = reports["first_hop"][whole].astype(np.int64)
    hops[packets[whole]] = kept.hops[first[:, None] + np.arange(len(path))]
    return ReportedHops(is_reported, hops)


def expected_path(net: Network, flow: Flow, path: Sequence[str]) -> list[dict[str, int]]:
    """Return the expected node id and ports of each switch of a path."""
    return [
        {"node": node_id(net, switch), "ingress": net.port(switch, before),
         "egress": net.port(switch, after)}
        for before, switch, after in around(flow, path)
    ]  # fmt: skip
