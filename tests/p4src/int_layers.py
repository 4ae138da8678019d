"""The headers of INT v2.1 and Telemetry Report v2.0 as scapy layers.

The layers were written from the figures of the specifications.
"""

import struct
from typing import NamedTuple

from scapy.fields import (
    BitField,
    ByteField,
    FieldListField,
    IntField,
    XIntField,
    XShortField,
)
from scapy.packet import Packet

# Bits of instructions and of RepMdBits. Metadata have 4 bytes, or 8 if in EIGHT_BYTES.
NODE, LEVEL_1, LATENCY, QUEUE = 0x8000, 0x4000, 0x2000, 0x1000
INGRESS, EGRESS, LEVEL_2, UTILISATION, BUFFER = 0x0800, 0x0400, 0x0200, 0x0100, 0x0080
LAST = 0x0001
EIGHT_BYTES = (INGRESS, EGRESS, LEVEL_2)
MD, MX = 1, 3


class Shim(Packet):
    """The INT shim header over TCP or UDP."""

    fields_desc = (
        BitField("type", MD, 4),
        BitField("npt", 0, 2),
        BitField("reserved", 0, 2),
        ByteField("length", 3),
        XShortField("original", 0),
    )

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class IntHeader(Packet):
    """The INT-MD header of twelve bytes.

    INT-MX uses it, too; there, its flags and counts are zero.
    """

    fields_desc = (
        BitField("version", 2, 4),
        BitField("discard", 0, 1),
        BitField("exceeded", 0, 1),
        BitField("mtu", 0, 1),
        BitField("reserved", 0, 12),
        BitField("hop_ml", 0, 5),
        ByteField("remaining", 0),
        XShortField("instructions", 0),
        XShortField("domain", 0),
        XShortField("domain_instructions", 0),
        XShortField("domain_flags", 0),
    )

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class Group(Packet):
    """The report group header."""

    fields_desc = (
        BitField("version", 2, 4),
        BitField("hw_id", 0, 6),
        BitField("sequence", 0, 22),
        IntField("node", 0),
    )

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class Individual(Packet):
    """The header of an individual report of RepType 1, with the metadata."""

    fields_desc = (
        BitField("type", 1, 4),
        BitField("inner_type", 0, 4),
        ByteField("length", 0),
        ByteField("md_length", 0),
        BitField("dropped", 0, 1),
        BitField("congested", 0, 1),
        BitField("flow", 0, 1),
        BitField("intermediate", 0, 1),
        BitField("reserved", 0, 4),
        XShortField("bits", 0),
        XShortField("domain", 0),
        XShortField("domain_bits", 0),
        XShortField("domain_status", 0),
        FieldListField("words", [], XIntField("word", 0), count_from=lambda p: p.md_length),
    )

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class Int(NamedTuple):
    """The INT data of a packet: shim, header, and the words of the stack.

    `behind` is what follows.
    """

    shim: Shim
    header: IntHeader
    stack: tuple[int, ...]
    behind: bytes

    @property
    def hops(self) -> list[dict[int, int]]:
        """Return the metadata of each hop, the newest hop first."""
        count = self.header.hop_ml
        assert len(self.stack) % count == 0
        return [metadata(self.header.instructions, list(self.stack[i : i + count]))
                for i in range(0, len(self.stack), count)]  # fmt: skip


class Report(NamedTuple):
    """A parsed report. `metadata` maps a bit to its value; `fragment` starts with the IP header."""

    group: Group
    head: Individual
    metadata: dict[int, int]
    fragment: bytes


def metadata(instructions: int, words: list[int]) -> dict[int, int]:
    """Return the value of each metadata bit. Assert that the values use all words."""
    values, rest = {}, list(words)
    for bit in (1 << n for n in reversed(range(16))):
        if instructions & bit:
            values[bit] = rest.pop(0)
            if bit in EIGHT_BYTES:
                values[bit] = values[bit] << 32 | rest.pop(0)
    assert not rest, f"{len(rest)} words more than the instructions {instructions:#x} say"
    return values


def take_int(data: bytes) -> Int:
    """Parse data that begin with an INT shim."""
    shim, header = Shim(data[:4]), IntHeader(data[4:16])
    end = 4 + 4 * shim.length
    assert 16 <= end <= len(data)
    stack = struct.unpack_from(f">{shim.length - 3}I", data, 16)
    return Int(shim, header, stack, data[end:])


def take_report(payload: bytes) -> Report:
    """Parse the UDP payload of a report packet that contains a single individual report."""
    group, head = Group(payload[:8]), Individual(payload[8:])
    assert (group.version, head.type) == (2, 1)
    end = 12 + 4 * head.length
    assert len(payload) == end or (head.length == 255 and len(payload) > end)
    start = 20 + 4 * head.md_length
    return Report(group, head, metadata(head.bits, head.words), payload[start:])
