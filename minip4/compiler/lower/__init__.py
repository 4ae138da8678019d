"""The middle end: from the checked syntax tree to flat storage and structured code (ir).

`program.py` says in what order the program's blocks are lowered. The passes find each other by the
context that they share, as statements hold calls, and calls put statements in their place:

    statements, calls, expressions      the language's
    applications                        of controls, if there are several
    tables, table_properties, parsers   what controls and parsers have of their own
    externs/, builtins                  functions and methods that are not P4 code

Below them: assignments (to any place), arguments (of calls), places (where values live) and
storage (which lays them out); entries (of tables), states (of parsers) and deparser each make
something flat.
"""

from minip4.compiler import ir, syntax
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.lower.context import Restart, Shared
from minip4.compiler.lower.program import ProgramLowering


def lower(program: syntax.Program, architecture: Architecture) -> ir.Program:
    """Return the lowered program. Raises P4Error for features that the target does not support."""
    shared: Shared = set()
    while True:
        try:
            return ProgramLowering(program, architecture, shared).lower()
        except Restart as restart:  # each adds one of finitely many
            shared.add(restart.shared)
