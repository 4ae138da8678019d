"""The router, and the configuration of its ports.

The router uses the routes and neighbours of the kernel.
"""

import fcntl
import socket
import struct
from collections.abc import Sequence

import numpy as np

from ebpf.loader import LoadError, ProgramObject

SOURCE = "ebpf/datapath/router.bpf.c"
MAX_DEVICES = 4096  # as in router.bpf.c
SIOCGIFHWADDR = 0x8927


class Router:
    """A loaded router between devices of this network namespace.

    IP forwarding must be enabled.
    """

    def __init__(self, loaded: ProgramObject, ports: Sequence[str]) -> None:
        self.program = loaded.programs["router"]
        self._maps = loaded.maps
        devices = self._maps["devices"]
        for port in ports:
            try:
                index = socket.if_nametoindex(port)
            except OSError:
                raise LoadError(f"no interface {port} in this network namespace") from None
            if index >= MAX_DEVICES:
                raise LoadError(f"interface {port} has index {index}: expected at most "
                                f"{MAX_DEVICES - 1}")  # fmt: skip
            device = np.zeros(1, devices.value)
            device["mac"], device["is_port"] = np.frombuffer(read_mac(port), np.uint8), 1
            devices[index] = device[0]

    def counts(self) -> dict[str, int]:
        """Return the number of packets for each outcome."""
        counts = self._maps["counts"].read()[0]
        return {name: int(counts[name].sum()) for name in counts.dtype.names}


def read_mac(device: str) -> bytes:
    """Return the MAC address of a device of this network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16s16x", device.encode())
        return fcntl.ioctl(any_socket, SIOCGIFHWADDR, request)[18:24]
