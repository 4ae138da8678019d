"""Event counts of the sessions of a RoCE switch as Prometheus metrics."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import finsy as fy

from controllers.roce.queue_pair import QueuePair
from controllers.roce.running import events
from telemark.metrics import folder as metrics_folder
from telemark.metrics.folder import MetricsFolder

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def publishing(
    folder: MetricsFolder | None, switch: fy.Switch, session: QueuePair
) -> AbstractAsyncContextManager[None]:
    """Publish the event counts of a session, every INTERVAL_S and at the end of the block."""

    async def collect() -> "Iterator[Metric]":
        return metrics(switch.name, session, await events(switch, session))

    return metrics_folder.publishing(folder, "roce", collect)


def metrics(switch: str, session: QueuePair, counts: Mapping[str, int]) -> "Iterator[Metric]":
    """Return the event counts of a session as metrics."""
    # takes 0.05 s, which runs without --metrics do not need
    from telemark.metrics.prometheus import counter  # noqa: PLC0415

    for event, count in counts.items():
        yield counter(
            f"roce_session_{event.replace(' ', '_')}", f"Event of a session: {event}.",
            ("switch", "session"), [((switch, str(session.number)), count)],
        )  # fmt: skip
