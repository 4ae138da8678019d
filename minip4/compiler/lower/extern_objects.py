"""Lowering of counters, meters and registers that do not belong to a table."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.types import Bits


def declare(context: Context, item: ExternObject) -> None:
    program = context.program
    match item.type.name:
        case "counter":
            program.counters.append(ir.Counter(item.name, item.source, _size(item)))
        case "meter":
            unit = item.arguments[1]
            assert isinstance(unit, syntax.EnumMember)
            program.meters.append(ir.Meter(item.name, item.source, unit.name, _size(item)))
        case "register":
            program.registers.append(_register(item))


def _register(item: ExternObject) -> ir.Register:
    of = scalar_type(item.type.arguments[0])
    if not isinstance(of, Bits):
        raise P4Error(
            f"a register of {item.type.arguments[0]} is not supported",
            item.source,
            "bit<> or int<>",
        )
    size = _size(item)
    if size == 0:
        raise P4Error("a register needs at least one cell", item.source)
    return ir.Register(item.name, item.source, size, of.width)


def _size(item: ExternObject) -> int:
    size = item.arguments[0]
    if isinstance(size, syntax.EnumMember):
        return size.number
    assert isinstance(size, int)
    return size
