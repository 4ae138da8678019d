"""Static analysis that warns about probable mistakes, see minip4.compiler.warnings."""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import syntax
from minip4.compiler.analysis.calls import check_calls
from minip4.compiler.analysis.coverage import check_coverage
from minip4.compiler.analysis.flow import check_values
from minip4.compiler.analysis.unused import check_states, check_uses


def all_nodes(program: syntax.Program) -> Iterator[syntax.Node]:
    """Yield all nodes, in no particular order.

    Arguments occur twice: as written, and as converted by the checker.
    """
    todo: list[syntax.Node] = [d for d in program.declarations if not d.source.file.is_system]
    while todo:
        node = todo.pop()
        yield node
        todo += syntax.children(node)
        if isinstance(node, (syntax.Call, syntax.ActionReference)):
            todo += [a for a in node.arguments if a is not None]


def warn_of_mistakes(program: syntax.Program) -> None:
    """Add warnings about probable mistakes to a checked program."""
    nodes = list(all_nodes(program))
    check_uses(program, nodes)
    check_calls(nodes, program.warnings)
    check_states(program)
    check_coverage(program)
    check_values(program)
