"""Control flow, tables and actions."""

from __future__ import annotations

from dataclasses import dataclass, field

from minip4.compiler.ir.expressions import Expression, Field
from minip4.compiler.ir.objects import Profile
from minip4.compiler.ir.operations import Statement
from minip4.compiler.source import Source


@dataclass(slots=True)
class If(Statement):
    condition: Expression
    then: list[Statement]
    otherwise: list[Statement]


@dataclass(slots=True)
class Labelled(Statement):
    """A labelled body; a Leave of `label` continues after it."""

    label: int
    body: list[Statement]


@dataclass(slots=True)
class Leave(Statement):
    label: int


@dataclass(slots=True)
class Loop(Statement):
    """Repeats `body` until a Leave of an enclosing label."""

    body: list[Statement]


@dataclass(slots=True)
class Atomic(Statement):
    """A body that becomes one action. bmv2 locks registers for the duration of one action."""

    body: list[Statement]


@dataclass(slots=True)
class Exit(Statement):
    """Ends the pipeline for this packet."""


@dataclass(slots=True)
class Apply(Statement):
    """Applies a table, then runs one branch.

    If `actions` is None, the branches are for hit and miss.

    Otherwise, they are selected by action name, and other actions run `default`.
    """

    table: Table
    hit: list[Statement] = field(default_factory=list)
    miss: list[Statement] = field(default_factory=list)
    actions: dict[str, list[Statement]] | None = None
    default: list[Statement] = field(default_factory=list)
    has_branches: bool = False
    site: int = 0  # number of this Apply among all applications of the table


@dataclass(slots=True)
class Action:
    name: str
    parameters: list[tuple[str, int]]  # name and width in bits
    body: list[Statement]


@dataclass(slots=True)
class KeyField:
    match_kind: str
    name: str
    target: Expression  # a Field, or IsValid
    width_bits: int


@dataclass(slots=True)
class KeyMatch:
    """One key of an entry: (value, mask), (low, high) for range, or (value, prefix) for lpm."""

    match_kind: str
    first: int
    second: int


@dataclass(slots=True)
class Entry:
    source: Source
    keys: list[KeyMatch]
    action: Action
    arguments: list[int]
    priority: int  # the smallest priority wins


@dataclass(slots=True, eq=False)
class Table:
    name: str
    source: Source
    keys: list[KeyField]
    actions: list[Action]
    default_action: Action | None
    default_arguments: list[int]
    is_default_const: bool
    entries: list[Entry] | None
    size: int
    support_timeout: bool = False
    counter: str | None = None  # name of the direct counter
    meter: str | None = None  # name of the direct meter
    profile: str | None = None  # name of the action profile or selector
    selector: bool = False
    site: Field | None = (
        None  # field with the number of the current Apply, if the table has several
    )


@dataclass(slots=True)
class Pipeline:
    name: str
    source: Source
    body: list[Statement]
    profiles: list[Profile] = field(default_factory=list)
