"""Explicit flow measurements as Prometheus metrics: RTT and loss of each stream."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import finsy as fy

from controllers.explicit import Connection, Direction, StreamReport, read_streams
from telemark.metrics import folder as metrics_folder
from telemark.metrics.folder import MetricsFolder

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, Metric

LABELS = ("connection", "scheme", "direction")
Streams = Mapping[Sequence[str], StreamReport]


def publishing(
    folder: MetricsFolder | None, observer: fy.Switch, watched: Sequence[Connection]
) -> AbstractAsyncContextManager[None]:
    """Publish the reports of all streams, every INTERVAL_S and at the end of the block.

    No other task may read the observer during the block.
    """

    async def collect() -> "Iterator[Metric]":
        return metrics(watched, await read_streams(observer, watched))

    return metrics_folder.publishing(folder, "explicit", collect)


def metrics(
    watched: Sequence[Connection], reports: Sequence[Mapping[Direction, StreamReport]]
) -> "Iterator[Metric]":
    """Return all metrics. Values of bits that the scheme of a connection lacks are 0."""
    # takes 0.05 s, which runs without --metrics do not need
    from prometheus_client.core import SummaryMetricFamily  # noqa: PLC0415

    from telemark.metrics.prometheus import counter  # noqa: PLC0415

    streams: Streams = {
        (str(each.number), each.scheme.name.lower(), direction.name.lower()): report
        for each, both in zip(watched, reports, strict=True) for direction, report in both.items()
    }  # fmt: skip
    for name, meaning, field in (
        ("spin_rtt", "RTT by the spin bit.", "spin"),
        ("delay_rtt", "RTT by the delay bit.", "delay"),
        ("half_rtt", "RTT from the observer to the sender of the stream.", "half"),
    ):
        summary = SummaryMetricFamily(f"explicit_{name}_seconds", meaning, labels=LABELS)
        for labels, report in streams.items():
            samples = getattr(report, field)
            summary.add_metric(labels, samples.count, samples.sum_us / 1e6)
        yield summary

    def of(name: str, meaning: str, value: Callable[[StreamReport], int]) -> "CounterMetricFamily":
        counts = ((labels, value(report)) for labels, report in streams.items())
        return counter(f"explicit_{name}", meaning, LABELS, counts)

    yield of("square_blocks", "Complete blocks of Q.", lambda r: r.square.blocks)
    yield of("square_packets", "Packets in complete blocks of Q.", lambda r: r.square.packets)
    yield of("reflection_blocks", "Complete blocks of R.", lambda r: r.reflection.blocks)
    yield of("reflection_packets", "Packets in complete blocks of R.",
             lambda r: r.reflection.packets)  # fmt: skip
    yield of("packets", "Packets of a stream with L.", lambda r: r.loss.packets)
    yield of("loss_marks", "Packets whose bit L is set.", lambda r: r.loss.marked)
    yield of("trip_generated", "Packets in first trains of T.", lambda r: r.trip.generated)
    yield of("trip_reflected", "Packets in second trains of T.", lambda r: r.trip.reflected)
