"""Tables find the same entries as a search through all entries, after random adds and deletes."""

import os
import random
import resource
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from small_programs import engine

from minip4 import wire
from minip4.engine import C_FOLDER
from minip4.engine.engine import Engine
from minip4.engine.errors import AlreadyExists, EngineError, InvalidArgument, NotFound, TableFull
from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary
from minip4.native import build

KEYS = {
    "exact": ("exact", [32]),
    "lpm": ("lpm", [32]),
    "wide lpm": ("lpm", [128]),
    "ternary": ("ternary", [32]),
    "range": ("range", [16]),
    "exact and lpm": ("exact lpm", [12, 32]),
    "all": ("exact ternary range lpm", [9, 48, 16, 32]),
    "wide exact": ("exact exact", [128, 3]),
}


def table_engine(kinds: Sequence[str], widths: Sequence[int], size: int) -> Engine:
    """Return an engine whose table t matches header fields, and writes a result into the header."""
    padding = -sum(widths) % 8
    fields = "".join(f"bit<{w}> k{i};" for i, w in enumerate(widths))
    pad = f"bit<{padding}> padding;" if padding else ""
    keys = "".join(f"hdr.h.k{i}: {kind};" for i, kind in enumerate(kinds))
    return engine(
        types=f"header h_t {{ {fields} {pad} bit<32> result; }}",
        ingress_locals=f"""
            action hit(bit<32> value) {{ hdr.h.result = value; }}
            action miss() {{ hdr.h.result = 0; }}
            table t {{ key = {{ {keys} }} actions = {{ hit; miss; }}
                       default_action = miss(); size = {size}; }}""",
        ingress="t.apply();",
    )


def lookup(e: Engine, values: Sequence[int], widths: Sequence[int]) -> int:
    number = 0
    for value, width in zip(values, widths, strict=True):
        number = number << width | value
    number <<= -sum(widths) % 8
    frame = number.to_bytes((sum(widths) + 7) // 8, "big") + bytes(4)
    [(_, sent)] = e.process(1, frame, 0)
    return int.from_bytes(sent[-4:], "big")


def random_match(rng: random.Random, kind: str, width: int, pool: list[int]) -> MatchKey:
    value = rng.choice(pool)
    if kind == "exact":
        return Exact(value)
    if kind == "lpm":
        length = rng.randrange(width + 1)
        return Lpm(value >> (width - length) << (width - length), length)
    if kind == "ternary":
        mask = rng.choice([0, (1 << width) - 1, rng.getrandbits(width), 0xFF])
        return Ternary(value & mask, mask)
    low, high = sorted((value, rng.choice(pool)))
    return Range(low, high)


def matches(match: MatchKey, value: int, width: int) -> bool:
    if isinstance(match, Exact):
        return value == match.value
    if isinstance(match, Lpm):
        return (value ^ match.value) >> (width - match.prefix_length) == 0
    if isinstance(match, Ternary):
        return value & match.mask == match.value
    return match.low <= value <= match.high


Entries = dict[int, tuple[tuple[MatchKey, ...], int, int]]


def expected(entries: Entries, values: Sequence[int], widths: Sequence[int]) -> int:
    """Return the value of the entry that wins, or 0 if no entry matches.

    The entry with the largest priority wins, then the one with the longest prefix, then the oldest
    one.
    """
    best, result = (-1, -1), 0
    for key, priority, action_value in entries.values():
        if all(matches(m, v, w) for m, v, w in zip(key, values, widths, strict=True)):
            length = max((m.prefix_length for m in key if isinstance(m, Lpm)), default=0)
            rank = (priority, length if not priority else 0)
            if rank > best:
                best, result = rank, action_value
    return result


@pytest.mark.parametrize("name", KEYS)
def test_lookup_agrees_with_a_linear_search(name: str) -> None:
    kinds, widths = KEYS[name][0].split(), KEYS[name][1]
    rng = random.Random(name)
    e = table_engine(kinds, widths, 600)
    has_priority = bool({"ternary", "range"} & set(kinds))
    pools = [[rng.getrandbits(w) for _ in range(30)] for w in widths]
    entries: Entries = {}
    for step in range(400):
        if entries and rng.random() < 0.3:
            handle = rng.choice(list(entries))
            e.table_delete("I.t", handle)
            del entries[handle]
        key = tuple(
            random_match(rng, k, w, p) for k, w, p in zip(kinds, widths, pools, strict=True)
        )
        priority = rng.randrange(1, 50) if has_priority else 0
        try:
            handle = e.table_add("I.t", key, "I.hit", [step + 1], priority)
        except AlreadyExists:
            assert any(have[:2] == (key, priority) for have in entries.values())
            continue
        entries[handle] = (key, priority, step + 1)
        values = [rng.choice(p) for p in pools]
        assert lookup(e, values, widths) == expected(entries, values, widths)
    read = {x.handle: (x.key, x.priority, x.params[0]) for x in e.table_entries("I.t")}
    assert read == entries
    e.close()


@pytest.mark.parametrize("width", [64, 100])
def test_long_prefixes_with_a_common_start_are_distinguished(width: int) -> None:
    """64 prefixes are found, although their first 45 bits are equal: only the next 6 differ.

    In a key of 100 bits, these 6 bits are in another word than the first bits.
    """
    rng = random.Random(width)
    e = table_engine(["lpm"], [width], 64)
    shared = rng.getrandbits(45) << 6
    for number in range(64):
        # three lengths, because with at most two a lookup tries all of them
        key = Lpm((shared | number) << (width - 51), 51 + number % 3)
        e.table_add("I.t", [key], "I.hit", [number + 1])
    for number in range(64):
        value = (shared | number) << (width - 51) | rng.getrandbits(width - 53)
        assert lookup(e, [value], [width]) == number + 1
    assert lookup(e, [value ^ 1 << (width - 1)], [width]) == 0


def test_a_short_prefix_among_thousands_is_found_everywhere() -> None:
    """A prefix of one bit is found for all its addresses, although 6,500 other entries exist.

    The prefix is in more elements of the filter than may change during one hold of the lock.
    """
    rng = random.Random(3)
    e = table_engine(["lpm"], [32], 7000)
    for first in (Lpm(0, 1), Lpm(1 << 20, 20)):
        e.table_add("I.t", [first], "I.hit", [1])
    for value in rng.sample(range(1 << 32), 6500):
        e.table_add("I.t", [Lpm(value, 32)], "I.hit", [2])
    e.table_add("I.t", [Lpm(1 << 31, 1)], "I.hit", [3])
    found = {lookup(e, [1 << 31 | rng.getrandbits(31)], [32]) for _ in range(500)}
    assert found == {3}


def test_thousands_of_prefixes_are_found_and_deleted() -> None:
    rng = random.Random(7)
    e = table_engine(["lpm"], [32], 5000)
    handles = {}
    for i in range(3000):
        length = rng.randrange(8, 33)
        value = (10 << 24 | rng.getrandbits(24)) >> (32 - length) << (32 - length)
        if (value, length) not in handles:
            handles[value, length] = e.table_add("I.t", [Lpm(value, length)], "I.hit", [i])
    for key in list(handles)[::2]:
        e.table_delete("I.t", handles.pop(key))
    for value, _ in list(handles)[:200]:
        longest = max((n for v, n in handles if (value ^ v) >> (32 - n) == 0), default=None)
        assert longest is not None
        found = e.table_entry("I.t", handles[value >> (32 - longest) << (32 - longest), longest])
        assert lookup(e, [value], [32]) == found.params[0]
    e.close()


@pytest.fixture(scope="module")
def exact() -> Engine:
    return table_engine(["exact"], [32], 4)


REFUSALS: dict[str, tuple[type[Exception], str, Callable[[Engine], object]]] = {
    "too wide a key": (
        InvalidArgument,
        "does not fit in 32 bits",
        lambda e: e.table_add("I.t", [Exact(1 << 32)], "I.hit", [1]),
    ),
    "wrong kind of match": (
        InvalidArgument,
        "expected Exact",
        lambda e: e.table_add("I.t", [Lpm(0, 8)], "I.hit", [1]),
    ),
    "too few keys": (
        InvalidArgument,
        "1 key fields, but 0",
        lambda e: e.table_add("I.t", [], "I.hit", [1]),
    ),
    "unknown table": (NotFound, "'nope'", lambda e: e.table_entries("nope")),
    "unknown action": (
        NotFound,
        "expected one of: I.hit, I.miss",
        lambda e: e.table_add("I.t", [Exact(1)], "I.nope", []),
    ),
    "too few parameters": (
        InvalidArgument,
        "takes 1 parameters, not 0",
        lambda e: e.table_add("I.t", [Exact(1)], "I.hit", []),
    ),
    "too wide a parameter": (
        InvalidArgument,
        "parameter value",
        lambda e: e.table_add("I.t", [Exact(1)], "I.hit", [1 << 32]),
    ),
    "unknown handle": (NotFound, "handle 99", lambda e: e.table_delete("I.t", 99)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_invalid_requests_are_refused_with_a_reason(exact: Engine, name: str) -> None:
    error, text, request = REFUSALS[name]
    with pytest.raises(error, match=text):
        request(exact)


def test_a_table_is_full_at_its_declared_size() -> None:
    e = table_engine(["exact"], [32], 4)
    handles = [e.table_add("I.t", [Exact(i)], "I.hit", [i + 1]) for i in range(4)]
    with pytest.raises(TableFull):
        e.table_add("I.t", [Exact(4)], "I.hit", [5])
    e.table_delete("I.t", handles[0])
    new = e.table_add("I.t", [Exact(4)], "I.hit", [5])
    assert new != handles[0], "a deleted entry's handle must not mean its successor"
    with pytest.raises(NotFound):
        e.table_delete("I.t", handles[0])
    assert lookup(e, [4], [32]) == 5
    assert lookup(e, [0], [32]) == 0
    e.close()


def test_the_default_action_can_be_set_and_reset() -> None:
    e = table_engine(["exact"], [32], 4)
    e.table_set_default("I.t", "I.hit", [9])
    assert e.table_default("I.t") == ("I.hit", (9,))
    assert lookup(e, [0], [32]) == 9
    e.table_reset_default("I.t")
    assert e.table_default("I.t") == ("I.miss", ())
    assert lookup(e, [0], [32]) == 0
    e.close()


def run_c(name: str, *, sanitize: bool = True) -> str:
    """Return the output of a C program of this folder.

    The program uses tables without an engine.
    """
    names = ("lock", "table", "table_batch", "table_lpm", "table_ternary")
    sources = [wire.C_FOLDER / "memory.c", *(C_FOLDER / f"{each}.c" for each in names)]
    path = build.program([*sources, Path(__file__).parent / name],
                         include=(wire.C_FOLDER, C_FOLDER), sanitize=sanitize)  # fmt: skip
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout


def test_a_slot_may_be_used_for_years() -> None:
    assert run_c("generations.c") == "1111"


def test_packets_do_not_wait_for_pages_of_a_ternary_tables_sets() -> None:
    """When an entry is added to a ternary table, there are fewer than 64 page faults.

    Packets wait while the 256 sets of a byte are written, and each set may begin a new page.
    """
    assert int(run_c("faults.c", sanitize=False)) < 64


def test_packets_find_a_whole_batch_in_a_table_or_nothing_of_it() -> None:
    assert run_c("batches.c") == "0"


@pytest.mark.skipif("SANITIZE" in os.environ, reason="its allocator ends the process")
def test_an_entry_that_found_no_memory_leaves_a_ternary_table_as_it_was() -> None:
    """After an entry was rejected because memory ran out, a ternary table matches as before.

    The test uses a process of its own, because the heap of this process may have free memory.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        processes.submit(run_out_of_memory).result()


def run_out_of_memory() -> None:
    e = engine(
        types="header h_t { bit<2048> key; bit<16> c; }",
        ingress_locals="""action go(bit<16> value) { hdr.h.c = value; }
            table t { key = { hdr.h.key: ternary; } actions = { go; } size = 20000; }""",
        ingress="t.apply();",
    )
    for number in range(5_000):
        e.table_add("I.t", [Ternary(0, 0xFF)], "I.go", [1], number + 1)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    key = (1 << 2048) - 1
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 20), limits[1]))
    try:
        with pytest.raises(EngineError, match="out of memory"):
            e.table_add("I.t", [Ternary(key, key)], "I.go", [2], 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)

    def value_of(sent: int) -> int:
        [(_, frame)] = e.process(1, sent.to_bytes(256, "big") + bytes(2), 0)
        return int.from_bytes(frame[256:], "big")

    # this entry compares a byte of the key that no earlier entry compares
    e.table_add("I.t", [Ternary(0x100, 0xFF00)], "I.go", [3], 19_999)
    assert [value_of(sent) for sent in (0, 0x102, 0x202)] == [1, 3, 0]
    e.table_add("I.t", [Ternary(key, key)], "I.go", [2], 20_000)
    assert [value_of(sent) for sent in (key, key >> 8, 0)] == [2, 0, 1]


def test_a_new_entry_in_a_reused_slot_starts_without_old_state() -> None:
    e = engine(
        metadata="bit<2> colour;",
        ingress_locals="""
            direct_meter<bit<2>>(MeterType.packets) speed;
            direct_counter(CounterType.packets) count;
            action go() { speed.read(meta.colour); count.count(); }
            table t { key = { hdr.h.a: exact; } actions = { go; NoAction; }
                      meters = speed; counters = count; support_timeout = true; }""",
        ingress="t.apply();",
    )
    kept, gone = (e.table_add("I.t", [Exact(a)], "I.go", [], time_ns=0) for a in (1, 2))
    for handle in (kept, gone):
        e.table_set_timeout("I.t", handle, 1_000)
    e.direct_meter_set("I.t", gone, (1, 1, 1, 2))
    e.direct_counter_write("I.t", gone, 5, 50)
    e.table_delete("I.t", gone)
    new = e.table_add("I.t", [Exact(3)], "I.go", [], time_ns=0)
    assert new & 0xFFFFFFFF == gone & 0xFFFFFFFF, "the same slot"
    assert e.direct_meter_get("I.t", new) is None
    assert e.table_entry("I.t", new).count == (0, 0)
    assert [entry.handle for entry, _ in e.table_idle("I.t", 1_500)] == [kept]
    assert e.table_has_timeouts("I.t")
    e.table_delete("I.t", kept)
    assert not e.table_has_timeouts("I.t")
