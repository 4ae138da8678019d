"""Ground truth of queues, on the page of --watch."""

from collections.abc import Mapping

from collectors.int.live import queue_series
from experiments.shared.int.truth import Queue, SwitchTransit
from telemark.watch.display import Display, peaks


def show_queues(display: Display, queues: Mapping[str, Queue | SwitchTransit]) -> None:
    """Show the queue lengths that packets met. The keys are links, e.g. "s1 to s2"."""
    for link, queue in queues.items():
        known = queue.arrived_ns >= 0
        found = peaks(queue.arrived_ns[known], queue.min_queued[known])
        display.add(queue_series(link), [], found)
