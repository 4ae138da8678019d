"""The packet pool for tests in Python."""

import ctypes
from ctypes import POINTER, c_bool, c_uint8, c_uint32, c_uint64, c_void_p

from minip4.native.layouts import Shared, checks


class Packet(ctypes.Structure):
    """struct packet, without its buffer."""

    _fields_ = [
        ("next", c_void_p),
        ("data", POINTER(c_uint8)),
        ("length", c_uint32),
        ("source", c_uint32),
        ("hops", c_uint32),
        ("phv_size", c_uint32),
        ("phv", c_void_p),
        ("time_ns", c_uint64),
    ]


CHECKS = checks([Shared("packet.h", "struct packet", Packet)])


def declare(library: ctypes.CDLL) -> None:
    """Declare the C functions of packet.h."""
    packet = POINTER(Packet)
    for name, result, arguments in (
        ("packet_pool_create", c_void_p, [c_uint32]),
        ("packet_pool_destroy", None, [c_void_p]),
        ("packet_pool_set_limit", None, [c_void_p, c_uint64]),
        ("packet_pool_tell", None, [c_void_p, POINTER(c_bool)]),
        ("packet_pool_widen", None, [c_void_p, c_uint32]),
        ("packet_take", packet, [c_void_p]),
        ("packet_give", None, [c_void_p, packet]),
        ("packet_exchange", packet, [c_void_p, packet]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
