"""Structures and constants of an engine, shared by C and Python."""

import ctypes
from ctypes import c_uint16, c_uint64

from minip4.native.layouts import Shared
from minip4.wire.shared import LinkCounters

MAX_PORTS = 512
"""Port numbers are below this value.

Drops at invalid port numbers are counted under this value.
"""
DROP_PORT = 511
MAX_PRIORITIES = 8
DIGEST_WORDS = 32
COPY_HEAD = 2
"""Number of words before the slot in the copy of an entry, see table.h."""
MEMBER, GROUP = 1 << 32, 2 << 32
"""Kinds of entries, as in the first word of a slot."""
COUNTER, REGISTER = range(2)
"""Values of enum array_kind."""
HOLD_KINDS = ("entry", "commit", "read", "state", "settings")
"""Values of enum hold_kind, in its order."""
DROP_REASONS = ("ingress", "miss", "no_group", "egress", "no_port", "no_queue", "queue", "again",
                "memory", "headers")  # fmt: skip
"""Values of enum drop_reason, in its order; engine.h and docs/reference/minip4.md explain them."""


class MeterRates(ctypes.Structure):
    """struct meter_rates."""

    _fields_ = [
        (name, c_uint64)
        for name in ("committed_rate", "committed_burst", "peak_rate", "peak_burst")
    ]


class DigestSample(ctypes.Structure):
    """struct digest_sample."""

    _fields_ = [("digest", c_uint16), ("words", c_uint16), ("word", c_uint64 * DIGEST_WORDS)]


class QueueConfig(ctypes.Structure):
    """struct queue_config."""

    _fields_ = [
        (name, c_uint64) for name in ("depth_packets", "depth_bytes", "rate_pps", "rate_bps")
    ]


class QueueState(ctypes.Structure):
    """struct queue_state."""

    _fields_ = [
        ("config", QueueConfig),
        ("packets", c_uint64),
        ("bytes", c_uint64),
        ("drops", c_uint64),
    ]


class PortCounters(ctypes.Structure):
    """struct engine_port_counters."""

    _fields_ = [
        ("received_packets", c_uint64),
        ("received_bytes", c_uint64),
        ("transmitted_packets", c_uint64),
        ("transmitted_bytes", c_uint64),
        ("queue_drops", c_uint64),
        ("enqueued_now", c_uint64),
        ("link", LinkCounters),
    ]


class EngineCounters(ctypes.Structure):
    """struct engine_counters."""

    _fields_ = [
        (name, c_uint64)
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


class Hold(ctypes.Structure):
    """struct hold."""

    _fields_ = [(name, c_uint64) for name in ("count", "longest_ns", "longest_cpu_ns", "max_words")]


SHARED = (
    Shared("control.h", "struct meter_rates", MeterRates),
    Shared("program.h", "struct digest_sample", DigestSample),
    Shared("engine.h", "struct queue_config", QueueConfig),
    Shared("engine.h", "struct queue_state", QueueState),
    Shared("engine.h", "struct engine_port_counters", PortCounters),
    Shared("engine.h", "struct engine_counters", EngineCounters),
    Shared("lock.h", "struct hold", Hold),
)
NUMBERS = {
    "ENGINE_MAX_PORTS": MAX_PORTS,
    "ENGINE_DROP_PORT": DROP_PORT,
    "ENGINE_MAX_PRIORITIES": MAX_PRIORITIES,
    "DIGEST_MAX_WORDS": DIGEST_WORDS,
    "COPY_HEAD": COPY_HEAD,
    "(uint64_t)ENTRY_MEMBER << 32": MEMBER,
    "(uint64_t)ENTRY_GROUP << 32": GROUP,
    "ARRAY_COUNTER": COUNTER,
    "ARRAY_REGISTER": REGISTER,
    **{f"HOLD_{kind.upper()}": number for number, kind in enumerate(HOLD_KINDS)},
    "HOLD_KINDS": len(HOLD_KINDS),
    **{f"DROP_{reason.upper()}": number for number, reason in enumerate(DROP_REASONS)},
    "DROP_REASONS": len(DROP_REASONS),
}
