"""Static analysis that warns of probable mistakes, see minip4.compiler.warnings."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.analysis.calls import check_calls
from minip4.compiler.analysis.coverage import check_coverage
from minip4.compiler.analysis.flow import check_values
from minip4.compiler.analysis.unused import check_states, check_uses
from minip4.compiler.analysis.walk import all_nodes


def warn_of_mistakes(program: syntax.Program) -> None:
    """Add warnings to a checked program."""
    nodes = list(all_nodes(program))
    check_uses(program, nodes)
    check_calls(nodes, program.warnings)
    check_states(program)
    check_coverage(program)
    check_values(program)
