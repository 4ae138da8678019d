"""Explicit and implicit casts: integers, serializable enums, lists in braces (spec 8.12)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.constants import fold_cast
from minip4.compiler.check.context import Context, describe, reduced, typed
from minip4.compiler.check.inference import fits
from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.types import Type


class Conversions:
    def __init__(self, context: Context) -> None:
        self.context = context

    def value(self, e: syntax.Expression) -> syntax.Expression:
        """Check an expression that must be a value, not a table, action, type or the like."""
        e = self.context.expressions.expression(e)
        if isinstance(e, syntax.TypeReference):
            raise P4Error(f"{e.source.text!r} is a type", e.source, "a value")
        no_values = (types.Function, types.TableType, types.ApplyResult, types.ActionRun)
        if isinstance(e.type, no_values) or e.type is types.VOID:
            raise P4Error(f"{e.source.text!r} is {describe(e.type)}", e.source, "a value")
        return e

    def converted(self, e: syntax.Expression, to: Type, what: str) -> syntax.Expression:
        return self.convert(self.value(e), to, what)

    # ------------------------------------------------------------ implicit conversions

    def convert(self, e: syntax.Expression, to: Type, what: str) -> syntax.Expression:
        """Convert `e` to type `to` by inserting casts. `what` is its name in error messages."""
        of = e.type
        if isinstance(e, (syntax.ListExpression, syntax.StructExpression)):
            converted = self.convert_braces(e, to, what)
            if converted is not None:
                return converted
        if isinstance(e, syntax.Conditional) and of != to:
            e.then = self.convert(e.then, to, what)
            e.otherwise = self.convert(e.otherwise, to, what)
            chosen = e.condition.constant
            if isinstance(chosen, bool):
                return typed(e, to, (e.then if chosen else e.otherwise).constant)
            return typed(e, to)
        if isinstance(e, syntax.InvalidHeader):
            if not isinstance(to, (types.Header, types.HeaderUnion)):
                raise P4Error(f"{what}: {{#}} is not of type {to}", e.source, f"a value of {to}")
            return typed(e, to)
        if isinstance(e, syntax.DontCare) and e.text == "...":
            return self.default_value(e, to)
        if fits(of, to):
            return e
        plain = types.strip_newtypes(to)
        if of is types.INTEGER and isinstance(plain, types.Bits):
            return self.integer_as(e, to, plain)
        if to is types.INTEGER and isinstance(of, types.Bits) and e.constant is not None:
            return implicit_cast(e, to)
        if (
            isinstance(of, types.SerializableEnum)
            and types.strip_newtypes(of.declaration.underlying_type) == to
        ):
            return implicit_cast(e, to)
        raise P4Error(f"{what} is {describe(of)}", e.source, describe(to))

    def integer_as(self, e: syntax.Expression, to: Type, plain: types.Bits) -> syntax.Expression:
        """Convert a compile-time integer to type `to`: the type `plain`, or a newtype of it."""
        value = e.constant
        if isinstance(value, int) and reduced(value, plain) != value:
            message = f"{value} does not fit in {plain}; it becomes {reduced(value, plain)}"
            self.context.warn("overflow", message, e.source)
        if isinstance(e, syntax.IntLiteral):
            value = reduced(e.value, plain)
            literal = syntax.IntLiteral(e.source, value, plain.width, plain.signed, e.text)
            return typed(literal, to, value)
        return implicit_cast(e, to)

    def convert_braces(
        self, e: syntax.ListExpression | syntax.StructExpression, to: Type, what: str
    ) -> syntax.Expression | None:
        """Convert braces to a struct, tuple, list or stack. Return None if `to` is another type."""
        if isinstance(to, types.HeaderUnion):
            return None
        if isinstance(to, types.StructLike):
            if isinstance(e, syntax.StructExpression):
                return self.struct_by_name(e, to, what)
            return self.struct_by_position(e, to, what)
        if isinstance(e, syntax.StructExpression):
            return None
        if isinstance(to, types.Tuple):
            wanted = list(to.elements)
        elif isinstance(to, types.List):
            wanted = [to.element] * len(e.elements)
        elif isinstance(to, types.Stack):
            wanted = [to.element] * to.size
        else:
            return None
        elements = self.with_defaults(e, wanted, what, str(to))
        result = syntax.ListExpression(e.source, elements)
        return typed(result, to, compound_constant(elements))

    def with_defaults(
        self, e: syntax.ListExpression, wanted: list[Type], what: str, to: str
    ) -> list[syntax.Expression]:
        given = len(e.elements)
        if given > len(wanted) or (given < len(wanted) and not e.has_dots):
            message = f"{what} has {given} value(s) in braces"
            raise P4Error(message, e.source, f"{len(wanted)} for {to}")
        elements = [
            self.convert(element, of, what) for element, of in zip(e.elements, wanted, strict=False)
        ]
        for of in wanted[given:]:
            elements.append(self.default_value(e, of))
        return elements

    def struct_by_position(
        self, e: syntax.ListExpression, to: types.StructLike, what: str
    ) -> syntax.Expression:
        fields = to.fields
        elements = self.with_defaults(e, list(fields.values()), what, str(to))
        values = [
            syntax.NamedValue(v.source, name, v) for name, v in zip(fields, elements, strict=True)
        ]
        result = syntax.StructExpression(e.source, values)
        result.order = list(range(len(values)))
        return typed(result, to, compound_constant(elements))

    def struct_by_name(
        self, e: syntax.StructExpression, to: types.StructLike, what: str
    ) -> syntax.Expression:
        fields = to.fields
        given = {v.name: v for v in e.values}
        for v in e.values:
            if v.name not in fields:
                hint = did_you_mean(v.name, fields)
                raise P4Error(f"{to} has no field {v.name!r}{hint}", v.source, ", ".join(fields))
        missing = [name for name in fields if name not in given]
        if missing and not e.has_dots:
            raise P4Error(f"{what} has no value for {', '.join(missing)}", e.source, str(to))
        values: list[syntax.NamedValue] = []
        for name, of in fields.items():
            if name in given:
                value = self.convert(given[name].value, of, f"field {name!r}")
                values.append(syntax.NamedValue(given[name].source, name, value))
            else:
                values.append(syntax.NamedValue(e.source, name, self.default_value(e, of)))
        result = syntax.StructExpression(e.source, values)
        names = list(fields)
        written = [names.index(v.name) for v in e.values]
        result.order = written + [names.index(name) for name in missing]
        return typed(result, to, compound_constant([v.value for v in values]))

    def default_value(self, e: syntax.Expression, of: Type) -> syntax.Expression:
        """Return the value that `...` stands for (7.3)."""
        plain = types.strip_newtypes(of)
        if isinstance(plain, types.Bits):
            return typed(syntax.IntLiteral(e.source, 0, plain.width, plain.signed, "0"), of, 0)
        if isinstance(plain, types.SerializableEnum):
            zero = typed(syntax.IntLiteral(e.source, 0, None), types.INTEGER, 0)
            return implicit_cast(zero, of)
        if plain is types.INTEGER:
            return typed(syntax.IntLiteral(e.source, 0, text="0"), of, 0)
        if plain is types.BOOL:
            return typed(syntax.BoolLiteral(e.source, False), of, False)
        if plain is types.STRING:
            return typed(syntax.StringLiteral(e.source, ""), of, "")
        if isinstance(plain, (types.Header, types.HeaderUnion)):
            return typed(syntax.InvalidHeader(e.source), of)
        if plain is types.ERROR:
            name = syntax.Member(
                e.source,
                syntax.TypeReference(e.source, syntax.BaseTypeName(e.source, "error")),
                "NoError",
            )
            return self.context.expressions.expression(name)
        if isinstance(plain, types.Enum):
            first = plain.declaration.members[0]
            reference = syntax.TypeReference(e.source, syntax.TypeName(e.source, plain.name))
            member = syntax.Member(e.source, typed(reference, plain), first.name)
            member.declaration = first
            return typed(member, of, first)
        if isinstance(plain, types.Struct):
            empty = syntax.StructExpression(e.source, [], True)
            return self.struct_by_name(empty, plain, "the default value")
        if isinstance(plain, (types.Tuple, types.Stack)):
            dots = syntax.ListExpression(e.source, [], True)
            converted = self.convert_braces(dots, plain, "the default value")
            assert converted is not None
            return converted
        raise P4Error(f"there is no default value of type {of}", e.source)

    def same_type(
        self, left: syntax.Expression, right: syntax.Expression, what: str
    ) -> tuple[syntax.Expression, syntax.Expression]:
        """Convert both operands to the type of the operand that has a width or a name."""
        if left.type == right.type:
            return left, right
        if _is_weaker(left, right):
            return self.convert(left, right.type, what), right
        if isinstance(right.type, types.SerializableEnum) and not isinstance(
            left.type, types.SerializableEnum
        ):
            right = implicit_cast(right, types.strip_newtypes(right.type.underlying))
        elif isinstance(left.type, types.SerializableEnum):
            left = implicit_cast(left, types.strip_newtypes(left.type.underlying))
            if right.type is types.INTEGER or left.type == right.type:
                return left, self.convert(right, left.type, what)
        return left, self.convert(right, left.type, what)

    # ------------------------------------------------------------ casts (8.12)

    def cast(self, e: syntax.Cast) -> syntax.Expression:
        assert e.target is not None
        to = self.context.type_names.type_of(e.target)
        e.operand = self.value(e.operand)
        braces = (
            syntax.ListExpression,
            syntax.StructExpression,
            syntax.InvalidHeader,
            syntax.DontCare,
        )
        if isinstance(e.operand, braces):
            return self.convert(e.operand, to, "the value")
        of = e.operand.type
        if not _can_cast(of, to):
            raise P4Error(f"{describe(of)} cannot be cast to {to}", e.source)
        value = e.operand.constant
        if of is types.INTEGER and to is types.BOOL and value not in (0, 1):
            raise P4Error(f"{value} cannot be cast to bool", e.source, "0 or 1")
        return typed(e, to, fold_cast(value, to))


def _is_weaker(left: syntax.Expression, right: syntax.Expression) -> bool:
    """Return whether `left` must be converted to the type of `right`."""
    if left.type is types.INTEGER:
        return not isinstance(right.type, types.SerializableEnum)
    braces = (syntax.ListExpression, syntax.StructExpression, syntax.InvalidHeader)
    is_open = (types.Tuple, types.AnonymousStruct)
    if isinstance(left.type, is_open) and isinstance(right.type, types.StructLike):
        return isinstance(left, braces)
    return isinstance(left, braces) and not isinstance(right, braces)


def implicit_cast(e: syntax.Expression, to: Type) -> syntax.Expression:
    return typed(syntax.Cast(e.source, None, e), to, fold_cast(e.constant, to))


def compound_constant(elements: list[syntax.Expression]) -> syntax.Constant | None:
    values = [e.constant for e in elements]
    return None if None in values else tuple(values)


def _can_cast(of: Type, to: Type) -> bool:
    """Return whether an explicit cast is valid (8.12.1).

    Newtypes and enums count as their base types.
    """
    if of == to:
        return True
    if isinstance(of, (types.NewType, types.SerializableEnum)):
        return _can_cast(of.underlying, to)
    if isinstance(to, (types.NewType, types.SerializableEnum)):
        return _can_cast(of, to.underlying)
    if isinstance(of, types.Bits) and isinstance(to, types.Bits):
        return of.signed == to.signed or of.width == to.width
    if isinstance(to, types.Bits):
        return of is types.INTEGER or (of is types.BOOL and to == types.Bits(1))
    if to is types.BOOL:
        return of == types.Bits(1) or of is types.INTEGER
    if to is types.INTEGER:
        return isinstance(of, types.Bits)
    if isinstance(of, types.Tuple) and isinstance(to, types.Struct):
        return of.elements == tuple(to.fields.values())
    return False
