"""Allocation of variables, headers and metadata as header instances and their fields.

Scalars outside of headers become fields of the metadata instance `scalars`.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.lower import places
from minip4.compiler.types import BOOL, Bits

ENUM = Bits(32)  # type of errors and of enums without values


def scalar_type(of: types.Type) -> types.Type | None:
    """Return the Bits or BOOL type for values of a type, or None if it is not a scalar."""
    of = types.strip_newtypes(of)
    if isinstance(of, types.SerializableEnum):
        return of.underlying
    if isinstance(of, types.Enum) or of is types.ERROR:
        return ENUM
    if isinstance(of, Bits) or of is BOOL:
        return of
    return None


def field_types(of: types.Type) -> dict[str, types.Type] | None:
    """Return the members of a compound type that is not a stack.

    The members of tuples are named "0", "1" and so on.
    """
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
        self._odd_types: dict[str, tuple[int, syntax.Source]] = {}  # types of no whole bytes
        self._varbit_types: set[int] = set()
        self._type_names: set[str] = set()
        self._next: dict[str, int] = {}  # map from name to the next number to try
        self._instances: set[str] = set()
        self._union_types: dict[types.HeaderUnion, str] = {}
        self._field_names: set[str] = set()
        self._types: dict[str, tuple[types.Type, syntax.Source]] = {}  # key: name of a header type
        self._scalars = ir.HeaderType(ir.SCALARS_TYPE, [])
        self._type_names.add(ir.SCALARS_TYPE)
        program.header_types.append(self._scalars)
        self._instance(ir.SCALARS, ir.SCALARS_TYPE, is_metadata=True)

    def allocate(self, of: types.Type, name: str, source: syntax.Source) -> places.Place:
        """Allocate a variable."""
        of = types.strip_newtypes(of)
        scalar = scalar_type(of)
        if scalar is not None:
            return places.Scalar(ir.Field(scalar, ir.SCALARS, self._scalar(name, scalar)))
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
        prefix = f"{name}." if name else ""
        return places.Group(
            {n: self.allocate(t, f"{prefix}{n}", source) for n, t in members.items()}
        )

    def metadata_instance(self, of: types.Struct, name: str) -> places.Group:
        """Allocate a struct of scalars as its own metadata instance (for standard_metadata)."""
        members: dict[str, places.Place] = {}
        header_type = ir.HeaderType(name, [])
        for f in of.declaration.fields:
            scalar = scalar_type(of.fields[f.name])
            if scalar is None:
                raise P4Error(f"field {f.name} must be a number, bool, enum or error", f.source)
            header_type.fields.append(_header_field(f.name, scalar))
            members[f.name] = places.Scalar(ir.Field(scalar, name, f.name))
            alias = f.annotation("alias")
            if alias is not None:
                header_type.aliases.append((str(alias.values[0]), f.name))
        self._type_names.add(name)
        self._program.header_types.append(header_type)
        self._instance(name, name, is_metadata=True)
        self._instances.add(name)
        return places.Group(members)

    def clone(self, place: places.Header | places.Union | places.Stack, name: str) -> places.Place:
        """Allocate storage of the same type as a place."""
        of, source = self._types[place.name]
        return self.allocate(of, name, source)

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
        self._scalars.fields.append(_header_field(unique, of))
        return unique

    def _varbit(self, width: int, name: str) -> places.Varbit:
        type_name = f"$varbit{width}"
        if width not in self._varbit_types:
            self._varbit_types.add(width)
            field = ir.HeaderField("field", width, is_varbit=True)
            self._program.header_types.append(ir.HeaderType(type_name, [field]))
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
        headers = [m for m in members.values() if isinstance(m, places.Header)]
        for header in headers:
            self.require_whole_bytes(header.type_name)
        names = [header.name for header in headers]
        for header in headers:
            header.siblings = tuple(n for n in names if n != header.name)
        self._program.unions.append(ir.Union(name, self._union_type(of), names))
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
            self.require_whole_bytes(type_name)
        else:
            raise P4Error(f"an array of {element} is not supported", source)
        names = [e.name for e in elements if isinstance(e, places.Header | places.Union)]
        declared = ir.Stack(name, type_name, names, is_union)
        self._program.stacks.append(declared)
        return places.Stack(declared, elements)

    def header_type(self, of: types.Header) -> ir.HeaderType:
        if of in self._header_types:
            return self._header_types[of]
        name = self._unique(control_plane_name(of.declaration), self._type_names)
        fields = [_header_field(n, t) for n, t in _flat_fields(of, "")]
        total = sum(f.width_bits for f in fields)
        source = of.declaration.source
        if sum(f.is_varbit for f in fields) > 1:
            raise P4Error(f"header {of} has more than one varbit field", source)
        if total % 8 and _is_flexible(of):
            # Tofino's compiler chooses the layout of such a header, as it never leaves the switch
            fields.append(ir.HeaderField("$padding", -total % 8))
        elif total % 8:
            self._odd_types[name] = (total, source)
            if self._program.architecture == "v1model":
                self.require_whole_bytes(name)
            fields.append(ir.HeaderField("$padding", -total % 8))
        result = ir.HeaderType(name, fields)
        self._header_types[of] = result
        self._program.header_types.append(result)
        return result

    def require_whole_bytes(self, type_name: str) -> None:
        """Reject a type of headers that are not whole bytes, which no packet contains."""
        if type_name in self._odd_types:
            total, source = self._odd_types[type_name]
            raise P4Error(
                f"header {type_name} has {total} bits", source, "a multiple of 8 bits (add padding)"
            )


def _flat_fields(of: types.Type, prefix: str) -> Iterator[tuple[str, types.Type]]:
    """Return scalar and varbit fields of a header; fields of nested structs are `struct.field`."""
    for name, field_type in (field_types(of) or {}).items():
        plain = types.strip_newtypes(field_type)
        if scalar_type(plain) is not None or isinstance(plain, types.Varbit):
            yield prefix + name, plain
        else:
            yield from _flat_fields(plain, f"{prefix}{name}.")


def _is_flexible(of: types.Type) -> bool:
    """Return whether @flexible is on a header or struct, or on a part of it."""
    of = types.strip_newtypes(of)
    if not isinstance(of, types.StructLike):
        return False
    fields = of.declaration.fields
    return (
        of.declaration.annotation("flexible") is not None
        or any(f.annotation("flexible") is not None for f in fields)
        or any(_is_flexible(t) for t in of.fields.values())
    )


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


def _header_field(name: str, of: types.Type) -> ir.HeaderField:
    if isinstance(of, types.Varbit):
        return ir.HeaderField(name, of.width, is_varbit=True)
    scalar = scalar_type(of)
    if isinstance(scalar, Bits):
        return ir.HeaderField(name, scalar.width, scalar.signed)
    return ir.HeaderField(name, 1)
