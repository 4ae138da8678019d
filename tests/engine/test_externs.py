"""Counters, registers, meters, hashes, checksums, selectors, value sets and random()."""

import copy
import random
import struct
import zlib
from typing import Any

import pytest
from small_programs import engine, json_of

from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument, NotFound, NotSupported
from minip4.engine.keys import Exact

STATE = """
    counter(4, CounterType.packets_and_bytes) hits;
    register<bit<48>>(4) last;
    register<bit<100>>(3) big;
    meter(2, MeterType.bytes) speed;
    direct_counter(CounterType.packets_and_bytes) by_entry;
    action go(bit<9> port) { std.egress_spec = port; by_entry.count(); }
    table t { key = { hdr.h.a: exact; } actions = { go; NoAction; } counters = by_entry; }
"""
USE = """
    t.apply();
    hits.count((bit<32>) hdr.h.b);
    bit<48> old; last.read(old, (bit<32>) hdr.h.b); last.write((bit<32>) hdr.h.b, old + 1);
    bit<100> wide; big.read(wide, (bit<32>) hdr.h.b);
    big.write((bit<32>) hdr.h.b, wide + (1 << 99) + 1);
    bit<8> colour = 9; speed.execute_meter((bit<32>) hdr.h.b, colour);
    hdr.h.c = (bit<16>) colour;
"""


@pytest.fixture
def switch() -> Engine:
    return engine(ingress_locals=STATE, ingress=USE)


def test_counters_and_registers_ignore_indexes_out_of_bounds(switch: Engine) -> None:
    for b in (0, 3, 3, 4, 255):
        switch.process(1, bytes([1, b, 0, 0]) + bytes(60), 0)
    assert switch.counter_read_all("I.hits") == [(1, 64), (0, 0), (0, 0), (2, 128)]
    assert switch.register_read_all("I.last") == [1, 0, 0, 2]
    assert switch.register_read("I.big", 0) == (1 << 99) + 1
    switch.counter_write("I.hits", 1, 5, 6)
    switch.register_write("I.last", 1, 7)
    switch.register_write("I.big", 2, 3)
    switch.process(1, bytes([1, 1, 0, 0]), 0)
    switch.process(1, bytes([1, 2, 0, 0]), 0)
    assert switch.counter_read("I.hits", 1) == (6, 10)
    assert switch.register_read("I.last", 1) == 8
    assert switch.register_read_all("I.big")[2] == (1 << 99) + 4
    for refused in (
        lambda: switch.register_read("I.last", 4),
        lambda: switch.counter_read("I.hits", -1),
        lambda: switch.counter_read("I.nope", 0),
    ):
        with pytest.raises(NotFound):
            refused()
    with pytest.raises(InvalidArgument):
        switch.register_write("I.last", 0, 1 << 48)


def test_direct_counters_belong_to_entries(switch: Engine) -> None:
    first = switch.table_add("I.t", [Exact(1)], "I.go", [3])
    second = switch.table_add("I.t", [Exact(2)], "I.go", [4])
    for a in (1, 1, 5):
        switch.process(1, bytes([a, 0, 0, 0]), 0)
    assert switch.table_entry("I.t", first).count == (2, 8)
    assert switch.table_entry("I.t", second).count == (0, 0)
    switch.direct_counter_write("I.t", second, 10, 20)
    switch.process(1, bytes([2, 0, 0, 0]), 0)
    assert switch.table_entry("I.t", second).count == (11, 24)


def test_a_meter_colours_by_peak_and_committed_rate(switch: Engine) -> None:
    def colour(time_us: int) -> int:
        [(_, sent)] = switch.process(1, bytes(1000), time_us * 1000)
        return int.from_bytes(sent[2:4], "big")

    assert colour(0) == 0, "not configured: green"
    # Committed rate 1 byte/us and burst of 2 frames; peak rate 2 bytes/us and burst of 3 frames.
    switch.meter_set_rates("I.speed", 0, (1e6, 2000, 2e6, 3000))
    assert switch.meter_get_rates("I.speed", 0) == (1e6, 2000, 2e6, 3000)
    assert [colour(10) for _ in range(5)] == [0, 0, 1, 2, 2]
    assert colour(510) == 1, "500 us: 1000 bytes of peak, 500 of committed"
    assert colour(1510) == 0
    assert colour(10**7) == 0
    switch.meter_set_rates("I.speed", 0, None)
    assert switch.meter_get_rates("I.speed", 0) is None
    assert [colour(10**7) for _ in range(5)] == [0] * 5
    with pytest.raises(InvalidArgument):
        switch.meter_set_rates("I.speed", 0, (2, 1, 1, 1))


@pytest.mark.parametrize("start_us", [10**6, 10**14], ids=["after a second", "after 3 years"])
@pytest.mark.parametrize("rate", [10**9, 10**15, 2**63 - 1])
def test_a_meter_of_any_rate_fills_up_again(switch: Engine, rate: int, start_us: int) -> None:
    frame, times = bytes(1000), [start_us, start_us, start_us + 1, start_us + 2]
    switch.process(1, frame, start_us * 1000)
    switch.meter_set_rates("I.speed", 0, (rate, 1000, rate, 1000))
    assert switch.meter_get_rates("I.speed", 0) == (rate, 1000, rate, 1000)
    sent = [switch.process(1, frame, time_us * 1000)[0][1] for time_us in times]
    assert [out[3] for out in sent] == [0, 2, 0, 0], "green; red at the same time; green again"


def test_a_meter_s_full_bucket_holds_no_fraction_more(switch: Engine) -> None:
    """At 0.6 bytes/us, a frame of 1000 bytes is green after 1667 us, but not after 1666 us.

    This holds for each frame, because a full bucket keeps no fraction of a byte beyond its size.
    """
    switch.process(1, bytes(1000), 0)
    switch.meter_set_rates("I.speed", 0, (600_000, 1000, 600_000, 1000))
    times_us = (1000, 1000 + 1666, 1000 + 1667, 2667 + 1666, 2667 + 1667)
    sent = [switch.process(1, bytes(1000), time_us * 1000)[0][1] for time_us in times_us]
    assert [out[3] for out in sent] == [0, 2, 0, 2, 0]


def test_a_meter_rounds_the_same_on_each_cpu(switch: Engine) -> None:
    """The colours of two frames are 1 and 2, because a meter rounds doubles after each operation.

    With a fused multiply-add, which only some CPUs have, the colours would be 2 and 0.
    """
    switch.process(1, bytes(64), 0)
    switch.meter_set_rates("I.speed", 0, (10_000, 1000, 10_000, 1000))
    sent = [switch.process(1, bytes(64), 95_000 * (n + 1))[0][1] for n in range(162)]
    assert [out[3] for out in sent[160:]] == [1, 2]


def test_a_clock_that_was_set_back_fills_no_meter(switch: Engine) -> None:
    switch.process(1, bytes(1000), 5_000_000)
    switch.meter_set_rates("I.speed", 0, (10**6, 1000, 10**6, 1000))
    times_us = (5000, 4000, 4999, 6000)
    sent = [switch.process(1, bytes(1000), time_us * 1000)[0][1] for time_us in times_us]
    assert [out[3] for out in sent] == [0, 2, 2, 0]


def crc(
    data: bytes, width: int, polynomial: int, *, start: int = 0, reflect: bool, final: int = 0
) -> int:
    """Return the CRC of the data, computed bit by bit."""

    def mirrored(value: int, bits: int) -> int:
        return int(f"{value:0{bits}b}"[::-1], 2)

    rest = start
    for byte in data:
        rest ^= (mirrored(byte, 8) if reflect else byte) << (width - 8)
        for _ in range(8):
            rest = (rest << 1) ^ (polynomial if rest >> (width - 1) else 0)
            rest &= (1 << width) - 1
    return (mirrored(rest, width) if reflect else rest) ^ final


def csum16(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def xor16(data: bytes) -> int:
    result = 0
    for word in struct.unpack(f"!{len(data) // 2}H", data):
        result ^= word
    return result


HASHES = {
    "crc32": zlib.crc32,
    "crc16": lambda d: crc(d, 16, 0x8005, reflect=True),
    "crc32_custom": zlib.crc32,
    "crc16_custom": lambda d: crc(d, 16, 0x8005, reflect=True),
    "csum16": csum16,
    "xor16": xor16,
    "identity": lambda d: int.from_bytes(d[:8], "big"),
}


def hasher(algorithm: str) -> Engine:
    return engine(
        types="""header h_t { bit<3> a; bit<13> b; bit<48> c; bit<72> d; bit<8> pad; bit<64> r; }
                 header i_t { bit<8> x; }""",
        headers="h_t h; i_t i;",
        ingress=f"""hash(hdr.h.r, HashAlgorithm.{algorithm}, 64w0,
                        {{hdr.h.a, hdr.h.b, hdr.i.x, hdr.h.c, hdr.h.d, 8w7}}, 64w1 << 63);""",
    )


@pytest.mark.parametrize("algorithm", HASHES)
def test_hashes_are_those_of_their_definitions(algorithm: str) -> None:
    e = hasher(algorithm)
    rng = random.Random(algorithm)
    for _ in range(20):
        data = rng.randbytes(17)
        [(_, sent)] = e.process(1, data + bytes(9), 0)
        # The hash covers the constant 7, but not the field of an invalid header.
        wanted = HASHES[algorithm](data + b"\7") % (1 << 63)
        assert int.from_bytes(sent[-8:], "big") == wanted


def test_a_hash_is_put_between_base_and_base_plus_max() -> None:
    e = engine(
        ingress="""hash(hdr.h.c, HashAlgorithm.crc32, 16w100, {hdr.h.a}, 16w7);
                          hash(hdr.h.b, HashAlgorithm.crc32, 8w5, {hdr.h.a}, 8w0);"""
    )
    seen = set()
    for a in range(100):
        [(_, sent)] = e.process(1, bytes([a, 0, 0, 0]), 0)
        assert sent[1] == 5, "a max of 0 counts as 1"
        seen.add(int.from_bytes(sent[2:], "big"))
    assert seen == set(range(100, 107))


SUM = "HashAlgorithm.csum16"
DATA = "{hdr.h.a, hdr.h.b}"


def test_checksums_are_verified_and_updated_with_and_without_payload() -> None:
    e = engine(
        ingress="""hdr.h.b[0:0] = std.checksum_error;
                   if (hdr.h.a == 255) { hdr.h.setInvalid(); }""",
        verify=f"verify_checksum(hdr.h.a < 128, {DATA}, hdr.h.c, {SUM});",
        compute=f"""update_checksum(hdr.h.a < 64, {DATA}, hdr.h.c, {SUM});
                    update_checksum_with_payload(hdr.h.a >= 64, {DATA}, hdr.h.c, {SUM});""",
    )

    def through(a: int, checksum: int, payload: bytes = b"abcde") -> tuple[int, int]:
        [(_, sent)] = e.process(1, struct.pack("!BBH", a, 2, checksum) + payload, 0)
        return sent[1] & 1, int.from_bytes(sent[2:4], "big")

    right = csum16(bytes([1, 2]))
    assert through(1, right) == (0, right)
    assert through(1, right ^ 1) == (1, csum16(bytes([1, 3])))
    assert through(100, csum16(bytes([100, 2]))) == (0, csum16(bytes([100, 2]) + b"abcde\0"))
    assert through(200, 0) == (0, csum16(bytes([200, 2]) + b"abcde\0")), "not verified"
    assert e.process(1, bytes([255, 2, 0, 0, 9]), 0) == [(0, b"\x09")]


def test_random_stays_within_its_bounds_and_repeats_with_its_seed() -> None:
    body = "random(hdr.h.b, 10, 20); random(hdr.h.c, 5, 4);"

    def rolls(seed: int) -> list[int]:
        e = engine(seed=seed, ingress=body)
        sent = [e.process(1, b"\0\0\x12\x34", 0)[0][1] for _ in range(200)]
        assert all(s[2:] == b"\x12\x34" for s in sent), "an empty interval writes nothing"
        return [s[1] for s in sent]

    assert set(rolls(1)) == set(range(10, 21))
    assert rolls(1) == rolls(1)
    assert rolls(1) != rolls(2)


def test_a_selector_spreads_over_its_groups_members() -> None:
    e = engine(
        ingress_locals="""
            action go(bit<9> port) { std.egress_spec = port; }
            action_selector(HashAlgorithm.crc16, 32w16, 32w16) profile;
            table t { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { go; NoAction; }
                      implementation = profile; }""",
        ingress="std.egress_spec = 9; t.apply();",
    )
    [profile] = e.program.profiles
    members = [e.member_add(profile, "I.go", [port]) for port in (1, 2, 3)]
    group = e.group_add(profile)
    e.table_add_group("I.t", [Exact(1)], group)
    handle = e.table_add_member("I.t", [Exact(2)], members[2])

    def ports(a: int) -> set[int]:
        return {e.process(0, bytes([a, 0, 0, c]), 0)[0][0] for c in range(64)}

    assert ports(1) == {9}, "an empty group does nothing"
    e.group_set_members(profile, group, members[:2])
    assert ports(1) == {1, 2}
    assert ports(2) == {3}
    assert ports(3) == {9}
    e.member_modify(profile, members[2], "I.go", [7])
    assert ports(2) == {7}
    assert e.table_entry("I.t", handle).member == members[2]
    e.member_delete(profile, members[2])
    assert ports(2) == {9}
    with pytest.raises(NotFound):
        e.group_set_members(profile, group, [members[2]])
    with pytest.raises(InvalidArgument):
        e.table_add("I.t", [Exact(4)], "I.go", [1])


def test_idle_time_runs_from_the_last_hit() -> None:
    e = engine(
        ingress_locals="""table t { key = { hdr.h.a: exact; } actions = { NoAction; }
                                   support_timeout = true; }""",
        ingress="t.apply();",
    )
    handle = e.table_add("I.t", [Exact(1)], "NoAction", [], time_ns=1_000_000)
    assert e.table_entry("I.t", handle, time_ns=1_500_000).idle_ns == 500_000
    e.process(1, bytes([1, 0, 0, 0]), 5_000_000)
    e.process(1, bytes([2, 0, 0, 0]), 6_000_000)
    [entry] = e.table_entries("I.t", time_ns=8_000_000)
    assert entry.idle_ns == 3_000_000


def test_a_direct_meter_colours_packets_that_hit_its_entry() -> None:
    e = engine(
        metadata="bit<2> colour;",
        ingress_locals="""
            direct_meter<bit<2>>(MeterType.packets) speed;
            action go() { speed.read(meta.colour); }
            table t { key = { hdr.h.a: exact; } actions = { go; NoAction; } meters = speed; }""",
        ingress="meta.colour = 3; t.apply(); hdr.h.b = (bit<8>) meta.colour;",
    )
    first, second = (e.table_add("I.t", [Exact(a)], "I.go", []) for a in (1, 2))
    e.direct_meter_set("I.t", first, (1, 1, 1, 2))
    assert e.direct_meter_get("I.t", first) == (1, 1, 1, 2)
    assert e.direct_meter_get("I.t", second) is None

    def colours(a: int) -> list[int]:
        return [e.process(1, bytes([a, 0, 0, 0]), 0)[0][1][1] for _ in range(4)]

    assert colours(1) == [0, 1, 2, 2]
    assert colours(2) == [0, 0, 0, 0]
    assert colours(3) == [3, 3, 3, 3], "a miss leaves the result alone"


def test_entries_of_the_program_are_there_and_stay() -> None:
    e = engine(
        ingress_locals="""
            action put(bit<8> v) { hdr.h.b = v; }
            table t { key = { hdr.h.a: ternary; } actions = { put; NoAction; }
                      const entries = { 0x10 &&& 0xF0: put(1); 0x11: put(2); _: put(3); } }""",
        ingress="t.apply();",
    )
    assert [e.process(1, bytes([a, 0, 0, 0]), 0)[0][1][1] for a in (0x11, 0x12, 0x22)] == [1, 1, 3]
    entries = e.table_entries("I.t")
    assert all(entry.is_const for entry in entries)
    ranked = sorted(entries, key=lambda entry: -entry.priority)
    assert [entry.params for entry in ranked] == [(1,), (2,), (3,)]
    with pytest.raises(InvalidArgument, match="const"):
        e.table_delete("I.t", entries[0].handle)


REFUSED = {
    "a primitive": (("actions", 0, "primitives", 0, "op"), "teleport"),
    "a hash algorithm": (("calculations", 0, "algo"), "sha512"),
    "a parser operation": (("parsers", 0, "parse_states", 0, "parser_ops", 0, "op"), "dance"),
    "a match kind": (("pipelines", 0, "tables", 0, "key", 0, "match_type"), "vague"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_errors_name_the_unsupported_primitive(what: str) -> None:
    path, name = REFUSED[what]
    document = copy.deepcopy(
        json_of(
            ingress_locals="""
                action a() { hash(hdr.h.c, HashAlgorithm.crc32, 16w0, {hdr.h.a}, 16w9); }
                table t { key = { hdr.h.a: exact; } actions = { a; } }""",
            ingress="t.apply();",
        )
    )
    actions = document["actions"]
    actions.sort(key=lambda action: not action["primitives"])
    node: Any = document
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = name
    with pytest.raises(NotSupported, match=name):
        Engine(document)


def test_other_json_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="BMv2 JSON"):
        Engine({"program": "x"})


@pytest.mark.parametrize("width", [65, 128, 200])
def test_results_of_externs_fill_fields_wider_than_a_word(width: int) -> None:
    pad = -width % 8
    switch = engine(
        types=f"header h_t {{ bit<8> a; bit<{width}> r; bit<{width}> s; bit<{2 * pad}> pad; }}"
        if pad
        else f"header h_t {{ bit<8> a; bit<{width}> r; bit<{width}> s; }}",
        metadata=f"bit<{width}> colour;",
        ingress_locals="meter(1, MeterType.packets) speed;",
        ingress=f"""hash(hdr.h.r, HashAlgorithm.identity, {width}w1, {{hdr.h.a}}, {width}w200);
                    random(hdr.h.s, {width}w7, {width}w7);
                    speed.execute_meter(0, meta.colour);
                    hdr.h.s = hdr.h.s + meta.colour;""",
    )
    switch.meter_set_rates("I.speed", 0, (0, 0, 0, 0))  # colour 2 is red
    size = 1 + (2 * width + 2 * pad) // 8
    [(_, sent)] = switch.process(1, b"\x2a" + b"\xff" * (size - 1), 0)
    bits = int.from_bytes(sent[1:], "big") >> 2 * pad
    assert bits >> width == 1 + 0x2A
    assert bits & ((1 << width) - 1) == 7 + 2
