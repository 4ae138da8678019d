"""P4Data: values of registers and digests, after the types in P4Info (spec 8.4.3)."""

from collections.abc import Iterator

from finsy.proto import p4d, p4t

from minip4.runtime import values
from minip4.runtime.status import invalid, unimplemented


def encode(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, words: Iterator[int]) -> p4d.P4Data:
    """Write one value; `words` yields its basic members in order, as the engine has them."""
    kind = spec.WhichOneof("type_spec")
    data = p4d.P4Data()
    if kind == "bitstring":
        data.bitstring = values.encode(next(words))
    elif kind == "bool":
        data.bool = bool(next(words))
    elif kind == "tuple":
        data.tuple.members.extend(encode(m, types, words) for m in spec.tuple.members)
    elif kind == "struct":
        members = types.structs[spec.struct.name].members
        data.struct.members.extend(encode(m.type_spec, types, words) for m in members)
    elif kind == "serializable_enum":
        data.enum_value = values.encode(next(words))
    elif kind == "new_type":
        return encode(_underlying(spec, types), types, words)
    else:
        raise unimplemented(f"values of type {kind} are not supported")
    return data


def decode_word(
    data: p4d.P4Data, spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, what: str
) -> int:
    """Read a value of a basic type."""
    kind = spec.WhichOneof("type_spec")
    if kind == "new_type":
        return decode_word(data, _underlying(spec, types), types, what)
    expected = "enum_value" if kind == "serializable_enum" else kind
    given = data.WhichOneof("data")
    if given != expected:
        raise invalid(f"{what}: {given or 'no data'} given, expected {expected}")
    if kind == "bitstring":
        return values.decode(data.bitstring, bitwidth(spec), what)
    if kind == "bool":
        return int(data.bool)
    if kind == "serializable_enum":
        enum = types.serializable_enums[spec.serializable_enum.name]
        return values.decode(data.enum_value, enum.underlying_type.bitwidth, what)
    raise unimplemented(f"{what}: values of type {kind} cannot be written")


def bitwidth(spec: p4t.P4DataTypeSpec) -> int:
    """The width of a bit<W> or int<W>."""
    bits = spec.bitstring
    return bits.bit.bitwidth if bits.WhichOneof("type_spec") == "bit" else bits.int.bitwidth


def _underlying(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> p4t.P4DataTypeSpec:
    new_type: p4t.P4NewTypeSpec = types.new_types[spec.new_type.name]
    if new_type.WhichOneof("representation") != "original_type":
        raise unimplemented(f"type {spec.new_type.name}: p4runtime_translation is not supported")
    return new_type.original_type
