"""Lays variables, headers and metadata out in BMv2's header instances and their fields.

Scalars that are not in a header become fields of the metadata instance `scalars`.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.lower import ir, places
from minip4.compiler.types import BOOL, Bits

ENUM = Bits(32)  # enums without values and errors are numbers of this type
SCALARS = "scalars"


def scalar_type(of: types.Type) -> types.Type | None:
    """Bits or BOOL that hold values of the type; None if it is not a scalar."""
    of = types.strip_newtypes(of)
    if isinstance(of, types.SerializableEnum):
        return of.underlying
    if isinstance(of, types.Enum) or of is types.ERROR:
        return ENUM
    if isinstance(of, Bits) or of is BOOL:
        return of
    return None


def field_types(of: types.Type) -> dict[str, types.Type] | None:
    """Members of a compound type that is not a stack; tuples' are "0", "1", ...."""
    of = types.strip_newtypes(of)
    if isinstance(of, types.StructLike | types.AnonymousStruct):
        return of.fields
    if isinstance(of, types.Tuple):
        return {str(i): element for i, element in enumerate(of.elements)}
    return None


class Storage:
    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._header_types: dict[types.Header, ir.HeaderType] = {}
        self._varbit_types: set[int] = set()
        self._type_names: set[str] = set()
        self._next: dict[str, int] = {}  # number to try first, by wanted name
        self._instances: set[str] = set()
        self._union_types: dict[types.HeaderUnion, str] = {}
        self._field_names: set[str] = set()
        self._types: dict[str, tuple[types.Type, syntax.Source]] = {}  # of headers and such
        self._scalars = ir.HeaderType("scalars_0", [])
        self._type_names.add("scalars_0")
        program.header_types.append(self._scalars)
        self._instance(SCALARS, "scalars_0", is_metadata=True)

    def allocate(
        self, of: types.Type, name: str, source: syntax.Source, separator: str = "."
    ) -> places.Place:
        """New storage for a variable."""
        of = types.strip_newtypes(of)
        scalar = scalar_type(of)
        if scalar is not None:
            return places.Scalar(ir.Field(scalar, SCALARS, self._scalar(name, scalar)))
        if isinstance(of, types.Varbit):
            return self._varbit(of.width, name)
        if isinstance(of, types.Header):
            unique = self._unique(name, self._instances)
            self._types[unique] = (of, source)
            return self._header(of, unique)
        if isinstance(of, types.HeaderUnion):
            unique = self._unique(name, self._instances)
            self._types[unique] = (of, source)
            return self._union(of, unique, source)
        if isinstance(of, types.Stack):
            return self._array(of, name, source)
        members = field_types(of)
        if members is None:
            raise P4Error(f"a variable cannot have type {of} on this target", source)
        prefix = f"{name}{separator}" if name else ""
        return places.Group(
            {n: self.allocate(t, f"{prefix}{n}", source) for n, t in members.items()}
        )

    def metadata_instance(self, of: types.Struct, name: str) -> places.Group:
        """A struct of scalars as a metadata instance of its own (standard_metadata)."""
        fields: list[tuple[str, int | str, bool]] = []
        members: dict[str, places.Place] = {}
        header_type = ir.HeaderType(name, fields)
        for f in of.declaration.fields:
            scalar = scalar_type(of.fields[f.name])
            if scalar is None:
                raise P4Error(f"field {f.name} must be a number, bool, enum or error", f.source)
            width = scalar.width if isinstance(scalar, Bits) else 1
            fields.append((f.name, width, isinstance(scalar, Bits) and scalar.signed))
            members[f.name] = places.Scalar(ir.Field(scalar, name, f.name))
            alias = f.annotation("alias")
            if alias is not None:
                header_type.aliases.append((str(alias.values[0]), f.name))
        _pad(fields)
        self._type_names.add(name)
        self._program.header_types.append(header_type)
        self._instance(name, name, is_metadata=True)
        self._instances.add(name)
        return places.Group(members)

    def clone(self, place: places.Header | places.Union | places.Stack, name: str) -> places.Place:
        """New storage of the same type."""
        of, source = self._types[place.name]
        return self.allocate(of, name, source)

    def finish(self) -> None:
        """Pads `scalars` to whole bytes, once everything is allocated."""
        _pad(self._scalars.fields, "_padding_0")

    def _instance(self, name: str, type_name: str, *, is_metadata: bool) -> None:
        self._instances.add(name)
        self._program.headers.append(ir.Header(name, type_name, is_metadata))

    def _unique(self, name: str, taken: set[str]) -> str:
        candidate, number = name, self._next.get(name, 0)
        while candidate in taken:
            candidate, number = f"{name}_{number}", number + 1
        self._next[name] = number
        taken.add(candidate)
        return candidate

    def _scalar(self, name: str, of: types.Type) -> str:
        unique = self._unique(name, self._field_names)
        signed = isinstance(of, Bits) and of.signed
        self._scalars.fields.append((unique, of.width if isinstance(of, Bits) else 1, signed))
        return unique

    def _varbit(self, width: int, name: str) -> places.Varbit:
        type_name = f"$varbit{width}"
        if width not in self._varbit_types:
            self._varbit_types.add(width)
            self._program.header_types.append(
                ir.HeaderType(type_name, [("field", "*", False)], (width + 7) // 8)
            )
        unique = self._unique(name, self._instances)
        self._instance(unique, type_name, is_metadata=True)
        return places.Varbit(unique, "field", width)

    def _header(self, of: types.Header, name: str) -> places.Header:
        header_type = self.header_type(of)
        self._instance(name, header_type.name, is_metadata=False)
        return places.Header(name, header_type.name, _header_members(of, name, ""))

    def _union(self, of: types.HeaderUnion, name: str, source: syntax.Source) -> places.Union:
        members: dict[str, places.Place] = {
            n: self.allocate(t, f"{name}.{n}", source) for n, t in of.fields.items()
        }
        headers = [m.name for m in members.values() if isinstance(m, places.Header)]
        self._program.unions.append(ir.Union(name, self._union_type(of), headers))
        return places.Union(name, members)

    def _union_type(self, of: types.HeaderUnion) -> str:
        if of not in self._union_types:
            name = self._unique(control_plane_name(of.declaration), self._type_names)
            self._union_types[of] = name
            self._program.union_types[name] = [
                (n, self.header_type(t).name)
                for n, t in of.fields.items()
                if isinstance(t, types.Header)
            ]
        return self._union_types[of]

    def _array(self, of: types.Stack, name: str, source: syntax.Source) -> places.Place:
        element = types.strip_newtypes(of.element)
        name = self._unique(name, self._instances)
        self._types[name] = (of, source)
        elements = [self.allocate(element, f"{name}[{i}]", source) for i in range(of.size)]
        is_union = isinstance(element, types.HeaderUnion)
        if isinstance(element, types.HeaderUnion):
            type_name = self._union_type(element)
        elif isinstance(element, types.Header):
            type_name = self.header_type(element).name
        else:
            raise P4Error(f"an array of {element} is not supported", source)
        names = [e.name for e in elements if isinstance(e, places.Header | places.Union)]
        self._program.stacks.append(ir.Stack(name, type_name, names, is_union))
        return places.Stack(name, elements)

    def header_type(self, of: types.Header) -> ir.HeaderType:
        if of in self._header_types:
            return self._header_types[of]
        name = self._unique(control_plane_name(of.declaration), self._type_names)
        fields = [(n, _json_width(t), _is_signed(t)) for n, t in _flat_fields(of, "")]
        total = sum(types.width_in_bits(t) or ENUM.width for _, t in _flat_fields(of, ""))
        varbits = [n for n, width, _ in fields if width == "*"]
        source = of.declaration.source
        if len(varbits) > 1:
            raise P4Error(f"header {of} has more than one varbit field", source)
        if total % 8:
            raise P4Error(
                f"header {of} has {total} bits", source, "a multiple of 8 bits (add padding)"
            )
        result = ir.HeaderType(name, fields, total // 8 if varbits else 0)
        self._header_types[of] = result
        self._program.header_types.append(result)
        return result


def _flat_fields(of: types.Type, prefix: str) -> Iterator[tuple[str, types.Type]]:
    """Scalar and varbit fields of a header, those of structs inside it as `struct.field`."""
    for name, field_type in (field_types(of) or {}).items():
        plain = types.strip_newtypes(field_type)
        if scalar_type(plain) is not None or isinstance(plain, types.Varbit):
            yield prefix + name, plain
        else:
            yield from _flat_fields(plain, f"{prefix}{name}.")


def _header_members(of: types.Type, header: str, prefix: str) -> dict[str, places.Place]:
    members: dict[str, places.Place] = {}
    for name, field_type in (field_types(of) or {}).items():
        plain = types.strip_newtypes(field_type)
        scalar = scalar_type(plain)
        if scalar is not None:
            members[name] = places.Scalar(ir.Field(scalar, header, prefix + name))
        elif isinstance(plain, types.Varbit):
            members[name] = places.Varbit(header, prefix + name, plain.width)
        else:
            members[name] = places.Group(_header_members(plain, header, f"{prefix}{name}."))
    return members


def _json_width(of: types.Type) -> int | str:
    if isinstance(of, types.Varbit):
        return "*"
    scalar = scalar_type(of)
    return scalar.width if isinstance(scalar, Bits) else 1


def _is_signed(of: types.Type) -> bool:
    scalar = scalar_type(of)
    return isinstance(scalar, Bits) and scalar.signed


def _pad(fields: list[tuple[str, int | str, bool]], name: str = "_padding") -> None:
    total = sum(width for _, width, _ in fields if isinstance(width, int))
    if total % 8:
        fields.append((name, 8 - total % 8, False))
