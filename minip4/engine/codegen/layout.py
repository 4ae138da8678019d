"""Layout of headers, metadata and their fields in the generated C.

The fields of a header are stored as machine words. Narrow fields have the smallest unsigned type.
Fields wider than 64 bits are arrays of 64-bit limbs, the lowest limb first. A field that the
program never reads or writes is not stored, and its bytes stay in the packet. The code is generated
before the structures, and the generator records in the layout which fields the code uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from minip4.engine import model as m
from minip4.engine.codegen.variables import Variables
from minip4.engine.words import limbs


def literal(value: int) -> str:
    """Return a uint64_t constant, modulo 2^64; without a suffix, it would be an int."""
    return f"UINT64_C({value & (2**64 - 1):#x})"


def literals(value: int, width: int) -> str:
    """Return the C initialisers of a value's limbs."""
    return ", ".join(literal(value >> 64 * i) for i in range(limbs(width)))


def c_type(width: int) -> str:
    """Return the smallest unsigned type for a field of up to 64 bits."""
    return next(f"uint{size}_t" for size in (8, 16, 32, 64) if width <= size)


def identifier(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def comment(text: str) -> str:
    """Return a name of the program as a C comment. No name can end the comment."""
    return f"/* {re.sub(r'[^a-zA-Z0-9_.$]', '_', text)} */"


VARIABLES = "struct variables variables = {}, *const v UNUSED = &variables;"
"""The first line of a function with variables."""


@dataclass(frozen=True, slots=True)
class Place:
    """A header in C: its location in a parsed packet, and its number among the validity flags."""

    type: m.HeaderType
    phv: str
    """The C variable that points to the parsed packet."""
    path: str
    number: str
    siblings: tuple[str, ...] = ()
    """The numbers of the other members of its union."""

    @property
    def pointer(self) -> str:
        return f"(&{self.phv}->{self.path})"


class Layout:
    """The layout of a parsed packet.

    `variables` are the metadata that are not in the parsed packet, but in a `struct variables *v`
    of each function.
    """

    def __init__(self, program: m.Program, variables: Variables | None = None) -> None:
        self.program = program
        self.variables = variables.fields if variables else frozenset()
        self.inlined = variables.actions if variables else frozenset()
        self._phv_name = "h"
        self.read: set[tuple[str, str]] = set()
        self.written: set[tuple[str, str]] = set()
        self.metadata = [h for h in program.headers.values() if h.metadata]
        self.single = [h for h in program.headers.values() if not h.metadata and not h.array]
        self.names: dict[int, str] = {}
        self.numbers: dict[int, int] = {}
        count = 0
        for header in self.single:
            self.numbers[id(header)] = count
            count += 1
        for array in program.arrays:
            for header in array.headers:
                self.numbers[id(header)] = count
                count += 1
            count += 1  # the spare element; an index out of bounds selects it
        self.header_count = count
        self.types = self._types()
        named: list[m.Header | m.HeaderArray] = [*self.metadata, *self.single, *program.arrays]
        for i, item in enumerate(named):
            self.names[id(item)] = f"x{i}_{identifier(item.name)}"

    def _types(self) -> dict[str, str]:
        used: dict[str, str] = {}
        for name in self.header_types():
            used.setdefault(name, f"t{len(used)}_{identifier(name)}")
        return used

    def header_types(self) -> dict[str, m.HeaderType]:
        """The types of all headers and metadata, by name."""
        items: list[m.Header | m.HeaderArray] = [
            *self.program.headers.values(),
            *self.program.arrays,
        ]
        return {item.type.name: item.type for item in items}

    # --- headers ---------------------------------------------------------------------------

    @contextmanager
    def within(self, phv: str) -> Iterator[None]:
        """Within the `with` block, use the fields of the parsed packet `phv` instead of `h`."""
        before, self._phv_name = self._phv_name, phv
        yield
        self._phv_name = before

    def type_of(self, type_: m.HeaderType) -> str:
        return self.types[type_.name]

    def place(self, header: m.Header) -> Place:
        """Return the location of a header. Which header it is, is known when code is generated."""
        if header.array:
            return self.element(header.array, str(header.position), self._siblings(header))
        name = self.names[id(header)]
        if header.metadata:
            return Place(header.type, self._phv_name, f"m.{name}", "-1")
        number = str(self.numbers[id(header)])
        return Place(header.type, self._phv_name, name, number, self._siblings(header))

    def field_place(self, header: m.Header, field: m.Field) -> Place:
        """Return the location of the field's header: the parsed packet, or the local variables."""
        if (header.type.name, field.name) in self.variables:
            return Place(header.type, "v", self.names[id(header)], "-1")
        return self.place(header)

    def element(self, array: m.HeaderArray, index: str, siblings: tuple[str, ...] = ()) -> Place:
        """Return an array element. `index` is C code; its value may be the spare index."""
        name = self.names[id(array)]
        base = self.base(array)
        number = str(base + int(index)) if index.isdigit() else f"({base} + {index})"
        return Place(array.type, self._phv_name, f"{name}[{index}]", number, siblings)

    def column_element(self, stack: m.UnionStack, member: str, index: str) -> Place:
        """Return a member of the union at `index` of a stack of unions."""
        others = [a for name, a in stack.columns.items() if name != member]
        siblings = tuple(f"({self.base(a)} + {index})" for a in others)
        return self.element(stack.columns[member], index, siblings)

    def _siblings(self, header: m.Header) -> tuple[str, ...]:
        if not header.union:
            return ()
        members = [h for _, h in header.union.members if h is not header]
        return tuple(str(self.numbers[id(h)]) for h in members)

    def base(self, array: m.HeaderArray) -> int:
        return self.numbers[id(array.headers[0])] if array.headers else 0

    def counter(self, stack: m.HeaderStack | m.UnionStack) -> str:
        """Return the nextIndex of a stack."""
        return f"{self._phv_name}->next_{identifier(stack.name)}"

    # --- fields ----------------------------------------------------------------------------

    def reads(self, type_: m.HeaderType, field: m.Field) -> str:
        self.read.add((type_.name, field.name))
        return self.member(type_, field)

    def writes(self, type_: m.HeaderType, field: m.Field) -> str:
        self.written.add((type_.name, field.name))
        return self.member(type_, field)

    def member(self, type_: m.HeaderType, field: m.Field) -> str:
        return f"f{type_.by_name[field.name]}_{identifier(field.name)}"

    def is_kept(self, type_: m.HeaderType, field: m.Field) -> bool:
        """Return whether the structure has the field; if not, its bytes exist only in the packet.

        If the program assigns the varbit of a header, all fields of the header are stored.
        """
        varbit = type_.varbit
        if varbit and (field.varbit or self.is_written(type_, varbit)):
            return True
        key = (type_.name, field.name)
        return key in self.read or key in self.written

    def is_written(self, type_: m.HeaderType, field: m.Field) -> bool:
        return (type_.name, field.name) in self.written

    def parsed_bytes(self) -> int:
        """Return the size of a parsed packet without padding, in bytes."""
        headers = [h for h in self.program.headers.values() if not h.array]
        arrays = self.program.arrays
        return (
            sum(self._kept_bytes(h.type) for h in headers)
            + sum(self._kept_bytes(a.type) * (len(a.headers) + 1) for a in arrays)
            + 3 * self.header_count
        )

    def _kept_bytes(self, type_: m.HeaderType) -> int:
        kept = [f for f in type_.fields if self.is_kept(type_, f)]
        return sum(4 + f.width // 8 if f.varbit else -(-f.width // 8) for f in kept)

    # --- C text ----------------------------------------------------------------------------

    def structures(self) -> str:
        """Return the C structures of all header types and of the parsed packet."""
        parts = [self._structure(t) for t in self.header_types().values()]
        parts += [self._phv(), self._variables()]
        return "\n".join(parts)

    def _structure(self, type_: m.HeaderType) -> str:
        kept = [f for f in type_.fields if self.is_kept(type_, f)]
        in_packet = [f for f in kept if (type_.name, f.name) not in self.variables]
        return f"struct {self.type_of(type_)} {{\n{self._members(type_, in_packet)}\n}};"

    def _members(self, type_: m.HeaderType, fields: list[m.Field]) -> str:
        lines = []
        for field in sorted(fields, key=lambda f: (f.varbit, -f.width)):
            name = self.member(type_, field)
            if field.varbit:
                lines.append(f"    uint32_t {name}_bits;\n    uint8_t {name}[{field.width // 8}];")
            elif field.width > 64:
                lines.append(f"    uint64_t {name}[{limbs(field.width)}];")
            else:
                lines.append(f"    {c_type(field.width)} {name};")
        return "\n".join(lines)

    def _variables(self) -> str:
        lines = []
        for header in self.metadata:
            fields = [f for f in header.type.fields if (header.type.name, f.name) in self.variables]
            name = self.names[id(header)]
            lines.append(f"    struct {{\n{self._members(header.type, fields)}\n    }} {name};")
        return "struct variables {\n" + "\n".join(lines) + "\n};"

    def _phv(self) -> str:
        def declare(item: m.Header | m.HeaderArray, size: str = "") -> str:
            return f"    struct {self.type_of(item.type)} {self.names[id(item)]}{size};"

        stacks: list[m.HeaderStack | m.UnionStack] = [
            *self.program.stacks.values(),
            *self.program.union_stacks.values(),
        ]
        count = max(1, self.header_count)
        if self.asks_eight:
            count = 8 * -(-count // 8)
        return "\n".join(
            [
                "struct phv {",
                "    struct phv_start start;",
                *(["    struct tna tna;"] if self.program.architecture == "tna" else []),
                "    struct metadata {",
                *(f"    {declare(h)}" for h in self.metadata),
                "    } m;",
                f"    uint8_t valid[{count}];",
                *(f"    uint16_t next_{identifier(s.name)};" for s in stacks),
                f"    uint16_t raw[{count}]; /* offset in the packet's buffer; 0: none */",
                *(declare(h) for h in self.single if not h.type.varbit),
                *(declare(a, f"[{len(a.headers) + 1}]") for a in self.program.arrays),
                *(declare(h) for h in self._varying),
                "};",
            ]
        )

    @property
    def asks_eight(self) -> bool:
        """Return whether validity flags are tested in groups of eight.

        This is faster if there are many headers and few of them are valid. With few headers, the
        padding costs more, because it is cleared for each packet.
        """
        return self.header_count > 8

    @property
    def _varying(self) -> list[m.Header]:
        """Return the headers with a varbit. They may be long and are therefore last."""
        return [h for h in self.single if h.type.varbit]

    def clear(self) -> list[str]:
        """Return C code that clears a parsed packet. Of a varbit, only the length is cleared."""
        if not self._varying:
            return ["memset(h, 0, sizeof *h);"]
        first = self.names[id(self._varying[0])]
        return [
            f"memset(h, 0, offsetof(struct phv, {first}));",
            *(
                f"memset(&h->{self.names[id(h)]}, 0, {self.fixed_size(h.type)});"
                for h in self._varying
            ),
        ]

    def fixed_size(self, type_: m.HeaderType) -> str:
        """Return C code for the size of a header's structure without its varbit."""
        assert type_.varbit is not None
        return f"offsetof(struct {self.type_of(type_)}, {self.member(type_, type_.varbit)})"
