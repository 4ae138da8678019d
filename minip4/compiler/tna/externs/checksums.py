"""Checksum objects: the one's complement sum of a parser, and the checksum of a deparser."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import Argument, extern_arguments
from minip4.compiler.lower.assignments import assign
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.checksums import add_calculation
from minip4.compiler.lower.externs.operands import require_block
from minip4.compiler.types import BOOL, Bits

_SUM = Bits(32)  # sum of 16-bit words, which is folded when it is read
_WORD = Bits(16)


def add(context: Context, call: syntax.Call, checksum: ExternObject) -> None:
    require_block(context, call, "parser")
    (data,) = extern_arguments(context, call)
    value = arithmetic.unary("~", _WORD, _complement(context, call, data))
    _accumulate(context, call, checksum, value)


def subtract(context: Context, call: syntax.Call, checksum: ExternObject) -> None:
    require_block(context, call, "parser")
    (data,) = extern_arguments(context, call)
    _accumulate(context, call, checksum, _complement(context, call, data))


def get(context: Context, call: syntax.Call, checksum: ExternObject) -> places.Value:
    """Return the sum without complement, as an input of a later update()."""
    require_block(context, call, "parser")
    return context.saved(_folded(context, call, checksum), call.source)


def subtract_all_and_deposit(context: Context, call: syntax.Call, checksum: ExternObject) -> None:
    """Store the sum, as get() returns it, at the end of the state.

    Programs for Tofino also subtract fields of the state after this call.
    """
    require_block(context, call, "parser")
    (target,) = extern_arguments(context, call)
    place = target.place
    if not isinstance(place, places.Scalar) or place.type != _WORD:
        raise P4Error("the residual is not a field", target.source, "a field of type bit<16>")
    if context.conditions:
        raise P4Error(
            f"{call.method}() under a condition is not supported", call.source, "a state of its own"
        )

    def deposit() -> None:
        assign(context, place, _folded(context, call, checksum), call.source)

    context.at_end_of_state.append(deposit)


def verify(context: Context, call: syntax.Call, checksum: ExternObject) -> places.Value:
    """Return whether the checksum is wrong, which is how programs for Tofino use the result."""
    require_block(context, call, "parser")
    ones = ir.Constant(_WORD, 0xFFFF)
    is_wrong = arithmetic.binary("!=", BOOL, _folded(context, call, checksum), ones)
    return context.saved(is_wrong, call.source)


def update(context: Context, call: syntax.Call, checksum: ExternObject) -> places.Value:
    """Return the checksum of the data; fields of invalid headers are left out."""
    data, *options = extern_arguments(context, call)
    result = _complement(context, call, data)
    if not options:
        return result
    zeros_as_ones = context.expressions.scalar(options[0].expression)
    is_zero = arithmetic.binary("==", BOOL, result, ir.Constant(_WORD, 0))
    ones = ir.Constant(_WORD, 0xFFFF)
    return arithmetic.choice(ir.both(zeros_as_ones, is_zero), ones, result)


def _complement(context: Context, call: syntax.Call, data: Argument) -> ir.Field:
    """Return the complemented sum of the data."""
    flat = context.expressions.flattened(data.value, data.source)
    inputs = [context.simple(e, data.source) for e in flat]
    result = context.temporary_field(_WORD, call.source)
    name = add_calculation(context, "csum16", inputs, call.source)
    context.emit(ir.Calculate(call.source, result, name))
    return result


def _sum(context: Context, checksum: ExternObject) -> ir.Field:
    return context.object_field(checksum, _SUM)


def _accumulate(
    context: Context, call: syntax.Call, checksum: ExternObject, value: ir.Expression
) -> None:
    total = _sum(context, checksum)
    wide = arithmetic.cast(value, _SUM)
    context.emit(ir.Assign(call.source, total, arithmetic.binary("+", _SUM, total, wide)))


def _folded(context: Context, call: syntax.Call, checksum: ExternObject) -> ir.Expression:
    total: ir.Expression = _sum(context, checksum)
    for _ in range(2):
        low = arithmetic.binary("&", _SUM, total, ir.Constant(_SUM, 0xFFFF))
        high = arithmetic.binary(">>", _SUM, total, ir.Constant(_SUM, 16))
        total = context.saved(arithmetic.binary("+", _SUM, low, high), call.source)
    return arithmetic.cast(total, _WORD)
