"""Lowering of the methods of packet_in and packet_out (spec 13.8, 16)."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.assignments import is_compound
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.deparser import Emit
from minip4.compiler.lower.externs import operands
from minip4.compiler.lower.storage import field_types, scalar_type


def packet_in(context: Context, call: syntax.Call) -> places.Value | None:
    """Lower a method of packet_in; return the value of lookahead(), or None for others."""
    if context.block != "parser":
        raise P4Error(f"{call.method}() can be called only in a parser", call.source)
    arguments = extern_arguments(context, call)
    match call.method:
        case "lookahead":
            of = call.type_arguments[0] if call.type_arguments else call.type
            return lookahead(context, context.environment.resolve(of), call.source)
        case "advance":
            context.emit(ir.Advance(call.source, operands.scalar(arguments[0])))
        case "extract":
            length = operands.scalar(arguments[1]) if len(arguments) > 1 else None
            _extract(context, arguments[0].place, length, call.source)
        case _:
            raise P4Error(f"packet_in.{call.method}() is not supported on this target", call.source)
    return None


def _extract(
    context: Context, target: places.Place, length: ir.Expression | None, source: syntax.Source
) -> None:
    if isinstance(target, places.Header):
        context.storage.require_whole_bytes(target.type_name)
        context.emit(ir.Extract(source, target.name, length))
    elif isinstance(target, places.Next):
        context.emit(ir.ExtractNext(source, target.stack.declared, target.member, length))
    elif isinstance(target, places.Indexed):
        for i, place in enumerate(target.places):
            with context.collecting() as body:
                _extract(context, place, length, source)
            number = ir.Constant(target.index.type, i)
            here = ir.Binary(types.BOOL, "==", target.index, number)
            context.emit(ir.If(source, here, body, []))
    else:
        raise P4Error("expected a header", source)


def lookahead(context: Context, of: types.Type, source: syntax.Source) -> places.Value:
    """Return the next bits of the packet without extracting them."""
    return _lookahead(context, of, source, [0])


def _lookahead(
    context: Context, of: types.Type, source: syntax.Source, offset: list[int]
) -> places.Value:
    """Return bits of the packet in a temporary; `offset[0]` advances past them."""
    of = types.strip_newtypes(of)
    scalar = scalar_type(of)
    if scalar is not None:
        field = context.temporary_field(scalar, source)
        expression = ir.Lookahead(scalar, offset[0])
        offset[0] += ir.width_of(expression)
        context.emit(ir.Assign(source, field, expression))
        return field
    members = field_types(of)
    if isinstance(of, types.Stack):
        members = {str(i): of.element for i in range(of.size)}
    if members is None:
        raise P4Error(f"lookahead of {of} is not supported", source)
    values = {n: _lookahead(context, t, source, offset) for n, t in members.items()}
    return places.Compound(values, isinstance(of, types.Header))


def emit(context: Context, call: syntax.Call) -> None:
    if context.block != "deparser":
        raise P4Error("emit() can be called only in the deparser", call.source)
    argument = call.arguments[0]
    assert argument is not None
    for header in _headers(context.expressions.value(argument), argument.source):
        context.storage.require_whole_bytes(header.type_name)
        context.emit(Emit(call.source, header.name))


def _headers(value: places.Value, source: syntax.Source) -> list[places.Header]:
    if isinstance(value, places.Header):
        return [value]
    if isinstance(value, places.Stack):
        return [header for element in value.elements for header in _headers(element, source)]
    if isinstance(value, places.Group | places.Union | places.Compound) and is_compound(value):
        members = places.members_of(value).values()
        return [header for member in members for header in _headers(member, source)]
    raise P4Error("only headers can be emitted", source)
