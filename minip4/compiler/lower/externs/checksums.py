"""Lowering of hashes and checksums to calculations over fields and constants."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import read
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.expressions import has_effects
from minip4.compiler.lower.externs import operands
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.types import Bits


def hash_(context: Context, call: syntax.Call) -> None:
    def in_parts(data: syntax.Expression) -> places.Value:
        if has_effects(data):
            return context.expressions.value(data)
        values = context.expressions.values(_data_parts(data))
        return places.Compound({str(i): value for i, value in enumerate(values)})

    target, algorithm, low, data, size = extern_arguments(context, call, {3: in_parts})
    name = operands.enum_member(context, algorithm.expression)
    calculation = _calculation(context, name, [data.value], data.source, with_payload=False)
    base, maximum = operand(context, low), operand(context, size)
    field, move = operands.result(context, target)
    context.emit(ir.Hash(call.source, field, calculation, base, maximum))
    move()


def verify(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "verify")
    _checksum(context, call, is_verify=True)


def update(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "compute")
    _checksum(context, call, is_verify=False)


def _checksum(context: Context, call: syntax.Call, *, is_verify: bool) -> None:
    assert call.declaration is not None
    condition, data, target, algorithm = operands.written(call)
    algorithm_name = operands.enum_member(context, algorithm)
    check = context.expressions.scalar(condition)
    for outer in reversed(context.conditions):
        check = ir.both(outer, check)
    calculation = _calculation(
        context,
        algorithm_name,
        context.expressions.values(_data_parts(data)),
        call.source,
        with_payload=call.declaration.name.endswith("_payload"),
    )
    field = read(context.expressions.value(target))
    if not isinstance(field, ir.Field):
        raise P4Error("the checksum is a field", target.source)
    name = _numbered("cksum", len(context.program.checksums))
    context.program.checksums.append(
        ir.Checksum(name, call.source, field, calculation, is_verify, check)
    )


def _calculation(
    context: Context,
    algorithm: str,
    data: list[places.Value],
    source: syntax.Source,
    *,
    with_payload: bool,
) -> str:
    """Add a named calculation over the data and return its name."""
    flat = [e for part in data for e in context.expressions.flattened(part, source)]
    inputs = [_input(context, e, source) for wide in flat for e in _zero_extended(wide)]
    return add_calculation(context, algorithm, inputs, source, with_payload=with_payload)


def add_calculation(
    context: Context,
    algorithm: str,
    inputs: list[ir.Expression],
    source: syntax.Source,
    *,
    with_payload: bool = False,
) -> str:
    """Add a calculation over fields and constants to the program and return its name."""
    name = _numbered("calc", len(context.program.calculations))
    context.program.calculations.append(
        ir.Calculation(name, algorithm, inputs, with_payload, source)
    )
    return name


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number - 1}" if number else name


def _input(context: Context, expression: ir.Expression, source: syntax.Source) -> ir.Expression:
    if isinstance(expression, ir.Field | ir.Constant):
        return expression
    if context.block in ("verify", "compute"):
        raise P4Error("checksum data is made of fields and constants", source)
    if isinstance(expression, ir.ActionData):
        return context.saved_field(expression, source)
    return context.simple(expression, source)


def _data_parts(data: syntax.Expression) -> list[syntax.Expression]:
    """Return the smallest parts of hashed data, splitting lists and `a ++ b`."""
    if data.constant is not None:
        return [data]
    if isinstance(data, syntax.ListExpression):
        return [part for element in data.elements for part in _data_parts(element)]
    if isinstance(data, syntax.StructExpression):
        return [part for field in data.values for part in _data_parts(field.value)]
    if isinstance(data, syntax.Binary) and data.operator == "++":
        return [*_data_parts(data.left), *_data_parts(data.right)]
    return [data]


def _zero_extended(expression: ir.Expression) -> list[ir.Expression]:
    """Return `(bit<32>)f` as zeros and f. Inputs of hashes can only be fields and constants."""
    if isinstance(expression, ir.Cast):
        wide, narrow = expression.type, expression.operand.type
        if isinstance(wide, Bits) and isinstance(narrow, Bits) and not narrow.signed:
            zeros = wide.width - narrow.width
            if zeros > 0:
                rest = _zero_extended(expression.operand)
                return [ir.Constant(Bits(zeros), 0), *rest]
    return [expression]
