"""Lowers assignments to any place, and comparisons, of any value."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.lower import arithmetic, ir, places
from minip4.compiler.lower.base import Lowering
from minip4.compiler.types import BOOL, Bits


def read(value: places.Value) -> ir.Expression:
    """The scalar in a place."""
    if isinstance(value, ir.Expression):
        return value
    if isinstance(value, places.Scalar):
        return value.field
    if isinstance(value, places.Varbit):
        return ir.Field(Bits(value.width), value.header, value.name)
    if isinstance(value, places.Indexed):
        result = read(value.places[-1])
        for i in reversed(range(len(value.places) - 1)):
            here = arithmetic.binary("==", BOOL, value.index, _number(value.index, i))
            result = arithmetic.choice(here, read(value.places[i]), result)
        return result
    if isinstance(value, places.Slice):
        return arithmetic.slice_of(read(value.place), value.high, value.low)
    raise AssertionError(value)


def _number(like: ir.Expression, value: int) -> ir.Constant:
    return ir.Constant(like.type, value)


def is_compound(value: places.Value) -> bool:
    if isinstance(value, places.Indexed):
        return is_compound(value.places[0])
    return isinstance(
        value,
        places.Group
        | places.Header
        | places.Union
        | places.Stack
        | places.Compound
        | places.Invalid
        | places.Last,
    )


def validity(value: places.Value) -> ir.Expression:
    """`value.isValid()` of a header or header union."""
    if isinstance(value, places.Header):
        return ir.IsValid(BOOL, value.name)
    if isinstance(value, places.Compound):
        return ir.TRUE
    if isinstance(value, places.Invalid):
        return ir.FALSE
    if isinstance(value, places.Union):
        result: ir.Expression = ir.FALSE
        for member in value.members.values():
            result = ir.either(result, validity(member))
        return result
    if isinstance(value, places.Last):
        return validity(last_element(value))
    assert isinstance(value, places.Indexed), value
    result = validity(value.places[-1])
    for i in reversed(range(len(value.places) - 1)):
        here = arithmetic.binary("==", BOOL, value.index, _number(value.index, i))
        result = arithmetic.choice(here, validity(value.places[i]), result)
    return result


def last_element(last: places.Last) -> places.Value:
    """`stack.last` as the element at a run-time index."""
    index = ir.LastIndex(Bits(32), last.stack.name)
    element: places.Value = places.Indexed(index, last.stack.elements)
    return element if last.member is None else places.member(element, last.member)


def equal(left: places.Value, right: places.Value) -> ir.Expression:
    """`left == right` (8.10, 8.18): headers are equal if both are invalid, or valid and equal."""
    if not is_compound(left) and not is_compound(right):
        return arithmetic.binary("==", BOOL, read(left), read(right))
    if isinstance(left, places.Last):
        left = last_element(left)
    if isinstance(right, places.Last):
        right = last_element(right)
    if _is_header(left) or _is_header(right):
        both = ir.both(validity(left), validity(right))
        neither = ir.both(ir.negate(validity(left)), ir.negate(validity(right)))
        if isinstance(left, places.Invalid) or isinstance(right, places.Invalid):
            return neither
        return ir.either(neither, ir.both(both, _all_equal(left, right)))
    return _all_equal(left, right)


def _is_header(value: places.Value) -> bool:
    if isinstance(value, places.Indexed):
        return _is_header(value.places[0])
    if isinstance(value, places.Compound):
        return value.is_header
    return isinstance(value, places.Header | places.Invalid)


def _parts(value: places.Value) -> list[places.Value]:
    if isinstance(value, places.Stack):
        return list(value.elements)
    return list(places.members_of(value).values())


def _all_equal(left: places.Value, right: places.Value) -> ir.Expression:
    result: ir.Expression = ir.TRUE
    for a, b in zip(_parts(left), _parts(right), strict=True):
        result = ir.both(result, equal(a, b))
    return result


class Assignments(Lowering):
    def assign(
        self, target: places.Place, value: places.Value, source: syntax.Source | None
    ) -> None:
        if isinstance(target, places.Indexed):
            self._assign_indexed(target, value, source)
        elif isinstance(target, places.Scalar):
            self.emit(ir.Assign(source, target.field, read(value)))
        elif isinstance(target, places.Slice):
            self._assign_slice(target, value, source)
        elif isinstance(target, places.Varbit):
            varbit = ir.Field(Bits(target.width), target.header, target.name)
            self.primitive("assign_VL", [varbit, read(value)], source)
        elif isinstance(target, places.Header):
            self._assign_header(target, value, source)
        elif isinstance(target, places.Union):
            self._assign_union(target, value, source)
        elif isinstance(target, places.Stack):
            self._assign_stack(target, value, source)
        elif isinstance(target, places.Group):
            self._assign_members(target, value, source)
        elif isinstance(target, places.Last):
            element = last_element(target)
            self.assign(element, value, source)  # type: ignore[arg-type]
        else:
            assert source is not None
            raise P4Error("assigning to .next of a header stack is not supported", source)

    def _assign_indexed(
        self, target: places.Indexed, value: places.Value, source: syntax.Source | None
    ) -> None:
        """One branch an element. An index out of bounds changes nothing."""
        branches: list[ir.Statement] = []
        for i, place in reversed(list(enumerate(target.places))):
            with self.collecting() as body:
                self.assign(place, value, source)
            here = arithmetic.binary("==", BOOL, target.index, _number(target.index, i))
            branches = [ir.If(source, here, body, branches)]
        self.code.extend(branches)

    def _assign_slice(
        self, target: places.Slice, value: places.Value, source: syntax.Source | None
    ) -> None:
        whole = read(target.place)
        of = whole.type
        assert isinstance(of, Bits)
        plain = Bits(of.width)
        mask = ((1 << (target.high - target.low + 1)) - 1) << target.low
        keep = ir.Constant(plain, ((1 << of.width) - 1) & ~mask)
        kept = arithmetic.binary("&", plain, arithmetic.cast(whole, plain), keep)
        new = read(value)
        new = arithmetic.cast(arithmetic.cast(new, Bits(ir.width_of(new))), plain)
        new = arithmetic.shift("<<", new, ir.Constant(Bits(32), target.low))
        new = arithmetic.binary("&", plain, new, ir.Constant(plain, mask))
        merged = arithmetic.binary("|", plain, kept, new)
        self.assign(target.place, arithmetic.cast(merged, of), source)

    def _assign_header(
        self, target: places.Header, value: places.Value, source: syntax.Source | None
    ) -> None:
        if isinstance(value, places.Last):
            value = last_element(value)
        reference = ir.Reference("header", target.name)
        if isinstance(value, places.Header):
            if value.name != target.name:
                other = ir.Reference("header", value.name)
                self.primitive("assign_header", [reference, other], source)
        elif isinstance(value, places.Invalid):
            self.primitive("remove_header", [reference], source)
        elif isinstance(value, places.Indexed):
            self._assign_from_indexed(target, value, source)
        else:
            assert isinstance(value, places.Compound)
            value = self._detached(target, value, source)
            self.primitive("add_header", [reference], source)
            self._assign_parts(list(target.members.values()), _parts(value), source)

    def _assign_from_indexed(
        self, target: places.Place, value: places.Indexed, source: syntax.Source | None
    ) -> None:
        branches: list[ir.Statement] = []
        for i, place in reversed(list(enumerate(value.places))):
            with self.collecting() as body:
                self.assign(target, place, source)
            here = arithmetic.binary("==", BOOL, value.index, _number(value.index, i))
            branches = [ir.If(source, here, body, branches)] if branches else body
        self.code.extend(branches)

    def _assign_union(
        self, target: places.Union, value: places.Value, source: syntax.Source | None
    ) -> None:
        if isinstance(value, places.Last):
            value = last_element(value)
        if isinstance(value, places.Invalid):
            for member in target.members.values():
                self.assign(member, value, source)
        elif isinstance(value, places.Indexed):
            self._assign_from_indexed(target, value, source)
        else:
            assert isinstance(value, places.Union)
            if value.name != target.name:
                pair = [ir.Reference("header_union", n) for n in (target.name, value.name)]
                self.primitive("assign_union", list(pair), source)

    def _assign_stack(
        self, target: places.Stack, value: places.Value, source: syntax.Source | None
    ) -> None:
        if isinstance(value, places.Stack):
            if value.name != target.name:
                kind = "header_union_stack" if target.is_union else "header_stack"
                name = "assign_union_stack" if target.is_union else "assign_header_stack"
                pair = [ir.Reference(kind, n) for n in (target.name, value.name)]
                self.primitive(name, list(pair), source)
        elif isinstance(value, places.Invalid):
            self._assign_parts(target.elements, [value] * len(target.elements), source)
        else:
            assert isinstance(value, places.Compound)
            value = self._detached(target, value, source)
            self._assign_parts(target.elements, _parts(value), source)

    def _assign_members(
        self, target: places.Group, value: places.Value, source: syntax.Source | None
    ) -> None:
        if isinstance(value, places.Compound):
            value = self._detached(target, value, source)
        self._assign_parts(list(target.members.values()), _parts(value), source)

    def _assign_parts(
        self, targets: list[places.Place], values: list[places.Value], source: syntax.Source | None
    ) -> None:
        for target, value in zip(targets, values, strict=True):
            self.assign(target, value, source)

    def _detached(
        self, target: places.Place, literal: places.Compound, source: syntax.Source | None
    ) -> places.Compound:
        """The literal with its parts saved if they read what is about to be overwritten."""
        if not places.overlap(target, literal):
            return literal
        members = {n: self.copied(v, source) for n, v in literal.members.items()}
        return places.Compound(members, literal.is_header)

    def copied(self, value: places.Value, source: syntax.Source | None) -> places.Value:
        """A copy of the value that later assignments do not touch."""
        if isinstance(value, places.Invalid | ir.Constant | ir.ActionData | ir.Text):
            return value
        if isinstance(value, places.Compound):
            members = {n: self.copied(v, source) for n, v in value.members.items()}
            return places.Compound(members, value.is_header)
        if not is_compound(value) and not isinstance(value, places.Varbit):
            expression = read(value)
            target = self.storage.allocate(expression.type, "tmp", _somewhere(source))
            self.assign(target, expression, source)
            return target
        target = self.copy_of_shape(value, source)
        self.assign(target, value, source)
        return target

    def copy_of_shape(self, value: places.Value, source: syntax.Source | None) -> places.Place:
        """New storage like that of a compound place."""
        if isinstance(value, places.Group):
            return places.Group(
                {n: self.copy_of_shape(p, source) for n, p in value.members.items()}
            )
        if isinstance(value, places.Scalar):
            return self.storage.allocate(value.type, "tmp", _somewhere(source))
        if isinstance(value, places.Varbit):
            return self.storage.allocate(types.Varbit(value.width), "tmp", _somewhere(source))
        if isinstance(value, places.Header | places.Union | places.Stack):
            return self.storage.clone(value, "tmp")
        if isinstance(value, places.Indexed):
            return self.copy_of_shape(value.places[0], source)
        if isinstance(value, places.Last):
            return self.copy_of_shape(last_element(value), source)
        raise P4Error("this compound value is not supported here", _somewhere(source))


def _somewhere(source: syntax.Source | None) -> syntax.Source:
    assert source is not None
    return source
