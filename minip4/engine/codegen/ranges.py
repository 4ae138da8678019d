"""Minimum and maximum of an expression, computed at compile time."""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.errors import NotSupported

MAX_WIDE_BITS = 1 << 14
"""The bit width above which values are never computed exactly."""

BOOLEAN_OPS = {"==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "valid", "valid_union", "d2b"}
STACK_ELEMENT_OPS = ("dereference_header_stack", "dereference_stack")

Range = tuple[int, int]


def unsigned(width: int) -> Range:
    return 0, (1 << width) - 1


def signed(width: int) -> Range:
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def is_boolean(e: m.Expr) -> bool:
    if isinstance(e, m.Op):
        return e.op in BOOLEAN_OPS or (e.op == "?" and is_boolean(e.args[1]))
    return isinstance(e, m.BoolConst)


def is_header(e: m.Expr) -> bool:
    return isinstance(e, m.HeaderRef) or (
        isinstance(e, m.Op) and e.op in (*STACK_ELEMENT_OPS, "access_union_header")
    )


def header_type(e: m.Expr) -> m.HeaderType:
    """Return the type of a header expression."""
    if isinstance(e, m.HeaderRef):
        return e.header.type
    if isinstance(e, m.Op) and e.op in STACK_ELEMENT_OPS and isinstance(e.args[0], m.StackRef):
        return e.args[0].stack.array.type
    if isinstance(e, m.Op) and e.op == "access_union_header":
        union, position = e.args
        assert isinstance(position, m.Const)
        if isinstance(union, m.Op) and isinstance(union.args[0], m.UnionStackRef):
            union = m.UnionRef(union.args[0].stack.unions[0])
        if isinstance(union, m.UnionRef):
            return union.union.members[position.value][1].type
    raise NotSupported(f"{type(e).__name__} used as a header")


def accessed_field(e: m.Op) -> m.Field:
    """Return the field of an access_field operation."""
    position = e.args[1]
    assert isinstance(position, m.Const)
    return header_type(e.args[0]).fields[position.value]


def cast_width(e: m.Op) -> int:
    """Return the width in a two_comp_mod, sat_cast or usat_cast."""
    width = e.args[1]
    if not isinstance(width, m.Const):
        raise NotSupported(f"{e.op} to a width that is not constant {e.where}")
    return width.value


def range_of(e: m.Expr) -> Range:
    """Return the minimum and maximum of an expression."""
    if isinstance(e, m.Const):
        return e.value, e.value
    if isinstance(e, m.FieldRef | m.StackField | m.UnionStackField):
        return _field(e.field)
    if isinstance(e, m.Param | m.Lookahead):
        return unsigned(e.width)
    if isinstance(e, m.RegisterRef):
        return unsigned(e.register.width)
    if isinstance(e, m.Op) and not is_boolean(e):
        return _operation(e)
    if isinstance(e, m.Valid | m.BoolConst | m.Op):
        return 0, 1
    raise NotSupported(f"{type(e).__name__} used as a number")


def _field(field: m.Field) -> Range:
    return signed(field.width) if field.signed else unsigned(field.width)


def _operation(e: m.Op) -> Range:
    op, args = e.op, e.args
    if op == "access_field":
        return _field(accessed_field(e))
    if op in ("last_stack_index", "size_stack"):
        return unsigned(16)
    if op == "b2d":
        return 0, 1
    if op in ("two_comp_mod", "sat_cast"):
        return signed(cast_width(e))
    if op == "usat_cast":
        return unsigned(cast_width(e))
    if op == "?":
        a, b = range_of(args[1]), range_of(args[2])
        return min(a[0], b[0]), max(a[1], b[1])
    ranges = [range_of(a) for a in args]
    if len(args) == 1:
        low, high = ranges[0]
        if op == "~":
            return -high - 1, -low - 1
        if op == "-":
            return -high, -low
    elif op in _RANGES:
        return _bounded(_RANGES[op](ranges[0], ranges[1]))
    raise NotSupported(f"operation {op!r} is not supported {e.where}")


def _bounded(value: Range) -> Range:
    limit = 1 << MAX_WIDE_BITS
    return value if within(value, (-limit, limit)) else (-limit, limit)


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _bits(a: Range, b: Range) -> Range:
    width = max(v.bit_length() for v in (*a, *b))
    if a[0] >= 0 and b[0] >= 0:
        return 0, (1 << width) - 1
    return -(1 << width), (1 << width) - 1


def _and(a: Range, b: Range) -> Range:
    bounds = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(bounds)) if bounds else _bits(a, b)


def _shift_left(a: Range, b: Range) -> Range:
    amounts = [min(max(v, 0), MAX_WIDE_BITS + 1) for v in b]
    corners = [x << n for x in a for n in amounts]
    return min(corners), max(corners)


def _shift_right(a: Range, b: Range) -> Range:
    amounts = [min(max(v, 0), MAX_WIDE_BITS + 1) for v in b]
    corners = [x >> n for x in a for n in amounts]
    return min(corners), max(corners)


_RANGES = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _product,
    "/": lambda a, b: (min(a[0], 0), max(a[1], 0)),
    "%": lambda a, b: (min(a[0], 0), max(0, a[1])),
    "&": _and,
    "|": _bits,
    "^": _bits,
    "<<": _shift_left,
    ">>": _shift_right,
}
