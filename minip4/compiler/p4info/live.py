"""Reachable nodes of a checked tree, without branches excluded by a constant condition.

The control plane does not see tables and actions used only in unreachable branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import syntax


def live_children(node: syntax.Node) -> Iterator[syntax.Node]:
    """Yield the children of a node, as syntax.children(), without unreachable ones."""
    match node:
        case syntax.If() if isinstance(node.condition.constant, bool):
            taken = node.then if node.condition.constant else node.otherwise
            if taken is not None:
                yield taken
        case syntax.Conditional() if isinstance(node.condition.constant, bool):
            yield node.then if node.condition.constant else node.otherwise
        case syntax.Binary() if node.operator == "&&" and node.left.constant is False:
            yield node.left
        case syntax.Binary() if node.operator == "||" and node.left.constant is True:
            yield node.left
        case _:
            yield from syntax.children(node)
