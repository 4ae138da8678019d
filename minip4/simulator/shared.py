"""Structures and constants of a virtual network and its flows, shared by C and Python."""

import ctypes
import enum
from ctypes import c_bool, c_double, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64 as u64
from ctypes import c_void_p as handle

import numpy as np
from numpy.typing import NDArray

from minip4.native.layouts import Shared

NO_CPU_PORT = 0xFFFF
NONE = 2**32 - 1
MAX_THREADS = 64
CAPTURES = ("in", "out", "lost")  # indices are the values of `what` in virtual_capture()
PAYLOAD = np.dtype([("flow", ">u2"), ("sequence", ">u8"), ("sent_ns", ">u8")])
"""The start of the payload of a flow's datagrams; zeros follow."""
SENT = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8")])
RECEIVED = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8"), ("received_ns", "<u8")])
ARRIVAL = np.dtype(
    [("time_ns", "<u8"), ("length", "<u4"), ("address", ">u4"), ("port", ">u2"), ("tos", "u1"),
     ("ttl", "u1"), ("none", "V4")]
)  # fmt: skip
"""Metadata of a datagram or frame received by an application."""

TCP_PROGRESS = np.dtype(
    [("time_ns", "<u8"), ("written", "<u8"), ("acknowledged", "<u8"), ("retransmitted", "<u4"),
     ("window", "<u4"), ("rtt_us", "<u4"), ("zero", "<u4")]
)  # fmt: skip
"""Samples of the sender of a TCP flow, in bytes, segments and microseconds."""
TCP_RECEIVED = np.dtype([("time_ns", "<u8"), ("bytes", "<u8")])
"""Samples of the receiver of a TCP flow: the number of bytes received in order up to a time."""
TCP_ANSWERS = np.dtype([("asked_ns", "<u8"), ("answered_ns", "<u8")])
"""For each request: when it was written, and when its response was complete."""
CONGESTION = ("reno", "cubic", "dctcp")  # indices are the values of enum virtual_congestion

CALLS = ("prefetch", "prefetch_more", "receive", "advance", "set_driver", "set_port", "lookahead",
         "move_pool")  # fmt: skip
"""Names of the engine_* functions that a network calls."""


class Stop(enum.Enum):
    """The reason why run() returned (enum virtual_stop)."""

    REACHED = 0
    CONTROL = 1
    PAUSED = 2
    SHORT = 3
    INBOX = 4


class Calls(ctypes.Structure):
    """struct virtual_calls."""

    _fields_ = [(name, handle) for name in CALLS]


class PartitionState(ctypes.Structure):
    """struct virtual_partition."""

    _fields_ = [
        ("events", u64),
        ("sent", u64),
        ("waited_ns", u64),
        ("lookahead_ns", u64),
        ("nodes", c_uint32),
        ("may_stop", c_bool),
    ]


class HostCounters(ctypes.Structure):
    """struct virtual_host_counters."""

    _fields_ = [
        (name, u64)
        for name in (
            "sent",
            "received",
            "too_long",
            "other_addresses",
            "header_errors",
            "checksum_errors",
            "unclaimed",
        )
    ]


class FlowConfig(ctypes.Structure):
    """struct virtual_flow_config."""

    _fields_ = [
        ("source", c_uint32),
        ("destination", c_uint32),
        ("id", c_uint16),
        ("source_port", c_uint16),
        ("destination_port", c_uint16),
        ("tos", c_uint8),
        ("ttl", c_uint8),
        ("payload", c_uint32),
        ("count", u64),
        ("start_ns", u64),
        ("rate_pps", c_double),
        ("due_ns", handle),
    ]


class FlowResult(ctypes.Structure):
    """struct virtual_flow_result."""

    _fields_ = [
        ("sent", handle),
        ("received", handle),
        ("sent_count", u64),
        ("received_count", u64),
        ("foreign", u64),
        ("dscp_changed", u64),
    ]


class TcpConfig(ctypes.Structure):
    """struct virtual_tcp_config."""

    _fields_ = [
        ("source", c_uint32),
        ("destination", c_uint32),
        ("isn", c_uint32 * 2),
        ("source_port", c_uint16),
        ("destination_port", c_uint16),
        ("tos", c_uint8),
        ("congestion", c_uint8),
        ("has_ecn", c_bool),
        ("bytes", u64),
        ("duration_ns", u64),
        ("start_ns", u64),
        ("rate_bps", c_double),
        ("on_ns", u64),
        ("off_ns", u64),
        ("request_bytes", u64),
        ("response_bytes", u64),
        ("think_ns", u64),
    ]


class TcpResult(ctypes.Structure):
    """struct virtual_tcp_result."""

    _fields_ = [
        ("progress", handle),
        ("received", handle),
        ("answers", handle),
        ("progress_count", c_uint32),
        ("received_count", c_uint32),
        ("answers_count", c_uint32),
        ("retransmitted", u64),
        ("is_acknowledged", c_bool),
        ("has_failed", c_bool),
        ("was_reset", c_bool),
    ]


def copied(start: int | None, count: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return a copy of C records."""
    if not start or not count:
        return np.empty(0, dtype)
    return np.frombuffer(ctypes.string_at(start, count * dtype.itemsize), dtype)


SHARED = (
    Shared("virtual.h", "struct virtual_calls", Calls),
    Shared("virtual.h", "struct virtual_partition", PartitionState),
    Shared("virtual.h", "struct virtual_host_counters", HostCounters),
    Shared("virtual.h", "struct virtual_flow_config", FlowConfig),
    Shared("virtual.h", "struct virtual_flow_result", FlowResult),
    Shared("virtual.h", "struct virtual_sent", SENT),
    Shared("virtual.h", "struct virtual_received", RECEIVED),
    Shared("virtual.h", "struct virtual_tcp_config", TcpConfig),
    Shared("virtual.h", "struct virtual_tcp_result", TcpResult),
    Shared("virtual.h", "struct virtual_tcp_progress", TCP_PROGRESS),
    Shared("virtual.h", "struct virtual_tcp_received", TCP_RECEIVED),
    Shared("virtual.h", "struct virtual_tcp_answer", TCP_ANSWERS),
    Shared("flow_payload.h", "struct flow_payload", PAYLOAD),
    Shared("arrival.h", "struct arrival_record", ARRIVAL),
)
NUMBERS = {
    "VIRTUAL_NO_CPU": NO_CPU_PORT,
    "VIRTUAL_NONE": NONE,
    "VIRTUAL_MAX_THREADS": MAX_THREADS,
    **{f"VIRTUAL_{stop.name}": stop.value for stop in Stop},
    **{f"TCP_{kind.upper()}": number for number, kind in enumerate(CONGESTION)},
}
