"""Lowering of expressions. Side effects are emitted first, in the order of evaluation (8.1)."""

from __future__ import annotations

from collections.abc import Sequence

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject, Instance, Known
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.assignments import (
    assign,
    copied,
    equal,
    is_compound,
    last_element,
    read,
)
from minip4.compiler.lower.constants import constant_value
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.syntax import CallKind
from minip4.compiler.types import BOOL, Bits

_PURE_BUILTINS = {
    "isValid",
    "minSizeInBits",
    "minSizeInBytes",
    "maxSizeInBits",
    "maxSizeInBytes",
}


def has_effects(node: syntax.Node) -> bool:
    """Return whether the evaluation has side effects, or emits code that must not be skipped."""
    if isinstance(node, syntax.Expression) and node.constant is not None:
        return False
    if isinstance(node, syntax.Call):
        if node.kind is CallKind.BUILTIN and node.method in _PURE_BUILTINS:
            return has_effects(node.object) if node.object is not None else False
        is_pure_method = node.kind is CallKind.EXTERN_METHOD and node.method == "lookahead"
        if not is_pure_method:
            return True
    return any(has_effects(child) for child in syntax.children(node))


def can_change(node: syntax.Node) -> bool:
    """Return whether the evaluation can change a variable of an enclosing block.

    A function can do so only through out and inout parameters.
    """
    if not has_effects(node):
        return False
    if isinstance(node, syntax.Call):
        if node.kind is not CallKind.FUNCTION:
            return True
        if any(parameter.direction in ("out", "inout") for parameter in node.parameters):
            return True
    return any(can_change(child) for child in syntax.children(node))


def read_scalar(value: places.Value, source: syntax.Source) -> ir.Expression:
    if is_compound(value) or isinstance(value, places.Next):
        raise P4Error("expected a number or bool", source)
    return read(value)


class Expressions:
    def __init__(self, context: Context) -> None:
        self.context = context

    def scalar(self, expression: syntax.Expression) -> ir.Expression:
        return read_scalar(self.value(expression), expression.source)

    def place(self, expression: syntax.Expression) -> places.Place:
        """Return the place of an lvalue. Its run-time indices are evaluated now."""
        value = self.value(expression)
        if isinstance(value, ir.Expression | places.Compound | places.Invalid):
            raise P4Error("this cannot be assigned to", expression.source)
        return value

    def pinned(self, place: places.Place, source: syntax.Source) -> places.Place:
        """Return the place with saved run-time indices. Later code cannot change saved indices."""
        if isinstance(place, places.Indexed):
            inner = [self.pinned(p, source) for p in place.places]
            return places.Indexed(self.context.saved(place.index, source), inner)
        if isinstance(place, places.Slice):
            return places.Slice(self.pinned(place.place, source), place.high, place.low)
        return place

    def values(
        self, expressions: list[syntax.Expression], order: Sequence[int] | None = None
    ) -> list[places.Value]:
        """Evaluate expressions from left to right, or in the given order of positions.

        Earlier values are saved if later expressions have side effects.
        """
        todo = list(range(len(expressions)) if order is None else order)
        result: dict[int, places.Value] = {}
        for i, position in enumerate(todo):
            expression = expressions[position]
            value = self.value(expression)
            if any(has_effects(expressions[later]) for later in todo[i + 1 :]):
                value = copied(self.context, value, expression.source)
            result[position] = value
        return [result[position] for position in range(len(expressions))]

    def value(self, expression: syntax.Expression) -> places.Value:
        if expression.constant is not None:
            return constant_value(
                expression.constant, expression.type, self.context.environment, expression.source
            )
        match expression:
            case syntax.Name():
                return self._name(expression)
            case syntax.Member():
                return self._member(expression)
            case syntax.Index():
                return self._index(expression)
            case syntax.Slice():
                return self._slice(expression)
            case syntax.PartSelect():
                return self._part_select(expression)
            case syntax.Unary():
                operand = self.scalar(expression.operand)
                return arithmetic.unary(expression.operator, operand.type, operand)
            case syntax.Binary():
                return self._binary(expression)
            case syntax.Conditional():
                return self._conditional(expression)
            case syntax.Cast():
                return self._cast(expression)
            case syntax.Call():
                result = self.context.calls.call(expression)
                if result is None:
                    raise P4Error("this call returns no value", expression.source)
                return result
            case syntax.ListExpression():
                elements = self.values(expression.elements)
                return places.Compound({str(i): v for i, v in enumerate(elements)})
            case syntax.StructExpression():
                return self._struct(expression)
            case syntax.InvalidHeader():
                return places.Invalid()
            case syntax.Mask() | syntax.Range() | syntax.DontCare():
                raise P4Error("a set is not a value", expression.source)
        raise P4Error("this expression is not supported on this target", expression.source)

    def _name(self, name: syntax.Name) -> places.Value:
        declaration = name.declaration
        assert declaration is not None
        bound = self.context.environment.lookup(declaration)
        if isinstance(bound, Known):
            return constant_value(bound.constant, name.type, self.context.environment, name.source)
        if isinstance(bound, ExternObject | Instance):
            raise P4Error(f"{name.name} is not a value", name.source)
        if bound is not None:
            assert isinstance(bound, places.Value)
            return bound
        if isinstance(declaration, syntax.ConstantDeclaration):
            return self.value(declaration.initializer)
        raise P4Error(f"{name.name} cannot be used here", name.source)

    def _member(self, member: syntax.Member) -> places.Value:
        base_type = types.strip_newtypes(self.context.environment.resolve(member.base.type))
        if isinstance(base_type, types.ApplyResult):
            return self._hit_or_miss(member)
        base = self.value(member.base)
        if isinstance(base_type, types.Stack) and not isinstance(base, places.Group):
            if not isinstance(base, places.Stack):
                raise P4Error("this header stack cannot be used here", member.source)
            return self._stack_member(member, base)
        if isinstance(base, places.Invalid):
            raise P4Error("an invalid header has no fields", member.source)
        if isinstance(base, ir.Expression):
            raise P4Error(f"there is no member {member.name}", member.source)
        if isinstance(base, places.Next) and not base.stack.declared.is_union:
            raise P4Error("the header .next can only be extracted", member.source)
        return places.member(base, member.name)

    def _stack_member(self, member: syntax.Member, stack: places.Stack) -> places.Value:
        if member.name == "next":
            return places.Next(stack)
        if member.name == "last":
            return places.Last(stack)
        if member.name == "lastIndex":
            return ir.LastIndex(Bits(32), stack.name)
        raise P4Error(f".{member.name} of a header stack is not supported", member.source)

    def _hit_or_miss(self, member: syntax.Member) -> places.Value:
        """Return `t.apply().hit` as a value."""
        assert isinstance(member.base, syntax.Call)
        assert isinstance(member.base.declaration, syntax.Table)
        result = self.context.temporary_field(BOOL, member.source)
        apply = self.context.tables.apply_table(member.base.declaration, member.source)
        is_hit = member.name == "hit"
        apply.hit = [ir.Assign(member.source, result, ir.TRUE if is_hit else ir.FALSE)]
        apply.miss = [ir.Assign(member.source, result, ir.FALSE if is_hit else ir.TRUE)]
        apply.has_branches = True
        self.context.emit(apply)
        return result

    def _index(self, index: syntax.Index) -> places.Value:
        base = self.value(index.base)
        if isinstance(base, places.Stack):
            elements = list(base.elements)
        elif isinstance(base, places.Group | places.Compound):
            elements = list(base.members.values())  # type: ignore[arg-type]
        else:
            raise P4Error("this cannot be indexed here", index.source)
        if has_effects(index.index):
            position = self.context.saved(self.scalar(index.index), index.source)
        else:
            position = self.scalar(index.index)
        if isinstance(position, ir.Constant):
            if not 0 <= position.value < len(elements):
                raise P4Error(
                    f"index {position.value} is out of bounds",
                    index.index.source,
                    f"0 .. {len(elements) - 1}",
                )
            return elements[position.value]
        return places.Indexed(position, elements)

    def _slice(self, expression: syntax.Slice) -> places.Value:
        high, low = expression.high.constant, expression.low.constant
        assert isinstance(high, int)
        assert isinstance(low, int)
        base = self.value(expression.base)
        if isinstance(base, places.Slice):
            return places.Slice(base.place, base.low + high, base.low + low)
        if isinstance(base, places.Scalar | places.Indexed):
            return places.Slice(base, high, low)
        return arithmetic.slice_of(read(base), high, low)

    def _part_select(self, expression: syntax.PartSelect) -> places.Value:
        base, low = (read(v) for v in self.values([expression.base, expression.low]))
        of = scalar_type(expression.type)
        assert of is not None
        return arithmetic.cast(arithmetic.shift(">>", base, low), of)

    def _binary(self, expression: syntax.Binary) -> places.Value:
        operator = expression.operator
        if operator in ("&&", "||"):
            return self._short_circuit(expression)
        left, right = self.values([expression.left, expression.right])
        if operator == "==":
            return equal(left, right)
        if operator == "!=":
            if not is_compound(left):
                return arithmetic.binary("!=", BOOL, read(left), read(right))
            return ir.negate(equal(left, right))
        a, b = read(left), read(right)
        if operator in ("<<", ">>"):
            return arithmetic.shift(operator, a, b)
        of = scalar_type(self.context.environment.resolve(expression.type))
        if operator == "++":
            assert isinstance(of, Bits)
            return arithmetic.concatenate(a, b, of)
        if operator in ("/", "%"):
            return self._divide(expression, a, b)
        # Integers without a width occur here if constructor or compile-time parameters are used.
        result = arithmetic.binary(operator, of or types.INTEGER, a, b)
        if of is None and not isinstance(result, ir.Constant):
            raise P4Error("this is not known at compile time", expression.source, "a constant")
        return result

    def _divide(
        self, expression: syntax.Binary, dividend: ir.Expression, divisor: ir.Expression
    ) -> ir.Expression:
        """Divide by a power of two with shifts and masks. So targets need no division."""
        of = dividend.type
        if isinstance(dividend, ir.Constant) and dividend.value == 0:
            return dividend
        if not isinstance(divisor, ir.Constant) or divisor.value.bit_count() != 1:
            raise P4Error(
                f"{expression.operator} is supported only with a constant power of two",
                expression.source,
            )
        if not isinstance(of, Bits) or of.signed:
            raise P4Error(f"{expression.operator} is supported only on bit<>", expression.source)
        bits = divisor.value.bit_length() - 1
        if expression.operator == "%":
            mask = ir.Constant(of, divisor.value - 1)
            return arithmetic.binary("&", of, dividend, mask)
        return arithmetic.shift(">>", dividend, ir.Constant(Bits(32), bits))

    def _short_circuit(self, expression: syntax.Binary) -> ir.Expression:
        is_and = expression.operator == "&&"
        left = self.scalar(expression.left)
        if not has_effects(expression.right):
            right = self.scalar(expression.right)
            return ir.both(left, right) if is_and else ir.either(left, right)
        if isinstance(left, ir.Constant) and bool(left.value) != is_and:
            return left
        result = self.context.temporary_field(BOOL, expression.source)
        self.context.emit(ir.Assign(expression.source, result, left))
        with self.context.collecting() as body:
            right = self.scalar(expression.right)
            self.context.emit(ir.Assign(expression.source, result, right))
        then, otherwise = (body, []) if is_and else ([], body)
        self.context.emit(ir.If(expression.source, result, then, otherwise))
        return result

    def _conditional(self, expression: syntax.Conditional) -> places.Value:
        condition = self.scalar(expression.condition)
        of = self.context.environment.resolve(expression.type)
        branches = (expression.then, expression.otherwise)
        if scalar_type(of) is not None and not any(has_effects(b) for b in branches):
            then, otherwise = (self.scalar(b) for b in branches)
            return arithmetic.choice(condition, then, otherwise)
        result = self.context.temporary(of, expression.source)
        bodies = []
        for branch in branches:
            with self.context.collecting() as body:
                assign(self.context, result, self.value(branch), expression.source)
            bodies.append(body)
        self.context.emit(ir.If(expression.source, condition, bodies[0], bodies[1]))
        return result

    def _cast(self, expression: syntax.Cast) -> places.Value:
        value = self.value(expression.operand)
        of = types.strip_newtypes(self.context.environment.resolve(expression.type))
        to = scalar_type(of)
        if to is not None:
            return arithmetic.cast(read(value), to)
        if isinstance(value, places.Compound):
            return places.Compound(value.members, isinstance(of, types.Header))
        return value

    def _struct(self, expression: syntax.StructExpression) -> places.Value:
        # If the struct type is unknown (`f({b = x, a = y})`), the fields are in the written order.
        values = self.values([v.value for v in expression.values], expression.order or None)
        members = {v.name: value for v, value in zip(expression.values, values, strict=True)}
        of = types.strip_newtypes(self.context.environment.resolve(expression.type))
        return places.Compound(members, isinstance(of, types.Header))

    def flattened(self, value: places.Value, source: syntax.Source) -> list[ir.Expression]:
        """Return the scalars in a value, from left to right, for hash inputs and digests."""
        if isinstance(value, places.Last):
            value = last_element(value)
        if isinstance(value, places.Stack):
            return [e for place in value.elements for e in self.flattened(place, source)]
        if is_compound(value) and not isinstance(value, places.Invalid):
            parts = places.members_of(value).values()
            return [e for part in parts for e in self.flattened(part, source)]
        if isinstance(value, places.Invalid | places.Next):
            raise P4Error("this is not supported as data here", source)
        return [read(value)]
