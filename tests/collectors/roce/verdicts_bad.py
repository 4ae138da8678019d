"""Packets that a responder rejects, and packets in wrong order; see verdicts.py."""

from collections.abc import Callable, Iterator

from requester import Answer, Request, add, changed, go_on, packed, request, swap, write
from verdicts import (
    ALL,
    ATOMICS,
    LENGTH,
    PATH_MTU,
    UC,
    V2,
    Access,
    Case,
    Step,
    ack,
    ignored,
    nak,
    refused,
)
from verdicts_good import DATA, old

from collectors.roce.packets import AETH, RETH, AtomicETH, Nak, Op

SEQUENCE, INVALID, ACCESS = Nak.SEQUENCE, Nak.INVALID_REQUEST, Nak.REMOTE_ACCESS
GOOD = Step(write(0, b"good", 100), ack(0, msn=1))
GOOD_UC = Step(write(0, b"good", 100), None)
GOOD_MEMORY = {100: b"good"}
HALF = 1 << 23
REQUESTS: dict[str, Callable[..., Request]] = {
    "write": lambda psn=0, **more: write(psn, b"evil", 8, **more),
    "immediate": lambda psn=0, **more: write(psn, b"evil", 8, immediate=1, **more),
    "add": lambda psn=0, **more: add(psn, 8, 1, **more),
    "swap": lambda psn=0, **more: swap(psn, 8, old(8), 1, **more),
}


def flipped(build: Request, at: Callable[[bytearray, int], int], bit: int = 0x01, *,
            fix_icrc: bool = False) -> Request:  # fmt: skip
    """Return a request with one inverted bit."""

    def change(frame: bytearray, bth: int) -> None:
        frame[at(frame, bth)] ^= bit

    return changed(build, change, fix_icrc=fix_icrc)


def not_believed() -> Iterator[Case]:
    """Packets with a wrong iCRC, or for another queue pair: no response."""
    places: dict[str, Callable[[bytearray, int], int]] = {
        "iCRC": lambda frame, bth: len(frame) - 1,
        "first byte of the iCRC": lambda frame, bth: len(frame) - 4,
        "opcode": lambda frame, bth: bth,
        "PSN": lambda frame, bth: bth + 11,
        "address": lambda frame, bth: bth + 19,
        "R_Key": lambda frame, bth: bth + 23,
        "last byte": lambda frame, bth: len(frame) - 5,
    }
    for kind, build in REQUESTS.items():
        for what, at in places.items():
            yield ignored(f"{kind}: {what} broken on the way", flipped(build(), at), "ICRC", GOOD,
                          GOOD_MEMORY)  # fmt: skip
        for what, fields, reason in (
            ("transport version 1", {"version": 1}, "VERSION"),
            ("transport version 15", {"version": 15}, "VERSION"),
            ("queue pair 0", {"dqpn": 0}, "QUEUE_PAIR"),
            ("a queue pair that is not", {"dqpn": 0xABCDE}, "QUEUE_PAIR"),
            ("another partition", {"pkey": 0x8001}, "PARTITION"),
            ("no partition", {"pkey": 0}, "PARTITION"),
        ):
            yield ignored(f"{kind}: {what}", build(**fields), reason, GOOD, GOOD_MEMORY)
        # The offsets are those of the last byte of the source and of the destination address.
        from_other = flipped(build(), lambda frame, bth: 29 if bth == 42 else 37, 0x80,
                             fix_icrc=True)  # fmt: skip
        yield ignored(f"{kind}: from another address", _checked(from_other), "ADDRESS", GOOD,
                      GOOD_MEMORY)  # fmt: skip
        to_other = flipped(build(), lambda frame, bth: 33 if bth == 42 else 53, 0x80,
                           fix_icrc=True)  # fmt: skip
        yield ignored(f"{kind}: to another address", _checked(to_other), "ADDRESS", GOOD,
                      GOOD_MEMORY)  # fmt: skip


def _checked(build: Request) -> Request:
    """Recompute the checksum of the IPv4 header."""

    def change(frame: bytearray, bth: int) -> None:
        if bth == 42:
            frame[24:26] = bytes(2)
            words = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2))
            frame[24:26] = (0xFFFF - words % 0xFFFF).to_bytes(2, "big")

    return changed(build, change, fix_icrc=True)


def no_request() -> Iterator[Case]:
    """Opcodes that are not supported requests: no response."""
    answer = request(Op.ACKNOWLEDGE, 0, AETH(syndrome=0x1F))
    yield ignored("an ACK", answer, "OPCODE", GOOD, GOOD_MEMORY)
    for opcode in (0x0D, 0x10, 0x15, 0x18, 0x1F):
        yield ignored(f"opcode {opcode:#x}", request(opcode, 0, data=b"evil"), "OPCODE", GOOD,
                      GOOD_MEMORY)  # fmt: skip
    for opcode in (0x2A, 0x4A, 0x6A, 0x8A, 0xEA):
        bad = request(opcode, 0, RETH(va=8, length=4), data=b"evil")
        yield ignored(f"opcode {opcode:#x} at RC", bad, "OPCODE", GOOD, GOOD_MEMORY)
    for op in (Op.READ_REQUEST, Op.FETCH_ADD, Op.COMPARE_SWAP):
        header = RETH(va=8, length=4) if op is Op.READ_REQUEST else AtomicETH(va=8, swap=1)
        yield ignored(f"{op.name} at UC", request(op, 0, header), "OPCODE", GOOD_UC, GOOD_MEMORY,
                      transport=UC)  # fmt: skip

    def reliable(frame: bytearray, bth: int) -> None:
        frame[bth] = Op.WRITE_ONLY

    yield ignored("RC's opcode at UC", changed(write(0, b"evil"), reliable, fix_icrc=True),
                  "OPCODE", GOOD_UC, GOOD_MEMORY, transport=UC)  # fmt: skip


def cut() -> Iterator[Case]:
    """Frames that are truncated, or invalid below BTH: no response."""
    for left in (30, 45, 60, 70):

        def change(frame: bytearray, bth: int, left: int = left) -> None:
            del frame[left:]

        yield ignored(f"cut after {left} bytes", changed(write(0, DATA[:64]), change), "TRUNCATED",
                      GOOD, GOOD_MEMORY)  # fmt: skip
    short = request(Op.WRITE_ONLY, 0, data=b"0123")
    yield ignored("no room for RETH", short, "TRUNCATED", GOOD, GOOD_MEMORY)
    for name, at in {"checksum": 24, "length": 17, "identification": 19}.items():
        bad = flipped(write(0, b"evil"), lambda frame, bth, at=at: at)  # type: ignore[misc]
        reason = "TRUNCATED" if name == "length" else "IP_HEADER"
        yield ignored(f"IPv4 {name}", bad, reason, GOOD, GOOD_MEMORY, versions=V2)
    fragment = _checked(flipped(write(0, b"evil"), lambda frame, bth: 20, 0x20))
    yield ignored("a fragment", fragment, "IP_HEADER", GOOD, GOOD_MEMORY, versions=V2)

    def wrong_sum(frame: bytearray, bth: int) -> None:
        frame[bth - 2 : bth] = b"\x12\x34"

    yield ignored("wrong UDP checksum", changed(write(0, b"evil"), wrong_sum), "UDP_CHECKSUM", GOOD,
                  GOOD_MEMORY, versions=ALL[1:])  # fmt: skip
    port = flipped(write(0, b"evil"), lambda frame, bth: bth - 5, fix_icrc=True)
    yield ignored("another UDP port", port, "FOREIGN", GOOD, GOOD_MEMORY, versions=ALL[1:])


def keys_and_bounds() -> Iterator[Case]:
    """Forbidden addresses and keys: the connection ends, and memory does not change."""
    for kind, build in REQUESTS.items():
        for bit in (0, 8, 24, 31):
            yield refused(f"{kind}: bit {bit} of the R_Key", build(key=1 << bit), ACCESS, "KEY")
        silent = (Step(build(key=1), None, "KEY"), Step(write(0, b"good", 100), None))
        if kind in ("write", "immediate"):
            yield Case(f"uc {kind}: R_Key", silent, GOOD_MEMORY, transport=UC)
    for at, length in (
        (LENGTH, 1), (LENGTH - 3, 4), (-1, 1), (-1, 4), (-4, 4), (1 << 32, 4), (1 << 63, 4),
        (LENGTH - 43, 44),
    ):  # fmt: skip
        data = DATA[:length]
        yield refused(f"{length} bytes at {at}", write(0, data, at), ACCESS, "BOUNDS")
        silent = (Step(write(0, data, at), None, "BOUNDS"), Step(write(0, b"good", 100), None))
        yield Case(f"uc: {length} bytes at {at}", silent, GOOD_MEMORY, transport=UC)
    for length in (LENGTH + 1, 1 << 31, 0xFFFFFFFF):
        first = write(0, DATA[:1024], op=Op.WRITE_FIRST, length=length)
        yield refused(f"a message of {length} bytes", first, ACCESS, "BOUNDS")
    for at in (LENGTH, LENGTH - 7, -8, -1, 1 << 40):
        yield refused(f"add at {at}", add(0, at % (1 << 64), 1), ACCESS, "BOUNDS")
    for at in (1, 2, 4, 7):
        yield refused(f"unaligned add at {at}", add(0, at, 1), INVALID, "ALIGNMENT")
        yield refused(f"unaligned swap at {at}", swap(0, at, 0, 1), INVALID, "ALIGNMENT")


def lengths() -> Iterator[Case]:
    """Payload, RETH length, Pad Count and opcode that contradict each other."""
    for length, data in ((5, b"evil"), (3, b"evil"), (1, b""), (100, b"evil")):
        bad = write(0, data, length=length)
        yield refused(f"{len(data)} bytes for {length}", bad, INVALID, "LENGTH")
        silent = (Step(bad, None, "LENGTH"), Step(write(0, b"good", 100), None))
        yield Case(f"uc: {len(data)} bytes for {length}", silent, GOOD_MEMORY, transport=UC)
    over = write(0, DATA[: PATH_MTU + 4])
    yield refused("an only packet beyond the path MTU", over, INVALID, "LENGTH")
    for pad in (1, 2, 3):
        # Four bytes of payload need no padding.
        bad = write(0, b"evil", pad=pad)
        yield refused(f"{pad} bytes of padding too many", bad, INVALID, "PADDING")
    missing = write(0, b"evils", pad=0)
    yield refused("no padding", missing, INVALID, "PADDING")
    first = write(0, DATA[:512], op=Op.WRITE_FIRST, length=1536)
    yield refused("a first packet below the path MTU", first, INVALID, "LENGTH")
    last = (
        Step(write(0, DATA[:1024], op=Op.WRITE_FIRST, length=1028), ack(0, msn=0)),
        Step(go_on(1, b"evilevil", Op.WRITE_LAST), nak(1, INVALID, msn=0), "LENGTH"),
    )
    yield Case("a last packet with too much", last, {0: DATA[:1024]})


def rights() -> Iterator[Case]:
    """Requests without the right of the queue pair or region; kinds that are always rejected."""
    write_only, add_only = {"access": Access.WRITE}, {"access": Access.ATOMIC}
    yield refused("add without the right", add(0, 8, 1), INVALID, "ACCESS", **write_only)
    yield refused("swap without the right", swap(0, 8, 0, 1), INVALID, "ACCESS", **write_only)
    yield refused("write without the right", write(0, b"evil"), INVALID, "ACCESS", **add_only)
    silent = Step(write(0, b"evil"), None, "ACCESS")
    yield Case("uc: write without the right", (silent,), transport=UC, access=Access.ATOMIC)
    yield refused("region without add", add(0, 8, 1), ACCESS, "KEY_ACCESS",
                  region_access=Access.WRITE)  # fmt: skip
    read = request(Op.READ_REQUEST, 0, RETH(va=8, length=4))
    yield refused("READ", read, INVALID, "UNSUPPORTED")
    yield refused("SEND", request(Op.SEND_ONLY, 0, data=b"evil"), INVALID, "UNSUPPORTED",
                  rxe="what a receive has no room for it calls a remote operational error, "
                  "where the specification (9.7.5.1.4) has an invalid request")  # fmt: skip


def sequence() -> Iterator[Case]:
    """PSNs out of order on a reliable connection (RC)."""
    for kind, build in REQUESTS.items():
        early = (
            Step(build(1), nak(0, SEQUENCE, msn=0), "GAP"),
            Step(build(2), None, "GAP_AGAIN"),
            GOOD,
            Step(build(2), nak(1, SEQUENCE, msn=1), "GAP"),
        )
        yield Case(f"{kind} ahead", early, GOOD_MEMORY)
    for distance in (1, 2, 1000, HALF - 1):
        ahead = (GOOD, Step(write(1 + distance, b"evil"), nak(1, SEQUENCE, msn=1), "GAP"))
        yield Case(f"{distance} ahead", ahead, GOOD_MEMORY)
        behind = (GOOD, Step(write(1 - distance, b"evil"), ack(0, msn=1), "DUPLICATE"))
        yield Case(f"{distance} behind", behind, GOOD_MEMORY, psn=5)
    half = (GOOD, Step(write(1 + HALF, b"evil"), ack(0, msn=1), "DUPLICATE"))
    yield Case("half of all PSNs away is behind", half, GOOD_MEMORY)
    replay = (GOOD, GOOD, Step(write(1, b"next"), ack(1, msn=2)))
    replay = (replay[0], Step(GOOD.request, ack(0, msn=1), "DUPLICATE"), replay[2])
    yield Case("a write comes twice", replay, {**GOOD_MEMORY, 0: b"next"})
    unasked = Step(write(0, b"evil", ack=False), ack(0, msn=1), "DUPLICATE")
    yield Case("a duplicate is answered without being asked", (GOOD, unasked), GOOD_MEMORY)
    told = Step(write(0, b"evil", immediate=3), ack(0, msn=1), "DUPLICATE")
    first = Step(write(0, b"good", 100, immediate=3), ack(0, msn=1))
    yield Case("an immediate comes twice", (first, told), GOOD_MEMORY, ((3, 4),))
    lost = (
        GOOD,
        Step(write(2, b"late", 8), nak(1, SEQUENCE, msn=1), "GAP"),
        Step(write(3, b"more", 12), None, "GAP_AGAIN"),
        # after a lost NAK, the peer asks which PSN is expected
        Step(GOOD.request, ack(0, msn=1), "DUPLICATE"),
        Step(write(1, b"then", 4), ack(1, msn=2)),
        Step(write(2, b"late", 8), ack(2, msn=3)),
    )
    yield Case("an old PSN requests the lost NAK again", lost, {4: b"thenlate", **GOOD_MEMORY})


def replays() -> Iterator[Case]:
    """Repeated atomic operations: the same response, and no change."""
    once = Answer(0, msn=1, before=old(8))
    for kind, again in {"add": add(0, 8, 42), "another add": add(0, 16, 1)}.items():
        steps = (Step(add(0, 8, 42), once), Step(again, once, "DUPLICATE"))
        yield Case(f"{kind} with the same PSN", steps, {8: packed(old(8) + 42)})
    swapped = (Step(swap(0, 8, old(8), 5), once), Step(swap(0, 8, 5, 6), once, "DUPLICATE"))
    yield Case("swap with the same PSN", swapped, {8: packed(5)})
    never = (GOOD, Step(add(0, 8, 1), None, "FORGOTTEN"))
    yield Case("an add behind a write", never, GOOD_MEMORY, psn=0)
    many = tuple(
        Step(add(i, 8, 1), Answer(i, msn=i + 1, before=old(8) + i)) for i in range(ATOMICS + 1)
    )
    last = Step(add(1, 8, 1), Answer(1, msn=ATOMICS + 1, before=old(8) + 1), "DUPLICATE")
    gone = Step(add(0, 8, 1), None, "FORGOTTEN")
    kept = {8: packed(old(8) + ATOMICS + 1)}
    yield Case("the responder stores a limited number of responses", (*many, last, gone), kept)


def order() -> Iterator[Case]:
    """First, middle and last packet of a message in the wrong order."""
    first = write(0, DATA[:1024], op=Op.WRITE_FIRST, length=2052)
    for op in (Op.WRITE_MIDDLE, Op.WRITE_LAST):
        yield refused(f"{op.name} first", go_on(0, DATA[:1024], op), INVALID, "NOT_BEGUN")
        silent = (Step(go_on(0, DATA[:1024], op), None, "NOT_BEGUN"), GOOD_UC)
        yield Case(f"uc: {op.name} first", silent, GOOD_MEMORY, transport=UC)
    for kind, build in {**REQUESTS, "first": lambda psn: write(psn, DATA[:1024],
                        op=Op.WRITE_FIRST, length=1028)}.items():  # fmt: skip
        steps = (
            Step(first, ack(0, msn=0)),
            Step(build(1), nak(1, INVALID, msn=0), "NOT_ENDED"),
        )
        yield Case(f"{kind} before the last packet", steps, {0: DATA[:1024]})
    lost = (
        Step(first, None),
        Step(go_on(2, b"evil", Op.WRITE_LAST), None, "MESSAGE_CUT"),
        Step(go_on(3, b"evil", Op.WRITE_LAST), None, "MESSAGE_CUT"),
    )
    yield Case("uc: the rest of a message of which something is lost", lost, {0: DATA[:1024]},
               transport=UC)  # fmt: skip
    new_message = (Step(first, None), Step(write(1, b"next"), None))
    yield Case("uc: a message without its end gives way to the next", new_message,
               {0: b"next" + DATA[4:1024]}, transport=UC,
               rxe="it waits for the rest of the first message for ever")  # fmt: skip
    gaps = tuple(Step(write(psn, bytes([i]), i), None) for i, psn in enumerate((5, 4, 0, HALF)))
    yield Case("uc: any PSN begins a message", gaps, {0: bytes(range(4))}, transport=UC)
    twice = (GOOD_UC, Step(write(0, b"evil", 8), None))
    yield Case("uc: a replay is carried out", twice, {**GOOD_MEMORY, 8: b"evil"}, transport=UC)


def receives() -> Iterator[Case]:
    """More immediate values than the responder can store."""
    full = tuple(Step(write(i, b"x", i, immediate=i), ack(i, msn=i + 1)) for i in range(2))
    rnr = Step(write(2, b"evil", immediate=2), Answer(2, Nak.RNR, 2), "NO_RECEIVE")
    after = Step(write(2, b"fine", 8), ack(2, msn=3))
    yield Case("try again later", (*full, rnr, rnr, after), {0: b"xx", 8: b"fine"},
               ((0, 1), (1, 1)), receives=2)  # fmt: skip
    silent = tuple(Step(write(i, b"x", i, immediate=i), None) for i in range(2))
    over = Step(write(2, b"evil", immediate=2), None, "NO_RECEIVE")
    later = Step(write(3, b"fine", 8), None)
    yield Case("uc: too many", (*silent, over, later), {0: b"xx", 8: b"fine"}, ((0, 1), (1, 1)),
               receives=2, transport=UC)  # fmt: skip


BAD = tuple(
    case
    for cases in (not_believed, no_request, cut, keys_and_bounds, lengths, rights, sequence,
                  replays, order, receives)
    for case in cases()
)  # fmt: skip
