"""Direct counters, meters, registers and filters: each belongs to the table whose actions use it.

The state of a direct filter is a direct register.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.lower.calls import all_statements
from minip4.compiler.lower.context import Context
from minip4.compiler.syntax import Source
from minip4.compiler.types import Bits

STATE = "$state"  # end of the name of a register with the state of a filter


def own_index(context: Context, register: str, source: syntax.Source) -> ir.Expression | None:
    """Return the index in a direct register: None is the cell of the entry."""
    if context.in_action:
        return None
    context.properties.single_cells.setdefault(register, source)
    return ir.Constant(Bits(32), 0)


def bind(context: Context) -> None:
    """Find the table of each direct register, and reject objects of other tables."""
    owners = context.properties.register_tables
    for table in context.tables.lowered():
        for name, source, kind in _uses(table):
            if kind in ("registers", "filters"):
                is_own = owners.setdefault(name, table.name) == table.name
            else:
                is_own = name in (table.counter, table.meter)
            if not is_own:
                raise P4Error(
                    f"{name.removesuffix(STATE)} does not belong to table {table.name}, whose "
                    "action uses it",
                    source,
                    f"{kind} = ... in one table",
                )
    for name, source in context.properties.single_cells.items():
        if name in owners:
            raise P4Error(
                f"{name.removesuffix(STATE)} belongs to {owners[name]}", source,
                "a call in an action of this table",
            )  # fmt: skip
    for register in context.program.registers:  # the states of direct filters
        if register.name in owners:
            register.table, register.size = owners[register.name], 0


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
                case ir.Filter(source=ir_source, state=name, index=None):
                    kind = "filters"
                case ir.Wred(source=ir_source, state=name, index=None):
                    kind = "filters"
                case _:
                    continue
            assert ir_source is not None
            yield name, ir_source, kind
