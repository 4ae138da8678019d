"""A model of the parser in packet.h. It was written in Python from the RFCs."""

import struct
from dataclasses import dataclass

MOST_VLANS, MOST_EXTENSIONS = 4, 8
WITH_PORTS = (6, 17, 33, 132, 136)
MAPPED = bytes(10) + b"\xff\xff"


@dataclass
class Packet:
    """A parsed packet; its fields are those of struct packet in packet.h."""

    is_whole: bool = False  # whether the C parser accepts the packet
    source: bytes = bytes(16)
    destination: bytes = bytes(16)
    source_port: int = 0
    destination_port: int = 0
    ether_type: int = 0
    network_offset: int = 0
    transport_offset: int = 0
    version: int = 0
    vlans: int = 0
    protocol: int = 0
    tcp_flags: int = 0
    is_fragment: bool = False


def parse(frame: bytes) -> Packet:
    """Parse a frame, which must have at least 14 bytes."""
    packet = Packet()
    kind = frame[12:14]
    while kind in (b"\x81\x00", b"\x88\xa8") and packet.vlans < MOST_VLANS:
        packet.vlans += 1
        at = 12 + 4 * packet.vlans
        kind = frame[at : at + 2]
    if len(kind) < 2:
        return packet
    packet.ether_type = int.from_bytes(kind, "big")
    packet.network_offset = 14 + 4 * packet.vlans
    packet.version = {0x0800: 4, 0x86DD: 6}.get(packet.ether_type, 0)
    if packet.version:
        rest = frame[packet.network_offset :]
        packet.is_whole = _ip(rest, packet) if packet.version == 4 else _ip6(rest, packet)
    return packet


def _ip(data: bytes, packet: Packet) -> bool:
    if len(data) < 20 or data[0] >> 4 != 4 or data[0] & 15 < 5:
        return False
    header = 4 * (data[0] & 15)
    total, _, fragment = struct.unpack_from(">HHH", data, 2)
    if total < header or total > len(data):
        return False
    packet.source, packet.destination = MAPPED + data[12:16], MAPPED + data[16:20]
    packet.protocol = data[9]
    packet.is_fragment = bool(fragment & 0x3FFF)
    if not fragment & 0x1FFF:
        _transport(data[:total], header, packet)
    return True


def _ip6(data: bytes, packet: Packet) -> bool:
    if len(data) < 40 or data[0] >> 4 != 6:
        return False
    end = 40 + int.from_bytes(data[4:6], "big")
    if end > len(data):
        return False
    packet.source, packet.destination, packet.protocol = data[8:24], data[24:40], data[6]
    at, data = 40, data[:end]
    for _ in range(MOST_EXTENSIONS):
        kind, header = packet.protocol, data[at : at + 8]
        if kind not in (0, 43, 44, 51, 60, 135, 139, 140):
            break
        if len(header) < 8:
            return True
        packet.protocol = header[0]
        if kind == 44:
            fragment = int.from_bytes(header[2:4], "big")
            packet.is_fragment |= bool(fragment >> 3 or fragment & 1)
            if fragment >> 3:
                return True
            at += 8
        else:
            at += (header[1] + 2) * 4 if kind == 51 else (header[1] + 1) * 8
    if packet.protocol not in (0, 43, 44, 51, 60, 135, 139, 140):
        _transport(data, at, packet)
    return True


def _transport(data: bytes, at: int, packet: Packet) -> None:
    packet.transport_offset = packet.network_offset + at
    ports = data[at : at + 4]
    if packet.protocol in WITH_PORTS and len(ports) == 4:
        packet.source_port, packet.destination_port = struct.unpack(">HH", ports)
        if packet.protocol == 6 and len(data) > at + 13:
            packet.tcp_flags = data[at + 13]
