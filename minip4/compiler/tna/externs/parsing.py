"""Externs of parsers: port metadata, counters and priorities."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import require_block, scalar
from minip4.compiler.lower.externs.packets import lookahead
from minip4.compiler.types import BOOL, Bits, width_in_bits

# the parser counter of Tofino has 8 bits with a sign; programs must not depend on its overflow
_COUNTER = Bits(16, signed=True)


def port_metadata_unpack(context: Context, call: syntax.Call) -> places.Value:
    require_block(context, call, "parser")
    of = context.environment.resolve(call.type)
    size = context.port_metadata_bits
    if (width_in_bits(of) or 0) > size:
        raise P4Error(
            f"port metadata of type {of} are too long", call.source, f"at most {size} bits"
        )
    value = lookahead(context, of, call.source)
    context.emit(ir.Advance(call.source, ir.Constant(Bits(32), size)))
    return value


def set_counter(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    """Set a counter to a value, which may be rotated, masked and incremented before."""
    arguments = extern_arguments(context, call)
    value = scalar(arguments[0])
    if len(arguments) > 1:
        _, rotate, mask, add = (context.expressions.scalar(a.expression) for a in arguments[1:])
        width = ir.width_of(value)
        if not isinstance(rotate, ir.Constant) or not isinstance(mask, ir.Constant):
            raise P4Error("rotate and mask of set() must be constants", call.source, "8w0")
        plain = Bits(width)
        value = arithmetic.cast(value, plain)
        right = arithmetic.shift(">>", value, ir.Constant(Bits(32), rotate.value % width))
        left = arithmetic.shift("<<", value, ir.Constant(Bits(32), -rotate.value % width))
        rotated = value if rotate.value % width == 0 else arithmetic.binary("|", plain, right, left)
        # on Tofino 1, whose parameter has 3 bits, the mask is the number of its highest bit
        ones_value = mask.value if ir.width_of(mask) == 8 else (1 << (mask.value + 1)) - 1
        ones = ir.Constant(plain, ones_value & ((1 << width) - 1))
        masked = _widened(arithmetic.binary("&", plain, rotated, ones))
        value = arithmetic.binary("+", _COUNTER, masked, _widened(add))
    field = context.object_field(counter, _COUNTER)
    context.emit(ir.Assign(call.source, field, _widened(value)))


def increment(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    _change(context, call, counter, "+")


def decrement(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    _change(context, call, counter, "-")


def is_zero(context: Context, call: syntax.Call, counter: ExternObject) -> places.Value:
    return _compared(context, call, counter, "==")


def is_negative(context: Context, call: syntax.Call, counter: ExternObject) -> places.Value:
    return _compared(context, call, counter, "<")


def set_priority(context: Context, call: syntax.Call, _: ExternObject) -> None:
    """Do nothing: the priority matters only if the buffer before the parser is congested."""


def _change(context: Context, call: syntax.Call, counter: ExternObject, operator: str) -> None:
    (amount,) = extern_arguments(context, call)
    field = context.object_field(counter, _COUNTER)
    value = arithmetic.binary(operator, _COUNTER, field, _widened(scalar(amount)))
    context.emit(ir.Assign(call.source, field, value))


def _compared(
    context: Context, call: syntax.Call, counter: ExternObject, operator: str
) -> places.Value:
    field = context.object_field(counter, _COUNTER)
    result = arithmetic.binary(operator, BOOL, field, ir.Constant(_COUNTER, 0))
    return context.saved(result, call.source)


def _widened(value: ir.Expression) -> ir.Expression:
    unsigned = arithmetic.cast(value, Bits(ir.width_of(value)))
    return arithmetic.cast(arithmetic.cast(unsigned, Bits(16)), _COUNTER)
