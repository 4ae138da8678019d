"""Conversion of arguments of extern calls to operands and result fields of operations."""

from __future__ import annotations

from collections.abc import Callable

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import evaluate
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import Argument
from minip4.compiler.lower.assignments import assign, is_compound
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.expressions import read_scalar


def require_block(context: Context, call: syntax.Call, *blocks: str) -> None:
    """Reject a call outside of the given blocks."""
    if context.block not in blocks:
        name = call.method or getattr(call.declaration, "name", "")
        raise P4Error(f"{name}() cannot be called here", call.source, " or ".join(blocks))


def scalar(argument: Argument) -> ir.Expression:
    return read_scalar(argument.value, argument.source)


def operand(context: Context, argument: Argument) -> ir.Expression:
    """Return a field, constant or action parameter with the value of an argument."""
    return context.simple(scalar(argument), argument.source)


def result(context: Context, target: Argument) -> tuple[ir.Field, Callable[[], None]]:
    """Return a field for a result, and a function that copies this field to `target`."""
    place = target.place
    if is_compound(place):
        raise P4Error("the result is a number or bool", target.source)
    if isinstance(place, places.Scalar) and isinstance(place.field, ir.Field):
        return place.field, lambda: None
    field = context.temporary_field(scalar(target).type, target.source)
    return field, lambda: assign(context, place, field, target.source)


def enum_member(context: Context, expression: syntax.Expression) -> str:
    """Return the name of the enum member that the expression refers to."""
    member = evaluate(expression, context.environment)
    assert isinstance(member, syntax.EnumMember)
    return member.name


def written(call: syntax.Call) -> list[syntax.Expression]:
    """Return the unevaluated arguments."""
    return [argument for argument in call.arguments if argument is not None]
