"""P4Data: values of registers and digests, encoded according to their types in P4Info.

P4Runtime spec 8.4.3.
"""

from collections.abc import Iterator

from finsy.proto import p4d, p4t

from minip4.runtime.p4info import values
from minip4.runtime.p4info.schema import Schema
from minip4.runtime.status import invalid, unimplemented


def encode(spec: p4t.P4DataTypeSpec, schema: Schema, words: Iterator[int]) -> p4d.P4Data:
    """Encode a value; `words` yields its basic members in order, as the engine stores them."""
    kind = spec.WhichOneof("type_spec")
    data = p4d.P4Data()
    if kind == "bitstring":
        data.bitstring = values.encode(next(words))
    elif kind == "bool":
        data.bool = bool(next(words))
    elif kind == "tuple":
        data.tuple.members.extend(encode(m, schema, words) for m in spec.tuple.members)
    elif kind == "struct":
        members = schema.p4info.type_info.structs[spec.struct.name].members
        data.struct.members.extend(encode(m.type_spec, schema, words) for m in members)
    elif kind == "serializable_enum":
        data.enum_value = values.encode(next(words))
    elif kind == "new_type":
        translation = schema.translations.get(spec.new_type.name)
        if translation is None:
            return encode(_underlying(spec, schema), schema, words)
        data.bitstring = translation.encode(next(words))
    else:
        raise unimplemented(f"values of type {kind} are not supported")
    return data


def decode_word(data: p4d.P4Data, spec: p4t.P4DataTypeSpec, schema: Schema, what: str) -> int:
    """Decode a value of a basic type."""
    kind = spec.WhichOneof("type_spec")
    translation = schema.translations.get(spec.new_type.name)
    if kind == "new_type" and translation is None:
        return decode_word(data, _underlying(spec, schema), schema, what)
    named = {"serializable_enum": "enum_value", "new_type": "bitstring"}
    expected = named.get(kind or "", kind)
    given = data.WhichOneof("data")
    if given != expected:
        raise invalid(f"{what}: {given or 'no data'} given, expected {expected}")
    if translation is not None:
        number = translation.decode(data.bitstring, what)
        # reserved permanently, because the program may store the value
        translation.reserve(number)
        return number
    if kind == "bitstring":
        return values.decode(data.bitstring, bitwidth(spec), what)
    if kind == "bool":
        return int(data.bool)
    if kind == "serializable_enum":
        enum = schema.p4info.type_info.serializable_enums[spec.serializable_enum.name]
        return values.decode(data.enum_value, enum.underlying_type.bitwidth, what)
    raise unimplemented(f"{what}: values of type {kind} cannot be written")


def decode_cell(data: p4d.P4Data, spec: p4t.P4DataTypeSpec, schema: Schema, what: str) -> int:
    """Decode the value of a register cell; a struct is the number of its concatenated members."""
    kind = spec.WhichOneof("type_spec")
    if kind not in ("struct", "tuple"):
        return decode_word(data, spec, schema, what)
    given = data.WhichOneof("data")
    specs = _members(spec, schema)
    values = data.struct.members if kind == "struct" else data.tuple.members
    if given != kind or len(values) != len(specs):
        raise invalid(f"{what}: expected a {kind} of {len(specs)} members")
    cell = 0
    for value, member in zip(values, specs, strict=True):
        number = decode_cell(value, member, schema, what)
        cell = cell << sum(_widths(member, schema)) | number
    return cell


def cell_words(cell: int, spec: p4t.P4DataTypeSpec, schema: Schema) -> Iterator[int]:
    """Yield the basic members of a register cell in order."""
    if spec.WhichOneof("type_spec") not in ("struct", "tuple"):
        yield cell
        return
    at = sum(widths := _widths(spec, schema))
    for width in widths:
        at -= width
        yield cell >> at & ((1 << width) - 1)


def _members(spec: p4t.P4DataTypeSpec, schema: Schema) -> list[p4t.P4DataTypeSpec]:
    if spec.WhichOneof("type_spec") == "tuple":
        return list(spec.tuple.members)
    structs = schema.p4info.type_info.structs
    if spec.struct.name not in structs:
        raise unimplemented(f"struct {spec.struct.name!r} is not in P4Info")
    return [m.type_spec for m in structs[spec.struct.name].members]


def _widths(spec: p4t.P4DataTypeSpec, schema: Schema) -> list[int]:
    """Return the widths of the basic members in order."""
    kind = spec.WhichOneof("type_spec")
    if kind in ("struct", "tuple"):
        return [width for m in _members(spec, schema) for width in _widths(m, schema)]
    if kind == "bool":
        return [1]
    if kind == "serializable_enum":
        enums = schema.p4info.type_info.serializable_enums
        return [enums[spec.serializable_enum.name].underlying_type.bitwidth]
    if kind == "new_type":
        # P4Info does not contain the width of a translated type
        if spec.new_type.name in schema.translations:
            raise unimplemented(
                f"members of the translated type {spec.new_type.name} in a register"
            )
        return _widths(_underlying(spec, schema), schema)
    if kind != "bitstring":
        raise unimplemented(f"values of type {kind} are not supported")
    return [bitwidth(spec)]


def bitwidth(spec: p4t.P4DataTypeSpec) -> int:
    """Return the width of a bit<W> or int<W> type."""
    bits = spec.bitstring
    return bits.bit.bitwidth if bits.WhichOneof("type_spec") == "bit" else bits.int.bitwidth


def _underlying(spec: p4t.P4DataTypeSpec, schema: Schema) -> p4t.P4DataTypeSpec:
    new_type: p4t.P4NewTypeSpec = schema.p4info.type_info.new_types[spec.new_type.name]
    return new_type.original_type
