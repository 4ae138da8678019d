"""Scalar expressions of type Bits or BOOL, without side effects.

A value is always in the range of its type.
"""

from __future__ import annotations

from dataclasses import dataclass

from minip4.compiler.types import BOOL, Bits, Type


@dataclass(frozen=True, slots=True)
class Expression:
    type: Type


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    value: int  # for BOOL: 0 or 1


@dataclass(frozen=True, slots=True)
class Text(Expression):
    value: str


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """A field of a header or metadata instance."""

    header: str
    name: str


@dataclass(frozen=True, slots=True)
class LastField(Expression):
    """A field of the last extracted header of a stack (parsers only)."""

    stack: str
    name: str


@dataclass(frozen=True, slots=True)
class LastUnionField(Expression):
    """A field of a member of the last extracted union of a stack (parsers only)."""

    stack: str
    member: str
    name: str


@dataclass(frozen=True, slots=True)
class IsValid(Expression):
    header: str


@dataclass(frozen=True, slots=True)
class LastIndex(Expression):
    stack: str


@dataclass(frozen=True, slots=True)
class ActionData(Expression):
    """Parameter number `index` of the action. The table entry sets its value."""

    index: int


@dataclass(frozen=True, slots=True)
class Lookahead(Expression):
    """Bits of the packet, starting `offset_bits` after the extracted part."""

    offset_bits: int


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    operator: str  # ~ - !
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """A binary operation of P4, including `|+|` and `|-|`, but not `++`.

    `type` is the type of the result.
    """

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Choice(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """A cast between Bits types, or to or from BOOL (one bit)."""

    operand: Expression


TRUE = Constant(BOOL, 1)
FALSE = Constant(BOOL, 0)


def negate(condition: Expression) -> Expression:
    if isinstance(condition, Constant):
        return FALSE if condition.value else TRUE
    if isinstance(condition, Unary) and condition.operator == "!":
        return condition.operand
    return Unary(BOOL, "!", condition)


def both(left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant):
        return right if left.value else FALSE
    if isinstance(right, Constant) and right.value:
        return left
    return Binary(BOOL, "&&", left, right)


def either(left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant):
        return TRUE if left.value else right
    if isinstance(right, Constant) and not right.value:
        return left
    return Binary(BOOL, "||", left, right)


def width_of(expression: Expression) -> int:
    """Return the width of a scalar in bits; a boolean has one bit."""
    return expression.type.width if isinstance(expression.type, Bits) else 1
