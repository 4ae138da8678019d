"""Iteration over the nodes of the user's part of a checked program."""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import syntax


def all_nodes(program: syntax.Program) -> Iterator[syntax.Node]:
    """Yield all nodes in no order; arguments as written and as converted by the checker."""
    todo: list[syntax.Node] = [d for d in program.declarations if not d.source.file.is_system]
    while todo:
        node = todo.pop()
        yield node
        todo += syntax.children(node)
        if isinstance(node, (syntax.Call, syntax.ActionReference)):
            todo += [a for a in node.arguments if a is not None]
