"""IPv4 headers and checksums of packets that applications build."""

import struct
from ipaddress import IPv4Address

from telemark.topology.links import IPV4_BYTES

PROTOCOL_ICMP = 1
TYPE_IPV4 = b"\x08\x00"


def internet_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071; 0 if `data` contains its own right checksum."""
    padded = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ipv4_header(source: str, destination: str, protocol: int, length: int, ttl: int) -> bytes:
    """Return an IPv4 header without options for a payload of `length` bytes."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, IPV4_BYTES + length, 0, 0, ttl, protocol, 0)
    head += IPv4Address(source).packed + IPv4Address(destination).packed
    return head[:10] + internet_checksum(head).to_bytes(2, "big") + head[12:]
