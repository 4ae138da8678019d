"""AF_XDP socket with a packet receiver in C (c/socket.c)."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache
from pathlib import Path

from minip4.native import build
from minip4.native.library import Signatures, declare
from telemark.errors import TestbedError

RING = 4096  # number of packets in the ring of a socket
_FUNCTIONS: Signatures = {
    "taker_open": (handle, [c_char_p, c_uint32, c_uint32]),
    "taker_close": (None, [handle]),
    "taker_socket": (c_int, [handle]),
    "taker_take": (c_uint32, [handle]),
    "taker_follow": (c_uint64, [handle, POINTER(c_int), c_int]),
}


class AfXdpReceiver:
    """AF_XDP socket at queue 0 of a device; `packets` is the number of received packets."""

    def __init__(self, device: str, ring: int = RING) -> None:
        """Open the socket with a ring of `ring` packets, a power of two. Raises TestbedError."""
        self.packets = 0
        self._handle = _library().taker_open(device.encode(), 0, ring)
        if not self._handle:
            why = os.strerror(ctypes.get_errno())
            raise TestbedError(f"interface {device}: cannot open an AF_XDP socket: {why}")

    @property
    def descriptor(self) -> int:
        """File descriptor, to be stored in the socket map."""
        return int(_library().taker_socket(self._handle))

    def take(self) -> int:
        """Receive all available packets; return their number."""
        taken = int(_library().taker_take(self._handle))
        self.packets += taken
        return taken

    def follow(self, stops: c_int, *, sleeps: bool) -> None:
        """Receive packets until `stops` is not 0; sleep or poll while no packets arrive."""
        self.packets += int(_library().taker_follow(self._handle, ctypes.byref(stops), sleeps))

    def close(self) -> None:
        _library().taker_close(self._handle)


@cache
def _library() -> ctypes.CDLL:
    with build.shared_object([Path(__file__).parent / "c" / "socket.c"]) as built:
        loaded = ctypes.CDLL(str(built))
    declare(loaded, loaded, _FUNCTIONS, errno=True)
    return loaded
