"""Packets that a responder executes; see verdicts.py."""

from collections.abc import Iterator

from requester import Answer, Op, add, changed, go_on, packed, request, swap, write
from verdicts import ALL, BEFORE, LENGTH, PATH_MTU, RC, UC, V2, Access, Case, Step, ack

from collectors.roce.packets import RETH

DATA = bytes(range(256)) * 8


def old(at: int) -> int:
    """Return the initial 64-bit number at an offset of the region."""
    return int.from_bytes(BEFORE[at : at + 8], "little")


def writes() -> Iterator[Case]:
    """WRITE ONLY of all lengths and alignments."""
    for length in (0, 1, 2, 3, 4, 5, 8, 44, 47, 256, 1023, PATH_MTU):
        step = Step(write(0, DATA[:length], 64), ack(0, msn=1))
        yield Case(f"write of {length} bytes", (step,), {64: DATA[:length]})
        uc = Step(write(0, DATA[:length], 64), None)
        yield Case(f"uc write of {length} bytes", (uc,), {64: DATA[:length]}, transport=UC)
    for at in (0, 1, 3, 4095, LENGTH - 5):
        yield Case(f"write at {at}", (Step(write(0, b"hello", at), ack(0)),), {at: b"hello"})
    nothing = write(0, b"", -1 << 40, key=1)
    yield Case("of nothing neither key nor address matter", (Step(nothing, ack(0, msn=1)),))
    silent = (
        Step(write(0, b"abcd", ack=False), None),
        Step(write(1, b"efgh", 4), ack(1, msn=2)),
    )
    yield Case("an ACK comes where it is asked for", silent, {0: b"abcdefgh"})
    wrap = tuple(Step(write(i, bytes([i]), i), ack(i, msn=i + 1)) for i in range(4))
    yield Case("PSNs wrap", wrap, {0: bytes(range(4))}, psn=0xFFFFFE)


def header_bits() -> Iterator[Case]:
    """Packets with optional header bits, and with bits that the network may change."""
    for name, fields in {
        "solicited event": {"solicited": 1},
        "not migrated": {"migreq": 0},
        "FECN": {"fecn": 1},
        "BECN": {"becn": 1},
        "reserved bits beside FECN": {"resv6": 0x3F},
        "reserved bits beside AckReq": {"resv7": 0x7F},
        "limited member of the partition": {"pkey": 0x7FFF},
    }.items():
        step = Step(write(0, b"abcd", **fields), ack(0, msn=1))
        yield Case(name, (step,), {0: b"abcd"})
        uc = Step(write(0, b"abcd", **fields), None)
        yield Case(f"uc {name}", (uc,), {0: b"abcd"}, transport=UC)

    def remark(frame: bytearray, bth: int) -> None:
        if bth == 14 + 28:  # IPv4: TOS, TTL and checksum
            frame[15], frame[22] = 0x03, 9
            frame[24:26] = bytes(2)
            words = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2))
            frame[24:26] = (0xFFFF - (words % 0xFFFF)).to_bytes(2, "big")
        else:  # IPv6 and GRH: traffic class, flow label, hop limit
            frame[14:18], frame[21] = b"\x6a\xbc\xde\xf0", 9

    def becn(frame: bytearray, bth: int) -> None:
        frame[bth + 4] = 0x40

    def padded(frame: bytearray, bth: int) -> None:
        frame += bytes(14)

    for name, change in {
        "marked and routed on the way": remark,
        "BECN set on the way": becn,
        "bytes after the packet": padded,
    }.items():
        step = Step(changed(write(0, b"abcd"), change), ack(0, msn=1))
        yield Case(name, (step,), {0: b"abcd"})


def immediates() -> Iterator[Case]:
    """WRITE ONLY WITH IMMEDIATE."""
    step = Step(write(0, b"abcde", 8, immediate=0x01020304), ack(0, msn=1))
    yield Case("immediate", (step,), {8: b"abcde"}, ((0x01020304, 5),))
    uc = Step(write(0, b"abcde", 8, immediate=0x01020304), None)
    yield Case("uc immediate", (uc,), {8: b"abcde"}, ((0x01020304, 5),), UC)
    empty = Step(write(0, b"", immediate=0xFFFFFFFF), ack(0, msn=1))
    yield Case("immediate and nothing else", (empty,), {}, ((0xFFFFFFFF, 0),))
    many = tuple(Step(write(i, bytes([i]), i, immediate=i), ack(i, msn=i + 1)) for i in range(4))
    told = tuple((i, 1) for i in range(4))
    yield Case("immediates in order", many, {0: bytes(range(4))}, told)


def messages() -> Iterator[Case]:
    """Messages of several packets."""
    for transport in (RC, UC):
        is_rc = transport is RC
        two = (
            Step(write(0, DATA[:1024], 1, op=Op.WRITE_FIRST, length=1029, ack=False), None),
            Step(go_on(1, b"abcde", Op.WRITE_LAST), ack(1, msn=1) if is_rc else None),
        )
        yield Case(f"{transport.value} first and last", two, {1: DATA[:1024] + b"abcde"},
                   transport=transport)  # fmt: skip
        three = (
            Step(write(0, DATA[:1024], 8, op=Op.WRITE_FIRST, length=2052),
                 ack(0, msn=0) if is_rc else None),
            Step(go_on(1, DATA[1024:]), ack(1, msn=0) if is_rc else None),
            Step(go_on(2, b"abcd", immediate=5), ack(2, msn=1) if is_rc else None),
            Step(write(3, b"x"), ack(3, msn=2) if is_rc else None),
        )  # fmt: skip
        yield Case(f"{transport.value} first, middle, and last with immediate", three,
                   {0: b"x", 8: DATA + b"abcd"}, ((5, 2052),), transport)  # fmt: skip


def atomics() -> Iterator[Case]:
    """FETCH_ADD and COMPARE_SWAP."""

    def answered(psn: int, before: int, msn: int) -> Answer:
        return Answer(psn, msn=msn, before=before)

    for at in (0, 8, LENGTH - 8):
        added = Step(add(0, at, 42), answered(0, old(at), 1))
        yield Case(f"add at {at}", (added,), {at: packed(old(at) + 42)})
    minus = Step(add(0, 16, -1 % (1 << 64), ack=False), answered(0, old(16), 1))
    yield Case("add wraps around, and is answered always", (minus,), {16: packed(old(16) - 1)})
    twice = (
        Step(add(0, 8, 1), answered(0, old(8), 1)),
        Step(add(1, 8, 1), answered(1, old(8) + 1, 2)),
        Step(write(2, b"x"), ack(2, msn=3)),
    )
    yield Case("adds and a write", twice, {0: b"x", 8: packed(old(8) + 2)})
    same = Step(swap(0, 8, old(8), 99), answered(0, old(8), 1))
    yield Case("swap where it compares", (same,), {8: packed(99)})
    other = Step(swap(0, 8, old(8) + 1, 99), answered(0, old(8), 1))
    yield Case("no swap where it does not", (other,))


def fields_below() -> Iterator[Case]:
    """Packets with other UDP fields."""

    def with_checksum(frame: bytearray, bth: int) -> None:
        udp, end = bth - 8, len(frame)
        addresses = frame[26:34] if bth == 42 else frame[22:54]
        summed = bytes(addresses) + (17 + end - udp).to_bytes(4, "big") + bytes(frame[udp:end])
        summed += bytes(len(summed) % 2)
        words = sum(int.from_bytes(summed[i : i + 2], "big") for i in range(0, len(summed), 2))
        frame[bth - 2 : bth] = (0xFFFF - words % 0xFFFF).to_bytes(2, "big")

    step = Step(changed(write(0, b"abcd"), with_checksum), ack(0, msn=1))
    yield Case("UDP checksum", (step,), {0: b"abcd"}, versions=ALL[1:])

    def other_port(frame: bytearray, bth: int) -> None:
        frame[bth - 8 : bth - 6] = b"\xff\xff"

    port = Step(changed(write(0, b"abcd"), other_port, fix_icrc=True), ack(0, msn=1))
    yield Case("any UDP source port", (port,), {0: b"abcd"}, versions=ALL[1:])


def rights() -> Iterator[Case]:
    """Queue pairs with a single access right."""
    step = Step(write(0, b"abcd"), ack(0, msn=1))
    yield Case("write needs only its right", (step,), {0: b"abcd"}, access=Access.WRITE,
               versions=V2)  # fmt: skip
    added = Step(add(0, 8, 1), Answer(0, msn=1, before=old(8)))
    yield Case("add needs only its right", (added,), {8: packed(old(8) + 1)},
               access=Access.ATOMIC, versions=V2)  # fmt: skip
    bare = Step(request(Op.WRITE_ONLY, 0, RETH(length=0), ack=False), None)
    yield Case("a write of nothing is silent, too", (bare,), versions=V2)


GOOD = tuple(
    case
    for cases in (writes, header_bits, immediates, messages, atomics, fields_below, rights)
    for case in cases()
)
