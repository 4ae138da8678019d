"""What C and Python share of the responder: structures, records, numbers (c/nic.h)."""

import ctypes
import enum
from ctypes import c_uint8, c_uint32, c_uint64

import numpy as np

from minip4.native.layouts import Shared

REPLY_ROOM, DOMAINS, REPLAYS, OPERATIONS = 96, 256, 16, 32


class Reason(enum.IntEnum):
    """Why a packet changed nothing: enum roce_reason."""

    ACCEPTED = 0
    MANAGEMENT = 1
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


VERDICT = np.dtype([
    ("got", "<u8"), ("expected", "<u8"), ("qpn", "<u4"), ("psn", "<u4"), ("reply_length", "<u2"),
    ("reason", "u1"), ("opcode", "u1"), ("syndrome", "u1"), ("none", "V3"),
])  # fmt: skip
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
    Shared("nic.h", "struct roce_verdict", VERDICT),
    Shared("nic.h", "struct roce_completion", COMPLETION),
)
NUMBERS = {
    **{f"ROCE_{reason.name}": reason.value for reason in Reason},
    "ROCE_REASONS": len(Reason),
    "ROCE_REPLY_ROOM": REPLY_ROOM,
    "ROCE_DOMAINS": DOMAINS,
    "ROCE_REPLAYS": REPLAYS,
    "ROCE_WRITE": 1,
    "ROCE_ATOMIC": 2,
}
