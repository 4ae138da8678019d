"""C code of the primitives that only TNA programs have."""

from __future__ import annotations

import itertools

from minip4.engine import model as m
from minip4.engine.codegen.state import BYTES, Lines
from minip4.engine.codegen.statements import PRIMITIVES, Statements
from minip4.engine.errors import NotSupported
from minip4.engine.tna.tables import direct_registers

MIRROR_BYTES, RESUBMIT_BYTES = 64, 8  # as in tna.h


class TnaStatements(Statements):
    def register_read(self, p: m.Primitive) -> Lines:
        register = self._register(p.args[1])
        if register.table is None:
            return super().register_read(p)
        cell = self._entry_cell(register)
        return [
            *self._load(p.args[0], register, cell),
            *self._direct_access(register, cell, "TRACED_READ"),
        ]

    def register_write(self, p: m.Primitive) -> Lines:
        register = self._register(p.args[0])
        if register.table is None:
            return super().register_write(p)
        cell = self._entry_cell(register)
        return [
            self._store(register, cell, p.args[1]),
            *self._direct_access(register, cell, "TRACED_WRITE"),
        ]

    def _entry_cell(self, register: m.Register) -> str:
        """Return the cell of a direct register in the entry whose action runs."""
        assert register.table is not None
        table = self.program.tables[register.table]
        before = itertools.takewhile(
            lambda r: r is not register, direct_registers(self.program, table)
        )
        return f"h->tna.cells[{sum(r.limbs for r in before)}]"

    def _direct_access(self, register: m.Register, cell: str, kind: str) -> Lines:
        access = f"trace_access(c, {kind}, {register.index}, TRACE_DIRECT, &{cell}, "
        return self.traced(f"{access}{register.limbs});")

    def count(self, p: m.Primitive) -> Lines:
        counter = self.program.counters[_name(p.args[0])]
        if counter.table is None:
            index, *adjustment = p.args[1:]
            size = f"{counter.size}u"
            cell = f"i < {size} ? c->counters[{counter.index}].cells + i : NULL"
            trace = f"TRACE_COUNT({counter.index}, i, {size})"
        else:
            index, *adjustment = m.Const(0), *p.args[1:]
            cell = "h->tna.counter"
            trace = f"if (cell) TRACE_COUNT_DIRECT({counter.index}, cell)"
        left_out = self.expressions.word(adjustment[0]) if adjustment else "0"
        return [
            f"{{ const uint64_t i UNUSED = {self.expressions.word(index)};",
            f"struct cell *cell = {cell};",
            f"if (cell) tna_count(cell, {BYTES}, {left_out});",
            *self.traced(trace),
            "}",
        ]

    def execute_meter(self, p: m.Primitive) -> Lines:
        meter = self.program.meters[_name(p.args[0])]
        if meter.table is None:
            _, index, target, *options = p.args
            at = f"i < {meter.size}u ? &c->meters[{meter.index}].meters[i] : NULL"
        else:
            _, target, *options = p.args
            index, at = m.Const(0), "h->tna.meter"
        left_out, colour, *_ = [*map(self.expressions.word, options), "0", "0"]
        name, field = self.expressions.lvalue(target)
        trace = f"TRACE_METER({meter.index}, i, colour)"
        if meter.table is not None:
            trace = f"if (meter) TRACE_METER({meter.index}, TRACE_DIRECT, colour)"
        return [
            f"{{ const uint64_t i UNUSED = {self.expressions.word(index)}, left_out = {left_out};",
            f"const uint64_t bytes = left_out < {BYTES} ? {BYTES} - left_out : 0;",
            "uint64_t colour = COLOURS;",
            f"struct meter *meter = {at};",
            "if (meter)",
            "    colour = meter_colour_after(meter, c->now_us, "
            f"{'1' if meter.is_packets else 'bytes'}, bytes, (unsigned)({colour}));",
            *self.traced(trace),
            "if (colour < COLOURS)",
            f"    {{ {self.expressions.store_code(name, field.width, 'colour', 64)} }}",
            "}",
        ]

    def calculate(self, p: m.Primitive) -> Lines:
        target, calculation = p.args
        assert isinstance(calculation, m.Named)
        number = self.program.calculations[calculation.name].index
        name, field = self.expressions.lvalue(target)
        return [self.expressions.store_code(name, field.width, f"calculation_{number}(c, h)", 64)]

    def math_unit(self, p: m.Primitive) -> Lines:
        target, x, inverts, shift, scale, *table = p.args
        numbers = [e.value for e in (inverts, shift, scale, *table) if isinstance(e, m.Const)]
        values = ", ".join(map(str, numbers[3:]))
        call = (
            f"tna_math({self.expressions.word(x)}, {numbers[0]}, {numbers[1] - 1}, "
            f"{numbers[2] - 32}, (const uint8_t[16]){{{values}}})"
        )
        name, field = self.expressions.lvalue(target)
        return [self.expressions.store_code(name, field.width, call, 64)]

    def filter(self, p: m.Primitive) -> Lines:
        """Return the sample itself if the index is out of bounds."""
        call = "tna_filter(state, settings, sample, c->now_ns)"
        return self._filtered(p, "tna_lpf", call, "sample")

    def wred(self, p: m.Primitive) -> Lines:
        call = "tna_wred(state, settings, sample, c->now_ns, c->random)"
        return self._filtered(p, "tna_wred", call, "0")

    def _filtered(self, p: m.Primitive, kind: str, call: str, otherwise: str) -> Lines:
        target, sample, settings, state, *given = p.args
        name, field = self.expressions.lvalue(target)
        addresses = {
            f"struct {kind} *settings": self._cell_address(settings),
            "struct tna_filter *state": self._cell_address(state),
        }
        pointers = [f"    {head} = (void *)({at});" for head, at in addresses.items()]
        index = given[0] if given else m.Const(0)
        return [
            f"{{ const uint64_t i = {self.expressions.word(index)};",
            f"uint64_t sample = {self.expressions.word(sample)}, result = {otherwise};",
            f"if (i < {self._register(settings).size}u) {{",
            *pointers,
            f"    result = {call};",
            "}",
            f"{self.expressions.store_code(name, field.width, 'result', 64)} }}",
        ]

    def _cell_address(self, e: m.Expr) -> str:
        """Return the address of cell `i` of a register, or of the cell of the entry."""
        register = self._register(e)
        if register.table is not None:
            return f"&{self._entry_cell(register)}"
        return f"c->registers[{register.index}].words + i * {register.limbs}"

    def mirror(self, p: m.Primitive) -> Lines:
        return [
            f"h->tna.mirror_session = ((uint32_t)({self.expressions.word(p.args[0])})"
            " & 0x7fff) | SESSION_SET;",
            *self._data("mirror", p, p.args[1:], MIRROR_BYTES),
        ]

    def resubmit(self, p: m.Primitive) -> Lines:
        return [
            "h->tna.resubmits = true;",
            *self._data("resubmit", p, p.args, RESUBMIT_BYTES),
        ]

    def _data(self, name: str, p: m.Primitive, header: tuple[m.Expr, ...], longest: int) -> Lines:
        """Return code that writes the header of an emit() to the requests of the packet."""
        if not header:
            return [f"h->tna.{name}_bytes = 0;"]
        place = self.expressions.header(header[0])
        size = place.type.fixed_bytes
        if size > longest or place.type.varbit is not None:
            raise NotSupported(f"{p.op} with a header of {size} bytes; at most {longest} are")
        type_ = self.layout.type_of(place.type)
        return [
            "{",
            f"    uint8_t *out = h->tna.{name}_data;",
            f"    h->tna.{name}_bytes = {size};",
            f"    if (h->raw[{place.number}]) {{",
            f"        memcpy(out, c->packet->buffer + h->raw[{place.number}], {size});",
            f"        write_back_{type_}({place.pointer}, out);",
            f"    }} else put_{type_}({place.pointer}, out);",
            "}",
        ]


def _name(e: m.Expr) -> str:
    assert isinstance(e, m.Named)
    return e.name


TnaStatements.primitives = {
    **PRIMITIVES,
    "register_read": TnaStatements.register_read,  # type: ignore[dict-item]
    "register_write": TnaStatements.register_write,  # type: ignore[dict-item]
    "count": TnaStatements.count,  # type: ignore[dict-item]
    "execute_meter": TnaStatements.execute_meter,  # type: ignore[dict-item]
    "calculate": TnaStatements.calculate,  # type: ignore[dict-item]
    "filter": TnaStatements.filter,  # type: ignore[dict-item]
    "math_unit": TnaStatements.math_unit,  # type: ignore[dict-item]
    "wred": TnaStatements.wred,  # type: ignore[dict-item]
    "mirror_with": TnaStatements.mirror,  # type: ignore[dict-item]
    "resubmit_with": TnaStatements.resubmit,  # type: ignore[dict-item]
}
