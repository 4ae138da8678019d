"""Frames that a host rejected because a P4 program wrote a wrong checksum or length.

Load on the machine cannot be the cause.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address

ETHERNET, IPV4_HEADER = 14, 20  # header lengths in bytes, without options
BROADCAST = b"\xff" * 6
TYPE_IPV4 = 0x0800
FRAGMENT = 0x3FFF  # mask of fragment offset and "more fragments"
# map from IPv4 protocol to name, offset of checksum, minimum header length, has pseudo-header
PROTOCOLS = {1: ("ICMP", 2, 8, False), 6: ("TCP", 16, 20, True), 17: ("UDP", 6, 8, True)}
UDP = 17


class Fault(Enum):
    """Reason why a host drops a frame."""

    MALFORMED = "with a wrong checksum or length"
    TOO_LONG = "longer than the MTU"


@dataclass(frozen=True)
class RejectedFrames:
    """Frames that one host rejected because of one kind of fault."""

    host: str
    fault: Fault
    frames: int
    example: str = ""  # description of the first frame (time, addresses, fault); "" if unknown


def first_example(frames: Iterable[tuple[int, bytes]], mac: str) -> str:
    """Describe the first malformed frame that was sent to a MAC address; "" if there is none.

    `frames` contains pairs: a time (ns of the run's clock), and the bytes of a complete frame.
    """
    destinations = (bytes.fromhex(mac.replace(":", "")), BROADCAST)
    for time_ns, frame in frames:
        if frame[:6] in destinations and (problem := describe_malformed(frame)):
            return f"first at {time_ns / 1e9:.6f} s, {problem}"
    return ""


def describe_malformed(frame: bytes) -> str | None:
    """Describe the fault of an IPv4 frame.

    Returns None if the frame has no fault or is not IPv4.

    Like a host, it verifies the length and the checksum of the IPv4 header (RFC 791, 3.1). It also
    verifies those of UDP (RFC 768), TCP (RFC 9293, 3.1) and ICMP (RFC 792), but not in fragments.
    """
    if len(frame) < ETHERNET + 2 or frame[12:14] != TYPE_IPV4.to_bytes(2, "big"):
        return None
    packet = frame[ETHERNET:]
    if len(packet) < IPV4_HEADER:
        return f"a frame of {len(frame)} bytes: too short for an IPv4 header"
    header, total = 4 * (packet[0] & 15), int.from_bytes(packet[2:4], "big")
    flow = f"{IPv4Address(packet[12:16])} > {IPv4Address(packet[16:20])}"
    if packet[0] >> 4 != 4 or not IPV4_HEADER <= header <= total <= len(packet):
        return (f"{flow}: IPv4 version {packet[0] >> 4}, header of {header} bytes, total length "
                f"{total}, in {len(packet)} bytes")  # fmt: skip
    if problem := _wrong_checksum(packet[:header], 10, b""):
        return f"{flow}: IPv4 {problem}"
    if packet[9] not in PROTOCOLS or int.from_bytes(packet[6:8], "big") & FRAGMENT:
        return None
    return _describe_layer_4(packet[:header], packet[header:total])


def _describe_layer_4(header: bytes, segment: bytes) -> str | None:
    """Describe the fault of the payload of an IPv4 packet; None if it has no fault."""
    name, at, shortest, has_pseudo_header = PROTOCOLS[header[9]]
    source, destination = (str(IPv4Address(header[start : start + 4])) for start in (12, 16))
    if len(segment) < shortest:
        return f"{source} > {destination}: {len(segment)} bytes are too short for a {name} header"
    if has_pseudo_header:
        ports = struct.unpack_from(">HH", segment)
        source, destination = f"{source}:{ports[0]}", f"{destination}:{ports[1]}"
    flow = f"{source} > {destination}"
    if header[9] == UDP:
        length = int.from_bytes(segment[4:6], "big")
        if not shortest <= length <= len(segment):
            return f"{flow}: UDP length {length}, in {len(segment)} bytes"
        segment = segment[:length]
        if segment[at : at + 2] == b"\0\0":  # the datagram has no checksum
            return None
    pseudo = header[12:20] + struct.pack(">HH", header[9], len(segment))
    problem = _wrong_checksum(segment, at, pseudo if has_pseudo_header else b"")
    return f"{flow}: {name} {problem}" if problem else None


def _wrong_checksum(data: bytes, at: int, pseudo_header: bytes) -> str | None:
    """Verify the checksum at an offset (RFC 1071).

    Return a description of the mismatch, or None.
    """
    found = int.from_bytes(data[at : at + 2], "big")
    covered = pseudo_header + data[:at] + b"\0\0" + data[at + 2 :]
    words = struct.unpack(f">{(len(covered) + 1) // 2}H", covered + b"\0" * (len(covered) % 2))
    expected = ~_folded(sum(words)) & 0xFFFF
    # 0xFFFF is also right for a computed checksum 0, which UDP sends as 0xFFFF
    if _folded(found + sum(words)) == 0xFFFF:
        return None
    return f"checksum {found:#06x}, expected {expected or 0xFFFF:#06x}"


def _folded(total: int) -> int:
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total
