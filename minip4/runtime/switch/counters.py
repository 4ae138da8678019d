"""What a switch counted, as its counters are written: of one data plane, or several in a row."""

from collections.abc import Iterable
from typing import Any

from minip4.engine.shared import DROP_REASONS
from minip4.runtime.dataplane import Dataplane


def counters(dataplane: Dataplane, ports: Iterable[int], priority_queues: int) -> dict[str, Any]:
    """What a data plane counted, as docs/minip4.md has it.

    "engine"; "ports" by their numbers, with their "queues" and "drops"; and the "drops" of
    "other_ports", which are not there.
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
    """How the control plane kept packets waiting.

    "holds" of the lock by what they were for; how often packets found it held, and for how long.
    """
    times, longest_ns = dataplane.packets_waited()
    return {
        "holds": dataplane.holds(),
        "packets_waited": times,
        "packets_waited_longest_ns": longest_ns,
    }


def total(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The sum of two sets of counters; what one of them lacks is as the other has it."""
    both = {
        key: total(value, b[key]) if isinstance(value, dict) else value + b[key]
        for key, value in a.items()
        if key in b
    }
    return {**a, **b, **both}
