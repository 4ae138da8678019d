"""Meters, indirect and direct: P4Runtime's MeterEntry and DirectMeterEntry (spec 9.4)."""

from collections.abc import Iterator

from finsy.proto import p4r

from minip4.engine.engine import Engine
from minip4.runtime.arrays import indices
from minip4.runtime.rates import Rates, decode_rates, encode_rates
from minip4.runtime.schema import Schema, Table
from minip4.runtime.status import engine_calls, invalid, unimplemented
from minip4.runtime.tables import Tables
from minip4.runtime.updates import MODIFY, Operation, Undo


def check_write(what: str, kind: int, message: p4r.MeterEntry | p4r.DirectMeterEntry) -> None:
    if kind != MODIFY:
        raise invalid(f"{what}: it can only be modified")
    if message.HasField("counter_data"):
        raise unimplemented(f"{what}: meter counters are not supported")


class Meters:
    """The indirect meters of one pipeline."""

    def __init__(self, schema: Schema, engine: Engine) -> None:
        self._schema = schema
        self._engine = engine

    def prepare(self, kind: int, message: p4r.MeterEntry) -> Operation:
        """Check a write (without an index: of every cell; without a config: back to green)."""
        meter = self._schema.meter(message.meter_id)
        name = meter.preamble.name
        what = f"meter {name}"
        check_write(what, kind, message)
        rates = decode_rates(what, message.config) if message.HasField("config") else None
        cells = indices(what, message, meter.size)

        def write() -> Undo:
            old = [(i, self._engine.meter_get_rates(name, i)) for i in cells]
            with engine_calls(what):
                for i in cells:
                    self._engine.meter_set_rates(name, i, rates)

            def undo() -> None:
                for cell in old:
                    self._engine.meter_set_rates(name, *cell)

            return undo

        return write

    def read(self, message: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        """Yield one cell, one meter's cells, or (id 0) those of every meter."""
        if message.meter_id:
            meters = [self._schema.meter(message.meter_id)]
        else:
            meters = list(self._schema.meters.values())
        for meter in meters:
            name = meter.preamble.name
            for index in indices(f"meter {name}", message, meter.size):
                entity = p4r.Entity()
                entity.meter_entry.meter_id = meter.preamble.id
                entity.meter_entry.index.index = index
                rates = self._engine.meter_get_rates(name, index)
                if rates is not None:
                    entity.meter_entry.config.CopyFrom(encode_rates(rates))
                yield entity

    def state(self) -> Iterator[p4r.Update]:
        """The updates that bring an empty pipeline here."""
        for entity in self.read(p4r.MeterEntry()):
            if entity.meter_entry.HasField("config"):
                yield p4r.Update(type=MODIFY, entity=entity)


class DirectMeters:
    """The meters of tables' entries."""

    def __init__(self, schema: Schema, engine: Engine, tables: Tables) -> None:
        self._schema = schema
        self._engine = engine
        self._tables = tables

    def prepare(self, kind: int, message: p4r.DirectMeterEntry) -> Operation:
        """Check a write of one entry's rates (without a config: back to green)."""
        table = self._table(message.table_entry.table_id)
        what = f"direct meter of table {table.name}"
        check_write(what, kind, message)
        entry = message.table_entry
        if entry.is_default_action:
            raise invalid(f"{what}: the default action has no meter")
        rates = decode_rates(what, message.config) if message.HasField("config") else None
        return lambda: self._write(what, table, entry, rates)

    def read(self, message: p4r.DirectMeterEntry) -> Iterator[p4r.Entity]:
        """Yield the rates of one entry, of one table's entries, or (table id 0) of all."""
        if message.table_entry.table_id:
            tables = [self._table(message.table_entry.table_id)]
        else:
            tables = [t for t in self._schema.tables.values() if t.direct_meter is not None]
        for table in tables:
            yield from self._read_table(table, message.table_entry)

    def state(self) -> Iterator[p4r.Update]:
        """The updates that bring an empty pipeline here, once its entries are there."""
        for entity in self.read(p4r.DirectMeterEntry()):
            if entity.direct_meter_entry.HasField("config"):
                yield p4r.Update(type=MODIFY, entity=entity)

    def _read_table(self, table: Table, message: p4r.TableEntry) -> list[p4r.Entity]:
        entities = []
        for entry in self._tables.select(table, message):
            entity = p4r.Entity()
            meter = entity.direct_meter_entry
            meter.table_entry.CopyFrom(self._tables.encode_place(table, entry))
            rates = self._engine.direct_meter_get(table.name, entry.handle)
            if rates is not None:
                meter.config.CopyFrom(encode_rates(rates))
            entities.append(entity)
        return entities

    def _write(self, what: str, table: Table, entry: p4r.TableEntry, rates: Rates | None) -> Undo:
        handle = self._tables.find(table, entry)
        old = self._engine.direct_meter_get(table.name, handle)
        with engine_calls(what):
            self._engine.direct_meter_set(table.name, handle, rates)
        return lambda: self._engine.direct_meter_set(
            table.name, self._tables.find(table, entry), old
        )

    def _table(self, table_id: int) -> Table:
        table = self._schema.table(table_id)
        if table.direct_meter is None:
            raise invalid(f"table {table.name} has no direct meter")
        return table
