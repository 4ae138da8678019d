"""Indirect counters and registers: CounterEntry and RegisterEntry (spec 9.3, 9.7)."""

from collections.abc import Iterator, Sequence

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
from minip4.runtime.p4info import p4data
from minip4.runtime.p4info.schema import Schema
from minip4.runtime.status import engine_calls, out_of_range


def check_index(what: str, index: int, size: int) -> int:
    if not 0 <= index < size:
        raise out_of_range(f"{what}: index {index}, expected 0 to {size - 1}")
    return index


def indices(what: str, message: p4r.CounterEntry | p4r.RegisterEntry, size: int) -> Sequence[int]:
    """Return the indices of the selected cells: one cell, or all if the message has no index."""
    if not message.HasField("index"):
        return range(size)
    return (check_index(what, message.index.index, size),)


class Counters:
    """The indirect counters of one pipeline."""

    def __init__(self, schema: Schema, dataplane: Dataplane) -> None:
        self._schema = schema
        self._dataplane = dataplane

    def prepare(self, kind: int, message: p4r.CounterEntry) -> Operation:
        """Check a MODIFY update and return the operation.

        Without an index, the update applies to all cells.
        """
        counter = self._schema.counter(message.counter_id)
        name = counter.preamble.name
        what = f"counter {name}"
        check_modify(what, kind)
        data = message.data
        check_count(what, data)
        cells = indices(what, message, self._dataplane.counter_size(name))

        def write() -> Undo:
            count = (data.packet_count, data.byte_count)
            with engine_calls(what):
                if cells:
                    self._dataplane.counter_write(name, cells[0], *count, count=len(cells))
            return nothing

        return write

    def read(self, message: p4r.CounterEntry) -> Iterator[p4r.Entity]:
        """Yield one cell, or all cells of one counter; id 0 selects all counters."""
        if message.counter_id:
            counters = [self._schema.counter(message.counter_id)]
        else:
            counters = list(self._schema.counters.values())
        for counter in counters:
            name = counter.preamble.name
            with engine_calls(f"counter {name}"):
                cells = indices(f"counter {name}", message, self._dataplane.counter_size(name))
                if len(cells) == 1:
                    values = [self._dataplane.counter_read(name, cells[0])]
                else:
                    values = self._dataplane.counter_read_all(name)
            for index, (packets, size) in zip(cells, values, strict=True):
                entity = p4r.Entity()
                entity.counter_entry.counter_id = counter.preamble.id
                entity.counter_entry.index.index = index
                entity.counter_entry.data.CopyFrom(counter_data(counter.spec, packets, size))
                yield entity


class Registers:
    """The registers of one pipeline, of any width.

    The data plane reads a whole array in one call.
    """

    def __init__(self, schema: Schema, dataplane: Dataplane) -> None:
        self._schema = schema
        self._dataplane = dataplane

    def prepare(self, kind: int, message: p4r.RegisterEntry) -> Operation:
        """Check a MODIFY update and return the operation.

        Without an index, the update applies to all cells.
        """
        register = self._schema.register(message.register_id)
        name = register.preamble.name
        what = f"register {name}"
        check_modify(what, kind)
        value = p4data.decode_cell(message.data, register.type_spec, self._schema, what)
        cells = indices(what, message, register.size)

        def write() -> Undo:
            with engine_calls(what):
                if cells:
                    self._dataplane.register_write(name, cells[0], value, count=len(cells))
            return nothing

        return write

    def read(self, message: p4r.RegisterEntry) -> Iterator[p4r.Entity]:
        """Yield one cell, or all cells of one register; id 0 selects all registers."""
        if message.register_id:
            registers = [self._schema.register(message.register_id)]
        else:
            registers = list(self._schema.registers.values())
        for register in registers:
            name = register.preamble.name
            cells = indices(f"register {name}", message, register.size)
            with engine_calls(f"register {name}"):
                if len(cells) == 1:
                    values = [self._dataplane.register_read(name, cells[0])]
                else:
                    values = self._dataplane.register_read_all(name)
            for index, value in zip(cells, values, strict=True):
                entity = p4r.Entity()
                entity.register_entry.register_id = register.preamble.id
                entity.register_entry.index.index = index
                words = p4data.cell_words(value, register.type_spec, self._schema)
                data = p4data.encode(register.type_spec, self._schema, words)
                entity.register_entry.data.CopyFrom(data)
                yield entity
