"""Lower functions that send a packet, or a copy of it, through the pipelines again."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.instances.objects import evaluate
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs import operands
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.lower.field_lists import field_list

_NOTHING = "fl"  # the field list of clones that take nothing along


def clone(context: Context, call: syntax.Call) -> None:
    kind, session, *index = extern_arguments(context, call)
    is_ingress = operands.enum_member(context, kind.expression) == "I2E"
    require_block(context, call, "ingress" if is_ingress else "egress")
    name = _list_name(context, index[0].expression) if index else _NOTHING
    taken = field_list(context.program, name)
    operation = ir.CloneI2E if is_ingress else ir.CloneE2E
    context.emit(operation(call.source, operand(context, session), taken))


def resubmit(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "ingress")
    (index,) = operands.written(call)
    taken = field_list(context.program, _list_name(context, index))
    context.emit(ir.Resubmit(call.source, taken))


def recirculate(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "egress")
    (index,) = operands.written(call)
    taken = field_list(context.program, _list_name(context, index))
    context.emit(ir.Recirculate(call.source, taken))


def _list_name(context: Context, index: syntax.Expression) -> str:
    return f"field_list{evaluate(index, context.environment)}"
