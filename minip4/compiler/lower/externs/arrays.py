"""Lowering of the methods of counters, meters and registers."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import is_compound
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs import operands
from minip4.compiler.lower.externs.operands import operand, require_block


def count(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    (index,) = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    context.emit(ir.Count(call.source, counter.name, operand(context, index)))


def execute_meter(context: Context, call: syntax.Call, meter: ExternObject) -> None:
    at, target = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    index = operand(context, at)
    field, move = operands.result(context, target)
    context.emit(ir.ExecuteMeter(call.source, meter.name, index, field))
    move()


def read_register(context: Context, call: syntax.Call, register: ExternObject) -> None:
    target, at = extern_arguments(context, call)
    index = operand(context, at)
    field, move = operands.result(context, target)
    context.emit(ir.RegisterRead(call.source, field, register.name, index))
    move()


def write_register(context: Context, call: syntax.Call, register: ExternObject) -> None:
    at, new = extern_arguments(context, call)
    if is_compound(new.value):
        raise P4Error("a register cell is a number", new.source)
    index, value = operand(context, at), operand(context, new)
    context.emit(ir.RegisterWrite(call.source, register.name, index, value))


def count_direct(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    """Do nothing, because a table with a direct counter counts each lookup itself."""


def read_direct_meter(context: Context, call: syntax.Call, meter: ExternObject) -> None:
    (result,) = extern_arguments(context, call)
    place = result.place
    if not isinstance(place, places.Scalar) or not isinstance(place.field, ir.Field):
        raise P4Error("a direct meter writes to a field", result.source, "a plain field")
    known = context.properties.read_by(meter.name, place.field, call.source)
    if known != place.field:
        raise P4Error(f"{meter.name} already writes to another field", result.source)
