"""Types in P4Info: P4DataTypeSpec, and the map of named types (P4Runtime spec 6.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from finsy.proto import p4t

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.p4info.annotations import add_annotations


def type_name(of: types.Type) -> str | None:
    """Return the name of a newtype for `type_name` fields; None for all other types."""
    return of.name if isinstance(of, types.NewType) else None


def translated_width(translation: syntax.Annotation) -> int:
    """Return the width in `@p4runtime_translation("uri", bit<32>)`; 0 for `string`.

    The width may also be a plain number, such as `32`.
    """
    if len(translation.body) != 2:
        raise P4Error(
            "@p4runtime_translation needs two arguments", translation.source, '("uri", bit<W>)'
        )
    second = translation.body[1]
    if isinstance(second.constant, int) and not isinstance(second.constant, bool):
        if not 0 < second.constant < 1 << 31:
            raise P4Error(
                f"{second.constant} is not a valid width", second.source, "bit<W>, W or string"
            )
        return second.constant
    if isinstance(second.type, types.Bits) and not second.type.signed:
        return second.type.width
    if second.type is not types.STRING:
        raise P4Error(
            f"the controller cannot have {second.type} for a translated type",
            second.source,
            "bit<W>, W or string",
        )
    return 0


class TypeInfo:
    """Fills a P4TypeInfo message with those named types that are requested."""

    def __init__(self, message: p4t.P4TypeInfo, errors: list[syntax.ErrorMember]) -> None:
        self._message: Any = message
        self._errors = errors

    def note(self, of: types.Type) -> None:
        self.spec(of)

    def spec(self, of: types.Type) -> p4t.P4DataTypeSpec:
        result: Any = p4t.P4DataTypeSpec()
        if isinstance(of, types.Bits):
            (result.bitstring.int if of.signed else result.bitstring.bit).bitwidth = of.width
        elif isinstance(of, types.Varbit):
            result.bitstring.varbit.max_bitwidth = of.width
        elif of is types.BOOL:
            result.bool.SetInParent()
        elif of is types.ERROR:
            self._error()
            result.error.SetInParent()
        elif isinstance(of, types.Tuple):
            for element in of.elements:
                result.tuple.members.add().CopyFrom(self.spec(element))
        elif isinstance(of, types.Stack):
            self._stack(of, result)
        elif isinstance(of, types.AnonymousStruct):
            for element in of.fields.values():
                result.tuple.members.add().CopyFrom(self.spec(element))
        elif isinstance(of, types.Named):
            self._named(of, result)
        return result

    def struct_of_numbers(self, name: str, fields: Sequence[str], width: int) -> p4t.P4DataTypeSpec:
        """Return the type of a struct that the program does not declare."""
        message: Any = p4t.P4StructTypeSpec()
        for field in fields:
            message.members.add(name=field).type_spec.bitstring.bit.bitwidth = width
        self._message.structs[name].CopyFrom(message)
        result: Any = p4t.P4DataTypeSpec()
        result.struct.name = name
        return result

    def _error(self) -> None:
        if not self._message.HasField("error"):
            self._message.error.members.extend(e.name for e in self._errors)

    def _stack(self, of: types.Stack, result: Any) -> None:
        element = of.element
        assert isinstance(element, types.Named)
        if isinstance(element, types.HeaderUnion):
            result.header_union_stack.header_union.name = control_plane_name(element.declaration)
            result.header_union_stack.size = of.size
        else:
            result.header_stack.header.name = control_plane_name(element.declaration)
            result.header_stack.size = of.size
        self.spec(element)

    def _named(self, of: types.Named, result: Any) -> None:
        name = control_plane_name(of.declaration)
        match of:
            case types.Struct():
                result.struct.name = name
                self._struct(of, name)
            case types.Header():
                result.header.name = name
                self._header(of, name)
            case types.HeaderUnion():
                result.header_union.name = name
                self._union(of, name)
            case types.SerializableEnum():
                result.serializable_enum.name = name
                self._serializable_enum(of, name)
            case types.Enum():
                result.enum.name = name
                self._enum(of, name)
            case types.NewType():
                result.new_type.name = name
                self._new_type(of, name)

    def _struct(self, of: types.Struct, name: str) -> None:
        if name in self._message.structs:
            return
        message: Any = p4t.P4StructTypeSpec()
        for f in of.declaration.fields:
            member = message.members.add()
            member.name = control_plane_name(f)
            member.type_spec.CopyFrom(self.spec(of.fields[f.name]))
        self._message.structs[name].CopyFrom(message)

    def _header(self, of: types.Header, name: str) -> None:
        if name in self._message.headers:
            return
        message: Any = p4t.P4HeaderTypeSpec()
        for field_name, field_type, _ in flat_fields(of):
            member = message.members.add()
            member.name = field_name
            spec: Any = self.spec(types.strip_newtypes(field_type))
            member.type_spec.CopyFrom(spec.bitstring)
        self._message.headers[name].CopyFrom(message)

    def _union(self, of: types.HeaderUnion, name: str) -> None:
        if name in self._message.header_unions:
            return
        message: Any = p4t.P4HeaderUnionTypeSpec()
        for f in of.declaration.fields:
            member = message.members.add()
            member.name = control_plane_name(f)
            spec: Any = self.spec(of.fields[f.name])
            member.header.CopyFrom(spec.header)
        self._message.header_unions[name].CopyFrom(message)

    def _enum(self, of: types.Enum, name: str) -> None:
        if name not in self._message.enums:
            message = self._message.enums[name]
            for m in of.declaration.members:
                message.members.add().name = control_plane_name(m)

    def _serializable_enum(self, of: types.SerializableEnum, name: str) -> None:
        if name in self._message.serializable_enums:
            return
        message = self._message.serializable_enums[name]
        width = of.underlying.width
        message.underlying_type.bitwidth = width
        for m in of.declaration.members:
            member = message.members.add()
            member.name = control_plane_name(m)
            member.value = value_bytes(m.number, width)

    def _new_type(self, of: types.NewType, name: str) -> None:
        if name in self._message.new_types:
            return
        spec = self.spec(types.strip_newtypes(of))
        message = self._message.new_types[name]
        translation = of.declaration.annotation("p4runtime_translation")
        add_annotations(message, of.declaration.annotations, ("p4runtime_translation",))
        if translation is None:
            message.original_type.CopyFrom(spec)
            return
        message.translated_type.uri = str(translation.values[0])
        width = translated_width(translation)
        if width:
            message.translated_type.sdn_bitwidth = width
        else:
            message.translated_type.sdn_string.SetInParent()


def flat_fields(
    of: types.Type, prefix: str = "", outer: tuple[syntax.Annotation, ...] = ()
) -> Iterator[tuple[str, types.Type, list[syntax.Annotation]]]:
    """Yield the fields of a header with all their annotations.

    The name of a field in a nested struct is its path.
    """
    assert isinstance(of, types.StructLike)
    for f in of.declaration.fields:
        field_type = of.fields[f.name]
        annotations = [*f.annotations, *outer]
        if isinstance(field_type, types.Struct):
            yield from flat_fields(field_type, f"{prefix}{f.name}.", tuple(annotations))
        else:
            name = f"{prefix}{f.name}" if prefix else control_plane_name(f)
            yield name, field_type, annotations


def value_bytes(value: int, width_bits: int) -> bytes:
    """Return a value padded to the bytes of its width, as PI expects."""
    value &= (1 << width_bits) - 1
    return value.to_bytes((width_bits + 7) // 8, "big")
