"""Random and corrupted packets cross four switches. Code written from RFCs checks the packets."""

import random
from dataclasses import dataclass

import pytest
from int_layers import NODE, QUEUE
from int_path import (
    DSCP,
    IN,
    MARKER,
    NEW_UDP,
    OUT,
    PORT,
    PROBE,
    TO_COLLECTOR,
    Switch,
    parse_report,
    tcp,
    udp,
)

PACKETS = 60
TOS = (0, 8, 0xB9, 0xFF)  # values without the DSCP that marks INT
MAX_HOPS = 8
UDP_PROTOCOL = 17


@dataclass(frozen=True)
class Checked:
    """The result of checked(), which parses a packet byte by byte."""

    sums_are_right: bool  # whether all lengths and checksums are correct
    payload: bytes  # the bytes after the first TCP or UDP header


def ones_sum(data: bytes) -> int:
    """Return the ones' complement sum of RFC 1071. It is not inverted."""
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0")) for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checked(frame: bytes) -> Checked:
    """Parse a frame as RFC 791, 8200, 768 and 9293 define it."""
    is_right = True
    if frame[14] >> 4 == 4:
        head, protocol, addresses = (frame[14] & 15) * 4, frame[23], frame[26:34]
        is_right = ones_sum(frame[14 : 14 + head]) == 0xFFFF
        is_right &= int.from_bytes(frame[16:18]) == len(frame) - 14
    else:
        head, protocol, addresses = 40, frame[20], frame[22:54]
        is_right = int.from_bytes(frame[18:20]) == len(frame) - 54
    segment = frame[14 + head :]
    is_udp = protocol == UDP_PROTOCOL
    if is_udp:
        is_right &= int.from_bytes(segment[4:6]) == len(segment)
    if not (is_udp and segment[6:8] == bytes(2)):
        pseudo = addresses + len(segment).to_bytes(4) + bytes([0, 0, 0, protocol])
        is_right &= ones_sum(pseudo + segment) == 0xFFFF
    return Checked(is_right, segment[8 if is_udp else segment[12] // 16 * 4 :])


def hops(frame: bytes) -> tuple[int, int]:
    """Return the number of hops in the INT stack, and the remaining hop count."""
    data = checked(frame).payload.removeprefix(MARKER)
    words, hop_words, remaining = data[1] - 3, data[6] & 31, data[7]
    assert words % hop_words == 0
    return words // hop_words, remaining


def random_packet(rng: random.Random) -> tuple[bytes, int]:
    """Return a random packet, and its IP version.

    The packet may have TCP options, an odd length, or a UDP checksum of 0.
    """
    version, payload = rng.choice((4, 6)), rng.randbytes(rng.randrange(60))
    if rng.random() < 0.5:
        options = rng.choice(([], [("NOP", None)] * 4, [("MSS", 1460)] + [("NOP", None)] * 36))
        return tcp(payload, version=version, options=options, tos=rng.choice(TOS)), version
    chksum = {"chksum": 0} if rng.random() < 0.3 else {}
    return udp(payload, version=version, tos=rng.choice(TOS), **chksum), version


@pytest.mark.parametrize("seed", range(2))
def test_random_packets(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(PACKETS):
        data, version = random_packet(rng)
        is_udp = data[23 if version == 4 else 20] == UDP_PROTOCOL
        mark = rng.choice((DSCP, NEW_UDP, PROBE, *[PORT] * is_udp))
        instructions = rng.randrange(1, 1 << 16)
        source, sink = Switch(1, outside=[IN]), Switch(4, outside=[OUT])
        source.embed_data(instructions, MAX_HOPS, mark, version=version)
        sink.report_all()
        inside = data
        for pushed, switch in enumerate((source, Switch(2), Switch(3)), 1):
            inside = switch.pass_on(inside, rng.randrange(1 << 40))
            assert checked(inside).sums_are_right, (hex(instructions), mark, inside.hex())
            assert hops(inside) == (pushed, MAX_HOPS - pushed)
        (_, out), (port, report) = sink.send(inside)
        assert (out, port) == (data, TO_COLLECTOR)
        assert checked(report).sums_are_right
        assert inside[14:].startswith(parse_report(report).fragment)


def inside_and_sink() -> tuple[bytes, Switch]:
    source = Switch(1, outside=[IN])
    source.embed_data(NODE | QUEUE, MAX_HOPS, DSCP)
    return source.pass_on(udp(b"payload!")), Switch(3, outside=[OUT])


INT = 14 + 20 + 8  # offset of INT in the frame
BROKEN = {
    "hop count": INT + 7,
    "metadata, the checksum left as it was": INT + 16 + 3,
    "checksum": INT - 1,
    "data": INT + 16 + 8,
}


@pytest.mark.parametrize("what", BROKEN)
def test_checksums_show_changes_between_switches_at_the_host(what: str) -> None:
    """If a packet is changed between two switches, its checksum is wrong at the host.

    The reason is that switches update checksums, and do not compute them again.
    """
    inside, sink = inside_and_sink()
    assert checked(sink.pass_on(Switch(2).pass_on(inside))).sums_are_right
    broken = bytearray(inside)
    broken[BROKEN[what]] ^= 1
    out = sink.pass_on(Switch(2).pass_on(bytes(broken)))
    assert not checked(out).sums_are_right
