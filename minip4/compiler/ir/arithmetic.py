"""Construction of scalar expressions.

Constants are folded; casts and slices become shifts and masks.
"""

from __future__ import annotations

from minip4.compiler import ir, types
from minip4.compiler.types import BOOL, Bits

_COMPARISONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}


def wrapped(value: int, of: Bits) -> int:
    """Return a value reduced to the range of the type (two's complement if signed)."""
    value &= (1 << of.width) - 1
    if of.signed and value >> (of.width - 1):
        value -= 1 << of.width
    return value


def binary(
    operator: str, of: types.Type, left: ir.Expression, right: ir.Expression
) -> ir.Expression:
    if isinstance(left, ir.Constant) and isinstance(right, ir.Constant):
        if operator in _COMPARISONS:
            return ir.Constant(BOOL, int(_COMPARISONS[operator](left.value, right.value)))
        if operator in _ARITHMETIC:
            value = _ARITHMETIC[operator](left.value, right.value)
            return ir.Constant(of, wrapped(value, of) if isinstance(of, Bits) else value)
    if operator == "&&":
        return ir.both(left, right)
    if operator == "||":
        return ir.either(left, right)
    return ir.Binary(of, operator, left, right)


def unary(operator: str, of: types.Type, operand: ir.Expression) -> ir.Expression:
    if operator == "!":
        return ir.negate(operand)
    if isinstance(operand, ir.Constant) and isinstance(of, Bits):
        value = ~operand.value if operator == "~" else -operand.value
        return ir.Constant(of, wrapped(value, of))
    return ir.Unary(of, operator, operand)


def choice(
    condition: ir.Expression, then: ir.Expression, otherwise: ir.Expression
) -> ir.Expression:
    if isinstance(condition, ir.Constant):
        return then if condition.value else otherwise
    return ir.Choice(then.type, condition, then, otherwise)


def cast(operand: ir.Expression, to: types.Type) -> ir.Expression:
    if operand.type == to:
        return operand
    if isinstance(operand, ir.Constant):
        if isinstance(to, Bits):
            return ir.Constant(to, wrapped(operand.value, to))
        return ir.Constant(to, int(operand.value != 0))
    if isinstance(operand, ir.Cast) and _is_widening(operand) and _is_unsigned(to):
        # The upper bits of a widened value are zeros. So its original value can be cast instead.
        inner = operand.operand
        if ir.width_of(inner) >= ir.width_of(ir.Constant(to, 0)):
            return cast(inner, to)
    return ir.Cast(to, operand)


def _is_widening(operand: ir.Cast) -> bool:
    inner = operand.operand
    return (
        _is_unsigned(operand.type)
        and _is_unsigned(inner.type)
        and (ir.width_of(operand) >= ir.width_of(inner))
    )


def _is_unsigned(of: types.Type) -> bool:
    return isinstance(of, Bits) and not of.signed


def slice_of(operand: ir.Expression, high: int, low: int) -> ir.Expression:
    """Return `operand[high:low]` (8.6). The result is always unsigned."""
    of = operand.type
    assert isinstance(of, Bits)
    result = Bits(high - low + 1)
    if low:
        operand = binary(">>", of, operand, ir.Constant(Bits(32), low))
    return cast(operand, result)


def concatenate(left: ir.Expression, right: ir.Expression, of: Bits) -> ir.Expression:
    """Return `left ++ right` (8.6)."""
    plain = Bits(of.width)
    width = ir.width_of(right)
    high = cast(cast(left, Bits(ir.width_of(left))), plain)
    low = cast(cast(right, Bits(width)), plain)
    shifted = binary("<<", plain, high, ir.Constant(Bits(32), width))
    return cast(binary("|", plain, shifted, low), of)


def shift(operator: str, operand: ir.Expression, amount: ir.Expression) -> ir.Expression:
    """Return `operand << amount` or `operand >> amount` (8.5)."""
    of = operand.type
    assert isinstance(of, Bits)
    if isinstance(amount, ir.Constant):
        if amount.value < of.width:
            return binary(operator, of, operand, amount) if amount.value else operand
        if operator == "<<" or not of.signed:
            return ir.Constant(of, 0)
        return binary(operator, of, operand, ir.Constant(Bits(32), of.width - 1))
    return binary(operator, of, operand, amount)
