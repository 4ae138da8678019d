"""Loader of the responder's C library.

Also defines structures and constants that Python and C share.
"""

import ctypes
import enum
from ctypes import POINTER, c_bool, c_char_p, c_int, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache

import numpy as np

import collectors
from collectors.roce import C_FOLDER
from minip4 import simulator
from minip4.native import build, layouts
from minip4.native.layouts import Shared
from minip4.native.library import Signatures, declare

DOMAINS, REPLAYS, OPERATIONS = 256, 16, 32
REFUSALS, MANAGEMENT_ROOM = 1024, 2048


class Reason(enum.IntEnum):
    """Result of a packet (enum roce_reason)."""

    ACCEPTED = 0
    MANAGED = 1
    FOREIGN = 2
    TRUNCATED = 3
    IP_HEADER = 4
    UDP_CHECKSUM = 5
    ICRC = 6
    VERSION = 7
    OPCODE = 8
    QUEUE_PAIR = 9
    BROKEN = 10
    ADDRESS = 11
    PARTITION = 12
    GAP = 13
    GAP_AGAIN = 14
    DUPLICATE = 15
    FORGOTTEN = 16
    NOT_BEGUN = 17
    NOT_ENDED = 18
    MESSAGE_CUT = 19
    UNSUPPORTED = 20
    ACCESS = 21
    NO_RECEIVE = 22
    KEY = 23
    KEY_ACCESS = 24
    BOUNDS = 25
    LENGTH = 26
    PADDING = 27
    ALIGNMENT = 28


REFUSAL = np.dtype([
    ("time_ns", "<u8"), ("got", "<u8"), ("expected", "<u8"), ("qpn", "<u4"), ("psn", "<u4"),
    ("reason", "u1"), ("opcode", "u1"), ("none", "V6"),
])  # fmt: skip
REPLY = np.dtype([("length", "<u2"), ("frame", "V94")])
COMPLETION = np.dtype([("qpn", "<u4"), ("immediate", "<u4"), ("length", "<u4")])


class Config(ctypes.Structure):
    """struct roce_config."""

    _fields_ = [
        ("mac", c_uint8 * 6), ("none", c_uint8 * 2), ("first_qpn", c_uint32),
        ("queue_pairs", c_uint32), ("receives", c_uint32), ("path_mtu", c_uint32),
    ]  # fmt: skip


class Gid(ctypes.Structure):
    """struct roce_gid."""

    _fields_ = [("bytes", c_uint8 * 16)]


class Connection(ctypes.Structure):
    """struct roce_connection."""

    _fields_ = [
        ("own", Gid), ("peer", Gid), ("peer_qpn", c_uint32), ("psn", c_uint32),
        ("domain", c_uint32), ("is_reliable", c_uint8), ("access", c_uint8), ("none", c_uint8 * 2),
    ]  # fmt: skip


class Counters(ctypes.Structure):
    """struct roce_counts."""

    _fields_ = [("accepted", c_uint64 * OPERATIONS), ("refused", c_uint64 * len(Reason))]


SHARED = (
    Shared("nic.h", "struct roce_config", Config),
    Shared("nic.h", "struct roce_gid", Gid),
    Shared("nic.h", "struct roce_connection", Connection),
    Shared("nic.h", "struct roce_counts", Counters),
    Shared("nic.h", "struct roce_refusal", REFUSAL),
    Shared("nic.h", "struct roce_reply", REPLY),
    Shared("nic.h", "struct roce_completion", COMPLETION),
)
NUMBERS = {
    **{f"ROCE_{reason.name}": reason.value for reason in Reason},
    "ROCE_REASONS": len(Reason),
    "ROCE_REFUSALS": REFUSALS,
    "ROCE_MANAGEMENT_ROOM": MANAGEMENT_ROOM,
    "ROCE_DOMAINS": DOMAINS,
    "ROCE_REPLAYS": REPLAYS,
    "ROCE_WRITE": 1,
    "ROCE_ATOMIC": 2,
}


_FUNCTIONS: Signatures = {
    "roce_create": (handle, [POINTER(Config)]),
    "roce_destroy": (None, [handle]),
    "roce_register": (c_uint32, [handle, handle, c_uint64, c_uint64, c_uint32, c_uint8]),
    "roce_connect": (c_uint32, [handle, POINTER(Connection)]),
    "roce_disconnect": (c_bool, [handle, c_uint32]),
    "roce_expected": (c_uint32, [handle, c_uint32]),
    "roce_receive": (None, [handle, handle, c_uint32, handle, handle]),
    "roce_refusals": (c_uint32, [handle, handle]),
    "roce_management": (c_uint32, [handle, handle]),
    "roce_completions": (c_uint32, [handle, handle, c_uint32]),
    "roce_socket_open": (handle, [handle, c_char_p]),
    "roce_socket_close": (None, [handle]),
    "roce_socket_run": (c_int, [handle, c_int, c_int]),
    "roce_socket_send": (c_int, [handle, c_char_p, c_uint32]),
    "roce_socket_drops": (c_uint64, [handle]),
    "roce_bypass_open": (c_int, [c_char_p, POINTER(Gid)]),
    "roce_get_counts": (None, [handle, POINTER(Counters)]),
}


@cache
def library(*, sanitize: bool = False) -> ctypes.CDLL:
    """Build the library if needed, and load it. Raises ToolchainError if there is no C compiler.

    For `sanitize`, see shared_object().
    """
    with build.shared_object(
        sorted(C_FOLDER.glob("*.c")),
        [build.Generated(layouts.checks(SHARED, NUMBERS))],
        include=[C_FOLDER, collectors.C_FOLDER, simulator.C_FOLDER],
        sanitize=sanitize,
    ) as built:
        loaded = ctypes.CDLL(str(built))
    declare(loaded, loaded, _FUNCTIONS, errno=True)
    return loaded
