"""Frames that are offered to candidates: UDP over IPv4, many flows."""

import struct
from collections.abc import Iterator

from telemark.apps.headers import internet_checksum

DEVICE_MAC, SENDER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
ADDRESS, NETWORK = "10.0.0.1", "10.0.0.0/8"
PORT = 9  # port of the discard service
FLOWS = 4096
LENGTH = 60  # length of the shortest Ethernet frame in bytes, without the frame check sequence


def flows(count: int = FLOWS, *, port: int = PORT, destination: str = ADDRESS) -> list[bytes]:
    """Return one frame per flow; flows differ in source address and source port."""
    return list(_flows(count, port, destination))


def _flows(count: int, port: int, destination: str) -> Iterator[bytes]:
    to = bytes(map(int, destination.split(".")))
    for number in range(count):
        source = bytes((10, 1, number >> 8 & 255, number & 255))
        # IHL and version, TOS, length, identification, fragment, TTL, protocol, checksum
        words = (0x4500, LENGTH - 14, 0, 0, 64 << 8 | 17, 0)
        header = struct.pack(">6H", *words) + source + to
        header = struct.pack(">6H", *words[:5], internet_checksum(header)) + header[12:]
        udp = struct.pack(">4H", 1024 + number % 60_000, port, LENGTH - 34, 0)
        yield (DEVICE_MAC + SENDER_MAC + b"\x08\0" + header + udp).ljust(LENGTH, b"\0")
