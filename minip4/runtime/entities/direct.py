"""Direct counters: the counters of table entries (spec 9.3.2)."""

from collections.abc import Iterator

from finsy.proto import p4r

from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.rates import (
    Operation,
    Undo,
    check_count,
    check_modify,
    counter_data,
    nothing,
)
from minip4.runtime.entities.tables import Tables
from minip4.runtime.p4info.schema import Schema, Table
from minip4.runtime.status import engine_calls, invalid


class DirectCounters:
    """The direct counters of one pipeline."""

    def __init__(self, schema: Schema, dataplane: Dataplane, tables: Tables) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._tables = tables

    def prepare(self, kind: int, message: p4r.DirectCounterEntry) -> Operation:
        """Check an update of the counter of an entry and return the operation."""
        table = self._table(message.table_entry.table_id)
        what = f"direct counter of table {table.name}"
        check_modify(what, kind)
        entry, data = message.table_entry, message.data
        if entry.is_default_action:
            raise invalid(f"{what}: the default action has no counter")
        check_count(what, data)

        def write() -> Undo:
            handle = self._tables.find(table, entry)
            with engine_calls(what):
                self._dataplane.direct_counter_write(
                    table.name, handle, data.packet_count, data.byte_count
                )
            return nothing

        return write

    def read(self, message: p4r.DirectCounterEntry) -> Iterator[p4r.Entity | None]:
        """Yield the counters of one entry, or of all entries of a table; id 0 selects all tables.

        Also yields None, so that the caller can let other tasks run; these tasks must not write.
        """
        if message.table_entry.table_id:
            tables = [self._table(message.table_entry.table_id)]
        else:
            tables = [t for t in self._schema.tables.values() if t.direct_counter is not None]
        for table in tables:
            yield from self._read_table(table, message)

    def _read_table(
        self, table: Table, message: p4r.DirectCounterEntry
    ) -> Iterator[p4r.Entity | None]:
        assert table.direct_counter is not None
        entities = []
        yield None
        for entry in self._tables.select(table, message.table_entry):
            entity = p4r.Entity()
            place = self._tables.encode_place(table, entry)
            entity.direct_counter_entry.table_entry.CopyFrom(place)
            data = counter_data(table.direct_counter.spec, *entry.count)
            entity.direct_counter_entry.data.CopyFrom(data)
            entities.append(entity)
            yield None
        yield from entities

    def _table(self, table_id: int) -> Table:
        table = self._schema.table(table_id)
        if table.direct_counter is None:
            raise invalid(f"table {table.name} has no direct counter")
        return table
