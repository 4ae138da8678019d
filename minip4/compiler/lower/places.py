"""Places and values during lowering.

A *place* is storage in header and metadata instances. A *value* is an ir.Expression, a place (read
as a whole) or a literal that consists of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minip4.compiler import ir, types


@dataclass(slots=True, eq=False)
class Scalar:
    """One field of an instance."""

    field: ir.Field | ir.LastField | ir.LastUnionField

    @property
    def type(self) -> types.Type:
        return self.field.type


@dataclass(slots=True, eq=False)
class Varbit:
    header: str
    name: str
    width: int


@dataclass(slots=True, eq=False)
class Group:
    """A struct or tuple: its members by name ("0", "1", ... for a tuple)."""

    members: dict[str, Place]


@dataclass(slots=True, eq=False)
class Header:
    name: str
    type_name: str
    members: dict[str, Place]  # flat fields, or Groups for structs in the header
    # for a member of a union: the other members; they become invalid when this member becomes
    # valid
    siblings: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Union:
    name: str
    members: dict[str, Place]  # Headers


@dataclass(slots=True, eq=False)
class Stack:
    declared: ir.Stack
    elements: list[Place]  # Headers or Unions

    @property
    def name(self) -> str:
        return self.declared.name


@dataclass(slots=True, eq=False)
class Next:
    """`stack.next`, or `stack.next.member` of a stack of unions."""

    stack: Stack
    member: str | None = None


@dataclass(slots=True, eq=False)
class Last:
    """`stack.last`. Its fields are read as ir.LastField."""

    stack: Stack
    member: str | None = None


@dataclass(slots=True, eq=False)
class Indexed:
    """An element of `places`, selected at run time."""

    index: ir.Expression
    places: list[Place]


@dataclass(slots=True, eq=False)
class Slice:
    place: Place  # a Scalar or an Indexed of scalars
    high: int
    low: int


Place = Scalar | Varbit | Group | Header | Union | Stack | Next | Last | Indexed | Slice


@dataclass(slots=True, eq=False)
class Compound:
    """A struct, tuple or header literal; `is_header` means that an assignment makes it valid."""

    members: dict[str, Value]
    is_header: bool = False


@dataclass(slots=True, eq=False)
class Invalid:
    """The invalid header `{#}`."""


Value = ir.Expression | Place | Compound | Invalid


def members_of(value: Value) -> dict[str, Value]:
    """Return the members of a compound place or literal."""
    if isinstance(value, Indexed):
        names = members_of(value.places[0])
        return {name: member(value, name) for name in names}
    if isinstance(value, Last):
        first = value.stack.elements[0]
        if value.member is not None:
            first = first.members[value.member]  # type: ignore[union-attr]
        return {name: member(value, name) for name in members_of(first)}
    assert isinstance(value, Group | Header | Union | Compound), value
    return dict(value.members)


def member(value: Value, name: str) -> Value:
    """Return `value.name`."""
    if isinstance(value, Indexed):
        return Indexed(value.index, [member(p, name) for p in value.places])  # type: ignore[misc]
    if isinstance(value, Next):
        assert value.stack.declared.is_union
        return Next(value.stack, name)
    if isinstance(value, Last):
        return _member_of_last(value, name)
    assert isinstance(value, Group | Header | Union | Compound), value
    return value.members[name]


def _member_of_last(last: Last, name: str) -> Value:
    element = last.stack.elements[0]
    if isinstance(element, Union) and last.member is None:
        return Last(last.stack, name)
    header = element.members[last.member] if last.member else element  # type: ignore[union-attr]
    return _as_last(last, header.members[name])  # type: ignore[union-attr]


def _as_last(last: Last, place: Place) -> Place:
    """Convert `place` in element 0 of the stack to the same field of the last element."""
    if isinstance(place, Group):
        return Group({name: _as_last(last, p) for name, p in place.members.items()})
    assert isinstance(place, Scalar)
    assert isinstance(place.field, ir.Field)
    of, name = place.field.type, place.field.name
    if last.member:
        return Scalar(ir.LastUnionField(of, last.stack.name, last.member, name))
    return Scalar(ir.LastField(of, last.stack.name, name))


def storage(place: Value) -> Iterator[str]:
    """Return the names of the storage of a place: `header`, or `header.field` for a scalar.

    Includes all other storage that affects its value: indices and, for the validity of a header,
    the other members of its union.
    """
    if isinstance(place, Scalar):
        if isinstance(place.field, ir.Field):
            yield f"{place.field.header}.{place.field.name}"
        else:
            yield place.field.stack
    elif isinstance(place, Varbit):
        yield f"{place.header}.{place.name}"
    elif isinstance(place, Header):
        yield place.name
        yield from place.siblings
        for inner in place.members.values():
            yield from storage(inner)
    elif isinstance(place, Group | Union | Compound):
        for inner_value in place.members.values():
            yield from storage(inner_value)
    elif isinstance(place, Stack):
        yield place.name
        for element in place.elements:
            yield from storage(element)
    elif isinstance(place, Next | Last):
        yield from storage(place.stack)
    elif isinstance(place, Indexed):
        yield from reads(place.index)
        for element in place.places:
            yield from storage(element)
    elif isinstance(place, Slice):
        yield from storage(place.place)
    elif isinstance(place, ir.Expression):
        yield from reads(place)


def reads(expression: ir.Expression) -> Iterator[str]:
    """Return the names (as in storage()) that an expression reads."""
    if isinstance(expression, ir.Field):
        yield f"{expression.header}.{expression.name}"
    elif isinstance(expression, ir.LastField | ir.LastUnionField | ir.LastIndex):
        yield expression.stack
    elif isinstance(expression, ir.IsValid):
        yield expression.header
    elif isinstance(expression, ir.Unary | ir.Cast):
        yield from reads(expression.operand)
    elif isinstance(expression, ir.Binary):
        yield from reads(expression.left)
        yield from reads(expression.right)
    elif isinstance(expression, ir.Choice):
        yield from reads(expression.condition)
        yield from reads(expression.then)
        yield from reads(expression.otherwise)


def overlap(left: Value, right: Value) -> bool:
    return not set(storage(left)).isdisjoint(storage(right))
