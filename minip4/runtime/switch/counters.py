"""The counters of a switch as JSON objects, for one data plane or as sums over several."""

from collections.abc import Iterable
from typing import Any

from minip4.engine.shared import DROP_REASONS
from minip4.runtime.dataplane import Dataplane


def counters(dataplane: Dataplane, ports: Iterable[int], priority_queues: int) -> dict[str, Any]:
    """Return the counters of a data plane, as documented in docs/reference/minip4.md.

    The keys are "engine", "ports" (by port number, with "queues" and "drops") and "other_ports"
    (the "drops" at ports that do not exist).
    """
    dropped = dataplane.drops()
    return {
        "engine": dataplane.counters(),
        "ports": {
            str(port): {
                **dataplane.port_counters(port),
                "queues": dataplane.queues(port, priority_queues),
                "drops": dropped.pop(str(port), dict.fromkeys(DROP_REASONS, 0)),
            }
            for port in ports
        },
        "other_ports": {port: {"drops": reasons} for port, reasons in dropped.items()},
    }


def control_plane(dataplane: Dataplane) -> dict[str, Any]:
    """Return how long the control plane delayed packets.

    "holds" contains, for each purpose, how long the control plane had the lock. The other values
    are how often packets waited for the lock, and their longest wait.
    """
    times, longest_ns = dataplane.packets_waited()
    return {
        "holds": dataplane.holds(),
        "packets_waited": times,
        "packets_waited_longest_ns": longest_ns,
    }


def total(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return the sum of two sets of counters; a missing counter counts as 0."""
    both = {
        key: total(value, b[key]) if isinstance(value, dict) else value + b[key]
        for key, value in a.items()
        if key in b
    }
    return {**a, **b, **both}
