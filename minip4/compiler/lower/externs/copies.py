"""Lowering of functions that send a packet, or a copy of it, through the pipelines again."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import evaluate
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import Argument, extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs import operands
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.lower.field_lists import field_list, list_of

_NOTHING = "fl"  # the field list of clones that preserve no fields


def clone(context: Context, call: syntax.Call) -> None:
    kind, session, *index = extern_arguments(context, call)
    name = _list_name(context, index[0].expression) if index else _NOTHING
    _clone(context, call, kind, session, field_list(context.program, name))


def clone3(context: Context, call: syntax.Call) -> None:
    kind, session, data = extern_arguments(context, call)
    _clone(context, call, kind, session, _data_list(context, data, "clone"))


def _clone(
    context: Context, call: syntax.Call, kind: Argument, session: Argument, taken: ir.FieldList
) -> None:
    is_ingress = operands.enum_member(context, kind.expression) == "I2E"
    require_block(context, call, "ingress" if is_ingress else "egress")
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


def resubmit_data(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "ingress")
    (data,) = extern_arguments(context, call)
    context.emit(ir.Resubmit(call.source, _data_list(context, data, "resubmit")))


def recirculate_data(context: Context, call: syntax.Call) -> None:
    require_block(context, call, "egress")
    (data,) = extern_arguments(context, call)
    context.emit(ir.Recirculate(call.source, _data_list(context, data, "recirculate")))


def _data_list(context: Context, data: Argument, name: str) -> ir.FieldList:
    """Return the field list of a call that has data instead of an index.

    BMv2 copies the fields at the end of the pipeline, into the same fields. So data can only be
    fields of the user metadata. A computed value has no field to which it could be copied. Fields
    that the parser or the target sets get new values in the copy.
    """
    metadata = set(places.storage(context.user_metadata))
    fields = context.expressions.flattened(data.value, data.source)
    for field in fields:
        if not isinstance(field, ir.Field) or f"{field.header}.{field.name}" not in metadata:
            raise P4Error(
                "the data of this call is not a list of fields of the user metadata",
                data.source,
                f"{name}_preserving_field_list(), and @field_list at fields of the user metadata",
            )
    return list_of(context.program, fields)


def _list_name(context: Context, index: syntax.Expression) -> str:
    return f"field_list{evaluate(index, context.environment)}"
