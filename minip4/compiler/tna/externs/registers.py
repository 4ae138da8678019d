"""Registers and register actions. A cell of a struct is the number of its concatenated fields."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Environment, ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import assign
from minip4.compiler.lower.builtins import invalidate
from minip4.compiler.lower.constants import constant_value
from minip4.compiler.lower.context import Context, Frame
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.types import Bits


def read(context: Context, call: syntax.Call, register: ExternObject) -> places.Value:
    (at,) = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    cell = context.temporary(register.type.arguments[0], call.source, register.declared_name)
    _read_cell(context, register, operand(context, at), cell, call.source)
    return cell


def write(context: Context, call: syntax.Call, register: ExternObject) -> places.Value:
    at, new = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    index = operand(context, at)
    of = register.type.arguments[0]
    cell = context.temporary(of, call.source, register.declared_name)
    assign(context, cell, new.value, call.source)
    _write_cell(context, register, index, cell, call.source)
    return cell


def execute(context: Context, call: syntax.Call, action: ExternObject) -> places.Value:
    """Inline a register action: read the cell, run `apply`, write the cell."""
    require_block(context, call, "ingress", "egress")
    register = action.arguments[0]
    if not isinstance(register, ExternObject):
        raise P4Error("the register of this action is unknown", call.source, "a Register")
    (at,) = extern_arguments(context, call)
    index = operand(context, at)
    with context.collecting() as code:
        cell = context.temporary(register.type.arguments[0], call.source, "value")
        _read_cell(context, register, index, cell, call.source)
        result = _run(context, call, action, cell)
        _write_cell(context, register, index, cell, call.source)
    context.emit(ir.Atomic(call.source, code))
    return result


def _run(
    context: Context, call: syntax.Call, action: ExternObject, cell: places.Place
) -> places.Place:
    """Inline `apply` with the cell, and return its result, which is 0 if `apply` has none."""
    method = action.method("apply")
    result = context.temporary(action.type.arguments[-1], call.source, "rv")
    if not isinstance(result, places.Scalar):
        raise P4Error("the result of a register action is a number", action.source, "bit<32>")
    assign(context, result, ir.Constant(result.type, 0), call.source)
    environment = Environment(context.environment)
    for parameter, place in zip(method.parameters, (cell, result), strict=False):
        environment.bindings[parameter] = place
        if parameter.direction == "out":
            invalidate(context, place, call.source)
    assert method.body is not None
    with context.within(environment):
        context.calls.inline(method.body, Frame(context.new_label()), call.source)
    return result


def read_parameter(context: Context, call: syntax.Call, parameter: ExternObject) -> places.Value:
    """Return the initial value of a RegisterParam, since P4Runtime cannot change it."""
    value = parameter.arguments[0]
    assert value is not None
    assert not isinstance(value, ExternObject)
    of = context.environment.resolve(parameter.type.arguments[0])
    return constant_value(value, of, context.environment, call.source)


def _read_cell(
    context: Context,
    register: ExternObject,
    index: ir.Expression,
    cell: places.Place,
    source: syntax.Source,
) -> None:
    if isinstance(cell, places.Scalar) and isinstance(cell.field, ir.Field):
        context.emit(ir.RegisterRead(source, cell.field, register.name, index))
        return
    fields = context.expressions.flattened(cell, source)
    at = sum(map(ir.width_of, fields))
    whole = context.temporary_field(Bits(at), source)
    context.emit(ir.RegisterRead(source, whole, register.name, index))
    for field in fields:
        assert isinstance(field, ir.Field)
        width = ir.width_of(field)
        part = arithmetic.slice_of(whole, at - 1, at - width)
        context.emit(ir.Assign(source, field, arithmetic.cast(part, field.type)))
        at -= width


def _write_cell(
    context: Context,
    register: ExternObject,
    index: ir.Expression,
    cell: places.Place,
    source: syntax.Source,
) -> None:
    if isinstance(cell, places.Scalar) and isinstance(cell.field, ir.Field):
        context.emit(ir.RegisterWrite(source, register.name, index, cell.field))
        return
    whole: ir.Expression | None = None
    width = 0
    for field in context.expressions.flattened(cell, source):
        width += ir.width_of(field)
        part = arithmetic.cast(field, Bits(ir.width_of(field)))
        whole = part if whole is None else arithmetic.concatenate(whole, part, Bits(width))
    assert whole is not None
    value = context.simple(whole, source)
    context.emit(ir.RegisterWrite(source, register.name, index, value))
