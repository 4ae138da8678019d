"""INT collector as a host application, in real and virtual time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from collectors.int.decoder import Decoded, Decoder, Encoding, Fault
from collectors.int.index import Index, Limits
from collectors.int.live import LiveReports
from collectors.int.native import CHANGE, GAP, Flag, ParseStatus
from collectors.int.store import Store
from telemark.apps.application import Application, Host
from telemark.traffic.received import Datagrams

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PORT = 32766  # default UDP port for reports
# key in `drops` for all further pairs (node, reason) if there are more than Limits.sources
OTHERS = (-1, -1)


@dataclass(frozen=True)
class Findings:
    """State of a collector at one time."""

    time_ns: int
    datagrams: int
    reports: int
    hops: int
    flows: NDArray[np.void]  # FLOW records; the flow that was seen last is first
    sources: NDArray[np.void]  # SOURCE records: sources of reports
    gaps: NDArray[np.void]  # GAP records: reports that were lost on the way to the collector
    changes: NDArray[np.void]  # CHANGE records: path changes
    # map from (node, reason) to the number of packets in drop reports
    drops: Counter[tuple[int, int]]
    parse_errors: Counter[ParseStatus]  # number of parse errors by kind
    aside: list[Fault]  # the latest malformed datagrams
    overflow: dict[str, int]  # number of entries beyond each limit: see struct int_index_counters


class Collector(Application):
    """Receives Telemetry Reports at a UDP port. The result is a Findings.

    If `store` is given (folder of a dataset, and name of the run), the collector also stores all
    reports: see Store. With --metrics, it publishes its findings.
    """

    def __init__(
        self, encoding: Encoding, *, port: int = PORT, limits: Limits | None = None,
        hold_us: float = 1000, store: tuple[Path, str] | None = None,
    ) -> None:  # fmt: skip
        self._encoding = encoding
        self._port = port
        self._limits = limits or Limits()
        self._hold_us = hold_us
        self._stored = store
        self._store: Store | None = None
        self._datagrams = self._reports = self._hops = 0
        self._drops: Counter[tuple[int, int]] = Counter()

    def start(self, host: Host) -> None:
        """Start to listen for reports."""
        self._host = host
        self._decoder = Decoder(self._encoding)
        self._index = Index(self._limits)
        self._live = None if host.display is None else LiveReports(host.display)
        if self._stored is not None:
            self._store = Store(*self._stored)
        host.udp(self._port, self.on_datagrams, hold_us=self._hold_us)
        host.publish_metrics("int", self._collect)

    def on_datagrams(self, datagrams: Datagrams) -> None:
        """Decode and index the datagrams."""
        self._datagrams += len(datagrams)
        for part in self._decoder.decode(datagrams):
            self.take(part)

    def take(self, part: Decoded) -> None:
        """Index decoded reports. Subclasses may extend this method."""
        self._reports += len(part.reports)
        self._hops += len(part.hops)
        self._index.add(part)
        self._count_drops(part.reports)
        if self._store is not None:
            self._store.add(part)
        if self._live is not None:
            self._live.take(part)

    def findings(self) -> Findings:
        """Return the current state. Some reports of recent packets may not have arrived yet."""
        now_ns = self._host.now_ns()
        self._index.settle(now_ns)
        return Findings(
            now_ns, self._datagrams, self._reports, self._hops, self._index.flows(),
            self._index.sources(), np.array(self._index.gaps, GAP),
            np.array(self._index.changes, CHANGE), self._drops.copy(),
            self._decoder.parse_errors.copy(), list(self._decoder.aside), self._index.counters(),
        )  # fmt: skip

    def result(self) -> Any:
        """Return the Findings. Call it at the end of the run."""
        self._index.end(self._host.now_ns())
        if self._live is not None:
            self._live.send()
        if self._store is not None:
            self._store.close()
        self._host.publish_metrics("int", self._collect)
        return self.findings()

    def _collect(self) -> "Iterator[Metric]":
        from collectors.int.export import prometheus  # noqa: PLC0415  it imports this module

        return prometheus.metrics(self.findings())

    def _count_drops(self, reports: NDArray[np.void]) -> None:
        dropped = reports[(reports["flags"] & Flag.DROPPED) != 0]
        if not len(dropped):  # usually there are no drop reports
            return
        kinds, counts = np.unique(dropped[["node", "reason"]], return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            is_kept = kind in self._drops or len(self._drops) < self._limits.sources
            self._drops[kind if is_kept else OTHERS] += count
