"""What a checked program says that it probably should not: see minip4.compiler.warnings."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.analysis.coverage import check_coverage
from minip4.compiler.analysis.flow import check_values
from minip4.compiler.analysis.unused import check_states, check_uses


def warn_of_mistakes(program: syntax.Program) -> None:
    """Adds to the program's warnings; the program must have been checked."""
    check_uses(program)
    check_states(program)
    check_coverage(program)
    check_values(program)
