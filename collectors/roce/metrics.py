"""Packets that a RoCE responder accepted and rejected, as Prometheus metrics."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from collectors.roce.endpoint import Counts
from telemark.metrics.prometheus import counter


def metrics(collector: str, counts: Counts) -> Iterator[Metric]:
    """Return all metrics. `collector` is the host of the responder."""
    for result, label, numbers in (
        ("accepted", "operation", counts.accepted), ("rejected", "reason", counts.refused),
    ):  # fmt: skip
        yield counter(
            f"roce_{result}_packets", f"Packets that a collector {result}.", ("collector", label),
            (((collector, name.lower()), count) for name, count in numbers.items()),
        )  # fmt: skip
