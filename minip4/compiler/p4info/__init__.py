"""P4Info of a checked program, for P4Runtime controllers (P4Runtime spec, 6)."""

from __future__ import annotations

from finsy.proto import p4i

from minip4.compiler import syntax
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.p4info.builder import Builder


def p4info(program: syntax.Program, architecture: Architecture) -> p4i.P4Info:
    return Builder(program, architecture).build()
