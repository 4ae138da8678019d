"""Lowering of assignments to any place, and of comparisons of any values."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.context import Context
from minip4.compiler.types import BOOL, Bits


def read(value: places.Value) -> ir.Expression:
    """Return the scalar value that a place stores."""
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
    """Return `value.isValid()` for a header or header union."""
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
    """Return `stack.last` as the element at a run-time index."""
    index = ir.LastIndex(Bits(32), last.stack.name)
    element: places.Value = places.Indexed(index, last.stack.elements)
    return element if last.member is None else places.member(element, last.member)


def equal(left: places.Value, right: places.Value) -> ir.Expression:
    """Return `left == right` (8.10, 8.18).

    Headers are equal if both are invalid, or if both are valid and their fields are equal.
    """
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


def assign(
    context: Context, target: places.Place, value: places.Value, source: syntax.Source | None
) -> None:
    if isinstance(target, places.Indexed):
        _assign_indexed(context, target, value, source)
    elif isinstance(target, places.Scalar):
        context.emit(ir.Assign(source, target.field, read(value)))
    elif isinstance(target, places.Slice):
        _assign_slice(context, target, value, source)
    elif isinstance(target, places.Varbit):
        varbit = ir.Field(Bits(target.width), target.header, target.name)
        context.emit(ir.AssignVarbit(source, varbit, read(value)))
    elif isinstance(target, places.Header):
        _assign_header(context, target, value, source)
    elif isinstance(target, places.Union):
        _assign_union(context, target, value, source)
    elif isinstance(target, places.Stack):
        _assign_stack(context, target, value, source)
    elif isinstance(target, places.Group):
        _assign_members(context, target, value, source)
    elif isinstance(target, places.Last):
        element = last_element(target)
        assign(context, element, value, source)  # type: ignore[arg-type]
    else:
        assert source is not None
        raise P4Error("assigning to .next of a header stack is not supported", source)


def _assign_indexed(
    context: Context, target: places.Indexed, value: places.Value, source: syntax.Source | None
) -> None:
    """Assign to an indexed element with one branch per element.

    An index out of bounds changes nothing.
    """
    branches: list[ir.Statement] = []
    for i, place in reversed(list(enumerate(target.places))):
        with context.collecting() as body:
            assign(context, place, value, source)
        here = arithmetic.binary("==", BOOL, target.index, _number(target.index, i))
        branches = [ir.If(source, here, body, branches)]
    context.code.extend(branches)


def _assign_slice(
    context: Context, target: places.Slice, value: places.Value, source: syntax.Source | None
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
    assign(context, target.place, arithmetic.cast(merged, of), source)


def _assign_header(
    context: Context, target: places.Header, value: places.Value, source: syntax.Source | None
) -> None:
    if isinstance(value, places.Last):
        value = last_element(value)
    if isinstance(value, places.Header):
        if value.name != target.name:
            context.emit(ir.CopyHeader(source, target.name, value.name))
    elif isinstance(value, places.Invalid):
        context.emit(ir.SetInvalid(source, target.name))
    elif isinstance(value, places.Indexed):
        _assign_from_indexed(context, target, value, source)
    else:
        assert isinstance(value, places.Compound)
        value = _detached(context, target, value, source)
        context.emit(ir.SetValid(source, target.name))
        _assign_parts(context, list(target.members.values()), _parts(value), source)


def _assign_from_indexed(
    context: Context, target: places.Place, value: places.Indexed, source: syntax.Source | None
) -> None:
    branches: list[ir.Statement] = []
    for i, place in reversed(list(enumerate(value.places))):
        with context.collecting() as body:
            assign(context, target, place, source)
        here = arithmetic.binary("==", BOOL, value.index, _number(value.index, i))
        branches = [ir.If(source, here, body, branches)] if branches else body
    context.code.extend(branches)


def _assign_union(
    context: Context, target: places.Union, value: places.Value, source: syntax.Source | None
) -> None:
    if isinstance(value, places.Last):
        value = last_element(value)
    if isinstance(value, places.Invalid):
        for member in target.members.values():
            assign(context, member, value, source)
    elif isinstance(value, places.Indexed):
        _assign_from_indexed(context, target, value, source)
    else:
        assert isinstance(value, places.Union)
        if value.name != target.name:
            context.emit(ir.CopyUnion(source, target.name, value.name))


def _assign_stack(
    context: Context, target: places.Stack, value: places.Value, source: syntax.Source | None
) -> None:
    if isinstance(value, places.Stack):
        if value.name != target.name:
            context.emit(ir.CopyStack(source, target.declared, value.declared))
    elif isinstance(value, places.Invalid):
        _assign_parts(context, target.elements, [value] * len(target.elements), source)
    else:
        assert isinstance(value, places.Compound)
        value = _detached(context, target, value, source)
        _assign_parts(context, target.elements, _parts(value), source)


def _assign_members(
    context: Context, target: places.Group, value: places.Value, source: syntax.Source | None
) -> None:
    if isinstance(value, places.Compound):
        value = _detached(context, target, value, source)
    _assign_parts(context, list(target.members.values()), _parts(value), source)


def _assign_parts(
    context: Context,
    targets: list[places.Place],
    values: list[places.Value],
    source: syntax.Source | None,
) -> None:
    for target, value in zip(targets, values, strict=True):
        assign(context, target, value, source)


def _detached(
    context: Context, target: places.Place, literal: places.Compound, source: syntax.Source | None
) -> places.Compound:
    """Return the literal; members that read the overwritten place are saved first."""
    if not places.overlap(target, literal):
        return literal
    members = {n: copied(context, v, source) for n, v in literal.members.items()}
    return places.Compound(members, literal.is_header)


def copied(context: Context, value: places.Value, source: syntax.Source | None) -> places.Value:
    """Return a copy of the value that later assignments do not change."""
    if isinstance(value, places.Invalid | ir.Constant | ir.ActionData | ir.Text):
        return value
    if isinstance(value, places.Compound):
        members = {n: copied(context, v, source) for n, v in value.members.items()}
        return places.Compound(members, value.is_header)
    if not is_compound(value) and not isinstance(value, places.Varbit):
        expression = read(value)
        target = context.storage.allocate(expression.type, "tmp", _somewhere(source))
        assign(context, target, expression, source)
        return target
    target = copy_of_shape(context, value, source)
    assign(context, target, value, source)
    return target


def copy_of_shape(
    context: Context, value: places.Value, source: syntax.Source | None
) -> places.Place:
    """Return new storage with the same structure as a compound place."""
    if isinstance(value, places.Group):
        return places.Group(
            {n: copy_of_shape(context, p, source) for n, p in value.members.items()}
        )
    if isinstance(value, places.Scalar):
        return context.storage.allocate(value.type, "tmp", _somewhere(source))
    if isinstance(value, places.Varbit):
        return context.storage.allocate(types.Varbit(value.width), "tmp", _somewhere(source))
    if isinstance(value, places.Header | places.Union | places.Stack):
        return context.storage.clone(value, "tmp")
    if isinstance(value, places.Indexed):
        return copy_of_shape(context, value.places[0], source)
    if isinstance(value, places.Last):
        return copy_of_shape(context, last_element(value), source)
    raise P4Error("this compound value is not supported here", _somewhere(source))


def _somewhere(source: syntax.Source | None) -> syntax.Source:
    assert source is not None
    return source
