"""Registers and register actions. A cell of a struct is the number of its concatenated fields.

A direct register has a cell per entry of the table whose actions use it. Outside of actions it has
one cell, as the compiler of Tofino makes a table without keys of such code.
"""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Environment, ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import assign
from minip4.compiler.lower.builtins import invalidate
from minip4.compiler.lower.constants import constant_value
from minip4.compiler.lower.context import Context, Frame
from minip4.compiler.lower.extern_objects import cell_fields
from minip4.compiler.lower.externs.operands import operand, require_block, scalar
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.tna.direct import own_index
from minip4.compiler.types import BOOL, Bits

_INDEX = Bits(32)


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


def read_direct(context: Context, call: syntax.Call, register: ExternObject) -> places.Value:
    require_block(context, call, "ingress", "egress")
    cell = context.temporary(register.type.arguments[0], call.source, register.declared_name)
    _read_cell(context, register, own_index(context, register.name, call.source), cell, call.source)
    return cell


def write_direct(context: Context, call: syntax.Call, register: ExternObject) -> places.Value:
    (new,) = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    cell = context.temporary(register.type.arguments[0], call.source, register.declared_name)
    assign(context, cell, new.value, call.source)
    _write_cell(
        context, register, own_index(context, register.name, call.source), cell, call.source
    )
    return cell


def execute(context: Context, call: syntax.Call, action: ExternObject) -> places.Value | None:
    """Inline a register action: read the cell, run `apply`, write the cell."""
    require_block(context, call, "ingress", "egress")
    (at,) = extern_arguments(context, call)
    index = operand(context, at)
    with context.collecting() as code:
        result = _execute(context, call, action, _register_of(action, call), index)
    context.emit(ir.Atomic(call.source, code))
    return result


def execute_direct(
    context: Context, call: syntax.Call, action: ExternObject
) -> places.Value | None:
    require_block(context, call, "ingress", "egress")
    register = _register_of(action, call)
    index = own_index(context, register.name, call.source)
    with context.collecting() as code:
        result = _execute(context, call, action, register, index)
    context.emit(ir.Atomic(call.source, code))
    return result


def execute_log(context: Context, call: syntax.Call, action: ExternObject) -> places.Value | None:
    """Run a register action on the next cell; cell 0 follows the last one.

    All actions of a register share its next index, which a register of one cell has.
    """
    require_block(context, call, "ingress", "egress")
    register = _register_of(action, call)
    size = register.arguments[0]
    assert isinstance(size, int)
    name, zero = f"{register.name}$next", ir.Constant(_INDEX, 0)
    registers = context.program.registers
    if all(known.name != name for known in registers):
        registers.append(ir.Register(name, register.source, 1, _INDEX.width))
    with context.collecting() as code:
        index = context.temporary_field(_INDEX, call.source)
        context.emit(ir.RegisterRead(call.source, index, name, zero))
        result = _execute(context, call, action, register, index)
        following = arithmetic.binary("+", _INDEX, index, ir.Constant(_INDEX, 1))
        is_last = arithmetic.binary("==", BOOL, index, ir.Constant(_INDEX, size - 1))
        after = context.saved(arithmetic.choice(is_last, zero, following), call.source)
        context.emit(ir.RegisterWrite(call.source, name, zero, after))
    context.emit(ir.Atomic(call.source, code))
    return result


def predicate(context: Context, call: syntax.Call, _: ExternObject) -> places.Value:
    """Return a number with one bit set: bit `cmplo + 2 * cmphi`."""
    given = {a.parameter.name: a for a in extern_arguments(context, call)}
    values = [scalar(given[name]) if name in given else ir.FALSE for name in ("cmplo", "cmphi")]
    low, high = (context.saved(value, call.source) for value in values)
    of = scalar_type(context.environment.resolve(call.type))
    if not isinstance(of, Bits) or of.width < 4:
        raise P4Error("the result of predicate() has 4 bits", call.source, "bit<4> or wider")
    one, two, four, eight = (ir.Constant(of, 1 << bit) for bit in range(4))
    result = arithmetic.choice(
        high, arithmetic.choice(low, eight, four), arithmetic.choice(low, two, one)
    )
    return context.saved(result, call.source)


def _register_of(action: ExternObject, call: syntax.Call) -> ExternObject:
    register = action.arguments[0]
    if not isinstance(register, ExternObject):
        raise P4Error("the register of this action is unknown", call.source, "a register")
    return register


def _execute(
    context: Context,
    call: syntax.Call,
    action: ExternObject,
    register: ExternObject,
    index: ir.Expression | None,
) -> places.Place | None:
    cell = _cell(context, call, register, action)
    _read_cell(context, register, index, cell, call.source)
    result = _run(context, call, action, cell)
    _write_cell(context, register, index, cell, call.source)
    return result


def _cell(
    context: Context, call: syntax.Call, register: ExternObject, action: ExternObject
) -> places.Place:
    """Return a variable for the cell, which can have other fields or a number in the action."""
    of = register.type.arguments[0]
    here = context.environment.resolve(action.method("apply").parameters[0].type)
    widths = [_width(t) for t in (of, here)]
    if widths[0] != widths[1] and None in (scalar_type(of), scalar_type(here)):
        raise P4Error(
            f"the cells of {register.name} have {widths[0]} bits, not {widths[1]}",
            action.source,
            f"RegisterAction<{of}, ...>",
        )
    return context.temporary(here, call.source, "value")


def _run(
    context: Context, call: syntax.Call, action: ExternObject, cell: places.Place
) -> places.Place | None:
    """Inline `apply` with the cell, and return its result, which is 0 if `apply` has none."""
    method = action.method("apply")
    arguments = [cell]
    result = None
    if action.type.arguments[-1] is not types.VOID:
        result = context.temporary(action.type.arguments[-1], call.source, "rv")
        if not isinstance(result, places.Scalar):
            raise P4Error("the result of a register action is a number", action.source, "bit<32>")
        assign(context, result, ir.Constant(result.type, 0), call.source)
        arguments.append(result)
    environment = Environment(context.environment)
    for parameter, place in zip(method.parameters, arguments, strict=False):
        environment.bindings[parameter] = place
        if parameter.direction == "out":
            invalidate(context, place, call.source)
    assert method.body is not None
    context.this, outer = action, context.this
    with context.within(environment):
        context.calls.inline(method.body, Frame(context.new_label()), call.source)
    context.this = outer
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
    index: ir.Expression | None,
    cell: places.Place,
    source: syntax.Source,
) -> None:
    fields = context.expressions.flattened(cell, source)
    at = sum(map(ir.width_of, fields))
    if _is_whole(register, fields) and isinstance(fields[0], ir.Field):
        context.emit(ir.RegisterRead(source, fields[0], register.name, index))
        return
    whole = context.temporary_field(_number(register), source)
    context.emit(ir.RegisterRead(source, whole, register.name, index))
    value = arithmetic.cast(whole, Bits(at))
    for field in fields:
        assert isinstance(field, ir.Field)
        width = ir.width_of(field)
        part = arithmetic.slice_of(value, at - 1, at - width)
        context.emit(ir.Assign(source, field, arithmetic.cast(part, field.type)))
        at -= width


def _write_cell(
    context: Context,
    register: ExternObject,
    index: ir.Expression | None,
    cell: places.Place,
    source: syntax.Source,
) -> None:
    fields = context.expressions.flattened(cell, source)
    if _is_whole(register, fields) and isinstance(fields[0], ir.Field):
        context.emit(ir.RegisterWrite(source, register.name, index, fields[0]))
        return
    whole: ir.Expression | None = None
    width = 0
    for field in fields:
        width += ir.width_of(field)
        part = arithmetic.cast(field, Bits(ir.width_of(field)))
        whole = part if whole is None else arithmetic.concatenate(whole, part, Bits(width))
    assert whole is not None
    value = context.simple(arithmetic.cast(whole, _number(register)), source)
    context.emit(ir.RegisterWrite(source, register.name, index, value))


def _is_whole(register: ExternObject, fields: list[ir.Expression]) -> bool:
    """Return whether a cell consists of a single field of the same width."""
    return len(fields) == 1 and ir.width_of(fields[0]) == _number(register).width


def _number(register: ExternObject) -> Bits:
    """Return the type of the number in a cell."""
    return Bits(_width(register.type.arguments[0]))


def _width(of: types.Type) -> int:
    return sum(ir.width_of(ir.Constant(field, 0)) for field in cell_fields(of))
