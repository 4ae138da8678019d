"""C library of the INT collector.

Builds and loads the library, and defines records and constants that Python and C share.
"""

import ctypes
import enum
from ctypes import POINTER, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache

import numpy as np

import collectors
from collectors.int import C_FOLDER
from minip4 import simulator
from minip4.native import build, layouts
from minip4.native.layouts import Shared
from minip4.native.library import Signatures, declare

u1, u2, u4, u8, i8 = "u1", "<u2", "<u4", "<u8", "<i8"
PATH_HOPS, SEQUENCE_WINDOW = 16, 1024


class ParseStatus(enum.IntEnum):
    """Parse errors.

    enum parse_status in c/records.h documents which part of the input is still usable.
    """

    NONE = 0
    GROUP_HEADER = 1
    VERSION = 2
    NO_REPORT = 3
    REPORT_LENGTH = 4
    TRAILING = 5
    REPORT_TYPE = 6
    METADATA_LENGTH = 7
    INNER_TYPE = 8
    TLV_LENGTH = 9
    PACKET_CUT = 10
    IP_HEADER = 11
    SHIM = 12
    INT_VERSION = 13
    INT_LENGTH = 14
    HOP_LENGTH = 15
    STACK = 16
    INT_CUT = 17
    IOAM_OPTION = 18
    NODE_LENGTH = 19
    REMAINING_LENGTH = 20


class Flag(enum.IntFlag):
    """Flags of a report."""

    INTERMEDIATE = 1
    TRACKED = 2
    CONGESTED = 4
    DROPPED = 8


class IntFlag(enum.IntFlag):
    """Flags of an INT header."""

    MTU_EXCEEDED = 1
    HOPS_EXCEEDED = 2
    DISCARD = 4


class Bit(enum.IntFlag):
    """Bits of RepMdBits, of instruction bitmaps, and of the available fields of a hop.

    Bit 0 in the specifications is the most significant bit.
    """

    NODE = 0x8000
    INTERFACES = 0x4000
    LATENCY = 0x2000
    QUEUE = 0x1000
    INGRESS = 0x0800
    EGRESS = 0x0400
    INTERFACES2 = 0x0200
    UTILISATION = 0x0100
    BUFFER = 0x0080
    HOP_LIMIT = 0x0002  # only in IOAM
    LAST = 0x0001


class IoamField(enum.IntFlag):
    """Fields of an IOAM option that have values (`ioam_has`)."""

    SEQUENCE = 1
    TIME = 2
    FLOW = 4


MD, MX = 1, 3
"""Types of INT headers."""


class Settings(ctypes.Structure):
    """struct int_settings."""

    _fields_ = [
        ("timestamp_ns", c_uint64), ("latency_ns", c_uint64), ("fraction_ns", c_uint64),
        ("marker", c_uint64),
        ("port", c_uint16), ("dscp", c_uint8), ("dscp_mask", c_uint8), ("long_times", c_uint8),
        ("none", c_uint8 * 3),
    ]  # fmt: skip


class Input(ctypes.Structure):
    """struct int_input."""

    _fields_ = [("arrivals", handle), ("count", c_uint32), ("bytes", handle)]


ARRAYS = ("groups", "reports", "hops", "faults")


class Output(ctypes.Structure):
    """struct int_output."""

    _fields_ = [
        *((name, handle) for name in ARRAYS),
        *((f"{name}_room", c_uint32) for name in ARRAYS),
        *((f"{name}_used", c_uint32) for name in ARRAYS),
    ]


GROUP = np.dtype([
    ("time_ns", u8), ("datagram", u4), ("reporter", u4), ("node", u4), ("sequence", u4),
    ("reports", u4), ("version", u1), ("hw_id", u1), ("content", u2),
])  # fmt: skip
KEY = np.dtype([
    ("source", "V16"), ("destination", "V16"), ("source_port", u2), ("destination_port", u2),
    ("protocol", u1), ("ip_version", u1), ("none", "V2"),
])  # fmt: skip
REPORT = np.dtype([
    ("time_ns", u8), ("key", KEY), ("flow", u8), ("group", u4), ("node", u4), ("packet", u4),
    ("first_hop", u4), ("at", u4), ("ds_at", u4), ("int_ds_at", u4), ("hops", u2),
    ("ds_words", u2), ("int_ds_words", u2), ("bits", u2), ("domain", u2), ("ds_bits", u2),
    ("ds_status", u2), ("int_bits", u2), ("int_domain", u2), ("int_ds_bits", u2),
    ("int_ds_flags", u2), ("ip_length", u2), ("ioam_namespace", u2),
    ("report_type", u1), ("inner_type", u1), ("flags", u1), ("parse_status", u1), ("queue", u1),
    ("reason", u1), ("int_type", u1), ("int_version", u1), ("int_flags", u1),
    ("hop_words", u1), ("remaining_hops", u1), ("dscp", u1), ("original_dscp", u1), ("ttl", u1),
    ("is_local", u1), ("ioam_type", u1), ("ioam_flags", u1), ("ioam_has", u1),
    ("trace_type", u4), ("ioam_flow", u4), ("ioam_sequence", u8), ("ioam_time_ns", u8),
])  # fmt: skip
HOP = np.dtype([
    ("latency_ns", u8), ("ingress_ns", u8), ("egress_ns", u8), ("report", u4), ("node", u4),
    ("ingress2", u4), ("egress2", u4), ("occupancy", u4), ("utilisation", u4),
    ("buffer_occupancy", u4), ("complement", u4), ("ds_at", u4), ("ingress", u2), ("egress", u2),
    ("has", u2), ("queue", u1), ("buffer", u1), ("ds_words", u2), ("hop_limit", u1), ("none", "V1"),
])  # fmt: skip
FAULT = np.dtype([("datagram", u4), ("offset", u4), ("parse_status", u1), ("none", "V3")])

STATISTICS = np.dtype([("count", u8), ("sum", i8), ("min", i8), ("max", i8), ("last", i8)])
PATH_HOP = np.dtype([
    ("latency_ns", STATISTICS), ("occupancy", STATISTICS), ("link_ns", STATISTICS), ("node", u4),
    ("ingress", u2), ("egress", u2),
])  # fmt: skip
FLOW = np.dtype([
    ("key", KEY), ("flow", u8), ("first_ns", u8), ("last_ns", u8), ("reports", u8),
    ("congested", u8), ("dropped", u8), ("paths", u8), ("partial", u8), ("unmatched", u8),
    ("changes", u8), ("changed_ns", u8), ("drop_node", u4), ("drop_reason", u1),
    ("drop_queue", u1), ("hops", u2), ("path", PATH_HOP, (PATH_HOPS,)),
])  # fmt: skip
SOURCE = np.dtype([
    ("datagrams", u8), ("lost", u8), ("missing", u8), ("reordered", u8), ("duplicates", u8),
    ("restarts", u8), ("node", u4), ("highest", u4), ("hw_id", u1), ("version", u1),
    ("none", "V6"), ("received", u8, (SEQUENCE_WINDOW // 64,)),
])  # fmt: skip
GAP = np.dtype([
    ("time_ns", u8), ("node", u4), ("first", u4), ("count", u4), ("hw_id", u1), ("version", u1),
    ("none", "V2"),
])  # fmt: skip
CHANGE = np.dtype([
    ("time_ns", u8), ("flow", u8), ("before_hops", u2), ("after_hops", u2),
    ("before", u4, (PATH_HOPS,)), ("after", u4, (PATH_HOPS,)), ("none", "V4"),
])  # fmt: skip


class IndexConfig(ctypes.Structure):
    """struct int_index_config."""

    _fields_ = [
        ("settle_ns", c_uint64), ("seed", c_uint64), ("flows", c_uint32), ("packets", c_uint32),
        ("sources", c_uint32), ("events", c_uint32),
    ]  # fmt: skip


class IndexCounters(ctypes.Structure):
    """struct int_index_counters."""

    _fields_ = [
        (name, c_uint64)
        for name in ("flows_evicted", "reports_evicted", "packets_hurried", "sources_refused",
                     "gaps_dropped", "changes_dropped", "long_paths")
    ]  # fmt: skip


SHARED = (
    Shared("records.h", "struct int_settings", Settings),
    Shared("records.h", "struct int_input", Input),
    Shared("records.h", "struct int_output", Output),
    Shared("records.h", "struct int_group", GROUP),
    Shared("records.h", "struct int_key", KEY),
    Shared("records.h", "struct int_report", REPORT),
    Shared("records.h", "struct int_hop", HOP),
    Shared("records.h", "struct int_fault", FAULT),
    Shared("index.h", "struct int_statistics", STATISTICS),
    Shared("index.h", "struct int_path_hop", PATH_HOP),
    Shared("index.h", "struct int_flow", FLOW),
    Shared("index.h", "struct int_source", SOURCE),
    Shared("index.h", "struct int_gap", GAP),
    Shared("index.h", "struct int_change", CHANGE),
    Shared("index.h", "struct int_index_config", IndexConfig),
    Shared("index.h", "struct int_index_counters", IndexCounters),
)
NUMBERS = {
    **{f"PARSE_{status.name}": status.value for status in ParseStatus},
    "PARSE_STATUSES": len(ParseStatus),
    **{f"REPORT_{flag.name}": flag.value for flag in Flag},
    **{f"INT_{flag.name}": flag.value for flag in IntFlag},
    **{f"BIT_{bit.name}": bit.value for bit in Bit},
    **{f"IOAM_HAS_{field.name}": field.value for field in IoamField},
    "INT_MD": MD,
    "INT_MX": MX,
    "PATH_HOPS": PATH_HOPS,
    "SEQUENCE_WINDOW": SEQUENCE_WINDOW,
}


_FUNCTIONS: Signatures = {
    "int_decode": (
        c_uint32,
        [POINTER(Settings), POINTER(Input), POINTER(Output), POINTER(c_uint64)],
    ),
    "int_index_create": (handle, [POINTER(IndexConfig)]),
    "int_index_destroy": (None, [handle]),
    "int_index_add": (None, [handle, POINTER(Output)]),
    "int_index_settle": (None, [handle, c_uint64]),
    "int_index_end": (None, [handle, c_uint64]),
    "int_index_counters": (None, [handle, POINTER(IndexCounters)]),
    "int_index_flow_count": (c_uint32, [handle]),
    "int_index_flows": (c_uint32, [handle, handle]),
    "int_index_sources": (c_uint32, [handle, handle]),
    "int_index_take_gaps": (c_uint32, [handle, handle]),
    "int_index_take_changes": (c_uint32, [handle, handle]),
}


@cache
def library() -> ctypes.CDLL:
    """Build the library if needed, and load it. Raises ToolchainError if there is no C compiler."""
    with build.shared_object(
        sorted(C_FOLDER.glob("*.c")),
        [build.Generated(layouts.checks(SHARED, NUMBERS))],
        include=[C_FOLDER, collectors.C_FOLDER, simulator.C_FOLDER],
    ) as built:
        loaded = ctypes.CDLL(str(built))
    declare(loaded, loaded, _FUNCTIONS)
    return loaded
