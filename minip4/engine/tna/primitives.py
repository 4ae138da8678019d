"""C code of the primitives that only TNA programs have."""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.codegen.state import Lines
from minip4.engine.codegen.statements import PRIMITIVES, Statements
from minip4.engine.errors import NotSupported

MIRROR_BYTES, RESUBMIT_BYTES = 64, 8  # as in tna.h


class TnaStatements(Statements):
    def calculate(self, p: m.Primitive) -> Lines:
        target, calculation = p.args
        assert isinstance(calculation, m.Named)
        number = self.program.calculations[calculation.name].index
        name, field = self.expressions.lvalue(target)
        return [self.expressions.store_code(name, field.width, f"calculation_{number}(c, h)", 64)]

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


TnaStatements.primitives = {
    **PRIMITIVES,
    "calculate": TnaStatements.calculate,  # type: ignore[dict-item]
    "mirror_with": TnaStatements.mirror,  # type: ignore[dict-item]
    "resubmit_with": TnaStatements.resubmit,  # type: ignore[dict-item]
}
