"""Lowering of counters, meters and registers that do not belong to a table."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.storage import field_types, scalar_type
from minip4.compiler.types import Bits


def declare(context: Context, item: ExternObject) -> None:
    program = context.program
    match item.kind:
        case "counter":
            program.counters.append(ir.Counter(item.name, item.source, _size(item)))
        case "meter":
            unit = item.arguments[1]
            assert isinstance(unit, syntax.EnumMember)
            program.meters.append(ir.Meter(item.name, item.source, unit.name.lower(), _size(item)))
        case "register":
            program.registers.append(_register(item, _size(item), item.arguments[1:]))
        case "Lpf" | "Wred" as kind:  # the register of its settings
            _declare_settings(context, item, kind, _size(item))
        case "DirectLpf" | "DirectWred" as kind:
            _declare_settings(context, item, kind.removeprefix("Direct"), 1)
        case "DirectRegister":
            register = _register(item, 1, item.arguments)
            register.table = context.properties.register_tables.get(item.name)
            if register.table is not None:
                register.size = 0  # the entries have the cells
            program.registers.append(register)


def _declare_settings(context: Context, item: ExternObject, kind: str, size: int) -> None:
    width = {"Lpf": 128, "Wred": 256}[kind]
    context.program.registers.append(ir.Register(item.name, item.source, size, width))


def _register(
    item: ExternObject, size: int, initial: list[syntax.Constant | ExternObject | None]
) -> ir.Register:
    of = item.type.arguments[0]
    fields = cell_fields(of)
    if not fields or (item.type.name == "register" and not isinstance(scalar_type(of), Bits)):
        raise P4Error(f"a register of {of} is not supported", item.source, "bit<> or int<>")
    if size == 0:
        raise P4Error("a register needs at least one cell", item.source)
    given = initial[0] if initial else None
    values = _numbers(given) if given is not None else [0] * len(fields)
    width = cell = 0
    for field, value in zip(fields, values, strict=True):
        bits = ir.width_of(ir.Constant(field, 0))
        cell = cell << bits | value & ((1 << bits) - 1)
        width += bits
    return ir.Register(item.name, item.source, size, width, cell)


def cell_fields(of: types.Type) -> list[types.Type]:
    """Return the types of the numbers in a cell, or [] if a part of the cell is no number."""
    scalar = scalar_type(of)
    if scalar is not None:
        return [scalar]
    fields: list[types.Type] = []
    for member in (field_types(of) or {}).values():
        inner = cell_fields(member)
        if not inner:
            return []
        fields += inner
    return fields


def _numbers(value: syntax.Constant | ExternObject) -> list[int]:
    """Return the initial value of a register as a list of numbers, one per field."""
    if isinstance(value, tuple):
        return [number for part in value for number in _numbers(part)]
    if isinstance(value, syntax.EnumMember):
        return [value.number]
    assert isinstance(value, int)
    return [int(value)]


def _size(item: ExternObject) -> int:
    size = item.arguments[0]
    if isinstance(size, syntax.EnumMember):
        return size.number
    assert isinstance(size, int)
    return size
