"""Lowering of v1model functions that act on the current packet."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import evaluate
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import assign
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs import operands
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.types import BOOL, Bits

DROP_PORT = 511  # v1model drops packets with this egress_spec


def mark_to_drop(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "ingress", "egress")
    if not call.arguments:
        context.emit(ir.MarkToDrop(call.source))
        return
    (argument,) = extern_arguments(context, call)
    target = argument.place
    if list(places.storage(target)) == list(places.storage(context.standard_metadata)):
        context.emit(ir.MarkToDrop(call.source))
        return
    # If `target` is a copy of the metadata, the assignments take effect when it is copied back.
    for name, value in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
        field = places.member(target, name)
        assert isinstance(field, places.Scalar)
        assign(context, field, ir.Constant(field.type, value), call.source)


def random(context: Context, call: syntax.Call) -> None:
    target, *bounds = extern_arguments(context, call)
    low, high = (operand(context, bound) for bound in bounds)
    field, move = operands.result(context, target)
    context.emit(ir.Random(call.source, field, low, high))
    move()


def digest(context: Context, call: syntax.Call) -> None:
    """Lower a digest.

    The fields are copied, because a target may read them only at the end of the
    pipeline.
    """
    require_block(context, call, "ingress")
    receiver, data = extern_arguments(context, call)
    of = context.environment.resolve(call.parameter_types[1])
    name = getattr(of, "name", "") or "digest"
    elements: list[ir.Expression] = []
    for expression in context.expressions.flattened(data.value, data.source):
        field = context.temporary_field(expression.type, data.source)
        context.emit(ir.Assign(data.source, field, expression))
        elements.append(field)
    digests = context.program.digests
    digests.append(ir.Digest(len(digests) + 1, name, elements, data.source))
    context.emit(ir.SendDigest(call.source, operand(context, receiver), digests[-1]))


def truncate(context: Context, call: syntax.Call) -> None:
    (length,) = extern_arguments(context, call)
    context.emit(ir.Truncate(call.source, operand(context, length)))


def assert_(context: Context, call: syntax.Call) -> None:
    (condition,) = extern_arguments(context, call)
    context.emit(ir.Assert(call.source, operands.scalar(condition)))


def assume(context: Context, call: syntax.Call) -> None:
    (condition,) = extern_arguments(context, call)
    context.emit(ir.Assume(call.source, operands.scalar(condition)))


def static_assert(context: Context, call: syntax.Call) -> None:
    arguments = operands.written(call)
    if not evaluate(arguments[0], context.environment):
        text = evaluate(arguments[1], context.environment) if len(arguments) > 1 else "false"
        raise P4Error(f"static_assert: {text}", call.source)


def log_msg(context: Context, call: syntax.Call) -> None:
    message, *rest = extern_arguments(context, call)
    text = evaluate(message.expression, context.environment)
    values: list[ir.Expression] = []
    for data in rest:
        flat = context.expressions.flattened(data.value, data.source)
        values += [_logged(context, e, data.source) for e in flat]
    context.emit(ir.LogMessage(call.source, str(text), tuple(values)))


def _logged(context: Context, value: ir.Expression, source: syntax.Source) -> ir.Expression:
    if value.type == BOOL:
        return arithmetic.cast(value, Bits(1))
    return context.simple(value, source)


def verify(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "parser")
    check, error = extern_arguments(context, call)
    condition = operands.scalar(check)
    context.emit(ir.Verify(call.source, condition, operand(context, error)))
