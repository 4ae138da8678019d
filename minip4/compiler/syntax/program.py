"""The root of the syntax tree: a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minip4.compiler.syntax.node import Node
from minip4.compiler.warnings import Warnings

if TYPE_CHECKING:
    from minip4.compiler.syntax.declarations import (
        Declaration,
        ErrorMember,
        Instantiation,
        MatchKindMember,
    )


@dataclass(slots=True, eq=False)
class Program(Node):
    """A program; `declarations` include those of core.p4 and v1model.p4, in order."""

    path: str
    declarations: list[Declaration]
    warnings: Warnings = field(default_factory=Warnings, init=False)
    main: Instantiation | None = field(default=None, init=False)
    errors: list[ErrorMember] = field(default_factory=list, init=False)
    match_kinds: list[MatchKindMember] = field(default_factory=list, init=False)

    def find(self, name: str) -> Declaration | None:
        """Return the top-level declaration called `name` (the last of overloaded functions)."""
        return next((d for d in reversed(self.declarations) if d.name == name), None)
