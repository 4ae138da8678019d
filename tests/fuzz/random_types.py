"""Random types and instances of headers, and random metadata, for random programs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from random_expressions import WIDTHS, Variable

STACK_SIZE = 4  # no index of two bits is out of bounds
VARBIT_BYTES = (4, 8, 32)


@dataclass
class HeaderType:
    name: str
    fields: list[Variable]
    varbit_bits: int = 0

    def text(self) -> str:
        lines = [f"{v.type} {v.name};" for v in self.fields]
        if self.varbit_bits:
            lines.insert(1, f"varbit<{self.varbit_bits}> data;")
        return f"header {self.name} {{ {' '.join(lines)} }}"


@dataclass
class Layout:
    """The metadata and header types of a program, and the names of the headers of each type."""

    types: dict[str, HeaderType] = field(default_factory=dict)
    instances: dict[str, list[str]] = field(default_factory=dict)  # type: headers
    metadata: list[Variable] = field(default_factory=list)

    @property
    def headers(self) -> list[str]:
        return [name for names in self.instances.values() for name in names]

    def of(self, type_: str) -> list[Variable]:
        """Return the fields of all headers of this type."""
        return [Variable(f"{name}.{f.name}", f.width, f.signed)
                for name in self.instances[type_] for f in self.types[type_].fields]  # fmt: skip

    def fields(self) -> list[Variable]:
        return [v for type_ in self.instances for v in self.of(type_)]


def random_layout(rng: random.Random) -> Layout:
    layout = Layout()
    first = [Variable("kind", 8), Variable("more", 8), Variable("number", 16)]
    add(layout, HeaderType("first_t", first), "hdr.first")
    add(layout, header_type(rng, "a_t", 5), "hdr.a", "hdr.b")
    add(layout, header_type(rng, "c_t", 3), "hdr.c")
    add(layout, header_type(rng, "s_t", 2), *(f"hdr.s[{i}]" for i in range(STACK_SIZE)),
        *(f"hdr.t[{i}]" for i in range(STACK_SIZE)))  # fmt: skip
    varbit = header_type(rng, "v_t", 2)
    varbit.fields.insert(0, Variable("length", 8))
    varbit.varbit_bits = 8 * rng.choice(VARBIT_BYTES)
    add(layout, varbit, "hdr.v", "hdr.w", "hdr.u.large", "hdr.x.large")
    add(layout, header_type(rng, "o_t", 2), "hdr.u.one", "hdr.x.one",
        *(f"hdr.us[{i}].one" for i in range(2)))  # fmt: skip
    add(layout, header_type(rng, "p_t", 2), *(f"hdr.us[{i}].two" for i in range(2)))
    for i in range(6):
        layout.metadata.append(Variable(f"meta.m{i}", rng.choice(WIDTHS), signed=False))
    for i in range(2):
        width = rng.choice([w for w in WIDTHS if w > 1])
        layout.metadata.append(Variable(f"meta.n{i}", width, signed=True))
    return layout


def add(layout: Layout, type_: HeaderType, *instances: str) -> None:
    layout.types[type_.name] = type_
    layout.instances[type_.name] = list(instances)


def header_type(rng: random.Random, name: str, most: int) -> HeaderType:
    """Return a type with fields of random widths.

    In total, these widths are a multiple of 8 bits.
    """
    fields = []
    for i in range(rng.randrange(1, most + 1)):
        width = rng.choice(WIDTHS)
        signed = width > 1 and rng.randrange(5) == 0
        fields.append(Variable(f"f{i}", width, signed))
    fill = -sum(f.width for f in fields) % 8
    if fill:
        fields.insert(rng.randrange(len(fields) + 1), Variable("fill", fill))
    return HeaderType(name, fields)


def declarations(layout: Layout) -> list[str]:
    """Return the declarations of all types: headers, and the structs of headers and metadata.

    The header seen_t has a copy of each metadata field, so that output frames show the metadata.
    """
    shown = [f"bit<{v.width}> {v.name.removeprefix('meta.')};" for v in layout.metadata]
    fill = 8 - sum(v.width for v in layout.metadata) % 8
    lines = [
        "error { Odd, Even }",
        *(t.text() for t in layout.types.values()),
        "header_union u_t { o_t one; v_t large; }",
        "header_union us_t { o_t one; p_t two; }",
        f"header seen_t {{ bit<8> at; bit<8> flag; bit<8> problem; {' '.join(shown)} "
        f"bit<{fill}> fill; }}",
        "struct headers {",
        "    seen_t seen; first_t first; a_t a; a_t b; c_t c; v_t v; v_t w;",
        f"    s_t[{STACK_SIZE}] s; s_t[{STACK_SIZE}] t; u_t u; u_t x; us_t[2] us;",
        "}",
        "struct metadata {",
        "    @field_list(1, 2) bit<8> rounds;",
        "    bit<2> at;",
        "    bool flag;",
    ]
    for i, v in enumerate(layout.metadata):
        kept = ("@field_list(1) ", "@field_list(1, 2) ", "", "")[i % 4]
        lines.append(f"    {kept}{v.type} {v.name.removeprefix('meta.')};")
    return [*lines, "}"]
