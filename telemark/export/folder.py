"""Metrics of a run (--metrics): its processes write files, and an endpoint reads the files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from telemark.results.files import replace

if TYPE_CHECKING:
    from prometheus_client.core import Metric

INTERVAL_S = 1.0  # interval at which collectors publish metrics


@dataclass(frozen=True)
class MetricsFolder:
    """Folder with one file per collector.

    All processes of a run can publish metrics, also those in other network namespaces.
    """

    path: Path

    def publish(self, collector: str, metrics: "Iterable[Metric]") -> None:
        """Replace the metrics of a collector. Each collector has one process."""
        # takes 0.05 s, which runs without --metrics do not need
        from telemark.export.prometheus import text  # noqa: PLC0415

        self.path.mkdir(exist_ok=True)
        exposition = text(metrics)
        replace(self.path / collector, lambda partial: partial.write_text(exposition))

    def collect(self) -> "Iterator[Metric]":
        """Return the metrics of all collectors. Metrics with equal names are not combined."""
        from prometheus_client.parser import (  # noqa: PLC0415
            text_string_to_metric_families,
        )

        for file in sorted(self.path.glob("[!.]*")):
            yield from text_string_to_metric_families(file.read_text())
