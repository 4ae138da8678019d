"""Formats of STAMP packets, compared with scapy."""

import hashlib
import struct
from collections.abc import Callable

import pytest
from scapy.contrib.stamp import (
    STAMPSessionReflectorTestUnauthenticated as ScapyReflectorPacket,
)
from scapy.contrib.stamp import (
    STAMPSessionSenderTestUnauthenticated as ScapySenderPacket,
)

from telemark.apps.stamp.packets import (
    ErrorEstimate,
    PacketError,
    ReflectorPacket,
    SenderPacket,
    TimestampFormat,
    base_size,
    check_packet,
    decode_error,
    encode_error,
    pack,
    unpack,
)
from telemark.apps.stamp.reflector import StampReflector
from telemark.apps.stamp.sender import StampSender
from telemark.apps.stamp.tlvs import class_of_service
from telemark.errors import TestbedError

SENDER = SenderPacket(0x01020304, 0x0A0B0C0D_11121314, 0x8105, 0x1234)
REFLECTOR = ReflectorPacket(5, 0x21222324_25262728, 0x0107, 9, 0x31323334_35363738, 0x41424344,
                            0x51525354_55565758, 0x8209, 253)  # fmt: skip
KEY = b"a secret"


def test_scapy_reads_the_packets_of_senders() -> None:
    found = ScapySenderPacket(pack(SENDER, None))
    estimate = found.err_estimate
    assert (found.seq, found.ssid, found.mbz) == (SENDER.sequence, SENDER.ssid, 0)
    assert bytes(found)[4:12] == SENDER.timestamp.to_bytes(8, "big")
    assert (estimate.S, estimate.Z, estimate.scale, estimate.multiplier) == (1, 0, 1, 5)


def test_scapy_reads_the_packets_of_reflectors() -> None:
    found = ScapyReflectorPacket(pack(REFLECTOR, None))
    assert (found.seq, found.ssid, found.seq_sender) == (5, 9, REFLECTOR.sender_sequence)
    assert (found.ttl_sender, found.mbz1, found.mbz2) == (253, 0, 0)
    assert (found.err_estimate.scale, found.err_estimate_sender.scale) == (1, 2)
    assert bytes(found)[16:24] == REFLECTOR.receive_timestamp.to_bytes(8, "big")
    assert bytes(found)[28:36] == REFLECTOR.sender_timestamp.to_bytes(8, "big")


def test_our_reflector_reads_the_packets_of_scapy() -> None:
    theirs = bytes(ScapySenderPacket(seq=7, ts=1.5, ssid=3))
    found = unpack(SenderPacket, theirs, None)
    assert (found.sequence, found.ssid, found.timestamp) == (7, 3, 3 << 31)


def test_authenticated_packets_have_the_offsets_of_the_rfc() -> None:
    sender, reflector = pack(SENDER, KEY), pack(REFLECTOR, KEY)
    assert len(sender) == len(reflector) == base_size(KEY) == 112
    assert struct.unpack_from("!I12sQHH", sender) == (SENDER[0], bytes(12), *SENDER[1:])
    assert sender[28:96] == bytes(68)
    offsets = [(0, 4), (16, 8), (24, 2), (26, 2), (32, 8), (48, 4), (64, 8), (72, 2), (80, 1)]
    fields = [int.from_bytes(reflector[at : at + size], "big") for at, size in offsets]
    assert fields == [*REFLECTOR]


def test_the_hmac_covers_96_bytes_and_is_truncated() -> None:
    data = pack(SENDER, KEY)
    block = KEY.ljust(64, b"\0")  # RFC 2104
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block) + data[:96]).digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in block) + inner).digest()
    assert data[96:] == outer[:16]


@pytest.mark.parametrize("key", [None, KEY])
def test_packets_survive_a_round_trip(key: bytes | None) -> None:
    for packet in (SENDER, REFLECTOR):
        data = pack(packet, key)
        check_packet(data, key)
        assert unpack(type(packet), data, key) == packet


@pytest.mark.parametrize("key", [None, KEY])
def test_short_packets_are_refused(key: bytes | None) -> None:
    data = pack(SENDER, key)
    for length in range(len(data)):
        with pytest.raises(PacketError, match="short"):
            check_packet(data[:length], key)


@pytest.mark.parametrize("at", [0, 20, 95, 96, 111])
def test_each_changed_byte_breaks_the_hmac(at: int) -> None:
    data = bytearray(pack(SENDER, KEY))
    data[at] ^= 1
    with pytest.raises(PacketError, match="hmac"):
        check_packet(bytes(data), KEY)


@pytest.mark.parametrize("timestamps", list(TimestampFormat))
@pytest.mark.parametrize("rest_ns", [0, 1, 2, 499_999_999, 999_999_998, 999_999_999])
def test_timestamps_keep_each_nanosecond(timestamps: TimestampFormat, rest_ns: int) -> None:
    for seconds in (0, 1, 2**32 - 1):
        time_ns = seconds * 1_000_000_000 + rest_ns
        timestamp = timestamps.encode(time_ns)
        assert timestamp >> 32 == seconds
        assert timestamps.decode(timestamp) == time_ns


@pytest.mark.parametrize("error_ns", [0, 0.1, 1, 59, 60, 1e3, 123_456, 1e9])
def test_error_estimates_are_rounded_up(error_ns: float) -> None:
    field = encode_error(ErrorEstimate(False, TimestampFormat.PTP, error_ns))
    found = decode_error(field)
    assert (found.is_synchronized, found.format) == (False, TimestampFormat.PTP)
    assert field & 0xFF  # the multiplier must not be 0
    assert error_ns <= found.error_ns <= max(error_ns * (1 + 1 / 127), error_ns + 0.24)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: StampReflector(key=b""), "STAMP: key is empty"),
        (lambda: StampSender("10.0.0.2", count=1, interval_us=1, key=b""), "STAMP: key is empty"),
        (
            lambda: StampSender("10.0.0.2", count=0, interval_us=1),
            "count 0, interval_us 1: expected",
        ),
        (
            lambda: StampSender("10.0.0.2", count=1, interval_us=0),
            "count 1, interval_us 0: expected",
        ),
        (lambda: StampSender("10.0.0.2", count=1, interval_us=1, ssid=0), "ssid 0: expected 1 to"),
        (lambda: StampReflector(error_ns=float("inf")), "error_ns inf: expected a number from 0"),
        (
            lambda: StampSender("10.0.0.2", count=1, interval_us=1, error_ns=float("nan")),
            "error_ns nan: expected a number from 0",
        ),
        (lambda: class_of_service(64), "reply_dscp 64: expected 0 to 63"),
    ],
)
def test_invalid_parameters_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(TestbedError, match=words):
        make()
