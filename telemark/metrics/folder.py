"""Metrics of a run (--metrics): its processes write files, and an endpoint reads the files."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
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
        """Replace the metrics of a collector. Only one process may publish them."""
        # This import takes 0.05 s. Runs without --metrics do not need it.
        from telemark.metrics.prometheus import text  # noqa: PLC0415

        self.path.mkdir(exist_ok=True)
        exposition = text(metrics)
        replace(self.path / collector, lambda partial: partial.write_text(exposition))

    def collect(self) -> "Iterable[Metric]":
        """Return the metrics of all collectors. Samples of metrics with equal names are joined."""
        from prometheus_client.parser import (  # noqa: PLC0415
            text_string_to_metric_families,
        )

        found: dict[str, Metric] = {}
        for file in sorted(self.path.glob("[!.]*")):
            for metric in text_string_to_metric_families(file.read_text()):
                first = found.setdefault(metric.name, metric)
                if first is not metric:
                    first.samples += metric.samples
        return found.values()


@asynccontextmanager
async def publishing(
    folder: MetricsFolder | None, collector: str,
    collect: "Callable[[], Awaitable[Iterable[Metric]]]",
) -> AsyncIterator[None]:  # fmt: skip
    """Publish the metrics of a collector, every INTERVAL_S and at the end of the block."""
    if folder is None:
        yield
        return

    async def publish_again() -> None:
        while True:
            folder.publish(collector, await collect())
            await asyncio.sleep(INTERVAL_S)

    task = asyncio.create_task(publish_again())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    folder.publish(collector, await collect())
