"""The engine's ports from Python: links behind them, queues, and the counters of engine.h."""

import ctypes
from collections.abc import Iterable
from typing import Any

from minip4.engine.engine import Engine
from minip4.engine.shared import (
    DROP_REASONS,
    MAX_PORTS,
    MAX_PRIORITIES,
    EngineCounters,
    PortCounters,
    QueueConfig,
    QueueState,
)
from minip4.runtime.switch.options import LinkOptions
from minip4.wire.shared import LinkConfig


def set_port(engine: Engine, port: int, is_up: bool) -> None:
    """Frames to a port that is down are dropped, as no_port."""
    with engine.locked():
        engine.library.engine_set_port(engine.handle, port, is_up)


def set_link(engine: Engine, link: LinkOptions) -> None:
    """Put a link behind a port of the engine; its `queue` is the depth of all the port's queues."""
    config = LinkConfig(
        rate_bps=link.rate_bps,
        delay_ns=round(link.delay_us * 1000),
        jitter_ns=round(link.jitter_us * 1000),
        loss=link.loss,
        reorder=link.reorder,
        reorder_ns=round(link.reorder_us * 1000),
        seed=link.seed,
    )
    port = ctypes.c_uint16(link.port)
    with engine.locked():
        engine.library.engine_catch_up(engine.handle, engine.clock())  # what was due before
        engine.library.engine_set_link(engine.handle, port, ctypes.byref(config))
        state = QueueState()
        for priority in range(MAX_PRIORITIES if link.queue is not None else 0):
            engine.library.engine_queue_state(engine.handle, port, priority, ctypes.byref(state))
            state.config.depth_packets = link.queue
            set_queue(engine, link.port, priority, state.config)


def set_queue(engine: Engine, port: int, priority: int, config: QueueConfig) -> None:
    """Set the depth and rates of one queue of a port."""
    with engine.locked():
        engine.library.engine_set_queue(
            engine.handle, port, priority, ctypes.byref(config), engine.clock()
        )


def queues(engine: Engine, port: int, count: int) -> dict[str, dict[str, int]]:
    """What waits in each queue of a port now, and what it dropped, by priority."""
    result = {}
    state = QueueState()
    with engine.locked():
        for priority in range(count):
            engine.library.engine_queue_state(engine.handle, port, priority, ctypes.byref(state))
            result[str(priority)] = {
                "packets": state.packets, "bytes": state.bytes, "drops": state.drops
            }  # fmt: skip
    return result


def drops(engine: Engine) -> dict[str, dict[str, int]]:
    """Packets dropped: port -> reason -> count; MAX_PORTS: to numbers that no port can have.

    Of ports that dropped any.
    """
    result: dict[str, dict[str, int]] = {}
    counted = engine_counters(engine)
    if not any(count for name, count in counted.items() if name.endswith("_drops")):
        return result  # of most switches, which may be a thousand
    counts = (ctypes.c_uint64 * len(DROP_REASONS))()
    with engine.locked():
        for port in range(MAX_PORTS + 1):
            engine.library.engine_drops(engine.handle, port, counts)
            if any(counts):
                result[str(port)] = dict(zip(DROP_REASONS, counts, strict=True))
    return result


def set_clock(engine: Engine, offset_us: int, drift_ppb: int, since_ns: int) -> None:
    """Shift the program's timestamps against the driver's clock; they run faster since then."""
    engine.library.engine_set_clock(engine.handle, offset_us, drift_ppb, since_ns)


def engine_counters(engine: Engine) -> dict[str, Any]:
    """The fields of struct engine_counters."""
    counters = EngineCounters()
    with engine.locked():
        engine.library.engine_counters(engine.handle, ctypes.byref(counters))
    return _fields(counters)


def port_counters(engine: Engine, port: int) -> dict[str, Any]:
    """The fields of struct engine_port_counters; "link" is a dict of its own."""
    counters = PortCounters()
    with engine.locked():
        engine.library.engine_port_counters(
            engine.handle, ctypes.c_uint16(port), ctypes.byref(counters)
        )
    return _fields(counters)


def counters(engine: Engine, ports: Iterable[int], priority_queues: int) -> dict[str, Any]:
    """What an engine counted: "engine"; "ports" by their numbers, with their "queues" and "drops";
    and the "drops" of "other_ports", which are not there.
    """
    dropped = drops(engine)
    return {
        "engine": engine_counters(engine),
        "ports": {
            str(port): {
                **port_counters(engine, port),
                "queues": queues(engine, port, priority_queues),
                "drops": dropped.pop(str(port), dict.fromkeys(DROP_REASONS, 0)),
            }
            for port in ports
        },
        "other_ports": {port: {"drops": reasons} for port, reasons in dropped.items()},
    }


def control_plane(engine: Engine) -> dict[str, Any]:
    """How the control plane kept packets waiting.

    "holds" of the lock by what they were for; how often packets found it held, and for how long.
    """
    times, longest_ns = engine.packets_waited()
    return {
        "holds": engine.holds(),
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


def _fields(structure: ctypes.Structure) -> dict[str, Any]:
    values = ((field[0], getattr(structure, field[0])) for field in structure._fields_)
    return {k: _fields(v) if isinstance(v, ctypes.Structure) else v for k, v in values}
