"""Sends hostile INT headers to switches, and checks that they behave as INT v2.1 requires.

PYTHONPATH=tests/p4src:tests/peers:tests/wire python tests/fuzz/int_headers.py --count 100000
"""

import argparse
import random
import struct
from collections import Counter
from typing import NamedTuple

from int_path import DSCP, IN, INT_PORT, MARKER, NEW_UDP, OUT, PORT, PROBE, Switch, tcp, udp

NODE, MTU = 9, 600
MD, MX = 1, 3  # the types of shims that switches support
UNCOUNTED = "nothing"
COMPLEMENT = 1  # the last bit of the instructions
TEMPLATES = {
    (version, make, tos): make(b"", version=version, tos=tos)
    for version in (4, 6) for make in (udp, tcp) for tos in (0, 16)
}  # fmt: skip


class Came(NamedTuple):
    """A frame, and the offsets of its L4 header and of its shim."""

    frame: bytes
    version: int
    is_tcp: bool
    mark: int

    @property
    def layer4(self) -> int:
        """Return the offset of the L4 header."""
        return 34 if self.version == 4 else 54

    @property
    def shim(self) -> int:
        """Return the offset at which the shim must begin."""
        return self.layer4 + (32 if self.is_tcp else 8) + (8 if self.mark == PROBE else 0)


class Verdict(NamedTuple):
    """The counter that a switch must increment, and the frame that it must send.

    The frame is without checksums. It is None if the switch must send no frame.
    """

    event: str | None
    frame: bytes | None


def hostile(rng: random.Random) -> Came:
    """Return a frame with wrong checksums, in which some fields of INT are probably wrong."""

    def mostly(right: int, bits: int) -> int:
        wrong = (0, 1, 2, (1 << bits) - 1, rng.randrange(1 << bits))
        return right if rng.random() < 0.95 else rng.choice(wrong) % (1 << bits)

    version, is_tcp = rng.choice((4, 6)), rng.random() < 0.5
    mark = rng.choice((DSCP, PROBE) if is_tcp else (DSCP, PORT, NEW_UDP, PROBE))
    asked = rng.choice((0x8000, 0xF000, 0xFC00, 0xFF81, 0, rng.randrange(1 << 16)))
    words = len(pushed(asked)) // 4
    stack = rng.randbytes(4 * words * rng.choice((0, 1, 2, 5, 12)))
    stack += rng.randbytes(rng.choice((0, 0, 0, 4)))
    stack = stack[: 4 * 252]
    first = mostly(2, 4) << 28 | mostly(0, 3) << 25 | mostly(0, 12) << 13
    first |= mostly(words % 32, 5) << 8 | mostly(rng.choice((0, 1, 9)), 8)
    header = struct.pack(">IHHI", first, asked, mostly(0, 16), mostly(0, 32))
    top = mostly(rng.choice((MD, MD, MX)), 4) << 28
    top |= mostly({PORT: 1, NEW_UDP: 2}.get(mark, 0), 2) << 26 | mostly(0, 2) << 24
    top |= mostly(3 + len(stack) // 4, 8) << 16 | rng.randrange(1 << 16)
    head = bytearray(TEMPLATES[version, tcp if is_tcp else udp, 16 if mark == DSCP else 0])
    behind = (MARKER if mark == PROBE else b"") + struct.pack(">I", top) + header + stack
    behind += rng.randbytes(rng.choice((0, 8, 40)))
    came = Came(b"", version, is_tcp, mark)
    grow(head, came, len(behind))
    if mark in (PORT, NEW_UDP):
        struct.pack_into(">H", head, came.layer4 + 2, INT_PORT)
    if not is_tcp and rng.random() < 0.2:
        struct.pack_into(">H", head, came.layer4 + 6, 0)
    keep = len(behind) if rng.random() < 0.9 else rng.randrange(len(behind))
    return came._replace(frame=bytes(head) + behind[:keep])


def grow(frame: bytearray, came: Came, count: int) -> None:
    """Increase the lengths in the IP and UDP headers by `count`."""
    places = [16 if came.version == 4 else 18, *([] if came.is_tcp else [came.layer4 + 4])]
    for place in places:
        (length,) = struct.unpack_from(">H", frame, place)
        struct.pack_into(">H", frame, place, length + count)


def pushed(instructions: int) -> bytes:
    """Return the metadata that a switch pushes, by INT v2.1, section 5.7.

    The clock of the switch is at 0, and the checksum complement is 0.
    """
    ports, ones = struct.pack(">HH", IN, OUT), b"\xff" * 4
    values = (struct.pack(">I", NODE), ports, bytes(4), bytes(4), bytes(8), bytes(8),
              struct.pack(">II", IN, OUT), *[ones] * 8, bytes(4))  # fmt: skip
    return b"".join(v for bit, v in enumerate(values) if instructions & 0x8000 >> bit)


def verdict(came: Came, *, is_sink: bool) -> Verdict:
    """Return what a transit switch, or a sink, must do with a frame."""
    frame, at = came.frame, came.shim
    if came.mark == PROBE and frame[at - 8 : at] != MARKER:
        return Verdict(None, frame)  # the mark is truncated, so the switch sees no INT
    if not is_right(came):
        return Verdict("malformed", frame)
    discards = bool(frame[at + 4] & 0x08)
    if is_sink:
        return Verdict(None, None if discards else stripped(came))
    if frame[at] >> 4 == MX:
        return Verdict(None, frame)
    length, hop_words, remaining = frame[at + 1], frame[at + 6] & 31, frame[at + 7]
    (asked,) = struct.unpack_from(">H", frame, at + 8)
    more = pushed(asked)
    (ip_bytes,) = struct.unpack_from(">H", frame, 16 if came.version == 4 else 18)
    ip_bytes += 0 if came.version == 4 else 40
    out = bytearray(frame)
    if remaining == 0 or length + len(more) // 4 > 255:
        out[at + 4] |= 0x04
        return Verdict("hops", bytes(out))
    if hop_words != len(more) // 4:
        return Verdict("not understood", frame)
    if ip_bytes + len(more) > MTU:
        out[at + 4] |= 0x02
        return Verdict("mtu", bytes(out))
    if more:
        grow(out, came, len(more))
        out[at + 1] += len(more) // 4
        out[at + 7] -= 1
        out[at + 16 : at + 16] = more
    return Verdict(None, bytes(out))


def is_right(came: Came) -> bool:
    """Return whether shim and header are complete, with supported kind, version and NPT."""
    rest = came.frame[came.shim :]
    if len(rest) < 4:
        return False
    kind, npt, length = rest[0] >> 4, rest[0] >> 2 & 3, rest[1]
    fits = npt in (1, 2) if came.mark in (PORT, NEW_UDP) else npt == 0
    return (kind in (MD, MX) and fits and length >= 3 and len(rest) >= 4 + 4 * length
            and rest[4] >> 4 == 2)  # fmt: skip


def stripped(came: Came) -> bytes:
    """Return the frame that the source received: without INT, with original values of the shim."""
    frame, at = bytearray(came.frame), came.shim
    npt, gone = frame[at] >> 2 & 3, 4 + 4 * frame[at + 1]
    original = bytes(frame[at + 2 : at + 4])
    del frame[at : at + gone]
    if came.mark == PROBE:
        del frame[at - 8 : at]
        gone += 8
    elif came.mark == DSCP:  # the domain uses four bits of the DSCP
        tos = int.from_bytes(frame[14:16], "big") >> (4 if came.version == 6 else 0) & 0xFF
        tos = (original[1] & 0xF0) | (tos & 0x0F)
        shift = 0 if came.version == 4 else 4
        struct.pack_into(">H", frame, 14, int.from_bytes(frame[14:16], "big")
                         & ~(0xFF << shift) | tos << shift)  # fmt: skip
    elif npt == 1:
        frame[came.layer4 + 2 : came.layer4 + 4] = original
    grow(frame, came, -gone)
    if npt == 2:
        frame[23 if came.version == 4 else 20] = original[1]
        place = 16 if came.version == 4 else 18
        (length,) = struct.unpack_from(">H", frame, place)
        struct.pack_into(">H", frame, place, length - 8)
        del frame[came.layer4 : came.layer4 + 8]
    return bytes(frame)


def without_checksums(frame: bytes | bytearray, came: Came) -> bytes:
    """Return the frame with zeros instead of checksums."""
    out = bytearray(frame)
    for place in ([24] if came.version == 4 else []) + [_checksum_place(came)]:
        out[place : place + 2] = bytes(2)
    return bytes(out[: len(frame)])


def _checksum_place(came: Came) -> int:
    """Return the offset of the L4 checksum."""
    return came.layer4 + (16 if came.is_tcp else 6)


def damage(frame: bytes, came: Came) -> tuple[int, ...]:
    """Return how far the IP and L4 checksums of a frame are from correct ones.

    No switch may change this difference.
    """
    start, length = came.layer4, struct.unpack_from(">H", frame, 16 if came.version == 4 else 18)[0]
    pseudo = length - 20 if came.version == 4 else length
    if not came.is_tcp:
        (pseudo,) = struct.unpack_from(">H", frame, start + 4)
    addresses = frame[26:34] if came.version == 4 else frame[22:54]
    covered = addresses + struct.pack(">H", pseudo % 65536) + frame[start:]
    has_checksum = came.is_tcp or any(frame[_checksum_place(came) :][:2])
    found = (summed(covered),) if has_checksum else ()
    return (summed(frame[14:34]), *found) if came.version == 4 else found


def summed(data: bytes) -> int:
    """Return the one's complement sum of 16-bit words."""
    padded = data + bytes(len(data) % 2)
    return sum(struct.unpack(f">{len(padded) // 2}H", padded)) % 0xFFFF


def check(switch: Switch, came: Came, *, is_sink: bool) -> str | None:
    """Send a frame, and check the result. Return the counter that must increment.

    Raises AssertionError.
    """
    event, expected = verdict(came, is_sink=is_sink)
    found = [out for port, out in switch.send(came.frame) if port == OUT]
    assert len(found) == (expected is not None), f"{came}: {len(found)} frames left"
    if expected is None:
        return event
    (out,) = found
    shown = bytearray(out)
    if len(out) > len(came.frame) and came.frame[came.shim + 9] & COMPLEMENT:
        end = came.shim + 16 + len(out) - len(came.frame)
        shown[end - 4 : end] = bytes(4)
    assert without_checksums(shown, came) == without_checksums(expected, came), (
        f"{came}\n{out.hex()}"
    )
    is_uncovered = len(out) < len(came.frame) and came.frame[came.shim] >> 2 & 3 == 2
    if not is_uncovered:
        assert damage(out, came) == damage(came.frame, came), f"{came}\n{out.hex()}"
    return event


def fuzz(seed: int, count: int) -> list[Counter[str]]:
    """Send `count` frames to a transit switch, and as many to a sink.

    Return the counts of outcomes. Raises AssertionError if a frame or a counter is wrong.
    """
    rng, counted = random.Random(seed), []
    for is_sink in (False, True):
        switch = Switch(NODE, outside=[OUT] if is_sink else [], mtu=MTU)
        switch.report_all()
        events = Counter(
            check(switch, hostile(rng), is_sink=is_sink) or UNCOUNTED for _ in range(count)
        )
        counted.append(events.copy())
        del events[UNCOUNTED]
        assert switch.events() == events, f"expected {events}"
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--count", type=int, default=100_000, help="frames, for each of two switches"
    )
    args = parser.parse_args()
    for name, counted in zip(("transit", "sink"), fuzz(args.seed, args.count), strict=True):
        print(f"{name}:", dict(counted))


if __name__ == "__main__":
    main()
