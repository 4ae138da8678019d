"""C code of registers, counters and meters in actions."""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.codegen.expressions import Expressions
from minip4.engine.codegen.layout import literal
from minip4.engine.words import limbs

Lines = list[str]

BYTES = "h->start.ingress_length"  # bytes of a packet, as counters and meters count them


class StateStatements:
    def __init__(self, program: m.Program, expressions: Expressions, *, trace: bool) -> None:
        self.program, self.expressions = program, expressions
        self.trace = trace

    def traced(self, call: str) -> Lines:
        """Return a call of a trace.h macro, or no code if the engine has no trace."""
        return [call] if self.trace else []

    def register_read(self, p: m.Primitive) -> Lines:
        target, source, index = p.args
        register = self._register(source)
        lines = self._load(target, register, _cell(register))
        return self._bounded(index, register.size, lines, self._access(register, "TRACED_READ"))

    def _load(self, target: m.Expr, register: m.Register, cell: str) -> Lines:
        name, field = self.expressions.lvalue(target)
        width = field.width
        rep = 64 if width <= 64 else 128 if width <= 128 and register.limbs > 1 else 0
        if rep == 0:
            lines = [
                f"{name}[{k}] = {f'(&{cell})[{k}]' if k < register.limbs else '0'};"
                for k in range(limbs(width))
            ]
            if width % 64 and register.width > width:
                lines.append(f"{name}[{limbs(width) - 1}] &= {literal((1 << width % 64) - 1)};")
        else:
            code = f"load128(&{cell})" if rep == 128 else cell
            fits = register.width <= width
            lines = [self.expressions.store_code(name, width, code, rep, fits=fits)]
        return lines

    def register_write(self, p: m.Primitive) -> Lines:
        target, index, value = p.args
        register = self._register(target)
        line = self._store(register, _cell(register), value)
        trace = self._access(register, "TRACED_WRITE")
        return self._bounded(index, register.size, [line], trace)

    def _store(self, register: m.Register, cell: str, value: m.Expr) -> str:
        code, rep = self.expressions.for_width(value, register.width)
        if register.limbs == 1:
            return f"{cell} = low_bits({code}, {register.width});"
        suffix = "128" if rep == 128 else "_wide"
        return f"store{suffix}(&{cell}, {code}, {register.width});"

    def _register(self, e: m.Expr) -> m.Register:
        assert isinstance(e, m.Named)
        return self.program.registers[e.name]

    def _bounded(self, index: m.Expr, size: int, lines: Lines, trace: Lines) -> Lines:
        """Return statements that use the index `i` and have no effect if it is out of bounds."""
        code = self.expressions.word(index)
        guarded = f"if (i < {size}u) {{ {' '.join(lines)} }}"
        return [f"{{ uint64_t i = {code};", guarded, *trace, "}"]

    def _access(self, register: m.Register, kind: str) -> Lines:
        cell = f"{register.index}, i, {register.size}u, {register.limbs}"
        return self.traced(f"TRACE_REGISTER({kind}, {cell})")

    def count(self, p: m.Primitive) -> Lines:
        assert isinstance(p.args[0], m.Named)
        counter = self.program.counters[p.args[0].name]
        index = self.expressions.word(p.args[1])
        return [
            f"{{ uint64_t i = {index}; count(c, {counter.index}, {counter.size}u, i);",
            *self.traced(f"TRACE_COUNT({counter.index}, i, {counter.size}u)"),
            "}",
        ]

    def execute_meter(self, p: m.Primitive) -> Lines:
        assert isinstance(p.args[0], m.Named)
        meter = self.program.meters[p.args[0].name]
        name, field = self.expressions.lvalue(p.args[2])
        which = f"&c->meters[{meter.index}].meters[i]"
        return [
            f"{{ uint64_t i = {self.expressions.word(p.args[1])}, colour = COLOURS;",
            f"if (i < {meter.size}u)",
            f"    colour = meter_colour({which}, c->now_us, {amount(meter)}, {BYTES});",
            *self.traced(f"TRACE_METER({meter.index}, i, colour)"),
            "if (colour < COLOURS)",
            f"    {{ {self.expressions.store_code(name, field.width, 'colour', 64)} }}",
            "}",
        ]


def _cell(register: m.Register) -> str:
    return f"c->registers[{register.index}].words[i * {register.limbs}]"


def amount(meter: m.Meter) -> str:
    return "1" if meter.is_packets else BYTES
