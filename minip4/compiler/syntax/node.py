"""The base class of all nodes of the syntax tree, and annotations (18)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from minip4.compiler.source import Source

if TYPE_CHECKING:
    from minip4.compiler.syntax.declarations import Constant
    from minip4.compiler.syntax.expressions import Expression, NamedValue


@dataclass(slots=True, eq=False)
class Node:
    source: Source


_LEAVES = ("Source", "bool", "int", "str", "str | None")  # types of fields that contain no nodes
_branches: dict[type[Node], list[str]] = {}
"""For each kind of node, the fields that the parser fills.

All other fields are decorations.
"""


def children(node: Node) -> Iterator[Node]:
    """Yield the direct children of `node` in the tree, without decorations."""
    kind = type(node)
    if kind not in _branches:
        _branches[kind] = [f.name for f in fields(node) if f.init and f.type not in _LEAVES]
    for name in _branches[kind]:
        value = getattr(node, name)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Node):
                yield item


@dataclass(slots=True, eq=False)
class Annotation(Node):
    """`@name`, `@name(body)` or `@name[...]`.

    `values` contains the values of the body. For `@name("x", 3)` and `@name["x", 3]`, these are
    literals and constants as str, int or bool. For `@name[k = v]`, `values` is empty, and `pairs`
    contains the keys and values. If the body is not a list of expressions, `values` is empty, and
    only the reader of the annotation understands the tokens. For each unstructured body, `text`
    contains the tokens, separated by one blank.
    """

    name: str
    body: list[Expression]
    keyed_body: list[NamedValue]
    text: str = ""
    is_structured: bool = False
    values: list[Constant] = field(default_factory=list, init=False)
    pairs: dict[str, Constant] = field(default_factory=dict, init=False)
