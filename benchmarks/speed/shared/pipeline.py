"""CPU time of the pipeline without I/O, measured by Engine.repeat() with random keys.

The baseline is handwritten C that does the same work.
"""

import ctypes
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.speed.shared.switch_chain import FRAME_BYTES, MINIP4
from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.engine.keys import Exact, Lpm, MatchKey, Ternary
from minip4.native.build import shared_object

PROGRAMS = Path(__file__).parents[1] / "p4"
BY_HAND = "C by hand"
FRAMES = 4096
TABLE, ACTION = "LpmIngress.routes", "LpmIngress.forward"
BITS = 32


def frame(address: int, source_port: int = 1000, payload: bytes = b"") -> bytes:
    """Return an IPv4/UDP frame of 64 bytes to `address`, with a valid IP checksum."""
    udp_port = 5000 if payload else 2000
    udp = struct.pack("!4H", source_port, udp_port, FRAME_BYTES - 34, 0) + payload
    head = struct.pack("!BBHHHBBHII", 0x45, 0, FRAME_BYTES - 14, 0, 0, 64, 17, 0,
                       0xC0A80101, address)  # fmt: skip
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ethernet = bytes.fromhex("020000000002 020000000001 0800")
    return (ethernet + head[:10] + checksum.to_bytes(2, "big") + head[12:] + udp).ljust(
        FRAME_BYTES, b"\0"
    )


def keys(kind: str, count: int, rng: random.Random) -> list[tuple[MatchKey, int]]:
    """Return pairs of a random key and an address that matches it. All keys are different."""
    found: dict[MatchKey, int] = {}
    while len(found) < count:
        address = rng.getrandbits(BITS)
        if kind == "exact":
            found[Exact(address)] = address
        elif kind == "lpm":
            length = rng.randint(16, BITS)
            found[Lpm(address >> (BITS - length) << (BITS - length), length)] = address
        else:
            # a mask in which, on average, three of four bits are ones
            mask = rng.getrandbits(BITS) | rng.getrandbits(BITS)
            found[Ternary(address & mask, mask)] = address
    return list(found.items())


def cost_ns(run: Callable[[int], object], packets: int, rounds: int) -> float:
    """Return the CPU time per packet; `run(n)` processes `packets` packets n times."""
    run(1)  # warm-up
    start_ns = time.thread_time_ns()
    run(rounds)
    return (time.thread_time_ns() - start_ns) / (rounds * packets)


class ByHand:
    """Handwritten router in c/by_hand.c, with a list of prefixes."""

    def __init__(self, prefixes: Sequence[Lpm]) -> None:
        with shared_object([PROGRAMS.parent / "c" / "by_hand.c"]) as path:
            self._library = ctypes.CDLL(str(path))
        numbers: list[int] = []
        for key in sorted(prefixes, key=lambda key: -key.prefix_length):
            numbers += [key.value, 2**BITS - 2 ** (BITS - key.prefix_length)]
        self._prefixes = (ctypes.c_uint32 * len(numbers))(*numbers)
        self._count = len(prefixes)

    def process(self, frame: bytes) -> bytes | None:
        """Return the forwarded frame, or None if it is dropped."""
        out = ctypes.create_string_buffer(len(frame))
        left = self._library.by_hand(self._prefixes, self._count, frame, len(frame), out)
        return out.raw if left else None

    def repeat(self, frames: Sequence[bytes], rounds: int) -> int:
        """Process frames of one length `rounds` times; return the number of forwarded frames."""
        joined = b"".join(frames)
        repeat = self._library.by_hand_repeat
        return int(repeat(self._prefixes, self._count, joined, len(frames[0]), len(frames), rounds))


class Pipelines:
    """Pipelines that are measured: engines of minip4, and the handwritten router.

    A pipeline has a name (such as "lpm 10") and a kind (MINIP4 or BY_HAND).
    """

    def __init__(self, seed: int) -> None:
        self._runs: dict[tuple[str, str], Callable[[int], object]] = {}
        for kind, counts in (("lpm", (10, 10_000)), ("exact", (10, 10_000)),
                             ("ternary", (10, 1_000))):  # fmt: skip
            for count in counts:
                self._add(kind, count, random.Random(seed))
        self._add_telemetry(random.Random(seed))

    def measure(self, rounds: int) -> dict[tuple[str, str], float]:
        """Return the CPU time per packet of each pipeline, in ns."""
        return {each: cost_ns(run, FRAMES, rounds) for each, run in self._runs.items()}

    def _add(self, kind: str, count: int, rng: random.Random) -> None:
        program = compile_p4(PROGRAMS / "ipv4_lpm.p4", defines=(f"MATCH={kind}",))
        engine = Engine(program.bmv2_json)
        entries = keys(kind, count, rng)
        for priority, (key, _) in enumerate(entries, 1):
            engine.table_add(TABLE, [key], ACTION, [2, 2], priority if kind == "ternary" else 0)
        frames = [frame(rng.choice(entries)[1]) for _ in range(FRAMES)]
        assert all(engine.process(1, each, 0) for each in frames[:100])  # the frames are forwarded
        self._runs[f"{kind} {count}", MINIP4] = lambda rounds: engine.repeat(1, frames, rounds, 0)
        if (kind, count) == ("lpm", 10):
            by_hand = ByHand([key for key, _ in entries if isinstance(key, Lpm)])
            assert by_hand.repeat(frames, 1) == FRAMES
            self._runs[f"{kind} {count}", BY_HAND] = lambda rounds: by_hand.repeat(frames, rounds)

    def _add_telemetry(self, rng: random.Random) -> None:
        engine = Engine(compile_p4(PROGRAMS / "telemetry.p4").bmv2_json)
        shim = bytes.fromhex("01000000 2000 08 08 fc 000000")
        frames = [
            frame(0x0A000000 | rng.getrandbits(20), rng.getrandbits(16), shim)
            for _ in range(FRAMES)
        ]
        grown = [len(out[0][1]) for each in frames[:100] if (out := engine.process(1, each, 0))]
        assert grown == [FRAME_BYTES + 4 * 9] * 100  # i.e. all INT instructions were executed
        self._runs["telemetry", MINIP4] = lambda rounds: engine.repeat(1, frames, rounds, 0)
