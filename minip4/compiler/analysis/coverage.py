"""Select cases and table entries that are unreachable, because an earlier one covers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from minip4.compiler import syntax, types
from minip4.compiler.types import Type

# maximum number of distinct masks and ranges checked in a list of thousands of entries
MOST_SHAPES = 64


@dataclass(frozen=True, slots=True)
class Keyset:
    """The values from `low` to `high` that equal `low` in all bits where `fixed` has ones."""

    low: int
    high: int
    fixed: int
    is_range: bool = False  # true: all values from low to high


Row = tuple[syntax.Node, list[Keyset]]


def check_coverage(program: syntax.Program) -> None:
    """Add warnings about unreachable cases and entries to the program."""
    for d in program.declarations:
        if isinstance(d, syntax.ParserDeclaration):
            for state in d.states:
                if isinstance(state.transition, syntax.Select):
                    _check_select(state.transition, program)
        elif isinstance(d, syntax.ControlDeclaration):
            for table in d.locals:
                if isinstance(table, syntax.Table) and table.entries:
                    _check_entries(table, table.entries, program)


def _check_select(select: syntax.Select, program: syntax.Program) -> None:
    of = [e.type for e in select.expressions]
    rows = ((case, _keysets(case.keys, of)) for case in select.cases)
    for case, first in covered((case, keys) for case, keys in rows if keys is not None):
        message = (
            f"this case is never reached, because the case in line {first.source.line} "
            f"matches all its values"
        )
        program.warnings.add("parser-transition", message, case.source)


def _check_entries(
    table: syntax.Table, entries: list[syntax.Entry], program: syntax.Program
) -> None:
    """Warn about entries that are never hit.

    Without explicit priorities, the order of entries decides (14.2.1.4). A table with an lpm key
    needs no check, because the longest prefix wins.
    """
    if any(k.match_kind == "lpm" for k in table.keys) or any(e.priority for e in entries):
        return
    of = [k.expression.type for k in table.keys]
    rows = ((entry, _keysets(entry.keys, of)) for entry in entries)
    for entry, first in covered((entry, keys) for entry, keys in rows if keys is not None):
        message = (
            f"this entry is never hit, because the entry in line {first.source.line} "
            f"matches all its keys"
        )
        program.warnings.add("keys", message, entry.source)


def covered(rows: Iterable[Row]) -> Iterator[tuple[syntax.Node, syntax.Node]]:
    """Yield each row of keysets that an earlier row covers, together with the earlier row."""
    by_masks: dict[tuple[int, ...], dict[tuple[int, ...], syntax.Node]] = {}
    ranges: list[Row] = []
    for node, keys in rows:
        earlier = _covering(keys, by_masks, ranges)
        if earlier is not None:
            yield node, earlier
        masks = tuple(k.fixed for k in keys)
        if any(k.is_range for k in keys):
            ranges += [(node, keys)] if len(ranges) < MOST_SHAPES else []
        elif masks in by_masks or len(by_masks) < MOST_SHAPES:
            by_masks.setdefault(masks, {}).setdefault(tuple(k.low for k in keys), node)


def _covering(
    keys: list[Keyset],
    by_masks: dict[tuple[int, ...], dict[tuple[int, ...], syntax.Node]],
    ranges: list[Row],
) -> syntax.Node | None:
    for masks, nodes in by_masks.items():
        if all(k.fixed & mask == mask for k, mask in zip(keys, masks, strict=True)):
            found = nodes.get(tuple(k.low & mask for k, mask in zip(keys, masks, strict=True)))
            if found is not None:
                return found
    for node, outer in ranges:
        if all(
            o.low <= k.low and k.high <= o.high
            if o.is_range
            else k.fixed & o.fixed == o.fixed and k.low & o.fixed == o.low
            for o, k in zip(outer, keys, strict=True)
        ):
            return node
    return None


def _keysets(keys: list[syntax.Expression], of: list[Type]) -> list[Keyset] | None:
    """Return one keyset per type, or None if a keyset is known only at run time (value_set)."""
    if len(keys) == 1 and isinstance(keys[0], syntax.DontCare):
        keys = keys * len(of)
    if len(keys) != len(of):
        return None
    found = [_keyset(key, t) for key, t in zip(keys, of, strict=True)]
    known = [k for k in found if k is not None]
    return known if len(known) == len(found) else None


def _keyset(e: syntax.Expression, of: Type) -> Keyset | None:
    width = types.width_in_bits(of)
    ones = (1 << (32 if width is None else width)) - 1  # an enum or error has a 32-bit number
    if isinstance(e, syntax.DontCare):
        return Keyset(0, ones, 0)
    if isinstance(e, syntax.Mask):
        value, mask = number_of(e.value.constant), number_of(e.mask.constant)
        if value is None or mask is None:
            return None
        low = value & mask & ones
        return Keyset(low, low | ones & ~mask, mask & ones)
    if isinstance(e, syntax.Range):
        low_end, high = number_of(e.low.constant), number_of(e.high.constant)
        if low_end is None or high is None or not 0 <= low_end <= high:
            return None
        return Keyset(low_end, high, ones >> (n := (low_end ^ high).bit_length()) << n, True)
    number = number_of(e.constant)
    return None if number is None else Keyset(number & ones, number & ones, ones)


def number_of(value: syntax.Constant | None) -> int | None:
    """Return the run-time number of a constant, also for members of enums and errors."""
    if isinstance(value, (syntax.EnumMember, syntax.ErrorMember)):
        return value.number
    return int(value) if isinstance(value, (int, bool)) else None
