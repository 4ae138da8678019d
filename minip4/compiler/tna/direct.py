"""Direct counters, meters and registers: each belongs to the table whose actions use it."""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import ir
from minip4.compiler.errors import P4Error
from minip4.compiler.lower.calls import all_statements
from minip4.compiler.lower.context import Context
from minip4.compiler.syntax import Source


def bind(context: Context) -> None:
    """Find the table of each direct register, and reject objects of other tables."""
    owners = context.properties.register_tables
    for table in context.tables.lowered():
        for name, source, kind in _uses(table):
            if kind == "registers":
                is_own = owners.setdefault(name, table.name) == table.name
            else:
                is_own = name in (table.counter, table.meter)
            if not is_own:
                raise P4Error(
                    f"{name} does not belong to table {table.name}, whose action uses it",
                    source,
                    f"{kind} = ... in one table",
                )
    for name, source in context.properties.single_cells.items():
        if name in owners:
            raise P4Error(
                f"{name} belongs to {owners[name]}", source, "a call in an action of this table"
            )


def _uses(table: ir.Table) -> Iterator[tuple[str, Source, str]]:
    """Yield name, location and property of each direct object that actions use."""
    for action in table.actions:
        for statement in all_statements(action.body):
            match statement:
                case ir.Count(source=ir_source, counter=name, index=None):
                    kind = "counters"
                case ir.ExecuteMeter(source=ir_source, meter=name, index=None):
                    kind = "meters"
                case ir.RegisterRead(source=ir_source, register=name, index=None):
                    kind = "registers"
                case ir.RegisterWrite(source=ir_source, register=name, index=None):
                    kind = "registers"
                case _:
                    continue
            assert ir_source is not None
            yield name, ir_source, kind
