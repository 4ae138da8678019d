"""Warnings about valid calls that have less effect than expected."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from minip4.compiler import syntax
from minip4.compiler.analysis.coverage import number_of
from minip4.compiler.analysis.places import place_of
from minip4.compiler.warnings import Warnings

# suffix of v1model functions whose last argument is a field-list index
_PRESERVING = "_preserving_field_list"


def check_calls(nodes: Collection[syntax.Node], warnings: Warnings) -> None:
    """Add warnings about the calls among the nodes of a program."""
    calls = [node for node in nodes if isinstance(node, syntax.Call)]
    for call in calls:
        _check_overlap(call, warnings)
    listed = {
        number_of(value)
        for node in nodes
        if isinstance(node, syntax.Field)
        and (annotation := node.annotation("field_list")) is not None
        for value in annotation.values
    }
    for index in [call.arguments[-1] for call in calls if _preserves(call)]:
        # A program without @field_list does not want to preserve fields. It must still give an
        # index, because resubmit has no form without one.
        number = None if index is None else number_of(index.constant)
        if index is not None and number is not None and listed and number not in listed:
            message = f"no field has @field_list({number}): nothing is preserved"
            warnings.add("invalid", message, index.source)


def _preserves(call: syntax.Call) -> bool:
    d = call.declaration
    return d is not None and d.source.file.is_system and d.name.endswith(_PRESERVING)


def _check_overlap(call: syntax.Call, warnings: Warnings) -> None:
    """Warn if out arguments share storage. Only the last one then sets the value (6.8)."""
    places = [
        (a, place)
        for p, a in zip(call.parameters, call.arguments, strict=False)
        if a is not None and p.direction in ("out", "inout") and (place := place_of(a)) is not None
    ]
    for (a, first), (b, second) in combinations(places, 2):
        shorter = min(len(first.path), len(second.path))
        # two elements of a stack, or two slices, may be disjoint
        is_open = first.is_part and second.is_part
        if first.path[:shorter] == second.path[:shorter] and not is_open:
            message = f"an out argument that overlaps another one, {a.source.text!r}"
            warnings.add("ordering", message, b.source)
