"""Statements (12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minip4.compiler.syntax.node import Node

if TYPE_CHECKING:
    from minip4.compiler.syntax.declarations import Declaration, VariableDeclaration
    from minip4.compiler.syntax.expressions import Call, Expression
    from minip4.compiler.syntax.node import Annotation


@dataclass(slots=True, eq=False)
class Statement(Node):
    pass


@dataclass(slots=True, eq=False)
class Assignment(Statement):
    """`left = right;`, `left += right;` and so on, where `operator` is "", "+", "<<", "|+|", ..."""

    left: Expression
    operator: str
    right: Expression


@dataclass(slots=True, eq=False)
class CallStatement(Statement):
    call: Call


@dataclass(slots=True, eq=False)
class If(Statement):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(slots=True, eq=False)
class Block(Statement):
    annotations: list[Annotation]
    statements: list[Statement | Declaration]  # a Declaration is a variable or a constant


@dataclass(slots=True, eq=False)
class Return(Statement):
    value: Expression | None


@dataclass(slots=True, eq=False)
class Exit(Statement):
    pass


@dataclass(slots=True, eq=False)
class Break(Statement):
    pass


@dataclass(slots=True, eq=False)
class Continue(Statement):
    pass


@dataclass(slots=True, eq=False)
class Empty(Statement):
    pass


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """A case of a switch.

    `label` is a DontCare for `default`; if `body` is None, the next body is used.

    In a switch over action_run, `label` is a Name whose declaration is the Action.
    """

    label: Expression
    body: Block | None


@dataclass(slots=True, eq=False)
class Switch(Statement):
    """A switch over `t.apply().action_run` (expression.type is ActionRun), or over values."""

    expression: Expression
    cases: list[SwitchCase]


@dataclass(slots=True, eq=False)
class For(Statement):
    annotations: list[Annotation]
    initial: list[Statement | Declaration]
    condition: Expression
    updates: list[Statement]
    body: Statement


@dataclass(slots=True, eq=False)
class ForIn(Statement):
    """`for (T x in collection)`, where the collection is a Range, a stack or a list."""

    annotations: list[Annotation]
    variable: VariableDeclaration
    collection: Expression
    body: Statement
