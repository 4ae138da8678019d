"""The P4-16 compiler: converts v1model and TNA programs to BMv2 JSON and P4Info."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finsy.proto import p4i

from minip4.compiler.architectures import LOWERINGS, architecture_of
from minip4.compiler.bmv2 import bmv2_json
from minip4.compiler.front import parse_and_check
from minip4.compiler.lower import lower
from minip4.compiler.p4info import p4info
from minip4.compiler.recursion import deep_recursion
from minip4.compiler.warnings import P4Warning


@dataclass(frozen=True)
class CompiledProgram:
    """The output of the compiler: BMv2 JSON for the switch, and P4Info for its controller.

    `warnings` are ordered by source location; `str()` of a warning is the text for the user.
    """

    bmv2_json: dict[str, Any]
    p4info: p4i.P4Info
    warnings: tuple[P4Warning, ...]

    @property
    def architecture(self) -> str:
        """v1model, or tna (also for programs for Tofino 2)."""
        return str(self.bmv2_json["__meta__"].get("architecture", "v1model"))


def compile_p4(
    path: str | Path, include_dirs: Sequence[str | Path] = (), defines: Sequence[str] = ()
) -> CompiledProgram:
    """Compile a v1model or TNA program.

    `defines` are macros as for -D: "NAME" or "NAME=value". Raises minip4.compiler.errors.P4Error
    for errors in the program and for features that this compiler does not support.
    """
    program = parse_and_check(path, include_dirs, defines)
    with deep_recursion(path):
        architecture = architecture_of(program)
        lowered = lower(program, architecture, LOWERINGS[architecture.name])
        return CompiledProgram(
            bmv2_json(lowered), p4info(program, architecture), tuple(program.warnings)
        )
