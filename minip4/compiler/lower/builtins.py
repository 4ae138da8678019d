"""Lowering of the methods of headers, unions and stacks (spec 8.18), and of new headers."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.assignments import last_element, validity
from minip4.compiler.lower.context import Context
from minip4.compiler.types import BOOL


def builtin_method(context: Context, call: syntax.Call) -> places.Value | None:
    """Lower a built-in method and return its value; only isValid() has one."""
    assert call.object is not None
    target = context.expressions.value(call.object)
    if call.method == "isValid":
        return validity(target)
    if call.method in ("setValid", "setInvalid"):
        _set_validity(context, target, call)
    elif call.method in ("push_front", "pop_front"):
        if not isinstance(target, places.Stack):
            raise P4Error("this header stack cannot be used here", call.source)
        argument = call.arguments[0]
        assert argument is not None
        assert isinstance(argument.constant, int)
        operation = ir.PushFront if call.method == "push_front" else ir.PopFront
        context.emit(operation(call.source, target.declared, argument.constant))
    else:
        raise P4Error(f"{call.method}() is not supported here", call.source)
    return None


def _set_validity(context: Context, target: places.Value, call: syntax.Call) -> None:
    if isinstance(target, places.Header):
        operation = ir.SetValid if call.method == "setValid" else ir.SetInvalid
        context.emit(operation(call.source, target.name))
    elif isinstance(target, places.Union) and call.method == "setInvalid":
        invalidate(context, target, call.source)
    elif isinstance(target, places.Last):
        _set_validity(context, last_element(target), call)
    elif isinstance(target, places.Indexed):
        for i, place in enumerate(target.places):
            with context.collecting() as body:
                _set_validity(context, place, call)
            number = ir.Constant(target.index.type, i)
            here = arithmetic.binary("==", BOOL, target.index, number)
            context.emit(ir.If(call.source, here, body, []))
    else:
        raise P4Error(f"{call.method}() is not supported on this", call.source)


def invalidate(context: Context, place: places.Place, source: syntax.Source) -> None:
    """Invalidate headers of a new variable or out parameter; reset nextIndex of stacks (6.8)."""
    if isinstance(place, places.Header):
        context.emit(ir.SetInvalid(source, place.name))
    elif isinstance(place, places.Group | places.Union):
        for member in place.members.values():
            invalidate(context, member, source)
    elif isinstance(place, places.Stack):
        for element in place.elements:
            invalidate(context, element, source)
        if context.block == "parser":  # programs can see nextIndex only in parsers
            context.emit(ir.PopFront(source, place.declared, len(place.elements)))
