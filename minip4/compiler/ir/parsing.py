"""The parser: a graph of flat states. Beside what follows, states hold operations."""

from __future__ import annotations

from dataclasses import dataclass

from minip4.compiler.ir.expressions import Expression
from minip4.compiler.ir.objects import Stack
from minip4.compiler.ir.operations import Statement


@dataclass(slots=True)
class Extract(Statement):
    header: str
    varbit_length_bits: Expression | None


@dataclass(slots=True)
class ExtractNext(Statement):
    """Into the stack's next element, or into one member of it, if they are unions."""

    stack: Stack
    member: str | None
    varbit_length_bits: Expression | None


@dataclass(slots=True)
class Advance(Statement):
    bits: Expression


@dataclass(slots=True)
class Verify(Statement):
    """Rejects the packet with the error, unless the condition holds."""

    condition: Expression
    error: Expression


@dataclass(frozen=True, slots=True)
class Match:
    """What a key of `width_bits` must be, where the mask has ones."""

    value: int
    mask: int
    width_bits: int


@dataclass(slots=True)
class Case:
    """Goes on if each of the state's keys matches."""

    matches: list[Match]
    next_state: str | None


@dataclass(slots=True)
class ValueSetCase:
    """Goes on if the keys are in the value set."""

    value_set: str
    next_state: str | None


@dataclass(slots=True)
class State:
    name: str
    body: list[Statement]
    keys: list[Expression]  # Field, LastField, LastUnionField or Lookahead
    cases: list[Case | ValueSetCase]
    default: str | None  # next state; None: end of the parser
