"""Counters and meters. The colours of TNA are 0, 1 and 3, those of the engine 0, 1 and 2."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import Argument, extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.types import BOOL, Bits

_COLOUR = Bits(8)


def count(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    operands = [operand(context, argument) for argument in extern_arguments(context, call)]
    require_block(context, call, "ingress", "egress")
    context.emit(ir.Count(call.source, counter.name, *operands))


def count_direct(context: Context, call: syntax.Call, counter: ExternObject) -> None:
    """Do nothing, because a table with a direct counter counts each lookup itself."""
    _refuse_adjustment(extern_arguments(context, call))


def execute(context: Context, call: syntax.Call, meter: ExternObject) -> places.Value:
    index, *others = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    _refuse_colour(others)
    _refuse_adjustment(others)
    field = context.temporary_field(_COLOUR, call.source)
    context.emit(ir.ExecuteMeter(call.source, meter.name, operand(context, index), field))
    return _colour(context, meter, field, call.source)


def execute_direct(context: Context, call: syntax.Call, meter: ExternObject) -> places.Value:
    """Return the colour that the table writes to a field of the meter when it is applied."""
    others = extern_arguments(context, call)
    require_block(context, call, "ingress", "egress")
    _refuse_colour(others)
    _refuse_adjustment(others)
    field = context.object_field(meter, _COLOUR)
    context.properties.read_by(meter.name, field, call.source)
    return _colour(context, meter, field, call.source)


def _colour(
    context: Context, meter: ExternObject, field: ir.Field, source: syntax.Source
) -> ir.Expression:
    values = [0, 1, 3]
    if len(meter.arguments) >= 5:  # red, yellow and green are the last three
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


def _refuse_adjustment(arguments: list[Argument]) -> None:
    for argument in arguments:
        if argument.parameter.name == "adjust_byte_count":
            message = "adjust_byte_count is not supported"
            raise P4Error(message, argument.source, "no second argument")


def _refuse_colour(arguments: list[Argument]) -> None:
    for argument in arguments:
        if argument.parameter.name == "color":
            raise P4Error("color-aware meters are not supported", argument.source, "no color")
