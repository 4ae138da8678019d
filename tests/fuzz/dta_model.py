"""Model of a DTA translator, and random reports; written from docs/reference/dta*.md.

The model shares no code with the P4 program or with the collectors. It computes one hash at a time.

cd tests; PYTHONPATH=..:p4src:peers:wire:collectors/roce python fuzz/dta_model.py --seeds 20
"""

import argparse
import random
import struct
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from dta_gathering import Gatherer
from dta_path import REPORTER_ADDR, TRANSLATOR_ADDR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from collectors.dta.key_increment import COUNTER
from collectors.dta.key_write import slot

M32 = 0xFFFFFFFF
OURS, PROTOTYPE = 40042, 40040
# Store for Key-Write: slots, checksum bits. Store for Key-Increment: counters per row, rows.
SLOTS, BITS, COUNTERS, ROWS = 64, 9, 16, 4
LISTS, BATCHES, ENTRIES = 3, 5, 4
CHUNKS, CACHE = 32, 8
SKETCHES, COLUMNS = 2, 16
TRACKED = {7: 1, 0: 2}  # reporter number -> index of its state
UNTRACKED, WINDOW, HOPS = 0, 1024, 5
LENGTHS = {
    1: {1: 40, 3: 48, 7: 64},
    2: 24,
    3: 44,
    4: 40,
    5: 36,
}  # UDP lengths of reports in Telemark's format, by opcode
SHORT = {1: {1: 20, 3: 28, 7: 44}, 2: 19, 3: 24, 4: 20}


def murmur(key: int, seed: int) -> int:
    """Return MurmurHash3_x86_32 of a 128-bit key, given as words, most significant word first."""
    state = seed
    for shift in (96, 64, 32, 0):
        word = (key >> shift & M32) * 0xCC9E2D51 & M32
        word = (word << 15 | word >> 17) * 0x1B873593 & M32
        state ^= word
        state = ((state << 13 | state >> 19) & M32) * 5 + 0xE6546B64 & M32
    state ^= 16
    state = (state ^ state >> 16) * 0x85EBCA6B & M32
    state = (state ^ state >> 13) * 0xC2B2AE35 & M32
    return state ^ state >> 16


def place(key: int, copy: int, count: int) -> int:
    """Return the slot of a copy of a key. Copies are numbered from 0."""
    return murmur(key, 0x9E3779B1 * (copy + 1) & M32) % count


@dataclass
class Path:
    """A row of the cache of postcards: the path of one flow."""

    key: int
    values: dict[int, int] = field(default_factory=dict)  # hop -> value
    hops: int = 0
    copies: int = 0

    @property
    def is_complete(self) -> bool:
        return all(hop in self.values for hop in range(self.hops or HOPS))


# Executes the rest of a report. If it is rejected, returns the reason.
Work: TypeAlias = Callable[[], str | None]


class Came(NamedTuple):
    """A report that arrived, without its base header."""

    is_ours: bool
    opcode: int
    length: int  # UDP length
    body: bytes
    reporter: int
    is_immediate: bool

    @property
    def key(self) -> int:
        """Return the key of a Key-Write or Key-Increment report."""
        return int.from_bytes(self.body[4:20] if self.is_ours else self.body[1:5], "big")


class Refused(Exception):
    """Raised for a report that is rejected and writes nothing. Its text is the reason."""


class Model:
    """Model of the translator that made() returns, and of the memory that it writes."""

    def __init__(self) -> None:
        self.key_writes = {words: bytearray(SLOTS * (4 + 4 * words)) for words in (1, 3, 7)}
        self.counters = [0] * (ROWS * COUNTERS)
        self.lists = bytearray(LISTS * BATCHES * (4 * ENTRIES + 4))
        self.chunks = bytearray(CHUNKS * 32)
        self.sketches = bytearray(SKETCHES * COLUMNS * 16)
        self.events: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.nacks: list[tuple[int, ...]] = []
        # for each list: the entries that wait for a batch, and the number of written batches
        self._batches = {number: (list[int](), 0) for number in range(LISTS)}
        self._cache: dict[int, Path] = {}
        self._columns: defaultdict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
        self._expected: Counter[int] = Counter()
        self._came: dict[tuple[int, int], int] = {}
        self._last: dict[int, int] = {}

    def take(self, src: str, port: int, length: int, octets: bytes) -> None:
        """Process a datagram.

        `length` is its UDP length, and `octets` are the bytes after the UDP header.
        """
        base = 8 if port == OURS else 3
        if len(octets) < base:
            return  # not a report
        if port == OURS:
            flags, opcode, number, sequence = struct.unpack_from(">BBHI", octets)
            is_immediate = flags & 8 != 0
            is_known = flags >> 4 == 1
        else:
            opcode, sequence, flags = octets[:3]
            number, is_immediate, is_known = 0, flags & 0x80 != 0, True
        is_tracked = is_known and src == REPORTER_ADDR
        reporter = TRACKED.get(number, UNTRACKED) if is_tracked else UNTRACKED
        try:
            came = Came(port == OURS, opcode, length, octets[base:], reporter, is_immediate)
            work, problem = self._planned(came if is_known else came._replace(opcode=0)), ""
        except Refused as refused:
            work, problem = str, str(refused)
        if reporter != UNTRACKED:
            if port == OURS:
                problem = self._numbered(reporter, number, sequence) or problem
            elif flags & 0x40:
                problem = self._numbered_short(reporter, sequence) or problem
        problem = problem or work() or "translated"
        self.events[reporter][problem] += 1

    def _numbered(self, reporter: int, number: int, sequence: int) -> str:
        expected = self._expected[reporter]
        ahead, behind = (sequence - expected) % (1 << 32), (expected - sequence) % (1 << 32)
        came = reporter, sequence % WINDOW
        if ahead < WINDOW:
            if ahead:
                self.nacks.append((number, expected, ahead))
                self.events[reporter]["nacked"] += 1
        elif behind > WINDOW:
            self.events[reporter]["restarted"] += 1
        elif self._came.get(came) == sequence:
            return "duplicate"
        else:
            self.events[reporter]["recovered"] += 1
        if not ahead >= WINDOW or behind > WINDOW:
            self._expected[reporter] = (sequence + 1) % (1 << 32)
        self._came[came] = sequence
        return ""

    def _numbered_short(self, reporter: int, sequence: int) -> str:
        last = self._last.get(reporter)
        ahead = 1 if last is None else (sequence - last) % 256
        if ahead == 0 or ahead >= 192:
            return "duplicate"
        if ahead != 1:
            assert last is not None
            self.nacks.append((last,))
            self.events[reporter]["nacked"] += 1
            return "out of order"
        self._last[reporter] = sequence
        return ""

    def _planned(self, came: Came) -> Work:
        """Return a function that executes a report.

        Call it only if the sequence number is accepted, too. Raises Refused.
        """
        lengths: Any = LENGTHS if came.is_ours else SHORT
        known = lengths.get(came.opcode)
        is_long_enough = len(came.body) >= came.length - 8 - (8 if came.is_ours else 3)
        if came.opcode == 1:
            words = {size: n for n, size in known.items()}.get(came.length, 0)
            if not (words and is_long_enough) or (came.is_ours and came.body[1] != words):
                raise Refused("malformed")
            return self._key_write(came, words)
        if known != came.length or not is_long_enough:
            raise Refused("malformed")
        return {2: self._append, 3: self._key_increment, 4: self._postcard,
                5: self._column}[came.opcode](came)  # fmt: skip

    def _key_write(self, came: Came, words: int) -> Work:
        copies, key = came.body[0], came.key
        data = came.body[20:] if came.is_ours else came.body[5:]
        _check(1 <= copies <= 8)
        checksum = 1 << 31 | murmur(key, 0x7FEB352D) % (1 << BITS)
        content = checksum.to_bytes(4, "big") + data[: 4 * words]

        def work() -> None:
            for copy in range(copies):
                at = place(key, copy, SLOTS) * len(content)
                self.key_writes[words][at : at + len(content)] = content

        return work

    def _key_increment(self, came: Came) -> Work:
        copies, key = came.body[0], came.key
        addend = int.from_bytes(came.body[20:28] if came.is_ours else came.body[5:13], "big")
        _check(1 <= copies <= 8)

        def work() -> None:
            for row in range(min(copies, ROWS)):  # the region ends after these rows
                at = row * COUNTERS + place(key, row, COUNTERS)
                self.counters[at] = (self.counters[at] + addend) % (1 << 64)

        return work

    def _append(self, came: Came) -> Work:
        number, entry = struct.unpack_from(">II", came.body)

        def work() -> str:
            if number >= LISTS:
                return "out of range"
            entries, before = self._batches[number]
            entries = [*entries, entry]
            if len(entries) == ENTRIES or came.is_immediate:
                padded = entries + [0] * (ENTRIES - len(entries))
                content = struct.pack(f">{ENTRIES + 1}I", *padded, len(entries) << 27 | before + 1)
                at = (number * BATCHES + before % BATCHES) * len(content)
                self.lists[at : at + len(content)] = content
                entries, before = [], before + 1
            self._batches[number] = entries, before
            return ""

        return work

    def _postcard(self, came: Came) -> Work:
        body = came.body
        if came.is_ours:
            copies, hop, hops = body[:3]
            key, value = int.from_bytes(body[4:20], "big"), int.from_bytes(body[20:24], "big")
        else:
            copies, hop, hops = 1, (body[4] - 1) % 256, 0
            key, value = int.from_bytes(body[:4], "big"), int.from_bytes(body[5:9], "big")

        def work() -> str:
            if not (1 <= copies <= 8 and hop < HOPS and hops <= HOPS and (not hops or hop < hops)):
                return "out of range"
            row = murmur(key, 0xD3A2646C) % CACHE
            old = self._cache.get(row)
            is_other = old is not None and old.key != key
            path = Path(key) if old is None or is_other else old
            path.values[hop], path.hops, path.copies = value, hops or path.hops, copies
            if path.is_complete:
                self._write_path(path)
                if not is_other:
                    self._cache.pop(row, None)
            else:
                self._cache[row] = path
                if is_other:
                    self._write_path(old)
            return ""

        return work

    def _write_path(self, path: Path) -> None:
        words = []
        for hop in range(HOPS):
            code = 0x5BD1E995 if hop not in path.values else murmur(path.values[hop], 0x846CA68B)
            words.append(code ^ murmur(path.key, 0x2C1B3C6D + hop))
        for copy in range(path.copies):
            at = 32 * place(path.key, copy, CHUNKS)
            self.chunks[at : at + 32] = struct.pack(">5I", *words) + bytes(12)

    def _column(self, came: Came) -> Work:
        sketch, column, *rows = struct.unpack_from(">HH4I", came.body)
        reporter = came.reporter

        def work() -> str:
            if reporter == UNTRACKED:
                return "not configured"
            if sketch >= SKETCHES or column >= COLUMNS:
                return "out of range"
            if reporter in self._columns[sketch, column]:
                return "column twice"
            self._columns[sketch, column][reporter] = rows
            eight = [(sketch, column // 8 * 8 + n) for n in range(8)]
            if all(len(self._columns[each]) == len(TRACKED) for each in eight):
                for number, each in enumerate(eight):
                    sent = self._columns.pop(each).values()
                    sums = [min(sum(row), M32) for row in zip(*sent, strict=True)]
                    at = 16 * (sketch * COLUMNS + eight[0][1] + number)
                    self.sketches[at : at + 16] = struct.pack(">4I", *sums)
            return ""

        return work


def _check(is_well: bool) -> None:
    if not is_well:
        raise Refused("out of range")


class Hostile:
    """Generator of reports with wrong fields and with sequence numbers that jump."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._next: Counter[tuple[int, int]] = Counter()
        self._keys = [self.rng.randrange(1 << 128) for _ in range(12)] + [5, 77]

    def datagram(self) -> tuple[str, int, int, bytes]:
        """Return source address, port, UDP length, and the bytes after the UDP header."""
        rng = self.rng
        port = rng.choice((OURS, OURS, PROTOTYPE))
        opcode = rng.choice((1, 1, 2, 3, 4, 4, 5, 5))
        opcode = opcode if rng.random() < 0.97 else rng.randrange(256)
        number = rng.choice((7, 0)) if rng.random() < 0.95 else rng.randrange(1 << 16)
        sequence = self._sequence(number, port)
        if port == OURS:
            version = 1 if rng.random() < 0.98 else rng.randrange(16)
            flags = version << 4 | rng.choice((0, 4)) | (8 if rng.random() < 0.1 else 0)
            head = struct.pack(">BBHI", flags, opcode, number, sequence)
        else:
            flags = rng.choice((0, 0x40, 0x40)) | (0x80 if rng.random() < 0.1 else 0)
            head = bytes([opcode, sequence % 256, flags])
        octets = head + self._body(opcode, is_ours=port == OURS)
        length = len(octets) + 8
        if rng.random() < 0.02:
            length += rng.choice((-4, -1, 1, 4, 8))
        if rng.random() < 0.02:
            octets = octets[: rng.randrange(len(octets))]
        src = REPORTER_ADDR if rng.random() < 0.95 else "10.0.0.77"
        return src, port, length, octets

    def _sequence(self, number: int, port: int) -> int:
        here = number, port
        jump = self.rng.random()
        if jump < 0.85:
            self._next[here] += 1
            return (self._next[here] - 1) % (1 << 32)
        if jump < 0.97:
            return (self._next[here] - self.rng.randrange(-5, 12)) % (1 << 32)
        if jump < 0.99:
            return (
                self._next[here] + self.rng.choice((1023, 1024, -1024, -1025, -63, -64, -65))
            ) % (1 << 32)
        self._next[here] = self.rng.randrange(1 << 32)
        return self._next[here]

    def _body(self, opcode: int, *, is_ours: bool) -> bytes:
        rng = self.rng

        def mostly(least: int, most: int, bits: int = 8) -> int:
            wrong = rng.choice((0, most + 1, (1 << bits) - 1))
            return wrong if rng.random() < 0.04 else rng.randint(least, most)

        key = rng.choice(self._keys)
        name = key.to_bytes(16, "big") if is_ours else (key & M32).to_bytes(4, "big")
        copies, hops = mostly(1, 8), rng.choice((0, 0, 1, 3, 5, 6))
        if opcode == 1:
            words = rng.choice((1, 3, 7))
            named = bytes([words if rng.random() < 0.98 else rng.randrange(256), 0, 0])
            return bytes([copies]) + (named if is_ours else b"") + name + rng.randbytes(4 * words)
        if opcode == 2:
            return struct.pack(">II", mostly(0, LISTS - 1, 32), rng.randrange(1 << 32))
        if opcode == 3:
            return bytes([copies]) + bytes(3 if is_ours else 0) + name + rng.randbytes(8)
        if opcode == 4:
            hop, value = mostly(0, HOPS - 1), rng.randrange(64).to_bytes(4, "big")
            if is_ours:
                return bytes([copies, hop, hops, 0]) + name + value
            return name + bytes([(hop + 1) % 256]) + value
        columns = mostly(0, SKETCHES - 1, 16), mostly(0, COLUMNS - 1, 16)
        return struct.pack(">HH4I", *columns, *(rng.choice((1, 1 << 31)) for _ in range(4)))


def made() -> tuple[Gatherer, dict[str, memoryview]]:
    """Return a translator with the configuration of Model, and the memory that it writes."""
    there = Gatherer()
    memory = {
        "lists": there.lists(ENTRIES, BATCHES, count=LISTS),
        "chunks": there.cache(CHUNKS, CACHE)[0],
        "sketches": there.sketches(len(TRACKED), count=SKETCHES, columns=COLUMNS),
    }
    for session, words in enumerate((1, 3, 7), 4):
        memory[f"{words} words"] = there.session(session, slot(words), SLOTS).records
        there.key_write(words, SLOTS, bits=BITS, first=session)
    memory["counters"] = there.session(7, COUNTER, ROWS * COUNTERS, fetch_add=True).records
    there.counters(COUNTERS, first=7)
    for number, index in TRACKED.items():
        there.track(index, number)
    return there, memory


def fuzz(seed: int, count: int) -> Counter[str]:
    """Send `count` reports to a translator and to its model. Return the counts of outcomes.

    Raises AssertionError if translator and model differ.
    """
    there, memory = made()
    model, hostile = Model(), Hostile(seed)
    ether = Ether(dst="02:00:00:00:00:fe", src="02:00:00:00:00:01")
    for number in range(count):
        src, port, length, octets = hostile.datagram()
        ip = IP(src=src, dst=TRANSLATOR_ADDR, len=20 + length)
        there.report(bytes(ether / ip / UDP(sport=1, dport=port, len=length, chksum=0)) + octets)
        model.take(src, port, length, octets)
        if number % 50 == 0 or number == count - 1:
            compare(there, memory, model, f"seed {seed}, report {number}")
    return sum(model.events.values(), Counter())


def compare(there: Gatherer, memory: dict[str, memoryview], model: Model, where: str) -> None:
    """Compare translator and model: every byte of memory, all counters, and all NACKs."""
    expected = {
        "lists": model.lists, "chunks": model.chunks, "sketches": model.sketches,
        **{f"{words} words": content for words, content in model.key_writes.items()},
        "counters": struct.pack(f"={len(model.counters)}Q", *model.counters),
    }  # fmt: skip
    for name, content in expected.items():
        assert memory[name].tobytes() == bytes(content), f"{where}: {name}"
    assert all(not beyond.any() for beyond in there.beyond), f"{where}: beyond a region"
    for reporter in (UNTRACKED, *TRACKED.values()):
        counted = {name: count for name, count in model.events[reporter].items() if count}
        assert there.events(reporter) == counted, f"{where}: reporter {reporter}"
    asked = [_asked(bytes(nack[UDP].payload)) for nack in there.nacks]
    assert asked == model.nacks, f"{where}: NACKs"


def _asked(octets: bytes) -> tuple[int, ...]:
    if len(octets) == 2:
        return (octets[0],)
    return struct.unpack_from(">2xHII", octets)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--count", type=int, default=1500)
    options = parser.parse_args()
    for seed in range(1, options.seeds + 1):
        print(seed, dict(fuzz(seed, options.count)))
