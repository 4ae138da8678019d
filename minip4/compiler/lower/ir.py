"""The lowered program: flat storage, scalar expressions, structured control flow without calls.

What lowering (minip4.compiler.lower) produces and the JSON writer (minip4.compiler.bmv2) reads.
Every scalar has type `Bits` or BOOL; an expression's value always lies in the range of its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minip4.compiler.source import Source
from minip4.compiler.types import BOOL, Bits, Type

# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Expression:
    type: Type


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    value: int  # of BOOL: 0 or 1


@dataclass(frozen=True, slots=True)
class Text(Expression):
    value: str


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """A field of a header or metadata instance."""

    header: str
    name: str


@dataclass(frozen=True, slots=True)
class LastField(Expression):
    """A field of the header of a stack extracted last (parsers only)."""

    stack: str
    name: str


@dataclass(frozen=True, slots=True)
class LastUnionField(Expression):
    """A field of a member of the header union of a stack extracted last (parsers only)."""

    stack: str
    member: str
    name: str


@dataclass(frozen=True, slots=True)
class IsValid(Expression):
    header: str


@dataclass(frozen=True, slots=True)
class LastIndex(Expression):
    stack: str


@dataclass(frozen=True, slots=True)
class ActionData(Expression):
    """Parameter number `index` of the action, set by the table entry."""

    index: int


@dataclass(frozen=True, slots=True)
class Lookahead(Expression):
    """Bits of the packet, from `offset_bits` after what was extracted so far."""

    offset_bits: int


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    operator: str  # ~ - !
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """`type` is the result's; operators as in P4, without ++ and with `|+|`, `|-|`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Choice(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """Between Bits types; to and from BOOL (one bit)."""

    operand: Expression


TRUE = Constant(BOOL, 1)
FALSE = Constant(BOOL, 0)


def negate(condition: Expression) -> Expression:
    if isinstance(condition, Constant):
        return FALSE if condition.value else TRUE
    if isinstance(condition, Unary) and condition.operator == "!":
        return condition.operand
    return Unary(BOOL, "!", condition)


def both(left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant):
        return right if left.value else FALSE
    if isinstance(right, Constant) and right.value:
        return left
    return Binary(BOOL, "&&", left, right)


def either(left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant):
        return TRUE if left.value else right
    if isinstance(right, Constant) and not right.value:
        return left
    return Binary(BOOL, "||", left, right)


# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Reference:
    """An object as argument of a primitive: a header, stack, register array, calculation, ..."""

    kind: str  # as in the JSON: "header", "header_stack", "register_array", ...
    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """A list of values as argument of a primitive (log_msg)."""

    values: tuple[Expression, ...]


Argument = Expression | Reference | Vector


@dataclass(slots=True)
class Statement:
    source: Source | None


@dataclass(slots=True)
class Assign(Statement):
    target: Field | LastField | LastUnionField
    value: Expression


@dataclass(slots=True)
class Primitive(Statement):
    name: str
    arguments: list[Argument]


@dataclass(slots=True)
class Extract(Statement):
    """`kind` is regular, stack or union_stack; `target` as in the JSON (parsers only)."""

    kind: str
    target: str | tuple[str, str]
    varbit_length_bits: Expression | None


@dataclass(slots=True)
class Advance(Statement):
    bits: Expression


@dataclass(slots=True)
class Verify(Statement):
    condition: Expression
    error: Expression


@dataclass(slots=True)
class If(Statement):
    condition: Expression
    then: list[Statement]
    otherwise: list[Statement]


@dataclass(slots=True)
class Labelled(Statement):
    """`body`; a Leave of `label` continues behind it."""

    label: int
    body: list[Statement]


@dataclass(slots=True)
class Leave(Statement):
    label: int


@dataclass(slots=True)
class Loop(Statement):
    """`body` again and again, until a Leave of a label around it."""

    body: list[Statement]


@dataclass(slots=True)
class Exit(Statement):
    """Ends the pipeline for this packet."""


@dataclass(slots=True)
class Apply(Statement):
    """Applies a table, then one branch; `actions` None: branches by hit and miss.

    Otherwise by action name; actions not named go to `default`.
    """

    table: Table
    hit: list[Statement] = field(default_factory=list)
    miss: list[Statement] = field(default_factory=list)
    actions: dict[str, list[Statement]] | None = None
    default: list[Statement] = field(default_factory=list)
    has_branches: bool = False
    site: int = 0  # number of this Apply among those of the table


# ---------------------------------------------------------------- tables


@dataclass(slots=True)
class Action:
    name: str
    parameters: list[tuple[str, int]]  # name, width in bits
    body: list[Statement]


@dataclass(slots=True)
class KeyField:
    match_kind: str
    name: str
    target: Expression  # a Field, or IsValid
    width_bits: int


@dataclass(slots=True)
class KeyMatch:
    """One key of an entry: (value, mask), (low, high) for range, (value, prefix) for lpm."""

    match_kind: str
    first: int
    second: int


@dataclass(slots=True)
class Entry:
    source: Source
    keys: list[KeyMatch]
    action: Action
    arguments: list[int]
    priority: int  # smaller wins, as in BMv2


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
    counter: str | None = None  # its direct counter
    meter: str | None = None  # its direct meter
    profile: str | None = None  # action profile or selector
    selector: bool = False
    site: Field | None = None  # says which Apply is meant, where there are several


# ---------------------------------------------------------------- parsers


@dataclass(slots=True)
class Case:
    """`value` and `mask` over the concatenated keys, padded to bytes; mask None: exact."""

    value: int
    mask: int | None
    width_bytes: int
    next_state: str | None
    value_set: str | None = None


@dataclass(slots=True)
class State:
    name: str
    body: list[Statement]
    keys: list[Expression]  # Field, LastField, LastUnionField or Lookahead
    cases: list[Case]
    default: str | None  # next state; None: end of the parser


# ---------------------------------------------------------------- program


@dataclass(slots=True)
class HeaderType:
    name: str
    fields: list[tuple[str, int | str, bool]]  # name, width in bits or "*", signed
    max_length_bytes: int = 0  # of a header with a varbit field
    aliases: list[tuple[str, str]] = field(default_factory=list)  # (target's name, field)


@dataclass(slots=True)
class Header:
    name: str
    type: str
    is_metadata: bool


@dataclass(slots=True)
class Stack:
    name: str
    type: str
    elements: list[str]
    is_union: bool


@dataclass(slots=True)
class Union:
    name: str
    type: str
    members: list[str]  # header instances


@dataclass(slots=True)
class Calculation:
    name: str
    algorithm: str
    inputs: list[Expression]
    with_payload: bool
    source: Source


@dataclass(slots=True)
class Checksum:
    name: str
    source: Source
    target: Field
    calculation: str
    is_verify: bool
    condition: Expression


@dataclass(slots=True)
class Profile:
    name: str
    source: Source
    size: int
    selector_algorithm: str | None
    selector_inputs: list[Expression]


@dataclass(slots=True)
class Pipeline:
    name: str
    source: Source
    body: list[Statement]
    profiles: list[Profile] = field(default_factory=list)


@dataclass(slots=True)
class Counter:
    name: str
    source: Source
    size: int | None  # None: direct
    table: str | None = None


@dataclass(slots=True)
class Meter:
    name: str
    source: Source
    unit: str  # packets or bytes
    size: int
    table: str | None = None  # of a direct meter
    result: Field | None = None  # of a direct meter


@dataclass(slots=True)
class Register:
    name: str
    source: Source
    size: int
    width_bits: int


@dataclass(slots=True)
class FieldList:
    id: int
    name: str
    elements: list[Expression]


@dataclass(slots=True)
class LearnList:
    id: int
    name: str
    elements: list[Expression]
    source: Source


@dataclass(slots=True)
class Program:
    path: str
    header_types: list[HeaderType] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    union_types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unions: list[Union] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    enums: Mapping[str, list[tuple[str, int]]] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    value_sets: list[tuple[str, int, int]] = field(default_factory=list)  # name, width, size
    actions: list[Action] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    deparser_order: list[str] = field(default_factory=list)
    deparser_source: Source | None = None
    calculations: list[Calculation] = field(default_factory=list)
    checksums: list[Checksum] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    meters: list[Meter] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    field_lists: list[FieldList] = field(default_factory=list)
    learn_lists: list[LearnList] = field(default_factory=list)


def width_of(expression: Expression) -> int:
    """Width in bits of a scalar; a boolean takes one."""
    return expression.type.width if isinstance(expression.type, Bits) else 1
