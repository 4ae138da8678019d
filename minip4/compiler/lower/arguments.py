"""Evaluation of call arguments: in source order, and each argument only once (spec 6.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject, Instance, instantiate
from minip4.compiler.lower import places
from minip4.compiler.lower.assignments import copied
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.expressions import can_change
from minip4.compiler.syntax import CallKind


@dataclass(slots=True, eq=False)
class Argument:
    """An evaluated argument: a value or place (`content`), or an object (`thing`).

    `initial` is the value that is passed to an inout parameter.
    """

    parameter: syntax.Parameter
    position: int  # position of the parameter
    type: types.Type
    expression: syntax.Expression
    content: places.Value | None = None
    initial: places.Value | None = None
    thing: ExternObject | Instance | None = None

    @property
    def source(self) -> syntax.Source:
        return self.expression.source

    @property
    def value(self) -> places.Value:
        assert self.content is not None
        return self.content

    @property
    def place(self) -> places.Place:
        """The place of an out or inout argument."""
        assert isinstance(self.content, places.Place)
        return self.content


Evaluation = Callable[[syntax.Expression], places.Value]


def evaluated(
    context: Context,
    parameters: list[syntax.Parameter],
    parameter_types: list[types.Type],
    expressions: list[syntax.Expression | None],
    order: list[int],
    *,
    special: Mapping[int, Evaluation] | None = None,
) -> list[Argument]:
    """Return the arguments in the order of evaluation, which is also the order of copying out.

    `special` maps some positions to functions that evaluate the argument.
    """
    todo = [(i, e) for i in order if (e := expressions[i]) is not None]
    result = []
    for number, (i, expression) in enumerate(todo):
        is_exposed = any(can_change(later) for _, later in todo[number + 1 :])
        of = context.environment.resolve(parameter_types[i])
        argument = Argument(parameters[i], i, of, expression)
        evaluate = (special or {}).get(i, context.expressions.value)
        _evaluate(context, argument, evaluate, is_exposed=is_exposed)
        result.append(argument)
    return result


def extern_arguments(
    context: Context, call: syntax.Call, special: Mapping[int, Evaluation] | None = None
) -> list[Argument]:
    """Return the arguments like evaluated(), but in the order of the parameters."""
    arguments = evaluated(
        context, call.parameters, call.parameter_types, call.arguments, call.order, special=special
    )
    return sorted(arguments, key=lambda argument: argument.position)


def _evaluate(
    context: Context, argument: Argument, evaluate: Evaluation, *, is_exposed: bool
) -> None:
    """Evaluate an argument.

    If it is exposed, later arguments could change its value, so the value is saved.
    """
    expression, source = argument.expression, argument.source
    if isinstance(argument.type, types.Extern):
        argument.thing = object_of(context, expression)
    elif isinstance(expression, syntax.DontCare):
        argument.content = context.temporary(argument.type, source)
    elif argument.parameter.direction not in ("out", "inout"):
        value = evaluate(expression)
        argument.content = copied(context, value, source) if is_exposed else value
    else:
        place = context.expressions.pinned(context.expressions.place(expression), source)
        is_copied = is_exposed and argument.parameter.direction == "inout"
        argument.content = place
        argument.initial = copied(context, place, source) if is_copied else place


def object_of(context: Context, expression: syntax.Expression) -> ExternObject | Instance:
    bound: object = None
    if isinstance(expression, syntax.Name) and expression.declaration is not None:
        bound = context.environment.lookup(expression.declaration)
    elif isinstance(expression, syntax.This):
        bound = context.this
    elif isinstance(expression, syntax.Call) and expression.kind is CallKind.CONSTRUCTOR:
        bound = instantiate(expression, "tmp", context.environment)
    if not isinstance(bound, ExternObject | Instance):
        raise P4Error("expected an object", expression.source)
    return bound


def conflict(one: Argument, other: Argument) -> bool:
    """Return whether two arguments share storage and at least one of them may write it."""
    if one.content is None or other.content is None:
        return False
    directions = (one.parameter.direction, other.parameter.direction)
    writes = "out" in directions or "inout" in directions
    return writes and places.overlap(one.value, other.value)
