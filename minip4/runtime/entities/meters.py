"""Indirect and direct meters: MeterEntry and DirectMeterEntry (spec 9.4)."""

from collections.abc import Iterator

from finsy.proto import p4r

from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.arrays import indices
from minip4.runtime.entities.rates import (
    MODIFY,
    ColourCounts,
    Operation,
    Rates,
    Undo,
    check_modify,
    decode_counts,
    decode_rates,
    encode_counts,
    encode_rates,
    nothing,
)
from minip4.runtime.entities.tables import Tables
from minip4.runtime.p4info.schema import Schema, Table
from minip4.runtime.status import engine_calls, invalid

# if the rates are None, all packets are green; if the counts are None, they do not change
_Settings = tuple[Rates | None, ColourCounts | None]


def decode_settings(what: str, message: p4r.MeterEntry | p4r.DirectMeterEntry) -> _Settings:
    """Check the settings in an update; without a config, all packets are green."""
    rates = decode_rates(what, message.config) if message.HasField("config") else None
    given = message.HasField("counter_data")
    return rates, decode_counts(what, message.counter_data) if given else None


class Meters:
    """The indirect meters of one pipeline."""

    def __init__(self, schema: Schema, dataplane: Dataplane) -> None:
        self._schema = schema
        self._dataplane = dataplane

    def prepare(self, kind: int, message: p4r.MeterEntry) -> Operation:
        """Check an update and return the operation.

        Without an index, the update applies to all cells; without a config, all packets are green.
        """
        meter = self._schema.meter(message.meter_id)
        name = meter.preamble.name
        what = f"meter {name}"
        check_modify(what, kind)
        settings = decode_settings(what, message)
        cells = indices(what, message, meter.size)

        def write() -> Undo:
            with engine_calls(what):
                for i in cells:
                    self._set(name, i, settings)
            return nothing

        return write

    def _set(self, name: str, index: int, settings: _Settings) -> None:
        rates, counts = settings
        self._dataplane.meter_set_rates(name, index, rates)
        if counts is not None:
            self._dataplane.meter_set_counts(name, index, counts)

    def read(self, message: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        """Yield one cell, or all cells of one meter; id 0 selects all meters."""
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
                rates = self._dataplane.meter_get_rates(name, index)
                if rates is not None:
                    entity.meter_entry.config.CopyFrom(encode_rates(rates))
                if message.HasField("counter_data"):
                    counts = encode_counts(self._dataplane.meter_counts(name, index))
                    entity.meter_entry.counter_data.CopyFrom(counts)
                yield entity

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate this state in an empty pipeline."""
        for entity in self.read(p4r.MeterEntry()):
            if entity.meter_entry.HasField("config"):
                yield p4r.Update(type=MODIFY, entity=entity)


class DirectMeters:
    """The direct meters of table entries."""

    def __init__(self, schema: Schema, dataplane: Dataplane, tables: Tables) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._tables = tables

    def prepare(self, kind: int, message: p4r.DirectMeterEntry) -> Operation:
        """Check an update of an entry's meter and return the operation.

        Without a config, all packets are green.
        """
        table = self._table(message.table_entry.table_id)
        what = f"direct meter of table {table.name}"
        check_modify(what, kind)
        entry = message.table_entry
        if entry.is_default_action:
            raise invalid(f"{what}: the default action has no meter")
        settings = decode_settings(what, message)
        return lambda: self._write(what, table, entry, settings)

    def read(self, message: p4r.DirectMeterEntry) -> Iterator[p4r.Entity | None]:
        """Yield the rates of one entry, or of all entries of a table; id 0 selects all tables.

        Also yields None, so that the caller can let other tasks run; these tasks must not write.
        """
        if message.table_entry.table_id:
            tables = [self._table(message.table_entry.table_id)]
        else:
            tables = [t for t in self._schema.tables.values() if t.direct_meter is not None]
        for table in tables:
            yield from self._read_table(table, message)

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate this state in a pipeline that has the entries."""
        for entity in self.read(p4r.DirectMeterEntry()):
            if entity is not None and entity.direct_meter_entry.HasField("config"):
                yield p4r.Update(type=MODIFY, entity=entity)

    def _read_table(
        self, table: Table, message: p4r.DirectMeterEntry
    ) -> Iterator[p4r.Entity | None]:
        entities = []
        yield None
        for entry in self._tables.select(table, message.table_entry):
            entity = p4r.Entity()
            meter = entity.direct_meter_entry
            meter.table_entry.CopyFrom(self._tables.encode_place(table, entry))
            rates = self._dataplane.direct_meter_get(table.name, entry.handle)
            if rates is not None:
                meter.config.CopyFrom(encode_rates(rates))
            if message.HasField("counter_data"):
                counts = self._dataplane.direct_meter_counts(table.name, entry.handle)
                meter.counter_data.CopyFrom(encode_counts(counts))
            entities.append(entity)
            yield None
        yield from entities

    def _write(self, what: str, table: Table, entry: p4r.TableEntry, settings: _Settings) -> Undo:
        name, handle = table.name, self._tables.find(table, entry)
        rates, counts = settings
        with engine_calls(what):
            self._dataplane.direct_meter_set(name, handle, rates)
            if counts is not None:
                self._dataplane.direct_meter_set_counts(name, handle, counts)
        return nothing

    def _table(self, table_id: int) -> Table:
        table = self._schema.table(table_id)
        if table.direct_meter is None:
            raise invalid(f"table {table.name} has no direct meter")
        return table
