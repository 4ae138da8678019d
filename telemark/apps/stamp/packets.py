"""Formats of STAMP: test packets, timestamps and error estimates (RFC 8762, RFC 8972, RFC 8186)."""

import enum
import hmac
import math
import struct
from typing import NamedTuple, TypeVar

from telemark.errors import TestbedError

PORT = 862  # default UDP port of a Session-Reflector
TTL = 255  # of all test packets, so that the receiver can count hops
HMAC_BYTES = 16
SECOND_NS = 1_000_000_000


class PacketError(ValueError):
    """Reason to discard a received packet."""


class SenderPacket(NamedTuple):
    """Packet of a Session-Sender. Its timestamp is in the format that the error estimate names."""

    sequence: int
    timestamp: int
    error_estimate: int
    ssid: int


class ReflectorPacket(NamedTuple):
    """Packet of a Session-Reflector."""

    sequence: int
    timestamp: int
    error_estimate: int
    ssid: int
    receive_timestamp: int
    sender_sequence: int
    sender_timestamp: int
    sender_error_estimate: int
    sender_ttl: int


AnyPacket = TypeVar("AnyPacket", SenderPacket, ReflectorPacket)

# Formats without and with authentication. Authenticated packets end with an HMAC.
FORMATS: dict[type, tuple[struct.Struct, struct.Struct]] = {
    SenderPacket: (struct.Struct("!IQHH28x"), struct.Struct("!I12xQHH68x")),
    ReflectorPacket: (
        struct.Struct("!IQHHQIQH2xB3x"), struct.Struct("!I12xQHH4xQ8xI12xQH6xB15x")
    ),
}  # fmt: skip


def base_size(key: bytes | None) -> int:
    """Return the length of a packet without TLVs: 44 bytes, or 112 bytes with authentication."""
    return (
        FORMATS[SenderPacket][0].size if key is None else FORMATS[SenderPacket][1].size + HMAC_BYTES
    )


def authentication_code(key: bytes, covered: bytes) -> bytes:
    """Return HMAC-SHA-256, truncated to 128 bits."""
    return hmac.digest(key, covered, "sha256")[:HMAC_BYTES]


def pack(packet: SenderPacket | ReflectorPacket, key: bytes | None) -> bytes:
    """Return the bytes of a packet. With a key, the packet is authenticated."""
    plain, authenticated = FORMATS[type(packet)]
    if key is None:
        return plain.pack(*packet)
    covered = authenticated.pack(*packet)
    return covered + authentication_code(key, covered)


def check_packet(data: bytes, key: bytes | None) -> None:
    """Raise PacketError if a packet is too short, or if its HMAC is wrong."""
    size = base_size(key)
    if len(data) < size:
        raise PacketError("short")
    if key is not None:
        covered, code = data[: size - HMAC_BYTES], data[size - HMAC_BYTES : size]
        if not hmac.compare_digest(code, authentication_code(key, covered)):
            raise PacketError("hmac")


def unpack(kind: type[AnyPacket], data: bytes, key: bytes | None) -> AnyPacket:
    """Return the fields of a packet that check_packet() accepted; TLVs may follow it."""
    return kind(*FORMATS[kind][key is not None].unpack_from(data))


class TimestampFormat(enum.IntEnum):
    """Formats of timestamps; the value is the Z bit of error estimates (RFC 8186).

    Timestamps are times of the network's common clock, so their epoch is the start of this clock.
    Both formats represent each nanosecond exactly.
    """

    NTP = 0  # 64 bits: seconds and a fraction with a resolution of 2**-32 s
    PTP = 1  # truncated: seconds and nanoseconds, 32 bits each

    def encode(self, time_ns: int) -> int:
        """Return the timestamp of a time; seconds wrap after 2**32."""
        seconds, rest_ns = divmod(time_ns, SECOND_NS)
        if self is TimestampFormat.NTP:
            # rounded up, so that receivers that round down, such as Wireshark, get this nanosecond
            rest_ns = -(-(rest_ns << 32) // SECOND_NS)
        return (seconds & 0xFFFFFFFF) << 32 | rest_ns

    def decode(self, timestamp: int) -> int:
        """Return the time in nanoseconds."""
        seconds, rest = timestamp >> 32, timestamp & 0xFFFFFFFF
        if self is TimestampFormat.NTP:
            rest = (rest * SECOND_NS + (1 << 31)) >> 32  # rounded to the nearest nanosecond
        return seconds * SECOND_NS + rest


class ErrorEstimate(NamedTuple):
    """Error estimate of a timestamp (RFC 4656 section 4.1.2, with the Z bit of RFC 8186)."""

    is_synchronized: bool
    format: TimestampFormat
    error_ns: float


def encode_error(estimate: ErrorEstimate) -> int:
    """Return the 16 bits of an error estimate.

    The error is rounded up to the next value that the field can represent. The multiplier is at
    least 1, because 0 makes the packet invalid.
    """
    units = estimate.error_ns * 2**32 / SECOND_NS
    scale = 0
    while units > 255 and scale < 63:
        units, scale = units / 2, scale + 1
    multiplier = min(max(-int(-units // 1), 1), 255)
    return estimate.is_synchronized << 15 | estimate.format << 14 | scale << 8 | multiplier


def decode_error(field: int) -> ErrorEstimate:
    """Return the meaning of the 16 bits of an error estimate."""
    error_ns = (field & 0xFF) * 2 ** (field >> 8 & 63) * SECOND_NS / 2**32
    return ErrorEstimate(bool(field >> 15), TimestampFormat(field >> 14 & 1), error_ns)


def decode_timestamp(timestamp: int, error_estimate: int) -> int:
    """Return the time (ns) of a timestamp in the format that its error estimate names."""
    return decode_error(error_estimate).format.decode(timestamp)


def check_parameters(key: bytes | None, error_ns: float) -> None:
    """Raise TestbedError for an empty key, or for an error that is negative or not finite.

    Anybody could compute the HMAC of an empty key.
    """
    if key is not None and not key:
        raise TestbedError("STAMP: key is empty; use secret bytes, or None for no authentication")
    if not 0 <= error_ns < math.inf:
        raise TestbedError(f"STAMP: error_ns {error_ns:g}: expected a number from 0")
