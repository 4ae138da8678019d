"""Operators on values known at compile time (spec section 8)."""

from __future__ import annotations

from collections.abc import Callable

from minip4.compiler import syntax, types
from minip4.compiler.check.context import reduced
from minip4.compiler.errors import P4Error
from minip4.compiler.source import Source
from minip4.compiler.types import Type

WIDEST_CONSTANT = 1 << 16  # in bits; `1 << 1000000000` is a mistake, not a number
LONGEST_STRING = 1 << 16

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_COMPARISON: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def fold_binary(e: syntax.Binary, of: Type) -> syntax.Constant | None:
    """Return the value of `e` (of type `of`), or None if an operand is not constant."""
    left, right = e.left.constant, e.right.constant
    if e.operator in ("&&", "||") and left is (e.operator == "||"):
        return left  # the other operand is not evaluated (8.4)
    if left is None or right is None:
        return None
    if e.operator == "==":
        return left == right
    if e.operator == "!=":
        return left != right
    if e.operator in ("&&", "||"):
        return right
    if e.operator == "++" and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > LONGEST_STRING:
            raise P4Error("this string is too long", e.source)
        return left + right
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if e.operator in _COMPARISON:
        return _COMPARISON[e.operator](left, right)
    return _fold_integers(e, left, right, of)


def _fold_integers(e: syntax.Binary, left: int, right: int, of: Type) -> int:
    operator = e.operator
    if operator in _ARITHMETIC:
        return _checked(_ARITHMETIC[operator](left, right), of, e.source)
    if operator in ("/", "%"):
        return left // right if operator == "/" else left % right
    if operator == "<<":
        if right > WIDEST_CONSTANT:
            if of is types.INTEGER and left != 0:
                raise P4Error("this shift makes a number too large", e.source)
            return 0
        return _checked(left << right, of, e.source)
    if operator == ">>":
        return left >> min(right, WIDEST_CONSTANT)
    if operator == "++":
        assert isinstance(e.right.type, types.Bits)
        width = e.right.type.width
        return reduced(left << width | (right & ((1 << width) - 1)), of)
    assert operator in ("|+|", "|-|")
    assert isinstance(of, types.Bits)
    return saturated(left + right if operator == "|+|" else left - right, of)


def _checked(value: int, of: Type, source: Source) -> int:
    if value.bit_length() > WIDEST_CONSTANT:
        raise P4Error("this number is too large", source, f"at most {WIDEST_CONSTANT} bits")
    return reduced(value, of)


def saturated(value: int, of: types.Bits) -> int:
    """Return a value limited to the range of the type (8.5)."""
    lowest = -(1 << (of.width - 1)) if of.signed and of.width else 0
    highest = (1 << (of.width - of.signed)) - 1 if of.width else 0
    return max(lowest, min(highest, value))


def fold_unary(operator: str, value: syntax.Constant | None, of: Type) -> syntax.Constant | None:
    if operator == "!" and isinstance(value, bool):
        return not value
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return reduced({"-": -value, "~": ~value, "+": value}[operator], of)


def fold_cast(value: syntax.Constant | None, of: Type) -> syntax.Constant | None:
    """Convert a value to a constant of type `of`. The caller has checked that this is allowed."""
    of = types.strip_newtypes(of)
    if isinstance(value, syntax.EnumMember) and not isinstance(of, types.Enum):
        value = value if isinstance(of, types.SerializableEnum) else value.number
    if isinstance(of, types.SerializableEnum) and isinstance(value, int):
        members = of.declaration.members
        return next((m for m in members if m.number == value), None)
    if of is types.BOOL and isinstance(value, int):
        return value != 0
    if isinstance(of, types.Bits) and isinstance(value, int):
        return reduced(int(value), of)
    return value
