"""Valid and malformed frames: VLAN tags, options, fragments, extension headers, truncation."""

import random
import struct
from collections.abc import Iterator

HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, OPTIONS = 0, 43, 44, 51, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, OPTIONS, 135, 139, 140)
TCP, UDP = 6, 17
PROTOCOLS = (TCP, UDP, UDP, 132, 33, 136, 1, 58, 47, 50, 59, 255)
MACS = bytes.fromhex("020000000001") + bytes.fromhex("020000000002")


def checksum(header: bytes) -> int:
    """Return the checksum of a header of 16-bit words (RFC 1071)."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(
    source: int, destination: int, protocol: int, payload: bytes, *, options: bytes = b"",
    fragment: int = 0, ttl: int = 64, identity: int = 7, length: int | None = None,
) -> bytes:  # fmt: skip
    """Return an IPv4 packet. `length` is the value of its length field, which may be wrong."""
    words = 5 + len(options) // 4
    said = words * 4 + len(payload) if length is None else length
    header = struct.pack(">BBHHHBBHII", 0x40 | words, 0, said, identity, fragment, ttl, protocol, 0,
                         source, destination) + options  # fmt: skip
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + payload


def ipv6(
    source: int, destination: int, first: int, payload: bytes, *, hop_limit: int = 64,
    length: int | None = None,
) -> bytes:  # fmt: skip
    """Return an IPv6 packet. `first` is the protocol number of the header after the IPv6 header."""
    said = len(payload) if length is None else length
    return (
        struct.pack(">IHBB", 0x60000000, said, first, hop_limit)
        + source.to_bytes(16, "big") + destination.to_bytes(16, "big") + payload
    )  # fmt: skip


def ethernet(
    packet: bytes, ether_type: int, *, tags: tuple[int, ...] = (), macs: bytes = MACS
) -> bytes:
    """Return a frame; `tags` are the types of VLAN tags, the outer one first."""
    kinds = (*tags, ether_type)
    stack = b"".join(struct.pack(">HH", 5, kind) for kind in kinds[1:])
    return macs + struct.pack(">H", kinds[0]) + stack + packet


def segment(protocol: int, source_port: int, destination_port: int, flags: int = 0x10) -> bytes:
    """Return the payload of an IP packet: a TCP header, or other bytes that begin with ports."""
    if protocol == TCP:
        return struct.pack(">HHIIBBHHH", source_port, destination_port, 1, 2, 0x50, flags, 9, 0, 0)
    return struct.pack(">HHHH", source_port, destination_port, 12, 0) + b"data"


def frames(
    seed: int, count: int, *, macs: bytes = MACS, to: tuple[int, int] | None = None
) -> Iterator[bytes]:  # fmt: skip
    """Return frames of all kinds.

    A quarter of them is truncated, and a quarter has some changed bytes. Some of the others have
    wrong lengths or versions. Destinations are random, or among the given IPv4 and IPv6 addresses.
    """
    rng = random.Random(seed)
    for _ in range(count):
        frame = bytearray(_whole(rng, macs, to))
        fault = rng.randrange(4)
        if fault == 0:
            del frame[rng.randrange(14, len(frame) + 1) :]
        elif fault == 1:
            for _ in range(rng.randrange(1, 4)):
                frame[rng.randrange(12, len(frame))] = rng.choice((0, 1, 0xFF, rng.randrange(256)))
        yield bytes(frame)


def _whole(rng: random.Random, macs: bytes, to: tuple[int, int] | None) -> bytes:
    tags = tuple(rng.choice((0x8100, 0x88A8)) for _ in range(max(0, rng.randrange(-6, 7))))
    protocol = rng.choice(PROTOCOLS)
    payload = segment(protocol, rng.choice((53, 1234)), rng.choice((80, 9)), rng.randrange(256))
    if rng.random() < 0.1:
        return ethernet(payload, rng.choice((0x0806, 0x88CC, 0x86DC)), tags=tags, macs=macs)
    ttl = rng.choice((0, 1, 2, 64, 64, 64, 255))
    if rng.random() < 0.5:
        packet = ipv4(
            _ip(rng), to[0] if to else _ip(rng), protocol, payload,
            options=bytes(4 * max(0, rng.randrange(-6, 11))),
            fragment=rng.choice((0, 0, 0, 0x4000, 0x2000, 0x2001, 0x0001, 0x1FFF)),
            ttl=ttl, length=rng.choice((None,) * 8 + (0, 19, 20, 24, 65535)),
        )  # fmt: skip
        if rng.random() < 0.1:  # a wrong version, or a header length below the minimum
            packet = bytes([rng.choice((0x40, 0x44, 0x55, 0x65))]) + packet[1:]
        return ethernet(packet, 0x0800, tags=tags, macs=macs)
    first, chain = _chain(rng, protocol)
    packet = ipv6(
        _ip6(rng), to[1] if to else _ip6(rng), first, chain + payload, hop_limit=ttl,
        length=rng.choice((None,) * 8 + (0, 4, 8, 65535)),
    )  # fmt: skip
    return ethernet(packet, 0x86DD, tags=tags, macs=macs)


def _ip(rng: random.Random) -> int:
    return rng.choice((0x0A000002, 0x0A010002, 0xC0A80101, 0, 0x7F000001, 0xE0000001,
                        rng.randrange(1 << 32)))  # fmt: skip


def _ip6(rng: random.Random) -> int:
    return rng.choice((0xFD00 << 112 | 2, 0xFD01 << 112 | 2, 1, 0xFE80 << 112 | 1,
                        0xFF02 << 112 | 1, 0x2001 << 112 | rng.randrange(1 << 64)))  # fmt: skip


def _chain(rng: random.Random, last: int) -> tuple[int, bytes]:
    kinds = [rng.choice(EXTENSIONS) for _ in range(max(0, rng.randrange(-6, 11)))]
    chain = b""
    for kind, following in zip(kinds, [*kinds, last][1:], strict=True):
        if kind == FRAGMENT:
            fragment = rng.choice((0, 2, 6, 1, 8, 9, 0xFFF8))
            chain += struct.pack(">BBHI", following, rng.randrange(2), fragment, 7)
        else:
            length = rng.choice((0, 0, 1, 2, 3)) + (kind == AUTHENTICATION)
            size = (length + 2) * 4 if kind == AUTHENTICATION else (length + 1) * 8
            chain += struct.pack(">BB", following, length) + bytes(size - 2)
    return (kinds[0] if kinds else last), chain
