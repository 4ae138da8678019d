"""Ground truth of queues, on the page of --watch."""

from collections.abc import Mapping

import numpy as np

from collectors.int.live import QUEUE
from experiments.shared.int.truth import Queue, SwitchTransit
from telemark.watch.display import Display, maxima


def show_queues(display: Display, queues: Mapping[str, Queue | SwitchTransit]) -> None:
    """Show the queue lengths that packets met. The keys are links, e.g. "s1 to s2"."""
    for link, queue in queues.items():
        known = queue.arrived_ns >= 0
        arrived_ns, queued = queue.arrived_ns[known], queue.min_queued[known]
        for points in maxima(np.zeros_like(queued), arrived_ns, queued).values():
            display.add(QUEUE.series(link), [], points)
