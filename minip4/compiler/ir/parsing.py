"""Parsers (graphs of flat states), and deparsers."""

from __future__ import annotations

from dataclasses import dataclass

from minip4.compiler.ir.expressions import Expression
from minip4.compiler.ir.objects import Stack
from minip4.compiler.ir.operations import Statement
from minip4.compiler.source import Source


@dataclass(slots=True)
class Extract(Statement):
    header: str
    varbit_length_bits: Expression | None


@dataclass(slots=True)
class ExtractNext(Statement):
    """Extracts to the next element of a stack. `member` is set for a stack of unions."""

    stack: Stack
    member: str | None
    varbit_length_bits: Expression | None


@dataclass(slots=True)
class Advance(Statement):
    bits: Expression


@dataclass(slots=True)
class Verify(Statement):
    """Rejects the packet with an error if the condition is false."""

    condition: Expression
    error: Expression


@dataclass(frozen=True, slots=True)
class Match:
    """The value that a key of `width_bits` bits must have where the mask has ones."""

    value: int
    mask: int
    width_bits: int


@dataclass(slots=True)
class Case:
    """A transition that is taken if all keys of the state match."""

    matches: list[Match]
    next_state: str | None


@dataclass(slots=True)
class ValueSetCase:
    """A transition that is taken if the keys are in the value set."""

    value_set: str
    next_state: str | None


@dataclass(slots=True)
class State:
    name: str
    body: list[Statement]
    keys: list[Expression]  # Field, LastField, LastUnionField or Lookahead
    cases: list[Case | ValueSetCase]
    default: str | None  # next state, or None for the end of the parser


@dataclass(slots=True)
class Parser:
    name: str
    states: list[State]


@dataclass(slots=True)
class Deparser:
    """Runs `body`, then writes the valid headers of `order`."""

    name: str
    source: Source
    order: list[str]
    body: list[Statement]
