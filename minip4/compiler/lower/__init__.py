"""The middle end: from the checked syntax tree to flat storage and structured code (ir)."""

from minip4.compiler import syntax
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.lower import ir
from minip4.compiler.lower.base import Restart, Shared
from minip4.compiler.lower.program import ProgramLowering


def lower(program: syntax.Program, architecture: Architecture) -> ir.Program:
    """The lowered program; raises P4Error for what the target does not support."""
    shared: Shared = set()
    while True:
        try:
            return ProgramLowering(program, architecture, shared).lower()
        except Restart as restart:  # each adds one of finitely many
            shared.add(restart.shared)
