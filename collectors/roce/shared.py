"""What C and Python share of the responder: structures, records, numbers (c/nic.h)."""

import ctypes
import enum
from ctypes import c_uint8, c_uint32, c_uint64

import numpy as np

from minip4.native.layouts import Shared

DOMAINS, REPLAYS, OPERATIONS = 256, 16, 32
REFUSALS, MANAGEMENT_ROOM = 1024, 2048


class Reason(enum.IntEnum):
    """Why a packet changed nothing: enum roce_reason."""

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
