"""What a checked program says that it probably should not: see minip4.compiler.warnings."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.analysis.flow import check_values


def warn_of_mistakes(program: syntax.Program) -> None:
    """Adds to the program's warnings; the program must have been checked."""
    check_values(program)
