"""Clean traffic and attack traffic; frames have a label that only counters read."""

import struct
from collections.abc import Iterator
from enum import IntEnum
from itertools import cycle, islice

from ebpf.threats.alerts import Kind
from experiments.shared.xdp.frames import DEVICE_MAC, SENDER_MAC
from telemark.apps.headers import internet_checksum

LENGTH = 128  # frame length in bytes, without the frame check sequence
HOSTS = 682  # number of hosts with clean traffic; six packets per host fill one window
# number of different attack packets; it is so large that no SYN is sent twice, because the second
# would look like a retransmission
ATTACKS = 8192
SYN, ACK = 2, 16
TCP, UDP = 6, 17
VICTIM, ATTACKER, SERVERS = 0x0A000002, 0x0A000003, 7
# (m, n): m of n packets are attack packets. The one flow of a heavy hitter must have more than 30 %
# of all packets.
SHARES = dict.fromkeys(Kind, (1, 4)) | {Kind.HEAVY_HITTER: (3, 5)}


class Label(IntEnum):
    """Label of a packet, stored in its IPv4 identification field (threats.bpf.c)."""

    CLEAN = 1
    ATTACK = 2
    # clean connection attempt to the flooded service, which the client must retry during the flood
    OPENING = 3


def clean() -> list[bytes]:
    """Return packets of hosts that alternately use a connection and query a name server."""
    hosts = [(0x0B000000 + number, VICTIM + 16 * (number % SERVERS)) for number in range(HOSTS)]
    of = [
        [_tcp(host, server, 443, SYN), *[_tcp(host, server, 443, ACK)] * 3,
         _udp(host, server, 4000, 53), _udp(server, host, 53, 4000)]
        for host, server in hosts
    ]  # fmt: skip
    return [each[turn] for turn in range(6) for each in of]


def attack(kind: Kind) -> list[bytes]:
    """Return the packets of an attack. All of them have the same length."""
    return list(_attack(kind))


def mixed(kind: Kind) -> list[bytes]:
    """Return evenly mixed clean packets and attack packets."""
    own, of = SHARES[kind]
    attacks, others = cycle(attack(kind)), cycle(clean())
    rounds = ATTACKS // own
    return [
        frame
        for _ in range(rounds)
        for frame in (*islice(attacks, own), *islice(others, of - own))
    ]  # fmt: skip


def _attack(kind: Kind) -> Iterator[bytes]:
    for number in range(ATTACKS):
        many = 0x0D000000 + 7 * number
        match kind:
            case Kind.HEAVY_HITTER:
                yield _tcp(ATTACKER, VICTIM, 443, ACK, Label.ATTACK)
            case Kind.SUPERSPREADER:
                yield _tcp(ATTACKER, many, 22, SYN, Label.ATTACK)
            case Kind.PORT_SCAN:
                yield _tcp(ATTACKER, VICTIM, 1000 + number, SYN, Label.ATTACK)
            case Kind.SYN_FLOOD:
                yield _tcp(many, VICTIM, 443, SYN, Label.ATTACK)
            case Kind.AMPLIFICATION:
                yield _udp(many, VICTIM, 123, 4000, Label.ATTACK)


def _tcp(
    source: int, destination: int, port: int, flags: int, label: Label = Label.CLEAN
) -> bytes:  # fmt: skip
    if label is Label.CLEAN and flags == SYN and destination == VICTIM:
        label = Label.OPENING
    header = struct.pack(">HHIIBBHHH", 4000, port, 1, 2, 0x50, flags, 64, 0, 0)
    return _ipv4(source, destination, TCP, header, label)


def _udp(
    source: int, destination: int, source_port: int, port: int, label: Label = Label.CLEAN
) -> bytes:
    header = struct.pack(">HHHH", source_port, port, LENGTH - 34, 0)
    return _ipv4(source, destination, UDP, header, label)


def _ipv4(source: int, destination: int, protocol: int, payload: bytes, label: Label) -> bytes:
    words = (0x4500, LENGTH - 14, label, 0, 64 << 8 | protocol)
    ends = struct.pack(">II", source, destination)
    check = internet_checksum(struct.pack(">6H", *words, 0) + ends)
    header = struct.pack(">6H", *words, check) + ends
    return (DEVICE_MAC + SENDER_MAC + b"\x08\0" + header + payload).ljust(LENGTH, b"\0")
