"""Operators: operand types, and results that are known at compile time (spec 8.5 to 8.10)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.constants import fold_binary, fold_unary
from minip4.compiler.check.context import Context, bits, describe, is_numeric, typed
from minip4.compiler.check.conversion import implicit_cast
from minip4.compiler.errors import P4Error
from minip4.compiler.types import Type


class Operators:
    def __init__(self, context: Context) -> None:
        self.context = context

    def unary(self, e: syntax.Unary) -> syntax.Expression:
        e.operand = self.arithmetic_operand(e.operand)
        of = e.operand.type
        fits = (
            of is types.BOOL
            if e.operator == "!"
            else isinstance(of, types.Bits)
            if e.operator == "~"
            else is_numeric(of)
        )
        if not fits:
            expected = {"!": "bool", "~": "bit<N> or int<N>"}.get(e.operator, "an integer")
            raise P4Error(f"'{e.operator}' of {describe(of)}", e.source, expected)
        if e.operator == "+":
            return e.operand
        return typed(e, of, fold_unary(e.operator, e.operand.constant, of))

    def arithmetic_operand(self, e: syntax.Expression) -> syntax.Expression:
        e = self.context.conversions.value(e)
        if isinstance(e.type, types.SerializableEnum):
            return implicit_cast(e, e.type.underlying)
        return e

    def binary(self, e: syntax.Binary) -> syntax.Expression:
        if e.operator in ("&&", "||"):
            e.left = self.context.conversions.converted(
                e.left, types.BOOL, f"an operand of {e.operator}"
            )
            e.right = self.context.conversions.converted(
                e.right, types.BOOL, f"an operand of {e.operator}"
            )
            of: Type = types.BOOL
        elif e.operator in ("==", "!="):
            of = self.equality(e)
        elif e.operator in ("<<", ">>"):
            of = self.shift(e)
            self.shift_in_range(e, of)
        elif e.operator == "++":
            of = self.concatenation(e)
        else:
            of = self.arithmetic(e)
        return typed(e, of, fold_binary(e, of))

    def shift_in_range(self, e: syntax.Binary, of: Type) -> None:
        amount, plain = e.right.constant, types.strip_newtypes(of)
        if isinstance(plain, types.Bits) and isinstance(amount, int) and amount >= plain.width:
            message = f"{plain} shifted by {amount} loses all its bits"
            self.context.warn("overflow", message, e.source)

    def equality(self, e: syntax.Binary) -> Type:
        e.left, e.right = (
            self.context.conversions.value(e.left),
            self.context.conversions.value(e.right),
        )
        e.left, e.right = self.context.conversions.same_type(
            e.left, e.right, f"an operand of {e.operator}"
        )
        of = e.left.type
        no_equality = (
            types.Extern,
            types.Parser,
            types.Control,
            types.Set,
            types.Package,
            types.Variable,
        )
        if isinstance(of, no_equality) or of is types.DONT_CARE:
            raise P4Error(f"'{e.operator}' of {describe(of)}", e.source, "values to compare")
        return types.BOOL

    def arithmetic(self, e: syntax.Binary) -> Type:
        what = f"an operand of {e.operator}"
        e.left, e.right = self.arithmetic_operand(e.left), self.arithmetic_operand(e.right)
        for operand in (e.left, e.right):
            if not is_numeric(operand.type):
                message = f"{what} is {describe(operand.type)}"
                raise P4Error(message, operand.source, "bit<N>, int<N> or int")
        e.left, e.right = self.context.conversions.same_type(e.left, e.right, what)
        of = e.left.type
        if e.operator in ("<", ">", "<=", ">="):
            return types.BOOL
        if e.operator in ("/", "%"):
            self.division(e, of)
        if e.operator in ("|+|", "|-|") and of is types.INTEGER:
            raise P4Error(f"{what} has no width", e.source, "e.g. 8w1")
        return of

    def division(self, e: syntax.Binary, of: Type) -> None:
        if isinstance(of, types.Bits) and of.signed:
            raise P4Error(f"'{e.operator}' of a signed type {of}", e.source, "bit<N> or int")
        for operand in (e.left, e.right):
            if isinstance(operand.constant, int) and operand.constant < 0:
                raise P4Error(f"'{e.operator}' of a negative number", operand.source)
        divisor = e.right.constant
        if divisor == 0:
            raise P4Error("division by zero", e.right.source)
        is_power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
        is_at_run_time = isinstance(of, types.Bits) and e.left.constant is None
        if is_at_run_time and not is_power:
            message = f"'{e.operator}' at run time by a number that is not a power of two"
            raise P4Error(message, e.source, "constants, or a division by 2, 4, 8, ...")

    def shift(self, e: syntax.Binary) -> Type:
        e.left, e.right = self.arithmetic_operand(e.left), self.arithmetic_operand(e.right)
        for operand in (e.left, e.right):
            if not is_numeric(operand.type):
                message = f"an operand of {e.operator} is {describe(operand.type)}"
                raise P4Error(message, operand.source, "an integer")
        amount = e.right
        if isinstance(amount.constant, int) and amount.constant < 0:
            raise P4Error("a shift by a negative number", amount.source, "0 or more")
        is_signed = isinstance(amount.type, types.Bits) and amount.type.signed
        if is_signed and amount.constant is None:
            raise P4Error(f"a shift by a signed {amount.type}", amount.source, "bit<N>")
        if e.left.type is types.INTEGER and amount.constant is None:
            raise P4Error("the shifted number has no width", e.left.source, "e.g. 8w1")
        return e.left.type

    def concatenation(self, e: syntax.Binary) -> Type:
        e.left, e.right = self.arithmetic_operand(e.left), self.arithmetic_operand(e.right)
        left, right = e.left.type, e.right.type
        if left is types.STRING and right is types.STRING:
            return left
        for operand in (e.left, e.right):
            if not isinstance(operand.type, types.Bits):
                message = f"an operand of ++ is {describe(operand.type)}"
                raise P4Error(message, operand.source, "bit<N> or int<N>, e.g. 8w1")
        assert isinstance(left, types.Bits)
        assert isinstance(right, types.Bits)
        return bits(left.width + right.width, left.signed, e.source)

    def conditional(self, e: syntax.Conditional) -> syntax.Expression:
        e.condition = self.context.conversions.converted(e.condition, types.BOOL, "the condition")
        e.then, e.otherwise = (
            self.context.conversions.value(e.then),
            self.context.conversions.value(e.otherwise),
        )
        e.then, e.otherwise = self.context.conversions.same_type(
            e.then, e.otherwise, "a branch of ?:"
        )
        chosen = e.condition.constant
        if isinstance(chosen, bool):
            branch = e.then if chosen else e.otherwise
            return typed(e, e.then.type, branch.constant)
        if e.then.type is types.INTEGER:
            raise P4Error("neither operand of this ?: has a width", e.source, "e.g. 8w1")
        return typed(e, e.then.type)
