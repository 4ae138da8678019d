"""DTA packets in scapy: each field of the format, and rejection of invalid packets."""

import random

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from collectors.dta.packets import (
    DTA,
    NACK_PORT,
    Append,
    KeyIncrement,
    KeyWrite,
    Nack,
    PlainDTA,
    Postcard,
    ShortKeyIncrement,
    ShortKeyWrite,
    ShortNack,
    ShortPostcard,
    SketchMerge,
    TrackedDTA,
    decode,
)

KEY = 0x0123456789ABCDEF0011223344556677
KEY_HEX = f"{KEY:032x}"
OURS = DTA(reporter=0x0304, sequence=0x05060708)
TRACKED = TrackedDTA(seqnum=9, retransmittable=1)
# Packets and their bytes, written by hand from the specification.
WIRE: dict[str, tuple[Packet, str]] = {
    "key-write": (OURS / KeyWrite(redundancy=2, key=KEY, data=[0xA0B0C0D0]),
                  "10 01 0304 05060708 02 01 0000" + KEY_HEX + "a0b0c0d0"),
    "three words": (OURS / KeyWrite(redundancy=8, key=5, data=[1, 2, 3]),
                    "10 01 0304 05060708 08 03 0000" + 31 * "0" + "5" + "000000010000000200000003"),
    "seven words": (DTA(immediate=1) / KeyWrite(data=[*range(7)]),
                    "18 01 0000 00000000 01 07 0000" + 32 * "0"
                    + "".join(f"{n:08x}" for n in range(7))),
    "append": (DTA(retransmittable=1) / Append(list=3, data=4),
               "14 02 0000 00000000 00000003 00000004"),
    "increment": (OURS / KeyIncrement(redundancy=4, key=KEY, addend=1 << 40),
                  "10 03 0304 05060708 04 000000" + KEY_HEX + "0000010000000000"),
    "postcard": (OURS / Postcard(redundancy=2, hop=4, hops=5, key=KEY, value=7),
                 "10 04 0304 05060708 02 04 05 00" + KEY_HEX + "00000007"),
    "sketch": (OURS / SketchMerge(sketch=1, column=2, counters=[3, 4, 5, 6]),
               "10 05 0304 05060708 0001 0002 00000003 00000004 00000005 00000006"),
    "nack": (OURS / Nack(count=2), "10 80 0304 05060708 00000002"),
    "prototype, key-write": (TRACKED / ShortKeyWrite(redundancy=2, key=5, data=[9]),
                             "01 09 40 02 00000005 00000009"),
    "prototype, seven words": (TRACKED / ShortKeyWrite(redundancy=2, key=5, data=7 * [9]),
                               "01 09 40 02 00000005" + 7 * "00000009"),
    "prototype, append": (TRACKED / Append(list=255, data=9), "02 09 40 000000ff 00000009"),
    "prototype, increment": (TRACKED / ShortKeyIncrement(redundancy=1, key=5, addend=9),
                             "03 09 40 01 00000005 0000000000000009"),
    "prototype, postcard": (TRACKED / ShortPostcard(key=5, hop=5, value=9),
                            "04 09 40 00000005 05 00000009"),
    "plain, key-write": (PlainDTA(immediate=1) / ShortKeyWrite(redundancy=2, key=5, data=[9]),
                         "01 80 02 00000005 00000009"),
}  # fmt: skip
# Byte strings that a translator drops, with a word of the reason.
BAD = {
    "nothing": ("", "0 bytes"),
    "a cut header": ("10 01 0304 050607", "7 bytes"),
    "version 0": ("00 02 0000 00000000 00000003 00000004", "version 0"),
    "version 2": ("20 02 0000 00000000 00000003 00000004", "version 2"),
    "opcode 0": ("10 00 0000 00000000 00000003 00000004", "opcode 0x00"),
    "opcode 6": ("10 06 0000 00000000 00000003 00000004", "opcode 0x06"),
    "header alone": ("10 02 0000 00000000", "Append: 0 bytes"),
    "cut": ("10 02 0000 00000000 00000003 000004", "Append: 7 bytes"),
    "too long": ("10 02 0000 00000000 00000003 00000004 00", "Append: 9 bytes"),
    "no copies": ("10 01 0000 00000000 00 01 0000" + 40 * "0", "redundancy 0"),
    "nine copies": ("10 01 0000 00000000 09 01 0000" + 40 * "0", "redundancy 9"),
    "nine counters": ("10 03 0000 00000000 09 000000" + 48 * "0", "redundancy 9"),
    "no chunks": ("10 04 0000 00000000 00 00 00 00" + 40 * "0", "redundancy 0"),
    "two words": ("10 01 0000 00000000 01 02 0000" + 48 * "0", "28 bytes"),
    "words that are not there": ("10 01 0000 00000000 01 03 0000" + 40 * "0", "3 words, but 4"),
    "words that are not said": ("10 01 0000 00000000 01 01 0000" + 56 * "0", "1 words, but 12"),
    "hop 5": ("10 04 0000 00000000 01 05 00 00" + 40 * "0", "hop 5"),
    "six hops": ("10 04 0000 00000000 01 00 06 00" + 40 * "0", "hops 6"),
}
BAD_PROTOTYPES = {
    "sketch": ("05 00 00 00000003 00000004", "opcode 0x05"),
    "no copies": ("01 00 00 00 00000005 00000009", "redundancy 0"),
    "hop 0": ("04 00 00 00000005 00 00000009", "hop 0"),
    "hop 6": ("04 00 00 00000005 06 00000009", "hop 6"),
    "two words": ("01 00 00 01 00000005 0000000900000009", "13 bytes"),
}


@pytest.mark.parametrize("name", WIRE)
def test_a_packet_has_the_bytes_of_the_format_and_is_read_as_it_was_built(name: str) -> None:
    built, octets = WIRE[name]
    assert bytes(built).hex() == octets.replace(" ", "")
    base = type(built)
    read = decode(bytes(built), base)
    assert [*read.layers()] == [*built.layers()]
    report, given = read.payload, built.payload
    assert {**report.fields, **given.fields} == report.fields
    assert {**read.fields, **built.fields} == read.fields


@pytest.mark.parametrize(
    ("name", "port"),
    [("key-write", 40042), ("prototype, append", 40040), ("plain, key-write", 40040)],
)
def test_the_port_follows_the_base_header(name: str, port: int) -> None:
    built = Ether() / IP(dst="10.0.0.1") / UDP() / WIRE[name][0]
    frame = Ether(bytes(built))
    assert frame[UDP].dport == port
    if PlainDTA not in built:  # cannot be distinguished from another layer on the same port
        assert frame.layers() == built.layers()


def test_nacks_share_a_port() -> None:
    ours = UDP(bytes(UDP(dport=NACK_PORT) / DTA(sequence=7) / Nack(count=2)))
    assert (ours[DTA].opcode, ours[DTA].sequence, ours[Nack].count) == (0x80, 7, 2)
    prototype = UDP(bytes(UDP() / ShortNack(seqnum=5)))
    assert prototype.dport == NACK_PORT
    assert (prototype[ShortNack].seqnum, prototype[ShortNack].nack) == (5, 1)
    assert bytes(ShortNack(seqnum=5)).hex() == "0580"


@pytest.mark.parametrize("name", BAD)
def test_what_must_be_dropped_is_refused(name: str) -> None:
    octets, reason = BAD[name]
    with pytest.raises(ValueError, match=reason):
        decode(bytes.fromhex(octets))


@pytest.mark.parametrize("name", BAD_PROTOTYPES)
def test_what_must_be_dropped_of_the_prototypes_is_refused(name: str) -> None:
    octets, reason = BAD_PROTOTYPES[name]
    with pytest.raises(ValueError, match=reason):
        decode(bytes.fromhex(octets), TrackedDTA)


def test_bytes_by_chance_are_a_report_or_refused() -> None:
    rng = random.Random(1)
    accepted = 0
    for _ in range(3000):
        payload = bytes([0x10, rng.randrange(7)]) + rng.randbytes(rng.choice((14, 26, 30, 34)))
        try:
            packet = decode(payload)
        except ValueError:
            continue
        accepted += 1
        assert bytes(packet) == payload
    assert accepted > 100
