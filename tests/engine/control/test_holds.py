"""An operation on a large table does not delay packets longer than one on a small table.

The tests read no clock. Instead, the engine counts the words of memory that the control plane
accesses while it holds the lock.
"""

import random
import subprocess
from pathlib import Path

import pytest
from small_programs import engine

from minip4 import wire
from minip4.engine import C_FOLDER
from minip4.engine.engine import Engine
from minip4.engine.errors import NotFound
from minip4.engine.keys import Exact, Lpm, MatchKey, Ternary
from minip4.native import build

ENTRIES = 20_000
SLICE_WORDS = 4096  # SLICE_WORDS of lock.h
COPIED_WORDS = 1 << 15  # HOLD_WORDS of lock.h: the largest array that one hold copies
TABLE = """
    direct_counter(CounterType.packets_and_bytes) hits;
    counter(20000, CounterType.packets) each;
    register<bit<32>>(20000) last;
    action go(bit<16> value) {{ hdr.h.c = value; each.count(hdr.h.key); last.write(0, 1); }}
    table t {{ key = {{ hdr.h.key: {kind}; }} actions = {{ go; NoAction; }} counters = hits;
               default_action = NoAction(); support_timeout = true; size = 20000; }}"""


class Held:
    """A table of one kind, and the most words that the control plane accessed during one hold."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.engine: Engine = engine(
            types="header h_t { bit<32> key; bit<16> c; }",
            ingress_locals=TABLE.format(kind=kind),
            ingress="t.apply();",
        )

    def key(self, number: int) -> list[MatchKey]:
        if self.kind == "exact":
            return [Exact(number)]
        if self.kind == "lpm":
            return [Lpm(number << 8, 24) if number % 7 else Lpm(number << 8, 31)]
        return [Ternary(number << 8, 0xFFFFFF00)]

    def add(self, number: int, value: int = 1) -> int:
        priority = 1 if self.kind == "ternary" else 0
        return self.engine.table_add("I.t", self.key(number), "I.go", [value], priority, time_ns=0)

    def sent(self, number: int) -> int:
        """Send a packet with the key of this entry.

        Return the value that the table wrote into it.
        """
        key = number if self.kind == "exact" else number << 8
        [(_, frame)] = self.engine.process(1, key.to_bytes(4, "big") + bytes(2), 1_000)
        return int.from_bytes(frame[4:6], "big")

    def max_words(self, kind: str) -> int:
        return self.engine.holds()[kind]["max_words"]


def test_the_longest_hold_by_the_cpu_is_noted_and_its_clock_read_where_that_can_matter() -> None:
    """For five holds of the lock, the longest duration and the longest CPU time are recorded.

    At the end of a hold, CPU time is read only if the hold was longer than the longest CPU time so
    far. The last two holds were not.
    """
    path = build.program(
        [C_FOLDER / "lock.c", Path(__file__).parent / "holds.c"], include=(C_FOLDER,)
    )
    told = subprocess.run([path], capture_output=True, text=True, check=True).stdout
    assert told == "90 45 8"


def test_for_a_benchmark_all_ports_come_up_in_one_hold() -> None:
    """Engine.repeat() sets up all ports in one hold of the lock.

    The engine reads clocks whenever it takes the lock. If it took the lock for each port, then a
    benchmark would count the readings as cost of its packets.
    """
    e = Held("exact").engine
    e.repeat(1, [bytes(6)], 1, 0)
    before = e.holds()["settings"]["count"]
    e.repeat(1, [bytes(6)], 1, 0)
    assert e.holds()["settings"]["count"] - before == 1


@pytest.mark.parametrize("kind", ["exact", "lpm", "ternary"])
def test_no_hold_grows_with_the_table(kind: str) -> None:
    held = Held(kind)
    e = held.engine
    handles = [held.add(i) for i in range(ENTRIES)]
    assert held.max_words("entry") <= COPIED_WORDS
    assert held.sent(ENTRIES - 1) == 1
    read = e.table_entries("I.t")
    assert {entry.handle for entry in read} == set(handles)
    for handle in handles:
        e.table_set_timeout("I.t", handle, 1_000_000)
    assert sum(1 for _ in e.table_idle("I.t", 5_000_000)) == ENTRIES
    assert 0 < held.max_words("read") <= SLICE_WORDS
    with e.batch():
        for handle in handles[::2]:
            e.table_modify("I.t", handle, "I.go", [2])
        for handle in handles[1::2]:
            e.table_delete("I.t", handle)
        for number in range(1, ENTRIES, 2):
            held.add(number, 3)
        assert held.sent(0) == held.sent(1) == 1
    assert 0 < held.max_words("commit") <= SLICE_WORDS
    assert [held.sent(i) for i in (0, 1, ENTRIES - 2, ENTRIES - 1)] == [2, 3, 2, 3]
    for entry in e.table_entries("I.t"):
        e.table_delete("I.t", entry.handle)
    assert held.max_words("entry") <= COPIED_WORDS
    assert not e.table_entries("I.t")
    e.close()


def test_all_cells_are_written_in_slices() -> None:
    held = Held("exact")
    held.engine.counter_write("I.each", 0, 7, 8, count=ENTRIES)
    held.engine.register_write("I.last", 0, 9, count=ENTRIES)
    assert 0 < held.max_words("state") <= SLICE_WORDS
    assert set(held.engine.counter_read_all("I.each")) == {(7, 8)}
    assert held.engine.register_read_all("I.last") == [9] * ENTRIES


def test_each_idle_timeout_is_reported_once() -> None:
    held = Held("exact")
    e, rng = held.engine, random.Random(1)
    timeouts = {held.add(i): rng.choice([0, 1_000, 2_000, 5_000]) for i in range(1_000)}
    numbers = {handle: number for number, handle in enumerate(timeouts)}
    for handle, timeout_ns in timeouts.items():
        e.table_set_timeout("I.t", handle, timeout_ns)
    told, hit_ns = dict.fromkeys(timeouts, 0), dict.fromkeys(timeouts, 0)
    for now_ns in range(0, 20_000, 700):
        for handle in rng.sample(list(timeouts), 20):
            e.process(1, numbers[handle].to_bytes(4, "big") + bytes(2), now_ns)
            hit_ns[handle] = now_ns
        passed = {h: (now_ns - hit_ns[h]) // t if t else 0 for h, t in timeouts.items()}
        expected = {h: count for h, count in passed.items() if count > told[h]}
        assert {x.handle: count for x, count in e.table_idle("I.t", now_ns)} == expected
        told = passed
    for handle in timeouts:
        e.table_set_timeout("I.t", handle, 0)
    assert not e.table_has_timeouts("I.t")


def test_counts_and_hits_of_changed_entries_go_on() -> None:
    held = Held("exact")
    e = held.engine
    changed, left = held.add(1), held.add(2)
    held.sent(1), held.sent(2)
    with e.batch():
        e.table_modify("I.t", changed, "I.go", [5])
        e.direct_counter_write("I.t", left, 100, 1000)
        held.sent(1)  # counted while the batch is prepared
    held.sent(1)
    found = {entry.handle: entry for entry in e.table_entries("I.t", time_ns=3_000)}
    assert found[changed].count == (3, 18)
    assert found[changed].idle_ns == 2_000
    assert found[left].count == (100, 1000)


def test_one_change_in_a_batch_of_many_entries_is_looked_for_in_slices() -> None:
    held = Held("exact")
    e = held.engine
    handle = held.add(0)
    e.holds(forget=True)
    with e.batch():
        for number in range(1, ENTRIES):
            held.add(number)
        e.table_modify("I.t", handle, "I.go", [2])
    commit = e.holds()["commit"]
    assert commit["count"] > 2 * ENTRIES // SLICE_WORDS
    assert commit["max_words"] <= SLICE_WORDS
    assert held.sent(0) == 2


def test_a_batch_makes_all_its_changes_in_their_order() -> None:
    e = engine(ingress_locals="register<bit<32>>(4) r;")
    with e.batch():
        for index, value in ((0, 1), (1, 2), (0, 3), (2, 4)):
            e.register_write("I.r", index, value)
        assert e.register_read_all("I.r") == [0, 0, 0, 0]
    assert e.register_read_all("I.r") == [3, 2, 4, 0]


def test_a_change_happens_where_it_is_meant_once_and_owns_its_memory() -> None:
    sources = [C_FOLDER / "lock.c", C_FOLDER / "change.c", Path(__file__).parent / "changes.c"]
    path = build.program(sources, include=(wire.C_FOLDER, C_FOLDER), sanitize=True)
    done = subprocess.run([path], capture_output=True, text=True, check=False)
    before, in_force, after, taken_back, words = done.stdout.splitlines()
    assert before == "011211111110 second"
    assert in_force == "045444444410 staged"
    assert after == taken_back == "345444444410 staged"
    assert int(words) == 2 + 1 + 1 + 1  # nine bytes, one byte, and two pointers
    assert done.returncode == 0, done.stderr


def test_a_batch_that_fails_leaves_no_trace() -> None:
    held = Held("lpm")
    e = held.engine
    handles = [held.add(i) for i in range(100)]

    def fail() -> None:
        with e.batch():
            for number in range(100, ENTRIES):
                held.add(number)
            e.table_modify("I.t", handles[0], "I.go", [5])
            e.table_delete("I.t", handles[1])
            e.table_set_default("I.t", "I.go", [6])
            raise InterruptedError

    for _ in range(3):  # each round needs the memory that the failed writes of the last one freed
        before = e.table_entries("I.t")
        with pytest.raises(InterruptedError):
            fail()
        assert e.table_entries("I.t") == before
        assert [held.sent(i) for i in (0, 1, 100)] == [1, 1, 0]
    assert e.table_default("I.t") == ("NoAction", ())
    for number in range(100, ENTRIES):
        held.add(number)
    assert held.sent(ENTRIES - 1) == 1


def test_an_aborted_batch_leaves_the_action_profile_unchanged() -> None:
    e = engine(
        ingress_locals="""
            action go(bit<9> port) { std.egress_spec = port; }
            action_selector(HashAlgorithm.crc16, 32w2, 32w16) profile;
            table t { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { go; NoAction; }
                      implementation = profile; }""",
        ingress="t.apply();",
    )
    [profile] = e.program.profiles

    def add_and_delete() -> tuple[int, int]:
        member, group = e.member_add(profile, "I.go", [1]), e.group_add(profile)
        e.member_delete(profile, member)
        e.group_delete(profile, group)
        return member, group

    def fail() -> None:
        with e.batch():
            assert add_and_delete() == (0, 0)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    with pytest.raises(NotFound):
        e.member_modify(profile, 0, "I.go", [2])
    with pytest.raises(NotFound):
        e.group_set_members(profile, 0, [])
    with e.batch():
        add_and_delete()
    assert [e.member_add(profile, "I.go", [port]) for port in (1, 2)] == [0, 1]
    assert e.group_add(profile) == 0


def test_every_slot_that_a_failed_batch_took_is_free_again() -> None:
    held = Held("exact")
    for _ in range(3):
        slots = []
        with pytest.raises(InterruptedError), held.engine.batch():  # noqa: PT012
            slots += [held.add(number) & 0xFFFFFFFF for number in range(4)]
            raise InterruptedError
        assert sorted(slots) == [0, 1, 2, 3]


def test_changes_of_a_batch_remain_when_the_table_grows() -> None:
    held = Held("exact")
    first, second = held.add(0), held.add(1)
    with held.engine.batch():
        held.engine.table_modify("I.t", first, "I.go", [5])
        for number in range(2, 20):
            held.add(number)
        held.engine.table_modify("I.t", second, "I.go", [6])
    assert [held.sent(number) for number in (0, 1, 2, 19)] == [5, 6, 1, 1]


def test_a_batch_keeps_its_entries_when_it_makes_a_ternary_tables_sets_grow() -> None:
    held = Held("ternary")
    held.add(0)
    with held.engine.batch():
        for number in range(1, 400):
            held.add(number)
    assert [held.sent(number) for number in (0, 1, 399)] == [1, 1, 1]
