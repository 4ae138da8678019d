"""Annotations and documentation in P4Info (P4Runtime specification, section 6.4)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error

# annotations that have their own fields in P4Info
_ELSEWHERE = {"name", "id", "brief", "description"}


def add_annotations(
    message: Any, annotations: Sequence[syntax.Annotation], skip: Collection[str] = ()
) -> None:
    """Add annotations to a message with the fields `annotations` and `structured_annotations`."""
    for annotation in annotations:
        if annotation.is_structured:
            _add_structured(message.structured_annotations.add(), annotation)
        elif annotation.name not in _ELSEWHERE and annotation.name not in skip:
            message.annotations.append(annotation_text(annotation))


def annotation_text(annotation: syntax.Annotation) -> str:
    return f"@{annotation.name}({annotation.text})" if annotation.text else f"@{annotation.name}"


def _add_structured(message: Any, annotation: syntax.Annotation) -> None:
    message.name = annotation.name
    if annotation.pairs:
        for key, value in annotation.pairs.items():
            pair = message.kv_pair_list.kv_pairs.add()
            pair.key = key
            _set_value(pair.value, value, annotation)
    elif annotation.values:
        for value in annotation.values:
            _set_value(message.expression_list.expressions.add(), value, annotation)


def _set_value(message: Any, value: syntax.Constant, annotation: syntax.Annotation) -> None:
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int):
        if not -1 << 63 <= value < 1 << 63:
            raise P4Error(
                f"{value} in @{annotation.name} is out of range", annotation.source, "64 bits"
            )
        message.int64_value = value
    else:
        message.string_value = str(value)


def add_documentation(message: Any, annotations: Sequence[syntax.Annotation]) -> None:
    for annotation in annotations:
        if annotation.name in ("brief", "description") and annotation.values:
            setattr(message.doc, annotation.name, str(annotation.values[0]))
