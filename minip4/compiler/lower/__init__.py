"""The middle end: converts the checked syntax tree to flat storage and structured code (ir).

`program` lowers blocks, and `v1model` defines their order (for TNA: minip4.compiler.tna). The
passes call each other through a shared context, because statements contain calls, and calls are
replaced by statements. The passes are:

    statements, calls, expressions      general constructs of P4
    applications                        controls that are applied several times
    tables, table_properties, parsers   constructs that only controls or parsers have
    externs/, builtins                  functions and methods that are not P4 code

The passes use these modules: `assignments` (to any storage), `arguments` (of calls), `places`
(descriptions of storage) and `storage` (its allocation). The modules `entries` (of tables),
`states` (of parsers) and `deparser` convert nested code to flat lists.
"""

from minip4.compiler import ir, syntax
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.lower.context import Restart, Shared
from minip4.compiler.lower.program import ProgramLowering


def lower(
    program: syntax.Program, architecture: Architecture, lowering: type[ProgramLowering]
) -> ir.Program:
    """Return the lowered program. Raises P4Error for features that the target does not support."""
    shared: Shared = set()
    while True:
        try:
            return lowering(program, architecture, shared).lower()
        # the loop ends, because each restart adds one of finitely many controls
        except Restart as restart:
            shared.add(restart.shared)
