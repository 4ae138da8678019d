"""Types of expressions, and values that are known at compile time (spec section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minip4.compiler import syntax, types
from minip4.compiler.check.context import (
    Context,
    bits,
    describe,
    is_numeric,
    reduced,
    typed,
    what_is,
)
from minip4.compiler.check.conversion import compound_constant, implicit_cast
from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.types import Type


class Expressions:
    def __init__(self, context: Context) -> None:
        self.context = context
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
            syntax.Unary: self.context.operators.unary,
            syntax.Binary: self.context.operators.binary,
            syntax.Conditional: self.context.operators.conditional,
            syntax.Cast: self.context.conversions.cast,
            syntax.Call: self.context.calls.call,
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
            # already checked: a shared default argument, or an expression checked elsewhere
            return e
        return self.rules[type(e)](e)

    # ------------------------------------------------------------ literals and names

    def int_literal(self, e: syntax.IntLiteral) -> syntax.Expression:
        if e.width is None:
            return typed(e, types.INTEGER, e.value)
        if e.width < (1 if e.is_signed else 0):
            raise P4Error(f"{e.text!r} has no valid width", e.source, "a width of 1 or more")
        of = bits(e.width, e.is_signed, e.source)
        value = reduced(e.value, of)
        if value != e.value:
            self.context.warn(
                "overflow", f"{e.text} does not fit in {of}; it becomes {value}", e.source
            )
        return typed(e, of, value)

    def name(self, e: syntax.Name) -> syntax.Expression:
        kind = self.context.match_kinds.get(e.name)
        if kind is not None and not self.context.lookup_all(e.name, e.is_absolute):
            e.declaration = kind
            return typed(e, types.MATCH_KIND, kind)
        d = self.context.lookup(e.name, e.is_absolute, e.source)
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
        if self.context.place.this is None:
            raise P4Error("`this` is valid only in a method of an instance", e.source)
        return typed(e, self.context.place.this)

    def type_reference(self, e: syntax.TypeReference) -> syntax.Expression:
        return typed(e, self.context.type_names.type_of(e.type_expression, is_constructor=True))

    def stray_keyset(self, e: syntax.Expression) -> syntax.Expression:
        raise P4Error("a mask or range is valid only in a case or entry", e.source, "a value")

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
            raise no_member(e, ["hit", "miss", "action_run"])
        elif isinstance(of, types.AnonymousStruct):
            fields = of.fields
            if e.name in fields:
                constant = _component(e.base.constant, list(fields).index(e.name))
                return typed(e, fields[e.name], constant)
        raise no_member(e, members_of(of))

    def member_of_type(self, e: syntax.Member, base: syntax.TypeReference) -> syntax.Expression:
        of = base.type
        if of is types.ERROR:
            member = self.context.errors.get(e.name)
            if member is None:
                raise no_member(e, list(self.context.errors))
            e.declaration = member
            return typed(e, of, member)
        if isinstance(of, (types.Enum, types.SerializableEnum)):
            for m in of.declaration.members:
                if m.name == e.name:
                    e.declaration = m
                    return typed(e, of, m)
            raise no_member(e, [m.name for m in of.declaration.members])
        raise P4Error(f"type {of} has no members", e.source, "a value, enum or error")

    def member_of_stack(self, e: syntax.Member, of: types.Stack) -> syntax.Expression:
        if e.name == "size":
            return typed(e, types.Bits(32), of.size)
        if e.name not in ("next", "last", "lastIndex"):
            raise no_member(e, ["next", "last", "lastIndex", "size"])
        if self.context.place.kind not in ("parser", "function"):
            raise P4Error(
                f"'.{e.name}' of a header stack can be used only in a parser", e.source, "stack[i]"
            )
        return typed(e, types.Bits(32) if e.name == "lastIndex" else of.element)

    def index(self, e: syntax.Index) -> syntax.Expression:
        e.base = self.context.conversions.value(e.base)
        e.index = self.context.conversions.value(e.index)
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
        high = self.context.type_names.constant_integer(e.high, "the upper end of a slice")
        low = self.context.type_names.constant_integer(e.low, "the lower end of a slice")
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
        base = self.context.conversions.value(base)
        if isinstance(base.type, types.SerializableEnum):
            base = implicit_cast(base, base.type.underlying)
        if not isinstance(types.strip_newtypes(base.type), types.Bits):
            raise P4Error(f"a slice of {describe(base.type)}", base.source, "bit<N> or int<N>")
        return base

    def part_select(self, e: syntax.PartSelect) -> syntax.Expression:
        e.base = self.sliceable(e.base)
        e.low = self.context.conversions.value(e.low)
        width = self.context.type_names.constant_integer(e.width, "the width of a slice")
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

    # ------------------------------------------------------------ braces

    def list_expression(self, e: syntax.ListExpression) -> syntax.Expression:
        e.elements = [self.context.conversions.value(element) for element in e.elements]
        of = types.Tuple(tuple(element.type for element in e.elements))
        return typed(e, of, compound_constant(e.elements))

    def struct_expression(self, e: syntax.StructExpression) -> syntax.Expression:
        seen: set[str] = set()
        for v in e.values:
            if v.name in seen:
                raise P4Error(f"{v.name!r} has two values", v.source, "one")
            seen.add(v.name)
            v.value = self.context.conversions.value(v.value)
        of = types.AnonymousStruct(tuple((v.name, v.value.type) for v in e.values))
        return typed(e, of, compound_constant([v.value for v in e.values]))


def members_of(of: Type) -> list[str]:
    if isinstance(of, (types.StructLike, types.AnonymousStruct)):
        return list(of.fields)
    if isinstance(of, types.Extern):
        return sorted({m.name for m in of.declaration.methods})
    return ["apply"] if isinstance(of, types.TableType) else []


def no_member(e: syntax.Member, known: list[str]) -> P4Error:
    hint = did_you_mean(e.name, known)
    message = f"{describe(e.base.type)} has no member {e.name!r}{hint}"
    return P4Error(message, e.source, ", ".join(known[:12]))


def _component(constant: syntax.Constant | None, position: int) -> syntax.Constant | None:
    """Return a member of a compound constant."""
    if isinstance(constant, tuple) and position < len(constant):
        part: syntax.Constant = constant[position]
        return part
    return None
