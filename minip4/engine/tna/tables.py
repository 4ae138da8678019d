"""C code of tables of TNA programs, whose actions use the direct objects of an entry."""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.codegen.layout import literals
from minip4.engine.codegen.state import Lines
from minip4.engine.codegen.tables import TableCode


def direct_registers(program: m.Program, table: m.Table) -> list[m.Register]:
    """Return the registers whose cells are in the entries of a table, in their order there."""
    return [r for r in program.registers.values() if r.table == table.name]


class TnaTables(TableCode):
    def _is_statement(self, table: m.Table) -> bool:
        return table.is_hidden and not self._direct(table)

    def _direct(self, table: m.Table) -> Lines:
        """Return code that passes the addresses of the entry's direct objects to the actions."""
        lines: Lines = []
        at = self.statistics_offset(table)
        if table.has_counters:
            lines.append(f"h->tna.counter = slot ? (struct cell *)(slot + {at}) : NULL;")
        if direct_registers(self.program, table):
            at += 2 * table.has_counters
            lines.append(f"h->tna.cells = (slot ? slot : t->default_slot) + {at};")
        if table.meter:
            meter = "&t->meters[(uint64_t)(slot - t->slots) / t->stride]"
            lines.append(f"h->tna.meter = slot ? {meter} : NULL;")
        return lines

    def _hit(self, table: m.Table) -> Lines:
        return [*super()._hit(table), *self._direct(table)]

    def _statistics(self, table: m.Table, at: int) -> Lines:
        cells = sum(r.limbs for r in direct_registers(self.program, table))
        time = at + 2 * table.has_counters + cells
        return [f"slot[{time}] = c->now_ns;"] if table.support_timeout else []

    def _cells(self, table: m.Table, parts: list[str]) -> list[str]:
        registers = direct_registers(self.program, table)
        if not registers:
            return []
        values = ", ".join(literals(r.initial, 64 * r.limbs) for r in registers)
        parts.append(f"static const uint64_t cells_{table.index}[] = {{{values}}};")
        words = sum(r.limbs for r in registers)
        return [f".cell_words = {words}", f".initial_cells = cells_{table.index}"]
