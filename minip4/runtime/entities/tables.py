"""Table entries, default actions and direct resources: TableEntry (spec 9.1)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from finsy.proto import p4r

from minip4.engine.keys import Entry, MatchKey
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.rates import (
    DELETE,
    INSERT,
    MODIFY,
    ColourCounts,
    Operation,
    Rates,
    Undo,
    counter_data,
    decode_counts,
    decode_rates,
    encode_counts,
    encode_rates,
)
from minip4.runtime.entities.targets import Place, Target, Targets, entry_text
from minip4.runtime.p4info.match import decode_action, decode_key, encode_action, encode_key
from minip4.runtime.p4info.schema import Schema, Table
from minip4.runtime.status import denied, engine_calls, invalid, not_found, unimplemented


@dataclass(frozen=True, slots=True)
class _Notes:
    """Data that the client stores with an entry and that the engine does not store."""

    controller_metadata: int
    metadata: bytes
    idle_timeout_ns: int


@dataclass(frozen=True, slots=True)
class _Direct:
    """The direct resources of an entry.

    A field is None if the table has no such resource, or if an update does not change it.
    """

    count: tuple[int, int] | None
    rates: Rates | None
    colours: ColourCounts | None

    @classmethod
    def of(cls, table: Table, message: p4r.TableEntry) -> _Direct:
        """Return the direct resources that an update sets."""
        what = f"table {table.name}"
        count = rates = colours = None
        if message.HasField("counter_data"):
            if table.direct_counter is None:
                raise invalid(f"{what}: counter_data given, but the table has no direct counter")
            count = (message.counter_data.packet_count, message.counter_data.byte_count)
        if message.HasField("meter_config"):
            if table.direct_meter is None:
                raise invalid(f"{what}: meter_config given, but the table has no direct meter")
            rates = decode_rates(what, message.meter_config)
        if message.HasField("meter_counter_data"):
            if table.direct_meter is None:
                raise invalid(
                    f"{what}: meter_counter_data given, but the table has no direct meter"
                )
            colours = decode_counts(what, message.meter_counter_data)
        return cls(count, rates, colours)


class Tables:
    """The tables of one pipeline: writes and reads of entries."""

    def __init__(self, schema: Schema, dataplane: Dataplane, targets: Targets) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._targets = targets
        self._notes: dict[Place, _Notes] = {}
        self._changed_defaults: set[int] = set()  # tables whose default action a client set
        self._ageing = [table for table in schema.tables.values() if table.idle_timeout]

    def prepare(self, kind: int, message: p4r.TableEntry) -> Operation:
        """Check an update and return the operation."""
        table = self._schema.table(message.table_id)
        what = f"table {table.name}"
        if message.HasField("time_since_last_hit"):
            raise invalid(f"{what}: time_since_last_hit is read-only")
        if message.is_default_action:
            return self._prepare_default(kind, table, message)
        if table.is_const:
            raise denied(f"{what}: its entries are const in the program")
        key = self.decode_key(table, message)
        place = (table.name, key, message.priority)
        if kind == DELETE:
            return lambda: self._delete(table, place)
        target = self._targets.decode(table, message.action)
        notes = _Notes(message.controller_metadata, message.metadata, message.idle_timeout_ns)
        direct = _Direct.of(table, message)
        if notes.idle_timeout_ns < 0:
            raise invalid(f"{what}: idle timeout of {notes.idle_timeout_ns} ns, expected 0 or more")
        if notes.idle_timeout_ns and not table.idle_timeout:
            raise invalid(f"{what}: the program declares the table without support_timeout")
        if kind == INSERT:
            return lambda: self._insert(table, place, target, notes, direct)
        return lambda: self._modify(table, place, target, notes, direct)

    def read(self, message: p4r.TableEntry) -> Iterator[p4r.Entity | None]:
        """Yield the entries that a read request selects; table id 0 selects all tables.

        Also yields None, so that the caller can let other tasks run; these tasks must not write.
        """
        if message.table_id == 0:
            tables = list(self._schema.tables.values())
            if message.match:
                raise invalid("match fields given without a table id")
        else:
            tables = [self._schema.table(message.table_id)]
        for table in tables:
            if message.is_default_action:
                yield self._read_default(table)
            else:
                yield from self._read_table(table, message)

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate the entries and default actions in an empty pipeline."""
        for table in self._schema.tables.values():
            if table.id in self._changed_defaults:
                yield p4r.Update(type=MODIFY, entity=self._read_default(table))
            for entity in self._read_table(table, p4r.TableEntry()):
                if entity is not None and not entity.table_entry.is_const:
                    yield p4r.Update(type=INSERT, entity=entity)

    @property
    def now_ns(self) -> int:
        """Return the current time of the data plane."""
        return self._dataplane.clock()

    def select(self, table: Table, message: p4r.TableEntry) -> list[Entry]:
        """Return the entries with the message's key, or all entries if the message has no key."""
        with engine_calls(f"table {table.name}"):
            now_ns = self._dataplane.clock()
            if message.match:
                key = self.decode_key(table, message)
                handle = self._dataplane.table_find(table.name, key, message.priority)
                if handle is None:
                    return []
                return [self._dataplane.table_entry(table.name, handle, time_ns=now_ns)]
            entries = self._dataplane.table_entries(table.name, time_ns=now_ns)
        if message.priority:
            entries = [e for e in entries if e.priority == message.priority]
        if message.controller_metadata:
            wanted = message.controller_metadata
            entries = [e for e in entries if self._metadata(table, e) == wanted]
        return entries

    def find(self, table: Table, message: p4r.TableEntry) -> int:
        """Return the handle of the entry with the key in a message."""
        key = self.decode_key(table, message)
        return self._handle(table, (table.name, key, message.priority))

    @property
    def has_timeouts(self) -> bool:
        """Return whether any entry has an idle timeout."""
        return any(self._dataplane.table_has_timeouts(table.name) for table in self._ageing)

    def idle(self) -> Iterator[p4r.TableEntry]:
        """Yield each entry whose idle timeout has expired since the last call."""
        for table in self._ageing:
            for entry, _ in self._dataplane.table_idle(table.name, self.now_ns):
                yield self._encode(table, entry, p4r.TableEntry())

    def decode_key(self, table: Table, message: p4r.TableEntry) -> tuple[MatchKey, ...]:
        what = f"table {table.name}"
        if table.has_priority and message.priority <= 0:
            raise invalid(
                f"{what}: priority {message.priority}, expected 1 or more "
                "(ternary, range and optional fields need one; the largest wins)"
            )
        if not table.has_priority and message.priority:
            raise invalid(
                f"{what}: priority {message.priority}, expected 0, because no "
                f"field is ternary, range or optional"
            )
        return decode_key(what, table.fields, message.match)

    def encode_place(self, table: Table, entry: Entry) -> p4r.TableEntry:
        """Return a TableEntry message with the table, key and priority."""
        message = p4r.TableEntry(table_id=table.id)
        if table.has_priority:
            message.priority = entry.priority
        message.match.extend(encode_key(table.fields, entry.key))
        return message

    def _prepare_default(self, kind: int, table: Table, message: p4r.TableEntry) -> Operation:
        what = f"table {table.name}, default action"
        if kind != MODIFY:
            raise invalid(f"{what}: it can only be modified (MODIFY without an action resets it)")
        if message.match or message.priority or message.idle_timeout_ns:
            raise invalid(f"{what}: must not have match fields, priority or idle timeout")
        if table.const_default_action:
            raise denied(f"{what}: const in the program")
        if not message.HasField("action"):
            return lambda: self._set_default(table, None)
        if message.action.WhichOneof("type") != "action":
            raise unimplemented(f"{what}: members and groups are not supported; use an action")
        action, params = decode_action(what, table.default_actions, message.action.action)
        return lambda: self._set_default(table, (action.name, params))

    def _insert(
        self, table: Table, place: Place, target: Target, notes: _Notes, direct: _Direct
    ) -> Undo:
        undo = self._kept(table, place)
        handle = self._targets.add(table, place, target)
        self._note(place, notes)
        if notes.idle_timeout_ns:
            self._dataplane.table_set_timeout(table.name, handle, notes.idle_timeout_ns)
        self._set_direct(table, handle, direct)
        return undo

    def _modify(
        self, table: Table, place: Place, target: Target, notes: _Notes, direct: _Direct
    ) -> Undo:
        handle, undo = self._handle(table, place), self._kept(table, place)
        old_ns = self._notes.get(place, _NO_NOTES).idle_timeout_ns
        self._targets.replace(table, place, handle, target)
        self._note(place, notes)
        self._set_direct(table, handle, direct)
        if old_ns == notes.idle_timeout_ns:
            return undo
        self._dataplane.table_set_timeout(table.name, handle, notes.idle_timeout_ns)

        def undo_timeout() -> None:
            self._dataplane.table_set_timeout(table.name, handle, old_ns)
            undo()

        return undo_timeout

    def _delete(self, table: Table, place: Place) -> Undo:
        handle, undo = self._handle(table, place), self._kept(table, place)
        self._targets.remove(table, place, handle)
        self._note(place, None)
        return undo

    def _kept(self, table: Table, place: Place) -> Undo:
        """Return a function that restores the stored data of an entry."""
        notes, undo = self._notes.get(place), self._targets.kept(table, place)

        def put_back() -> None:
            self._note(place, notes)
            undo()

        return put_back

    def _set_direct(self, table: Table, handle: int, direct: _Direct) -> None:
        if direct.count is not None:
            self._dataplane.direct_counter_write(table.name, handle, *direct.count)
        if direct.rates is not None:
            self._dataplane.direct_meter_set(table.name, handle, direct.rates)
        if direct.colours is not None:
            self._dataplane.direct_meter_set_counts(table.name, handle, direct.colours)

    def _set_default(self, table: Table, call: tuple[str, Sequence[int]] | None) -> Undo:
        before = set(self._changed_defaults)
        with engine_calls(f"table {table.name}, default action"):
            if call is None:
                self._dataplane.table_reset_default(table.name)
                self._changed_defaults.discard(table.id)
            else:
                self._dataplane.table_set_default(table.name, *call)
                self._changed_defaults.add(table.id)

        def undo() -> None:
            self._changed_defaults = before

        return undo

    def _handle(self, table: Table, place: Place) -> int:
        handle = self._dataplane.table_find(*place)
        if handle is None:
            raise not_found(f"{entry_text(table, place)}: no such entry")
        return handle

    def _note(self, place: Place, notes: _Notes | None) -> None:
        if notes is None or notes == _NO_NOTES:
            self._notes.pop(place, None)
        else:
            self._notes[place] = notes

    def _metadata(self, table: Table, entry: Entry) -> int:
        notes = self._notes.get((table.name, entry.key, entry.priority), _NO_NOTES)
        return notes.controller_metadata

    def _read_default(self, table: Table) -> p4r.Entity:
        message = p4r.TableEntry(table_id=table.id, is_default_action=True)
        name, params = self._dataplane.table_default(table.name)
        for action in table.default_actions.values():
            if action.name == name:
                message.action.action.CopyFrom(encode_action(action, params))
        return p4r.Entity(table_entry=message)

    def _read_table(self, table: Table, message: p4r.TableEntry) -> Iterator[p4r.Entity | None]:
        entities = []
        yield None
        for entry in self.select(table, message):
            entities.append(p4r.Entity(table_entry=self._encode(table, entry, message)))
            yield None
        yield from entities

    def _encode(self, table: Table, entry: Entry, request: p4r.TableEntry) -> p4r.TableEntry:
        message = self.encode_place(table, entry)
        place = (table.name, entry.key, entry.priority)
        message.is_const = entry.is_const
        message.action.CopyFrom(self._targets.encode(table, place, entry))
        notes = self._notes.get(place, _NO_NOTES)
        message.controller_metadata = notes.controller_metadata
        message.metadata = notes.metadata
        message.idle_timeout_ns = notes.idle_timeout_ns
        if request.HasField("time_since_last_hit"):
            message.time_since_last_hit.elapsed_ns = entry.idle_ns
        if request.HasField("counter_data") and table.direct_counter is not None:
            data = counter_data(table.direct_counter.spec, *entry.count)
            message.counter_data.CopyFrom(data)
        if request.HasField("meter_config") and table.direct_meter is not None:
            rates = self._dataplane.direct_meter_get(table.name, entry.handle)
            if rates is not None:
                message.meter_config.CopyFrom(encode_rates(rates))
        if request.HasField("meter_counter_data") and table.direct_meter is not None:
            colours = self._dataplane.direct_meter_counts(table.name, entry.handle)
            message.meter_counter_data.CopyFrom(encode_counts(colours))
        return message


_NO_NOTES = _Notes(0, b"", 0)


# maximum number of entries per notification; its size must stay well below a client's limit of
# 4 MB
MOST_ENTRIES = 500


class IdleTimeouts:
    """Reports the idle entries of one pipeline.

    An entry is reported each time that its idle timeout expires.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def active(self) -> bool:
        """Return whether any entry has an idle timeout."""
        return self._tables.has_timeouts

    def collect(self) -> Iterator[p4r.StreamMessageResponse]:
        """Yield the notifications since the last call."""
        idle = self._tables.idle()
        while entries := list(itertools.islice(idle, MOST_ENTRIES)):
            response = p4r.StreamMessageResponse()
            response.idle_timeout_notification.table_entry.extend(entries)
            response.idle_timeout_notification.timestamp = self._tables.now_ns
            yield response
