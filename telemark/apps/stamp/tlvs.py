"""TLVs of STAMP packets (RFC 8972): TLVs of senders, and the answers of reflectors.

A reply contains the same TLVs with the same lengths as the test packet, so the reflector never
sends more than it received.
"""

import enum
import hmac
import ipaddress
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from telemark.apps.stamp.packets import HMAC_BYTES, authentication_code
from telemark.errors import TestbedError

HEADER = struct.Struct("!BBH")  # flags, type, length of the value
# Flags. Senders set UNRECOGNIZED; a reflector that knows the type clears it.
UNRECOGNIZED, MALFORMED, INTEGRITY_FAILED = 0x80, 0x40, 0x20
LOCAL_CLOCK, IN_SOFTWARE = 5, 2  # free-running local clock; timestamps taken in software
ADDRESS_BYTES = 16  # length of the value of an address in a Location TLV


class TlvType(enum.IntEnum):
    """Types of TLVs that this implementation knows."""

    EXTRA_PADDING = 1
    LOCATION = 2
    TIMESTAMP_INFORMATION = 3
    CLASS_OF_SERVICE = 4
    DIRECT_MEASUREMENT = 5
    ACCESS_REPORT = 6
    FOLLOW_UP_TELEMETRY = 7
    HMAC = 8


class LocationType(enum.IntEnum):
    """Types of sub-TLVs of a Location TLV."""

    DESTINATION_IP = 4  # requested by the sender; the reply has one of the next two types
    DESTINATION_IPV4 = 5
    DESTINATION_IPV6 = 6
    SOURCE_IP = 7  # likewise
    SOURCE_IPV4 = 8
    SOURCE_IPV6 = 9


class Tlv(NamedTuple):
    """Type-length-value of a STAMP packet."""

    type: int
    value: bytes
    flags: int = UNRECOGNIZED


class ClassOfService(NamedTuple):
    """Value of a Class of Service TLV."""

    reply_dscp: int  # DSCP that the sender requests for the reply
    received_dscp: int  # DSCP of the test packet at the reflector
    received_ecn: int
    reverse_path: int  # 0 if the reply has the requested DSCP


class DirectMeasurement(NamedTuple):
    """Value of a Direct Measurement TLV: counters of the packets of the session."""

    sender_transmitted: int
    reflector_received: int
    reflector_transmitted: int


class FollowUp(NamedTuple):
    """Value of a Follow-Up Telemetry TLV."""

    sequence: int  # number of the previous reply of the session
    timestamp: int  # send time of the previous reply, in the format of the reflector
    method: int  # 0: the reflector has no previous reply


@dataclass(frozen=True)
class Observed:
    """Values with which a reflector fills the TLVs of a reply."""

    source: tuple[str, int]  # address and port of the sender, as seen by the reflector
    destination: tuple[str, int]
    dscp: int
    ecn: int
    packets: int  # test packets (= replies) of the session, including this one; 0 if stateless
    previous: FollowUp


# --- TLVs of senders -----------------------------------------------------------------------------


def extra_padding(length: int) -> Tlv:
    """Return an Extra Padding TLV with a pseudo-random value that depends on the length only."""
    if not 0 <= length <= 0xFFFF:
        raise TestbedError(f"extra_padding: length {length}: expected 0 to 65535")
    return Tlv(TlvType.EXTRA_PADDING, random.Random(length).randbytes(length))


def location() -> Tlv:
    """Return a Location TLV that asks for ports and addresses at the reflector."""
    asked = [LocationType.DESTINATION_IP, LocationType.SOURCE_IP]
    return Tlv(
        TlvType.LOCATION, bytes(4) + pack_tlvs([Tlv(t, bytes(ADDRESS_BYTES)) for t in asked])
    )


def timestamp_information() -> Tlv:
    """Return a TLV that asks how the reflector obtains its timestamps."""
    return Tlv(TlvType.TIMESTAMP_INFORMATION, bytes(4))


def class_of_service(reply_dscp: int) -> Tlv:
    """Return a TLV that requests a DSCP for replies, and asks for DSCP and ECN at the reflector."""
    if not 0 <= reply_dscp <= 63:
        raise TestbedError(f"class_of_service: reply_dscp {reply_dscp}: expected 0 to 63")
    return Tlv(TlvType.CLASS_OF_SERVICE, _pack_service(ClassOfService(reply_dscp, 0, 0, 0)))


def direct_measurement() -> Tlv:
    """Return a TLV for packet counters. The sender fills in the number of its test packets."""
    return Tlv(TlvType.DIRECT_MEASUREMENT, bytes(12))


def access_report(access_id: int, return_code: int) -> Tlv:
    """Return an Access Report TLV, which reflectors acknowledge by returning it."""
    if not (0 <= access_id <= 15 and 0 <= return_code <= 255):
        raise TestbedError(
            f"access_report: access_id {access_id}, return_code {return_code}: expected 0 to 15, "
            "and 0 to 255"
        )
    return Tlv(TlvType.ACCESS_REPORT, bytes([access_id << 4, return_code, 0, 0]))


def follow_up_telemetry() -> Tlv:
    """Return a TLV that asks for the number and the send time of the previous reply."""
    return Tlv(TlvType.FOLLOW_UP_TELEMETRY, bytes(16))


# --- values in replies ---------------------------------------------------------------------------


def read_class_of_service(value: bytes) -> ClassOfService:
    """Return the fields of a Class of Service TLV."""
    bits = int.from_bytes(value[:2], "big")
    return ClassOfService(bits >> 10, bits >> 4 & 63, bits >> 2 & 3, bits & 3)


def read_direct_measurement(value: bytes) -> DirectMeasurement:
    """Return the fields of a Direct Measurement TLV."""
    return DirectMeasurement(*struct.unpack("!III", value))


def read_follow_up_telemetry(value: bytes) -> FollowUp:
    """Return the fields of a Follow-Up Telemetry TLV."""
    return FollowUp(*struct.unpack("!IQB3x", value))


def read_location(value: bytes) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return address and port of the sender and of the reflector, as the reflector saw them."""
    destination_port, source_port = struct.unpack_from("!HH", value)
    addresses = {}
    for type_, address, _ in split_tlvs(value[4:])[0]:
        if type_ in (LocationType.DESTINATION_IPV4, LocationType.SOURCE_IPV4):
            addresses[type_ - 1] = str(ipaddress.IPv4Address(address[:4]))
        elif type_ in (LocationType.DESTINATION_IPV6, LocationType.SOURCE_IPV6):
            addresses[type_ - 2] = str(ipaddress.IPv6Address(address))
    source = addresses.get(LocationType.SOURCE_IP, ""), source_port
    return source, (addresses.get(LocationType.DESTINATION_IP, ""), destination_port)


# --- chains of TLVs ------------------------------------------------------------------------------


def pack_tlvs(tlvs: Sequence[Tlv]) -> bytes:
    """Return the bytes of TLVs."""
    return b"".join(HEADER.pack(flags, t, len(value)) + value for t, value, flags in tlvs)


def split_tlvs(data: bytes) -> tuple[list[Tlv], bytes]:
    """Return the TLVs, and the bytes from the first TLV on that does not fit in the data."""
    tlvs = []
    at = 0
    while at + HEADER.size <= len(data):
        flags, type_, length = HEADER.unpack_from(data, at)
        if at + HEADER.size + length > len(data):
            break
        at += HEADER.size + length
        tlvs.append(Tlv(type_, data[at - length : at], flags))
    return tlvs, data[at:]


def seal(tlvs: Sequence[Tlv], sequence: int, key: bytes | None) -> list[Tlv]:
    """Return TLVs with the right HMAC TLV for a packet with this sequence number.

    Adds the HMAC TLV if the session is authenticated and there are TLVs other than padding. It
    covers the TLVs before it; only padding may follow it.
    """
    if key is None or all(tlv.type == TlvType.EXTRA_PADDING for tlv in tlvs):
        return list(tlvs)
    place = next((i for i, tlv in enumerate(tlvs) if tlv.type == TlvType.HMAC), None)
    before = list(tlvs if place is None else tlvs[:place])
    after = [] if place is None else tlvs[place + 1 :]
    flags = UNRECOGNIZED if place is None else tlvs[place].flags
    code = authentication_code(key, sequence.to_bytes(4, "big") + pack_tlvs(before))
    return [*before, Tlv(TlvType.HMAC, code, flags), *after]


def is_intact(tlvs: Sequence[Tlv], sequence: int, key: bytes | None) -> bool:
    """Return whether TLVs have the right HMAC TLV, or need none."""
    place = next((i for i, tlv in enumerate(tlvs) if tlv.type == TlvType.HMAC), len(tlvs))
    if any(tlv.type != TlvType.EXTRA_PADDING for tlv in tlvs[place + 1 :]):
        return key is None
    expected = seal(tlvs, sequence, key)
    return len(expected) == len(tlvs) and hmac.compare_digest(pack_tlvs(expected), pack_tlvs(tlvs))


# --- reflectors ----------------------------------------------------------------------------------


def reflect_tlvs(
    data: bytes, sequence: int, reply_sequence: int, key: bytes | None, observed: Observed
) -> tuple[bytes, int]:
    """Return the TLVs of the reply, which have the same length, and the DSCP of the reply.

    `sequence` is that of the test packet. TLVs whose integrity check failed are only marked. TLVs
    after a malformed one are copied. Also in this case, the reply of an authenticated session has
    the right HMAC.
    """
    tlvs, rest = split_tlvs(data)
    if len(rest) >= HEADER.size:
        rest = bytes([MALFORMED]) + rest[1:]
    if not is_intact(tlvs, sequence, key):
        return pack_tlvs(
            [tlv._replace(flags=INTEGRITY_FAILED) for tlv in tlvs]
        ) + rest, observed.dscp
    dscp = observed.dscp
    replies: list[Tlv] = []
    for tlv in tlvs:
        if replies and replies[-1].flags & MALFORMED:  # RFC 8972 section 4: copy the rest
            replies += tlvs[len(replies) :]
            break
        replies.append(_answer(tlv, key, observed))
        if tlv.type == TlvType.CLASS_OF_SERVICE and not replies[-1].flags:
            dscp = read_class_of_service(tlv.value).reply_dscp
    return pack_tlvs(seal(replies, reply_sequence, key)) + rest, dscp


def _answer(tlv: Tlv, key: bytes | None, observed: Observed) -> Tlv:
    """Return the reply to a TLV."""
    if tlv.type == TlvType.HMAC and key is None:
        return tlv._replace(flags=UNRECOGNIZED)
    length, answer = ANSWERS.get(tlv.type, (None, None))
    if answer is None:
        return tlv._replace(flags=UNRECOGNIZED)
    if length is not None and length != len(tlv.value):
        return tlv._replace(flags=MALFORMED)
    value = answer(tlv.value, observed)
    return tlv._replace(flags=MALFORMED) if value is None else Tlv(tlv.type, value, 0)


def _keep(value: bytes, _observed: Observed) -> bytes:
    return value


def _answer_location(value: bytes, observed: Observed) -> bytes | None:
    parts, rest = split_tlvs(value[4:])
    if len(value) < 4 or rest:
        return None
    asked = {
        LocationType.DESTINATION_IP: observed.destination[0],
        LocationType.SOURCE_IP: observed.source[0],
    }
    answers = []
    for part in parts:
        if part.type not in asked:
            answers.append(part._replace(flags=UNRECOGNIZED))
        elif len(part.value) != ADDRESS_BYTES:
            answers.append(part._replace(flags=MALFORMED))
        else:
            address = ipaddress.ip_address(asked[LocationType(part.type)])
            type_ = part.type + (1 if address.version == 4 else 2)
            answers.append(Tlv(type_, address.packed.ljust(ADDRESS_BYTES, b"\0"), 0))
    ports = struct.pack("!HH", observed.destination[1], observed.source[1])
    return ports + pack_tlvs(answers)


def _answer_timestamps(_value: bytes, _observed: Observed) -> bytes:
    """Return source and method of the receive timestamp, and of the transmit timestamp."""
    return bytes([LOCAL_CLOCK, IN_SOFTWARE] * 2)


def _answer_service(value: bytes, observed: Observed) -> bytes:
    asked = read_class_of_service(value)
    return _pack_service(ClassOfService(asked.reply_dscp, observed.dscp, observed.ecn, 0))


def _pack_service(service: ClassOfService) -> bytes:
    reply_dscp, received_dscp, received_ecn, reverse_path = service
    bits = reply_dscp << 10 | received_dscp << 4 | received_ecn << 2 | reverse_path
    return struct.pack("!Hxx", bits)


def _answer_counters(value: bytes, observed: Observed) -> bytes:
    return value[:4] + struct.pack("!I", observed.packets & 0xFFFFFFFF) * 2


def _answer_follow_up(_value: bytes, observed: Observed) -> bytes:
    return struct.pack("!IQB3x", *observed.previous)


# map from type to the length of its value (None: any), and to the function that answers it
ANSWERS: dict[int, tuple[int | None, Callable[[bytes, Observed], bytes | None]]] = {
    TlvType.EXTRA_PADDING: (None, _keep),
    TlvType.LOCATION: (None, _answer_location),
    TlvType.TIMESTAMP_INFORMATION: (4, _answer_timestamps),
    TlvType.CLASS_OF_SERVICE: (4, _answer_service),
    TlvType.DIRECT_MEASUREMENT: (12, _answer_counters),
    TlvType.ACCESS_REPORT: (4, _keep),
    TlvType.FOLLOW_UP_TELEMETRY: (16, _answer_follow_up),
    TlvType.HMAC: (HMAC_BYTES, _keep),
}
