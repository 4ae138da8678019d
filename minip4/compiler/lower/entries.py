"""Lowering of const entries of tables (spec 14.2.1.4)."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import (
    Environment,
    annotation_numbers,
    evaluate,
    evaluate_number,
)
from minip4.compiler.lower.constants import number_of

LARGEST_PRIORITY = (1 << 31) - 1  # maximum of an int32, as in P4Runtime


def entries_of(
    table: syntax.Table,
    result: ir.Table,
    actions: dict[syntax.Action, ir.Action],
    environment: Environment,
) -> list[ir.Entry]:
    if table.entries and any(key.match_kind == "selector" for key in table.keys):
        raise P4Error(
            "a table with an action selector takes its entries from the control plane",
            table.source,
            "no entries",
        )
    entries = []
    numbers = _Priorities(table, environment).numbers
    for entry, number in zip(table.entries or [], numbers, strict=True):
        keys = [
            _match(element, field, keyset, environment)
            for element, field, keyset in zip(table.keys, result.keys, entry.keys, strict=True)
        ]
        assert entry.action.action is not None
        action = actions[entry.action.action]
        data = action_data(entry.action, environment)
        entries.append(ir.Entry(entry.source, keys, action, data, number))
    return entries


def _match(
    element: syntax.KeyElement,
    field: ir.KeyField,
    keyset: syntax.Expression,
    environment: Environment,
) -> ir.KeyMatch:
    width, kind = field.width_bits, element.match_kind
    ones = (1 << width) - 1
    value, mask, is_range = _keyset(keyset, ones, environment)
    if kind == "range":
        if mask not in (0, ones) and not is_range:
            raise P4Error("a range key takes a range or a value", keyset.source)
        low, high = (value, mask) if is_range else (value, value) if mask else (0, ones)
        return ir.KeyMatch("range", low, high)
    if is_range:
        raise P4Error(f"a range cannot match a key of kind {kind}", keyset.source)
    if kind == "exact":
        if mask != ones:
            raise P4Error("an exact key takes a value", keyset.source)
        return ir.KeyMatch("exact", value, mask)
    if kind == "lpm":
        length = mask.bit_count()
        if mask != ones & ~((1 << (width - length)) - 1):
            raise P4Error("the mask of an lpm key must be a prefix", keyset.source)
        return ir.KeyMatch("lpm", value & mask, length)
    if kind == "optional" and mask not in (0, ones):
        raise P4Error("an optional key takes a value or _", keyset.source)
    return ir.KeyMatch("ternary", value & mask, mask)


def _keyset(
    keyset: syntax.Expression, ones: int, environment: Environment
) -> tuple[int, int, bool]:
    """Return (value, mask, False), or (low, high, True) for a range."""
    if isinstance(keyset, syntax.DontCare):
        return 0, 0, False
    if isinstance(keyset, syntax.Mask):
        return (
            number_of(keyset.value, environment) & ones,
            number_of(keyset.mask, environment) & ones,
            False,
        )
    if isinstance(keyset, syntax.Range):
        return (
            number_of(keyset.low, environment) & ones,
            number_of(keyset.high, environment) & ones,
            True,
        )
    return number_of(keyset, environment) & ones, ones, False


def action_data(reference: syntax.ActionReference, environment: Environment) -> list[int]:
    """Return the arguments of directionless parameters as numbers."""
    assert reference.action is not None
    numbers = []
    for parameter, argument in zip(reference.action.parameters, reference.arguments, strict=True):
        if parameter.direction == "" and argument is not None:
            width = types.width_in_bits(environment.resolve(parameter.type)) or 32
            numbers.append(number_of(argument, environment) & ((1 << width) - 1))
    return numbers


class _Priorities:
    """Priorities of entries in the ir (the smallest wins), derived from those in P4 (14.2.1.4)."""

    def __init__(self, table: syntax.Table, environment: Environment) -> None:
        self._environment = environment
        largest = table.property("largest_priority_wins")
        self._largest_wins = largest is None or bool(evaluate(largest.value, environment))
        delta = table.property("priority_delta")
        self._delta = 1 if delta is None else evaluate_number(delta.value, environment)
        entries = table.entries or []
        self._given = [self._written(e) for e in entries]
        self.numbers = self._number_all(entries)

    def _written(self, entry: syntax.Entry) -> int | None:
        if entry.priority is not None:
            return evaluate_number(entry.priority, self._environment)
        annotation = next((a for a in entry.annotations if a.name == "priority"), None)
        if annotation is not None and annotation.values:
            return annotation_numbers(annotation)[0]
        return None

    def _number_all(self, entries: list[syntax.Entry]) -> list[int]:
        if not any(e.priority is not None for e in entries):
            numbers = [i + 1 if g is None else g for i, g in enumerate(self._given)]
            _check_range(entries, numbers)
            return numbers
        numbers = []
        step = -self._delta if self._largest_wins else self._delta
        for given in self._given:
            if given is not None:
                numbers.append(given)
            elif numbers:
                numbers.append(numbers[-1] + step)
            else:
                count = len(entries)
                numbers.append((count - 1) * self._delta + 1 if self._largest_wins else 1)
        _check_range(entries, numbers)
        if not self._largest_wins:
            return numbers
        top = max(numbers)
        return [top - n + 1 for n in numbers]


def _check_range(entries: list[syntax.Entry], priorities: list[int]) -> None:
    for entry, number in zip(entries, priorities, strict=True):
        if not 0 <= number <= LARGEST_PRIORITY:
            raise P4Error(
                f"the priority of this entry is {number}",
                entry.source,
                f"0 .. {LARGEST_PRIORITY}: another priority, or a smaller priority_delta",
            )
