"""Reports of IOAM nodes as Prometheus metrics: transit delay and queue depth of each node."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from collectors.ioam.options import OptionError, Report

if TYPE_CHECKING:
    from prometheus_client.core import Metric, SummaryMetricFamily

TOO_LONG = 1 << 31  # set in a transit delay that is too long for the field


class ReportMetrics:
    """Sums over all reports that a collector received so far.

    Data of a node are in its own reports, and in the reports of later nodes about traces.
    """

    def __init__(self, collector: str) -> None:
        """`collector` is the host of the collector."""
        self._collector = collector
        self._malformed = 0
        self._reports: Counter[int] = Counter()  # by reporting node
        self._delays: dict[int, tuple[int, int]] = {}  # by node: number of values and sum in ns
        self._queues: dict[int, tuple[int, int]] = {}  # by node: number of values and sum

    def add(self, payloads: Iterable[bytes]) -> None:
        """Add the reports of datagrams."""
        for payload in payloads:
            try:
                report = Report.decode(payload)
                nodes = [*report.nodes]
            except OptionError:
                self._malformed += 1
                continue
            self._reports[report.node] += 1
            for number, data in nodes:
                delay_ns = data.transit_delay
                if delay_ns is not None and not delay_ns & TOO_LONG:
                    _add(self._delays, number, delay_ns)
                if data.queue_depth is not None and data.is_available("queue_depth"):
                    _add(self._queues, number, data.queue_depth)

    def metrics(self) -> "Iterator[Metric]":
        """Return all metrics."""
        # takes 0.05 s, which runs without --metrics do not need
        from telemark.metrics.prometheus import counter  # noqa: PLC0415

        labels, at = ("collector", "node"), self._collector
        yield counter(
            "ioam_malformed", "Malformed reports.", labels[:1], [((at,), self._malformed)]
        )
        yield counter(
            "ioam_reports", "Reports of a node.", labels,
            (((at, str(node)), count) for node, count in self._reports.items()),
        )  # fmt: skip
        yield self._summary("ioam_transit_delay_seconds", "Transit delay.", self._delays, 10**9)
        yield self._summary("ioam_queue_depth", "Queue depth in packets.", self._queues, 1)

    def _summary(
        self, name: str, meaning: str, sums: Mapping[int, tuple[int, int]], scale: int
    ) -> "SummaryMetricFamily":
        from prometheus_client.core import SummaryMetricFamily  # noqa: PLC0415  see metrics()

        summary = SummaryMetricFamily(name, meaning, labels=("collector", "node"))
        for node, (count, total) in sums.items():
            summary.add_metric((self._collector, str(node)), count, total / scale)
        return summary


def _add(sums: dict[int, tuple[int, int]], node: int, value: int) -> None:
    count, total = sums.get(node, (0, 0))
    sums[node] = count + 1, total + value
