"""Functions of tna.p4 on values."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import assign, validity
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import operand
from minip4.compiler.types import BOOL, Bits

NO_PORT = 511  # value of ucast_egress_port without a unicast copy
# metadata whose fields request something from the traffic manager or the deparser
_REQUESTS = ("ig_intr_md_for_tm", "ig_intr_md_for_dprsr", "eg_intr_md_for_dprsr")


def maximum(context: Context, call: syntax.Call) -> places.Value:
    left, right = (operand(context, a) for a in extern_arguments(context, call))
    return arithmetic.choice(arithmetic.binary(">", BOOL, left, right), left, right)


def minimum(context: Context, call: syntax.Call) -> places.Value:
    left, right = (operand(context, a) for a in extern_arguments(context, call))
    return arithmetic.choice(arithmetic.binary("<", BOOL, left, right), left, right)


def funnel_shift_right(context: Context, call: syntax.Call) -> None:
    target, high, low, amount = extern_arguments(context, call)
    left, right = operand(context, high), operand(context, low)
    width = ir.width_of(left)
    both = Bits(2 * width)
    shift = context.expressions.scalar(amount.expression)
    assert isinstance(shift, ir.Constant)
    joined = arithmetic.concatenate(left, right, both)
    shifted = arithmetic.shift(">>", joined, ir.Constant(Bits(32), shift.value))
    assign(context, target.place, arithmetic.cast(shifted, left.type), call.source)


def invalidate(context: Context, call: syntax.Call) -> None:
    """Set a field of intrinsic metadata to the value that requests nothing."""
    (argument,) = extern_arguments(context, call)
    place = argument.value
    if not isinstance(place, places.Scalar) or not isinstance(place.field, ir.Field):
        raise P4Error("invalidate() of this is not supported", argument.source, "a field")
    value = NO_PORT if place.field.name == "ucast_egress_port" else 0
    assign(context, place, ir.Constant(place.type, value), call.source)


def is_validated(context: Context, call: syntax.Call) -> places.Value:
    """Return whether a header is valid, or a field of intrinsic metadata requests something.

    A unicast port requests a transmission unless it is NO_PORT. Other fields request a copy
    unless they are 0.
    """
    (argument,) = extern_arguments(context, call)
    value = argument.value
    if isinstance(value, places.Header):
        return validity(value)
    if isinstance(value, places.Scalar) and isinstance(value.field, ir.Field):
        header, name = value.field.header, value.field.name
        if any(each.name == header and not each.is_metadata for each in context.program.headers):
            return ir.IsValid(BOOL, header)
        if header in _REQUESTS:
            nothing = NO_PORT if name == "ucast_egress_port" else 0
            return arithmetic.binary("!=", BOOL, value.field, ir.Constant(value.type, nothing))
    raise P4Error(
        "is_validated() of this is not supported: minip4 does not store whether it has a value",
        argument.source,
        "a header, its field, or a field of the metadata for the traffic manager or the deparser",
    )


def size_in_bits(context: Context, call: syntax.Call) -> places.Value:
    return ir.Constant(Bits(32), _width(context, call))


def size_in_bytes(context: Context, call: syntax.Call) -> places.Value:
    return ir.Constant(Bits(32), (_width(context, call) + 7) // 8)


def _width(context: Context, call: syntax.Call) -> int:
    width = types.width_in_bits(context.environment.resolve(call.parameter_types[0]))
    if width is None:
        raise P4Error("this has no size", call.source, "a header or struct")
    return width
