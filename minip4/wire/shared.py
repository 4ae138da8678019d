"""Structures and constants of frames and links, shared by C and Python."""

import ctypes
from ctypes import c_double, c_uint64

from minip4.native.layouts import Shared

MAX_FRAME = 9216  # PACKET_MAX_FRAME: bytes of the longest frame that a port receives (jumbo frame)
FRAME_ROOM = 1024 + MAX_FRAME  # bytes of a frame whose headers grew by PACKET_ROOM
SNAPLEN = 128  # CAPTURE_SNAPLEN: default number of captured bytes per frame
MAX_SNAPLEN = 65535  # CAPTURE_MAX_SNAPLEN: enough for whole frames


class LinkConfig(ctypes.Structure):
    """struct link_config."""

    _fields_ = [
        ("rate_bps", c_uint64),
        ("delay_ns", c_uint64),
        ("jitter_ns", c_uint64),
        ("loss", c_double),
        ("reorder", c_double),
        ("reorder_ns", c_uint64),
        ("seed", c_uint64),
    ]


class LinkCounters(ctypes.Structure):
    """struct link_counters."""

    _fields_ = [
        (name, c_uint64)
        for name in ("sent_packets", "sent_bytes", "delivered_packets", "delivered_bytes",
                     "lost_packets", "lost_bytes")
    ]  # fmt: skip


SHARED = (
    Shared("link.h", "struct link_config", LinkConfig),
    Shared("link.h", "struct link_counters", LinkCounters),
)
NUMBERS = {"PACKET_MAX_FRAME": MAX_FRAME, "PACKET_ROOM + PACKET_MAX_FRAME": FRAME_ROOM}
