"""Expressions in BMv2 JSON (docs/JSON_format.md, "The type value object").

BMv2 computes with unlimited precision, truncates only stored values, and distinguishes booleans
from data. Therefore, operations that can leave the range of their type are masked, and conversions
(d2b, b2d) are inserted.
"""

from __future__ import annotations

from typing import Any

from minip4.compiler import ir
from minip4.compiler.ir import arithmetic
from minip4.compiler.source import Source
from minip4.compiler.types import BOOL, Bits

_MAX_FRAGMENT = 200


def source_info(source: Source | None) -> Json:
    """Return `{"source_info": ...}`, or {} if there is no source."""
    if source is None:
        return {}
    text = source.text
    fragment = text.split("\n", 1)[0] + " ..." if "\n" in text else text
    info = {
        "filename": source.file.path,
        "line": source.line,
        "column": source.column - 1,
        "source_fragment": fragment[:_MAX_FRAGMENT],
    }
    return {"source_info": info}


Json = dict[str, Any]

_OPERATORS = {"&&": "and", "||": "or"}
_STORED = (
    ir.Field,
    ir.LastField,
    ir.LastUnionField,
    ir.IsValid,
    ir.ActionData,
    ir.Lookahead,
)  # BMv2 treats these values as data, even if they are boolean
_IN_RANGE = ("&", "|", "^", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||")


def hexstr(value: int, width_bits: int = 0) -> str:
    """Return a hexstr such as `0x0a` or `-0x01`, padded to the width in bits (0: not padded)."""
    digits = 2 * ((width_bits + 7) // 8)
    return f"{'-' if value < 0 else ''}0x{abs(value):0{digits}x}"


def data(value: int, width_bits: int = 0) -> Json:
    return {"type": "hexstr", "value": hexstr(value, width_bits)}


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def _operation(op: str, left: Json | None, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def expression(e: ir.Expression) -> Json:
    """Convert `e` to an operand of another expression. The operand is boolean if `e` is."""
    plain = _plain(e)
    if e.type == BOOL and isinstance(e, _STORED):
        return _operation("d2b", None, plain)
    return plain


def _plain(e: ir.Expression) -> Json:
    match e:
        case ir.Constant():
            if e.type == BOOL:
                return {"type": "bool", "value": bool(e.value)}
            return data(e.value, ir.width_of(e))
        case ir.Text():
            return {"type": "string", "value": e.value}
        case ir.Field():
            return field(e.header, e.name)
        case ir.LastField():
            return {"type": "stack_field", "value": [e.stack, e.name]}
        case ir.LastUnionField():
            return {"type": "union_stack_field", "value": [e.stack, e.member, e.name]}
        case ir.IsValid():
            return field(e.header, "$valid$")
        case ir.LastIndex():
            stack = {"type": "header_stack", "value": e.stack}
            return _operation("last_stack_index", None, stack)
        case ir.ActionData():
            return {"type": "local", "value": e.index}
        case ir.Lookahead():
            return {"type": "lookahead", "value": [e.offset_bits, ir.width_of(e)]}
        case ir.Unary():
            return _unary(e)
        case ir.Binary():
            return _binary(e)
        case ir.Choice():
            return _choice(e)
        case ir.Cast():
            return _cast(e)
    raise AssertionError(e)


def in_range(value: Json, of: Bits) -> Json:
    """Return a value reduced to the range of its type."""
    if of.signed:
        return _operation("two_comp_mod", value, data(of.width))
    return _operation("&", value, data((1 << of.width) - 1, of.width))


def _unary(e: ir.Unary) -> Json:
    operand = expression(e.operand)
    if e.operator == "!":
        return _operation("not", None, operand)
    assert isinstance(e.type, Bits)
    if e.operator == "-":
        return in_range(_operation("-", data(0, e.type.width), operand), e.type)
    return in_range(_operation("~", None, operand), e.type)


def _binary(e: ir.Binary) -> Json:
    is_shift = e.operator in ("<<", ">>") and not isinstance(e.right, ir.Constant)
    if is_shift and ir.width_of(e.right) > 8:
        return expression(_bounded_shift(e))
    left, right = expression(e.left), expression(e.right)
    if e.operator in ("|+|", "|-|"):
        assert isinstance(e.type, Bits)
        operation = _operation(e.operator[1], left, right)
        saturated = "sat_cast" if e.type.signed else "usat_cast"
        return _operation(saturated, operation, data(e.type.width))
    result = _operation(_OPERATORS.get(e.operator, e.operator), left, right)
    if e.operator in _IN_RANGE:
        return result
    assert isinstance(e.type, Bits)
    return in_range(result, e.type)


def _bounded_shift(e: ir.Binary) -> ir.Expression:
    """Return a shift that treats amounts above 255 separately.

    BMv2 has unlimited precision, so without this limit, a packet could create a huge number.
    """
    assert isinstance(e.type, Bits)
    is_large = arithmetic.binary(">", BOOL, e.right, ir.Constant(e.right.type, 255))
    small = arithmetic.cast(e.right, Bits(8))
    result: ir.Expression = ir.Constant(e.type, 0)
    if e.operator == ">>" and e.type.signed:
        result = arithmetic.binary(">>", e.type, e.left, ir.Constant(Bits(32), e.type.width - 1))
    shifted = arithmetic.binary(e.operator, e.type, e.left, small)
    return arithmetic.choice(is_large, result, shifted)


def _choice(e: ir.Choice) -> Json:
    if e.type == BOOL:  # `?` returns only data
        chosen = ir.both(e.condition, e.then)
        other = ir.both(ir.negate(e.condition), e.otherwise)
        return expression(ir.either(chosen, other))
    result = _operation("?", expression(e.then), expression(e.otherwise))
    result["value"]["cond"] = expression(e.condition)
    return result


def _cast(e: ir.Cast) -> Json:
    operand = expression(e.operand)
    source, target = e.operand.type, e.type
    if target == BOOL:
        return _operation("d2b", None, operand)
    assert isinstance(target, Bits)
    if source == BOOL:
        return _operation("b2d", None, operand)
    assert isinstance(source, Bits)
    fits = source.width < target.width if target.signed else source.width <= target.width
    same = source.signed == target.signed and source.width <= target.width
    if same or (not source.signed and fits):
        return operand
    return in_range(operand, target)


def parameter(e: ir.Expression) -> Json:
    """Convert `e` to a parameter of a primitive. Expressions have an additional wrapper there."""
    if e.type == BOOL:
        if isinstance(e, ir.Constant):
            return data(e.value, 8)
        if isinstance(e, _STORED):
            return _wrapped(_plain(e))
        return _wrapped(_operation("b2d", None, expression(e)))
    return _wrapped(expression(e))


def _wrapped(value: Json) -> Json:
    if value["type"] in ("expression", "stack_field", "union_stack_field"):
        return {"type": "expression", "value": value}
    if value["type"] == "local":  # outside of an expression, a local has a different type name
        return {**value, "type": "runtime_data"}
    return value


def target(e: ir.Expression) -> Json:
    """Convert `e` to an assignment target or a named field. Booleans are not converted."""
    return _plain(e)
