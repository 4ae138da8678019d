"""Counters and meters. The colours of TNA are 0, 1 and 3, those of the engine 0, 1 and 2."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.types import BOOL, Bits

_COLOUR = Bits(8)
_GREEN, _RED = 0, 3


def count(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    given = _given(context, call)
    adjustment = given.get("adjust_byte_count")
    context.emit(ir.Count(call.source, counter.name, given["index"], adjustment))


def count_direct(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    _require_action(context, call, counter)
    adjustment = _given(context, call).get("adjust_byte_count")
    context.emit(ir.Count(call.source, counter.name, None, adjustment))


def execute(context: Context, call: syntax.Call, meter: ExternObject) -> places.Value:
    return _execute(context, call, meter)


def execute_direct(context: Context, call: syntax.Call, meter: ExternObject) -> places.Value:
    _require_action(context, call, meter)
    return _execute(context, call, meter)


def _given(context: Context, call: syntax.Call) -> dict[str, ir.Expression]:
    """Return the operands of a call by the names of their parameters."""
    require_block(context, call, "ingress", "egress")
    arguments = extern_arguments(context, call)
    return {argument.parameter.name: operand(context, argument) for argument in arguments}


def _require_action(context: Context, call: syntax.Call, item: ExternObject) -> None:
    if not context.in_action:
        raise P4Error(
            f"{item.name} belongs to a table", call.source, "a call in an action of this table"
        )


def _execute(context: Context, call: syntax.Call, meter: ExternObject) -> places.Value:
    """Return the colour of the packet, which is green if the cell does not exist."""
    given = _given(context, call)
    index, adjustment = given.get("index"), given.get("adjust_byte_count")
    colour = given.get("color")
    if colour is not None:
        adjustment = adjustment or ir.Constant(Bits(32), 0)
        colour = _engine_colour(context, colour, call.source)
    field = context.temporary_field(_COLOUR, call.source)
    context.emit(ir.Assign(call.source, field, ir.Constant(_COLOUR, 0)))
    context.emit(ir.ExecuteMeter(call.source, meter.name, index, field, adjustment, colour))
    return _colour(context, meter, field, call.source)


def _engine_colour(context: Context, colour: ir.Expression, source: syntax.Source) -> ir.Expression:
    """Return the engine's number of a MeterColor_t; 2 is yellow, as on Tofino."""
    result: ir.Expression = ir.Constant(_COLOUR, 1)
    for number, meaning in ((_GREEN, 0), (_RED, 2)):
        here = arithmetic.binary("==", BOOL, colour, ir.Constant(_COLOUR, number))
        result = arithmetic.choice(here, ir.Constant(_COLOUR, meaning), result)
    return context.simple(result, source)


def _colour(
    context: Context, meter: ExternObject, field: ir.Field, source: syntax.Source
) -> ir.Expression:
    values = [_GREEN, 1, _RED]
    if len(meter.arguments) >= 4:  # red, yellow and green are the last three
        red, yellow, green = meter.arguments[-3:]
        assert isinstance(red, int)
        assert isinstance(yellow, int)
        assert isinstance(green, int)
        values = [green, yellow, red]
    result: ir.Expression = ir.Constant(_COLOUR, values[2])
    for colour in (1, 0):
        here = arithmetic.binary("==", BOOL, field, ir.Constant(_COLOUR, colour))
        result = arithmetic.choice(here, ir.Constant(_COLOUR, values[colour]), result)
    return context.saved(result, source)
