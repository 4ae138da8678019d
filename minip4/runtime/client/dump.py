"""Text dump of the state of a running switch, read over P4Runtime."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import grpc
from finsy.proto import p4d, p4r, p4r_grpc

from minip4.errors import Minip4Error
from minip4.runtime.p4info.match import key_text
from minip4.runtime.p4info.schema import Action, Schema, Table

Read = Callable[[p4r.Entity], Iterator[p4r.Entity]]


def describe(
    channel: grpc.Channel, device_id: int, names: Sequence[str], deadline_s: float
) -> Iterator[str]:
    """Yield lines about the tables, counters and registers with these names.

    If `names` is empty, yields lines about all of them. Raises Minip4Error.
    """
    stub = p4r_grpc.P4RuntimeStub(channel)
    get = p4r.GetForwardingPipelineConfigRequest(
        device_id=device_id,
        response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE,
    )
    schema = Schema(stub.GetForwardingPipelineConfig(get, timeout=deadline_s).config.p4info)

    def read(entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = p4r.ReadRequest(device_id=device_id, entities=[entity])
        for response in stub.Read(request, timeout=deadline_s):
            yield from response.entities

    parts: list[tuple[str, Callable[[], Iterator[str]]]] = []
    for table in schema.tables.values():
        parts.append((table.name, partial(_table, schema, table, read)))
    for counter in schema.counters.values():
        parts.append((counter.preamble.name, partial(_counter, counter, read)))
    for register in schema.registers.values():
        parts.append((register.preamble.name, partial(_register, register, read)))
    _check_names(names, [name for name, _ in parts])
    for name, lines in parts:
        if not names or any(_means(given, name) for given in names):
            yield from lines()


def _table(schema: Schema, table: Table, read: Read) -> Iterator[str]:
    request = p4r.TableEntry(table_id=table.id)
    if table.direct_counter is not None:
        request.counter_data.SetInParent()
    entries = [e.table_entry for e in read(p4r.Entity(table_entry=request))]
    yield f"table {table.name}: {len(entries)} of {table.size} entries"
    for entry in entries:
        count = f"  {_count(entry.counter_data)}" if entry.HasField("counter_data") else ""
        priority = f"priority {entry.priority}: " if entry.priority else ""
        const = " (const)" if entry.is_const else ""
        key, action = key_text(table.fields, entry.match), _action(schema, entry.action)
        yield f"  {priority}{key} -> {action}{const}{count}"
    default = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id, is_default_action=True))
    for entity in read(default):
        yield f"  default -> {_action(schema, entity.table_entry.action)}"


def _counter(counter: Any, read: Read) -> Iterator[str]:
    request = p4r.CounterEntry(counter_id=counter.preamble.id)
    cells = [e.counter_entry for e in read(p4r.Entity(counter_entry=request))]
    counted = [c for c in cells if c.data.packet_count or c.data.byte_count]
    yield f"counter {counter.preamble.name}: {len(counted)} of {len(cells)} cells are not zero"
    for cell in counted:
        yield f"  [{cell.index.index}] {_count(cell.data)}"


def _register(register: Any, read: Read) -> Iterator[str]:
    request = p4r.RegisterEntry(register_id=register.preamble.id)
    cells = [e.register_entry for e in read(p4r.Entity(register_entry=request))]
    written = [(c.index.index, _number(c.data)) for c in cells if _number(c.data)]
    yield f"register {register.preamble.name}: {len(written)} of {len(cells)} cells are not zero"
    for index, value in written:
        yield f"  [{index}] {value} ({value:#x})"


def _action(schema: Schema, message: p4r.TableAction) -> str:
    kind = message.WhichOneof("type")
    if kind == "action":
        return _call(schema.action(message.action.action_id), message.action)
    if kind == "action_profile_member_id":
        return f"member {message.action_profile_member_id}"
    if kind == "action_profile_group_id":
        return f"group {message.action_profile_group_id}"
    actions = message.action_profile_action_set.action_profile_actions
    calls = (f"{a.weight} x {_call(schema.action(a.action.action_id), a.action)}" for a in actions)
    return "one of " + ", ".join(calls)


def _call(action: Action, message: p4r.Action) -> str:
    known = {param.id: param for param in action.params}
    given = ((known[p.param_id], p.value) for p in message.params)
    params = (f"{param.name}={param.values.text(value)}" for param, value in given)
    return f"{action.name}({', '.join(params)})"


def _count(data: p4r.CounterData) -> str:
    return f"{data.packet_count} packets, {data.byte_count} bytes"


def _number(data: p4d.P4Data) -> int:
    kind = data.WhichOneof("data")
    value: bytes | bool = getattr(data, kind) if kind else b""
    return int(value) if isinstance(value, bool) else int.from_bytes(value, "big")


def _means(given: str, name: str) -> bool:
    return name == given or name.endswith("." + given)


def _check_names(given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if not any(_means(name, k) for k in known):
            raise Minip4Error(f"{name}: no such table, counter or register; expected one of: "
                              + ", ".join(known))  # fmt: skip
