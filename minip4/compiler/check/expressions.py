"""Types of expressions, and their values where known at compile time (spec section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minip4.compiler import syntax, types
from minip4.compiler.check.constants import fold_binary, fold_unary
from minip4.compiler.check.conversion import ConversionChecker, compound_constant, implicit_cast
from minip4.compiler.check.scope import (
    describe,
    is_numeric,
    reduced,
    typed,
    what_is,
)
from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.types import Type


class ExpressionChecker(ConversionChecker):
    def __init__(self, program: syntax.Program) -> None:
        super().__init__(program)
        self.rules: dict[type, Callable[[Any], syntax.Expression]] = {
            syntax.IntLiteral: self.int_literal,
            syntax.BoolLiteral: lambda e: typed(e, types.BOOL, e.value),
            syntax.StringLiteral: lambda e: typed(e, types.STRING, e.value),
            syntax.Name: self.name,
            syntax.TypeReference: self.type_reference,
            syntax.Member: self.member,
            syntax.Index: self.index,
            syntax.Slice: self.slice,
            syntax.PartSelect: self.part_select,
            syntax.Unary: self.unary,
            syntax.Binary: self.binary,
            syntax.Conditional: self.conditional,
            syntax.Cast: self.cast,
            syntax.Call: self.call,
            syntax.ListExpression: self.list_expression,
            syntax.StructExpression: self.struct_expression,
            syntax.InvalidHeader: lambda e: typed(e, types.INVALID_HEADER),
            syntax.DontCare: lambda e: typed(e, types.DONT_CARE),
            syntax.This: self.this,
            syntax.Mask: self.stray_keyset,
            syntax.Range: self.stray_keyset,
        }

    def expression(self, e: syntax.Expression) -> syntax.Expression:
        if e.type is not types.UNCHECKED:
            return e  # shared: a default argument, or checked as something else before
        return self.rules[type(e)](e)

    # ------------------------------------------------------------ literals and names

    def int_literal(self, e: syntax.IntLiteral) -> syntax.Expression:
        if e.width is None:
            return typed(e, types.INTEGER, e.value)
        if e.width < (1 if e.is_signed else 0):
            raise P4Error(f"{e.text!r} has no valid width", e.source, "a width of 1 or more")
        of = types.Bits(e.width, e.is_signed)
        value = reduced(e.value, of)
        if value != e.value:
            self.warn("overflow", f"{e.text} does not fit {of}: it becomes {value}", e.source)
        return typed(e, of, value)

    def name(self, e: syntax.Name) -> syntax.Expression:
        kind = self.match_kinds.get(e.name)
        if kind is not None and not self.lookup_all(e.name, e.is_absolute):
            e.declaration = kind
            return typed(e, types.MATCH_KIND, kind)
        d = self.lookup(e.name, e.is_absolute, e.source)
        e.declaration = d
        if isinstance(d, (syntax.VariableDeclaration, syntax.Parameter)):
            return typed(e, d.type)
        if isinstance(d, syntax.ConstantDeclaration):
            return typed(e, d.type, d.initializer.constant)
        if isinstance(d, (syntax.Instantiation, syntax.ValueSet)):
            return typed(e, d.type)
        if isinstance(d, syntax.Table):
            return typed(e, types.TableType(d))
        if isinstance(d, (syntax.Action, syntax.Function)):
            return typed(e, types.Function(d.name))
        raise P4Error(f"{e.name!r} is {what_is(d)}", e.source, "a value")

    def this(self, e: syntax.This) -> syntax.Expression:
        raise P4Error("`this` is not supported", e.source)

    def type_reference(self, e: syntax.TypeReference) -> syntax.Expression:
        return typed(e, self.type_of(e.type_expression, is_constructor=True))

    def stray_keyset(self, e: syntax.Expression) -> syntax.Expression:
        raise P4Error("a mask or range stands only in a case or entry", e.source, "a value")

    # ------------------------------------------------------------ members, indices, slices

    def member(self, e: syntax.Member) -> syntax.Expression:
        e.base = self.expression(e.base)
        of = e.base.type
        if isinstance(e.base, syntax.TypeReference):
            return self.member_of_type(e, e.base)
        if isinstance(of, types.StructLike):
            for field in of.declaration.fields:
                if field.name == e.name:
                    e.declaration = field
                    constant = _component(e.base.constant, of.declaration.fields.index(field))
                    return typed(e, field.type if not of.arguments else of.fields[e.name], constant)
        elif isinstance(of, types.Stack):
            return self.member_of_stack(e, of)
        elif isinstance(of, types.ApplyResult):
            if e.name in ("hit", "miss"):
                return typed(e, types.BOOL)
            if e.name == "action_run":
                return typed(e, types.ActionRun(of.table))
            raise self.no_member(e, ["hit", "miss", "action_run"])
        elif isinstance(of, types.AnonymousStruct):
            fields = of.fields
            if e.name in fields:
                constant = _component(e.base.constant, list(fields).index(e.name))
                return typed(e, fields[e.name], constant)
        raise self.no_member(e, self.members_of(of))

    def members_of(self, of: Type) -> list[str]:
        if isinstance(of, (types.StructLike, types.AnonymousStruct)):
            return list(of.fields)
        if isinstance(of, types.Extern):
            return sorted({m.name for m in of.declaration.methods})
        return ["apply"] if isinstance(of, types.TableType) else []

    def no_member(self, e: syntax.Member, known: list[str]) -> P4Error:
        hint = did_you_mean(e.name, known)
        message = f"{describe(e.base.type)} has no member {e.name!r}{hint}"
        return P4Error(message, e.source, ", ".join(known[:12]))

    def member_of_type(self, e: syntax.Member, base: syntax.TypeReference) -> syntax.Expression:
        of = base.type
        if of is types.ERROR:
            member = self.errors.get(e.name)
            if member is None:
                raise self.no_member(e, list(self.errors))
            e.declaration = member
            return typed(e, of, member)
        if isinstance(of, (types.Enum, types.SerializableEnum)):
            for m in of.declaration.members:
                if m.name == e.name:
                    e.declaration = m
                    return typed(e, of, m)
            raise self.no_member(e, [m.name for m in of.declaration.members])
        raise P4Error(f"type {of} has no members", e.source, "a value, enum or error")

    def member_of_stack(self, e: syntax.Member, of: types.Stack) -> syntax.Expression:
        if e.name == "size":
            return typed(e, types.Bits(32), of.size)
        if e.name not in ("next", "last", "lastIndex"):
            raise self.no_member(e, ["next", "last", "lastIndex", "size"])
        if self.place.kind not in ("parser", "function"):
            raise P4Error(
                f"'.{e.name}' of a header stack can be used in a parser only", e.source, "stack[i]"
            )
        return typed(e, types.Bits(32) if e.name == "lastIndex" else of.element)

    def index(self, e: syntax.Index) -> syntax.Expression:
        e.base = self.value(e.base)
        e.index = self.value(e.index)
        of = e.base.type
        if isinstance(e.index.type, types.SerializableEnum):
            e.index = implicit_cast(e.index, e.index.type.underlying)
        if not is_numeric(e.index.type):
            raise P4Error(f"an index is {describe(e.index.type)}", e.index.source, "an integer")
        position = e.index.constant
        if isinstance(of, types.Stack):
            size = of.size
        elif isinstance(of, types.Tuple):
            size = len(of.elements)
        else:
            raise P4Error(f"{describe(of)} has no elements", e.source, "a header stack or a tuple")
        if isinstance(position, int) and not 0 <= position < size:
            raise P4Error(f"index {position} is out of range", e.index.source, f"0 to {size - 1}")
        if isinstance(of, types.Stack):
            return typed(e, of.element)
        if not isinstance(position, int):
            raise P4Error("the index of a tuple is not constant", e.index.source, "a constant")
        return typed(e, of.elements[position], _component(e.base.constant, position))

    def slice(self, e: syntax.Slice) -> syntax.Expression:
        e.base = self.sliceable(e.base)
        e.high, e.low = self.expression(e.high), self.expression(e.low)
        high = self.constant_integer(e.high, "the upper end of a slice")
        low = self.constant_integer(e.low, "the lower end of a slice")
        width = types.width_in_bits(e.base.type) or 0
        if not 0 <= high < width:
            raise P4Error(f"bit {high} is not in {e.base.type}", e.high.source, f"0 to {width - 1}")
        if not 0 <= low <= high:
            raise P4Error(f"slice [{high}:{low}] is empty", e.source, "[high:low] with low <= high")
        constant = e.base.constant
        of = types.Bits(high - low + 1)
        if isinstance(constant, int):
            return typed(e, of, reduced(constant >> low, of))
        return typed(e, of)

    def sliceable(self, base: syntax.Expression) -> syntax.Expression:
        base = self.value(base)
        if isinstance(base.type, types.SerializableEnum):
            base = implicit_cast(base, base.type.underlying)
        if not isinstance(types.strip_newtypes(base.type), types.Bits):
            raise P4Error(f"a slice of {describe(base.type)}", base.source, "bit<N> or int<N>")
        return base

    def part_select(self, e: syntax.PartSelect) -> syntax.Expression:
        e.base = self.sliceable(e.base)
        e.low = self.value(e.low)
        width = self.constant_integer(e.width, "the width of a slice")
        low = e.low.constant
        if not 0 < width <= (types.width_in_bits(e.base.type) or 0):
            raise P4Error(f"a slice of {width} bits of {e.base.type}", e.width.source)
        if isinstance(low, int):
            high = typed(
                syntax.IntLiteral(e.low.source, low + width - 1), types.INTEGER, low + width - 1
            )
            return self.slice(syntax.Slice(e.source, e.base, high, e.low))
        if not isinstance(e.low.type, types.Bits):
            raise P4Error(f"{describe(e.low.type)} as an index", e.low.source, "bit<N>")
        return typed(e, types.Bits(width))

    # ------------------------------------------------------------ operators

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
        e = self.value(e)
        if isinstance(e.type, types.SerializableEnum):
            return implicit_cast(e, e.type.underlying)
        return e

    def binary(self, e: syntax.Binary) -> syntax.Expression:
        if e.operator in ("&&", "||"):
            e.left = self.converted(e.left, types.BOOL, f"an operand of {e.operator}")
            e.right = self.converted(e.right, types.BOOL, f"an operand of {e.operator}")
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
            message = f"{plain} shifted by {amount}: nothing is left of it"
            self.warn("overflow", message, e.source)

    def equality(self, e: syntax.Binary) -> Type:
        e.left, e.right = self.value(e.left), self.value(e.right)
        e.left, e.right = self.same_type(e.left, e.right, f"an operand of {e.operator}")
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
        e.left, e.right = self.same_type(e.left, e.right, what)
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
            message = f"'{e.operator}' at run time, by no power of two"
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
        return types.Bits(left.width + right.width, left.signed)

    def conditional(self, e: syntax.Conditional) -> syntax.Expression:
        e.condition = self.converted(e.condition, types.BOOL, "the condition")
        e.then, e.otherwise = self.value(e.then), self.value(e.otherwise)
        e.then, e.otherwise = self.same_type(e.then, e.otherwise, "a branch of ?:")
        chosen = e.condition.constant
        if isinstance(chosen, bool):
            branch = e.then if chosen else e.otherwise
            return typed(e, e.then.type, branch.constant)
        if e.then.type is types.INTEGER:
            raise P4Error("neither number of this ?: has a width", e.source, "e.g. 8w1")
        return typed(e, e.then.type)

    # ------------------------------------------------------------ braces

    def list_expression(self, e: syntax.ListExpression) -> syntax.Expression:
        e.elements = [self.value(element) for element in e.elements]
        of = types.Tuple(tuple(element.type for element in e.elements))
        return typed(e, of, compound_constant(e.elements))

    def struct_expression(self, e: syntax.StructExpression) -> syntax.Expression:
        seen: set[str] = set()
        for v in e.values:
            if v.name in seen:
                raise P4Error(f"{v.name!r} has two values", v.source, "one")
            seen.add(v.name)
            v.value = self.value(v.value)
        of = types.AnonymousStruct(tuple((v.name, v.value.type) for v in e.values))
        return typed(e, of, compound_constant([v.value for v in e.values]))


def _component(constant: syntax.Constant | None, position: int) -> syntax.Constant | None:
    """Part of a compound constant."""
    if isinstance(constant, tuple) and position < len(constant):
        part: syntax.Constant = constant[position]
        return part
    return None
