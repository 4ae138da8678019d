"""An update that fails changes nothing, and no packet sees a part of an atomic batch."""

from collections.abc import Callable
from typing import Any

import pytest
from finsy.proto import p4r
from harness import compiled, config, delete, entry, exact, insert, lpm, modify, perform, ternary
from test_extras import digest, group, known_source, member, meter, one_shot, to, value_set
from test_state import clone, counter, multicast, register

from minip4.engine.engine import Engine
from minip4.engine.errors import EngineError
from minip4.runtime.service.pipeline import Pipeline

EACH, ATOMIC = p4r.WriteRequest.CONTINUE_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC
ATOMICITIES = pytest.mark.parametrize("atomicity", [EACH, ATOMIC], ids=["each", "atomic"])
# These calls need room or memory, and can therefore fail. All others overwrite existing data.
CHANGES = ("table_add", "table_modify", "member_add", "group_add", "group_set_members",
           "multicast_set", "mirror_set", "value_set_set")  # fmt: skip


class FailingEngine(Engine):
    """An engine that runs out of memory at the change `fail_at`; changes are counted from 0."""

    fail_at = -1
    changes = 0

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if not name.startswith(CHANGES):
            return value

        def change(*arguments: Any) -> Any:
            number, self.changes = self.changes, self.changes + 1
            if number == self.fail_at:
                raise EngineError("out of memory")
            return value(*arguments)

        return change


def pipeline(program: str, *before: p4r.Update) -> tuple[FailingEngine, Pipeline]:
    engine = FailingEngine(compiled(program).bmv2_json)
    made = Pipeline(config(program), engine)
    assert not any(perform(made, before, EACH))
    return engine, made


def state(of: Pipeline) -> list[p4r.Entity]:
    """Return all entities that a controller can read."""
    asked = [p4r.Entity() for _ in range(10)]
    asked[0].table_entry.counter_data.SetInParent()
    asked[0].table_entry.meter_config.SetInParent()
    asked[0].table_entry.meter_counter_data.SetInParent()
    asked[1].table_entry.is_default_action = True
    asked[2].action_profile_member.SetInParent()
    asked[3].action_profile_group.SetInParent()
    asked[4].counter_entry.SetInParent()
    asked[5].meter_entry.counter_data.SetInParent()
    asked[6].register_entry.SetInParent()
    asked[7].packet_replication_engine_entry.SetInParent()
    asked[8].value_set_entry.SetInParent()
    asked[9].digest_entry.SetInParent()
    return sorted((e for entity in asked for e in of.read(entity) if e is not None), key=str)


MAC = exact(bytes.fromhex("020000000002"))
ROUTE = {"hdr.ipv4.destination": lpm(b"\x0a\0\0\0", 8)}
COUNTED = p4r.CounterData(packet_count=4, byte_count=400)
SLOW = p4r.MeterConfig(cir=1, cburst=1, pir=2, pburst=2)
FAST = p4r.MeterConfig(cir=9, cburst=9, pir=9, pburst=9)


def switching(port: int) -> p4r.Entity:
    return entry(
        "switching", {"hdr.ethernet.destination": MAC}, ("forward", {"port": bytes((port,))})
    )


def route(port: int, **fields: Any) -> p4r.Entity:
    return entry("route", ROUTE, ("forward", {"port": bytes((port,))}), **fields)


def default(port: int | None) -> p4r.Entity:
    call = None if port is None else ("forward", {"port": bytes((port,))})
    return entry("switching", {}, call, is_default_action=True)


def chosen(*ports: int) -> p4r.Entity:
    return to("balanced", action_profile_action_set=one_shot(*ports))


# name -> program, initial state, update
UPDATES = {
    "insert": ("control", [], insert(route(2, counter_data=COUNTED))),
    "modify": ("control", [insert(switching(1))], modify(switching(2))),
    "modify and count": (
        "control", [insert(route(1, counter_data=COUNTED, metadata=b"old"))],
        modify(route(2, counter_data=p4r.CounterData(packet_count=9), metadata=b"new")),
    ),
    "delete": ("control", [insert(route(1, counter_data=COUNTED))], delete(route(1))),
    "default": ("control", [modify(default(1))], modify(default(2))),
    "default back": ("control", [modify(default(1))], modify(default(None))),
    "counters": ("control", [modify(counter("port_counter", 3, COUNTED))],
                 modify(counter("port_counter", None, p4r.CounterData(packet_count=1)))),
    "registers": ("control", [modify(register("wide", 3, b"\7"))],
                  modify(register("wide", None, b"\1"))),
    "new group": ("control", [], insert(multicast(3, (1, 1)))),
    "group": ("control", [insert(multicast(3, (1, 1)))], modify(multicast(3, (2, 1), (3, 1)))),
    "group away": ("control", [insert(multicast(3, (1, 1)))], delete(multicast(3))),
    "session": ("control", [insert(clone(3, (1, 1)))], modify(clone(3, (2, 1)))),
    "member": ("extras", [insert(member(1, 11))], modify(member(1, 12))),
    "new member": ("extras", [], insert(member(1, 11))),
    "member away": ("extras", [insert(member(1, 11))], delete(member(1, 11))),
    "new balanced group": ("extras", [insert(member(1, 11))], insert(group(7, (1, 1)))),
    "balanced group": (
        "extras", [insert(member(1, 11)), insert(group(7, (1, 1)))], modify(group(7, (1, 3))),
    ),
    "balanced group away": (
        "extras", [insert(member(1, 11)), insert(group(7, (1, 1)))], delete(group(7)),
    ),
    "new action set": ("extras", [], insert(chosen(1, 2, 3))),
    "action set": ("extras", [insert(chosen(1, 2))], modify(chosen(3, 4, 5))),
    "action set away": ("extras", [insert(chosen(1, 2))], delete(chosen(1, 2))),
    "action set to group": (
        "extras", [insert(member(1, 11)), insert(group(7, (1, 1))), insert(chosen(1, 2))],
        modify(to("balanced", action_profile_group_id=7)),
    ),
    "meters": ("extras", [modify(meter(2, SLOW))], modify(meter(None, FAST))),
    "entry with meter": ("extras", [insert(known_source(meter_config=SLOW))],
                         modify(known_source(meter_config=FAST, idle_timeout_ns=5))),
    "metered away": ("extras", [insert(known_source(meter_config=SLOW))], delete(known_source())),
    "value set": ("extras", [modify(value_set(1, 2))], modify(value_set(3))),
    "digest": ("extras", [], insert(digest(max_list_size=1))),
}  # fmt: skip


@ATOMICITIES
@pytest.mark.parametrize(("program", "before", "update"), UPDATES.values(), ids=UPDATES.keys())
def test_an_update_that_fails_at_any_change(
    program: str, before: list[p4r.Update], update: p4r.Update, atomicity: int
) -> None:
    engine, pipe = pipeline(program, *before)
    was = state(pipe)
    engine.fail_at = engine.changes = 0
    while any(perform(pipe, [update], atomicity)):
        assert state(pipe) == was, f"change {engine.fail_at} failed"
        engine.fail_at += 1
        engine.changes = 0
    assert engine.fail_at == engine.changes, "no change was left out"
    assert state(pipe) != was


@pytest.mark.parametrize("failing", range(7))
def test_a_batch_that_fails_at_any_change(failing: int) -> None:
    """If any of the seven changes of an atomic batch fails, the state is the same as before.

    The switch then undoes the changes before it, in the right order.
    """
    engine, pipe = pipeline(
        "extras", insert(member(1, 11)), insert(group(7, (1, 1))), modify(meter(1, SLOW))
    )
    batch = [
        insert(member(2, 12)), modify(group(7, (1, 1), (2, 1))), insert(chosen(1)),
        modify(to("balanced", action_profile_group_id=7)), modify(meter(1, FAST)),
    ]  # fmt: skip
    was = state(pipe)
    engine.changes, engine.fail_at = 0, failing
    assert all(perform(pipe, batch, ATOMIC))
    assert state(pipe) == was
    engine.fail_at = -1
    assert not any(perform(pipe, batch, ATOMIC))


def test_a_timeout_set_in_a_batch_that_fails_is_taken_back() -> None:
    _, pipe = pipeline("extras", insert(known_source()))
    missing = delete(member(9, 1))
    assert any(perform(pipe, [modify(known_source(idle_timeout_ns=5)), missing], ATOMIC))
    assert not pipe.idle_timeouts.active


def test_failed_action_sets_leave_no_members_behind() -> None:
    engine, pipe = pipeline("extras")
    for _ in range(40):  # 40 members would exceed the limit of 32
        engine.changes, engine.fail_at = 0, 3
        assert any(perform(pipe, [insert(chosen(1, 2, 3))], EACH))
    engine.fail_at = -1
    for number in range(10):
        target = chosen(1, 2, 3)
        target.table_entry.match[0].exact.value = bytes((2, number))
        assert not any(perform(pipe, [insert(target)], EACH))


IP = bytes.fromhex("020000000002 020000000001 0800"
                   "4500 001c 0000 0000 4011 0000 0a000001 0a000002") + bytes(8)  # fmt: skip
ACL = {"hdr.ipv4.source": ternary(b"\x0a\0\0\1", b"\xff\xff\xff\xff"),
       "standard_metadata.ingress_port": exact(b"\1")}  # fmt: skip
NO_DROP_YET = entry("acl", ACL, ("drop", {}), priority=1)


@pytest.mark.parametrize("fails", [False, True], ids=["done", "taken back"])
def test_no_packet_sees_a_part_of_an_atomic_batch(fails: bool) -> None:
    """While a batch is prepared, packets see the old state. Later packets see the new state.

    If the batch fails, later packets see the old state.
    """
    engine, pipe = pipeline("control", insert(route(2)))
    calls = ("table_modify", "table_delete", "table_add", "register_write", "multicast_set")
    seen = []

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_let_a_packet_come(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            seen.append(engine.process(1, IP, 1000)[0][0])
            return result

        return call_and_let_a_packet_come

    for name in calls:
        setattr(engine, name, watched(getattr(engine, name)))
    last = route(9) if fails else NO_DROP_YET
    batch = [modify(route(3)), delete(route(3)), insert(route(4)), modify(route(5)),
             modify(register("last_seen", None, b"\1")), insert(multicast(3, (2, 1))),
             insert(last)]  # fmt: skip
    errors = perform(pipe, batch, ATOMIC)
    assert any(errors) == fails, errors
    assert seen == [2] * (6 if fails else 7)
    assert [port for port, _ in engine.process(1, IP, 1000)] == ([2] if fails else [])
    # a read returns the state that packets see
    table = p4r.Entity(table_entry=p4r.TableEntry(table_id=route(2).table_entry.table_id))
    [read] = [entity for entity in pipe.read(table) if entity is not None]
    assert read == route(2 if fails else 5)
