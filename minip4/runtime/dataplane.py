"""The engine's ports from Python: links behind them, queues, and the counters of engine.h."""

import ctypes
from typing import Any

from minip4.engine.engine import Engine
from minip4.runtime.options import LinkOptions


class _LinkConfig(ctypes.Structure):  # struct link_config
    _fields_ = [
        ("rate_bps", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
        ("jitter_ns", ctypes.c_uint64),
        ("loss", ctypes.c_double),
        ("reorder", ctypes.c_double),
        ("reorder_ns", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
    ]


class _LinkCounters(ctypes.Structure):  # struct link_counters
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "sent_packets",
            "sent_bytes",
            "delivered_packets",
            "delivered_bytes",
            "lost_packets",
            "lost_bytes",
        )
    ]


class _PortCounters(ctypes.Structure):  # struct engine_port_counters
    _fields_ = [
        ("received_packets", ctypes.c_uint64),
        ("received_bytes", ctypes.c_uint64),
        ("transmitted_packets", ctypes.c_uint64),
        ("transmitted_bytes", ctypes.c_uint64),
        ("queue_drops", ctypes.c_uint64),
        ("enqueued_now", ctypes.c_uint64),
        ("link", _LinkCounters),
    ]


class _EngineCounters(ctypes.Structure):  # struct engine_counters
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "received",
            "transmitted",
            "ingress_drops",
            "egress_drops",
            "queue_drops",
            "no_port_drops",
            "memory_drops",
            "replicas",
            "in_queues",
        )
    ]


def set_link(engine: Engine, link: LinkOptions) -> None:
    """Put a link behind a port of the engine."""
    config = _LinkConfig(
        rate_bps=link.rate_bps,
        delay_ns=round(link.delay_us * 1000),
        jitter_ns=round(link.jitter_us * 1000),
        loss=link.loss,
        reorder=link.reorder,
        reorder_ns=round(link.reorder_us * 1000),
        seed=link.seed,
    )
    port = ctypes.c_uint16(link.port)
    engine.library.engine_set_link(engine.handle, port, ctypes.byref(config))
    if link.queue is not None:
        engine.library.engine_set_queue_depth(engine.handle, port, ctypes.c_uint32(link.queue))


def set_clock(engine: Engine, offset_us: int) -> None:
    """Shift the program's timestamps against the host's clock."""
    offset, drift_ppb = ctypes.c_int64(offset_us), ctypes.c_int64(0)
    engine.library.engine_set_clock(engine.handle, offset, drift_ppb)


def engine_counters(engine: Engine) -> dict[str, Any]:
    """The fields of struct engine_counters."""
    counters = _EngineCounters()
    with engine.locked():
        engine.library.engine_counters(engine.handle, ctypes.byref(counters))
    return _fields(counters)


def port_counters(engine: Engine, port: int) -> dict[str, Any]:
    """The fields of struct engine_port_counters; "link" is a dict of its own."""
    counters = _PortCounters()
    with engine.locked():
        engine.library.engine_port_counters(
            engine.handle, ctypes.c_uint16(port), ctypes.byref(counters)
        )
    return _fields(counters)


def total(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The sum of two sets of counters that are alike."""
    return {
        key: total(value, b[key]) if isinstance(value, dict) else value + b[key]
        for key, value in a.items()
    }


def _fields(structure: ctypes.Structure) -> dict[str, Any]:
    values = ((field[0], getattr(structure, field[0])) for field in structure._fields_)
    return {k: _fields(v) if isinstance(v, ctypes.Structure) else v for k, v in values}
