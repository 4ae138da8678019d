"""Typed model of a BMv2 JSON program, created by the reader and used by the generator.

Names and structure follow the BMv2 JSON format, version 2.24 (JSON_format.md of bmv2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type.

    `width` is in bits; of a varbit, it is the maximum.
    """

    name: str
    width: int
    signed: bool = False
    varbit: bool = False


@dataclass(slots=True)
class HeaderType:
    name: str
    fields: tuple[Field, ...]
    by_name: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {f.name: i for i, f in enumerate(self.fields)}

    @property
    def varbit(self) -> Field | None:
        return next((f for f in self.fields if f.varbit), None)

    @property
    def fixed_bytes(self) -> int:
        """Return the length of the header in bytes without its varbit field."""
        return sum(f.width for f in self.fields if not f.varbit) // 8

    @property
    def longest_bytes(self) -> int:
        """Return the length of the header in bytes with the longest varbit."""
        return self.fixed_bytes + (self.varbit.width // 8 if self.varbit else 0)


@dataclass(slots=True, eq=False)
class Header:
    """An instance of a header or of metadata, either single or at `position` of an array."""

    name: str
    type: HeaderType
    metadata: bool
    array: HeaderArray | None = None
    position: int = 0
    union: HeaderUnion | None = None


@dataclass(slots=True, eq=False)
class HeaderArray:
    """Consecutive headers: a header stack, or one member of all unions in a stack of unions."""

    name: str
    type: HeaderType
    headers: list[Header]


@dataclass(slots=True, eq=False)
class HeaderUnion:
    name: str
    members: list[tuple[str, Header]]


@dataclass(slots=True, eq=False)
class HeaderStack:
    name: str
    array: HeaderArray


@dataclass(slots=True, eq=False)
class UnionStack:
    name: str
    unions: list[HeaderUnion]
    columns: dict[str, HeaderArray]
    """For each member of the union, the arrays of that member in all elements."""


@dataclass(frozen=True, slots=True)
class Const:
    value: int


@dataclass(frozen=True, slots=True)
class BoolConst:
    value: bool


@dataclass(frozen=True, slots=True)
class FieldRef:
    header: Header
    field: Field


@dataclass(frozen=True, slots=True)
class Valid:
    """The hidden field `$valid$`: 1 or 0."""

    header: Header


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of an action, by position."""

    index: int
    width: int


@dataclass(frozen=True, slots=True)
class Lookahead:
    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class StackField:
    """A field of the last element of a stack."""

    stack: HeaderStack
    field: Field


@dataclass(frozen=True, slots=True)
class UnionStackField:
    stack: UnionStack
    member: str
    field: Field


@dataclass(frozen=True, slots=True)
class RegisterRef:
    register: Register
    index: Expr


@dataclass(frozen=True, slots=True)
class HeaderRef:
    header: Header


@dataclass(frozen=True, slots=True)
class StackRef:
    stack: HeaderStack


@dataclass(frozen=True, slots=True)
class UnionRef:
    union: HeaderUnion


@dataclass(frozen=True, slots=True)
class UnionStackRef:
    stack: UnionStack


@dataclass(frozen=True, slots=True)
class Op:
    """An operation.

    `args` are the left and right operands; for `?`, the condition and both results.
    """

    op: str
    args: tuple[Expr, ...]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """An argument that names an object outside of the packet."""

    kind: str  # calculation, counter_array, meter_array, register_array, extern or string
    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    items: tuple[Expr, ...]


Expr: TypeAlias = (
    "Const | BoolConst | FieldRef | Valid | Param | Lookahead | StackField | UnionStackField"
    " | RegisterRef | HeaderRef | StackRef | UnionRef | UnionStackRef | Op | Named | Vector"
)


@dataclass(frozen=True, slots=True)
class Primitive:
    op: str
    args: tuple[Expr, ...]
    where: str
    """Location in the P4 source for messages; may be empty."""


@dataclass(frozen=True, slots=True)
class ActionParam:
    name: str
    width: int


@dataclass(slots=True)
class Action:
    name: str
    id: int
    params: tuple[ActionParam, ...]
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True, slots=True)
class ParserOp:
    op: str
    args: tuple[Expr, ...]
    member: str = ""
    """The member of the union, for an extract to a stack of unions."""
    primitive: Primitive | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of the parser.

    `value` and `mask` cover the concatenated, byte-padded key; both are None for the default.
    """

    value: int | None
    mask: int | None
    value_set: str | None
    next_state: str | None


@dataclass(slots=True)
class ParserState:
    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[Expr, ...]
    transitions: tuple[Transition, ...]


@dataclass(slots=True)
class Parser:
    init_state: str | None
    states: dict[str, ParserState]


@dataclass(slots=True)
class Deparser:
    """Runs the primitives, then writes the valid headers in order."""

    order: tuple[Header, ...]
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True, slots=True)
class KeyField:
    """One field of the key of a table. `match_type` is exact, lpm, ternary, range or optional."""

    match_type: str
    name: str
    expr: Expr
    width: int
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class ConstEntry:
    """A const entry of the program.

    Its priority is the one in the JSON, where the smallest priority wins.
    """

    key: tuple[tuple[int, int], ...]
    """For each key field: value, and prefix length, mask or upper bound (exact: all ones).
    """
    action: int
    params: tuple[int, ...]
    priority: int


@dataclass(slots=True)
class Table:
    name: str
    index: int
    match_type: str
    type: str  # simple, indirect or indirect_ws
    key: tuple[KeyField, ...]
    actions: tuple[Action, ...]
    max_size: int
    has_counters: bool
    support_timeout: bool
    meter: str | None
    profile: str | None
    default_action: Action | None
    default_params: tuple[int, ...]
    is_default_const: bool
    next_by_action: dict[int, str | None]
    next_hit: str | None
    next_miss: str | None
    is_hit_miss: bool
    base_default_next: str | None
    entries: tuple[ConstEntry, ...]
    is_const: bool
    where: str = ""

    @property
    def is_hidden(self) -> bool:
        """Return whether the table has no key and one constant action.

        Such a table is a statement in the body of a control.
        """
        return not self.key and self.is_default_const and self.type == "simple"


@dataclass(slots=True)
class Conditional:
    name: str
    expr: Expr
    true_next: str | None
    false_next: str | None
    where: str = ""


@dataclass(slots=True)
class ActionCall:
    name: str
    action: Action
    next_node: str | None


@dataclass(slots=True)
class Pipeline:
    name: str
    init: str | None
    nodes: dict[str, Table | Conditional | ActionCall]


@dataclass(slots=True)
class Profile:
    name: str
    index: int
    max_size: int
    algorithm: str | None
    selector: tuple[Expr, ...]


@dataclass(slots=True)
class CalculationInput:
    """An input of a calculation.

    `kind` is field, hexstr, header or payload; `width` is used for hexstr only.
    """

    kind: str
    expr: Expr | None
    width: int


@dataclass(slots=True)
class Calculation:
    name: str
    index: int
    algorithm: str
    inputs: tuple[CalculationInput, ...]


@dataclass(slots=True)
class Checksum:
    name: str
    target: FieldRef
    calculation: Calculation
    condition: Expr | None
    verify: bool
    update: bool


@dataclass(slots=True)
class Counter:
    name: str
    index: int
    size: int
    table: str | None
    """The table to which a direct counter belongs."""


@dataclass(slots=True)
class Meter:
    name: str
    index: int
    size: int
    is_packets: bool
    table: str | None
    result: FieldRef | None


@dataclass(slots=True, eq=False)
class Register:
    name: str
    index: int
    size: int
    width: int
    initial: int = 0
    table: str | None = None
    """The table whose entries have the cells (TNA)."""

    @property
    def limbs(self) -> int:
        return max(1, (self.width + 63) // 64)


@dataclass(slots=True)
class Digest:
    name: str
    id: int
    elements: tuple[Expr, ...]
    widths: tuple[int, ...]


@dataclass(slots=True)
class FieldList:
    id: int
    elements: tuple[Expr, ...]


@dataclass(slots=True)
class ValueSet:
    name: str
    index: int
    width: int


@dataclass(slots=True)
class TnaParser:
    number: int  # among all parsers of the program
    of: frozenset[int]  # numbers of the hardware's parsers; empty if it is the only one


@dataclass(slots=True)
class TnaPipeline:
    """A pipeline of TNA; its deparsers are 2 * i (ingress) and 2 * i + 1 of the program."""

    pipes: frozenset[int]  # whose packets it processes; all pipes if it is the only one
    names: tuple[str, str]  # of its ingress and egress among the pipelines of the program
    parsers: tuple[tuple[TnaParser, ...], tuple[TnaParser, ...]]  # of ingress and egress


@dataclass(slots=True)
class TnaProgram:
    pipelines: tuple[TnaPipeline, ...]
    port_metadata_bytes: int


@dataclass(slots=True)
class Program:
    headers: dict[str, Header]
    arrays: list[HeaderArray]
    stacks: dict[str, HeaderStack]
    unions: dict[str, HeaderUnion]
    union_stacks: dict[str, UnionStack]
    architecture: str  # v1model or tna
    tna: TnaProgram | None  # of a program for TNA
    parsers: tuple[Parser, ...]  # one; of TNA, for each pipeline those of ingress, then of egress
    deparsers: tuple[Deparser, ...]
    actions: dict[int, Action]
    pipelines: dict[str, Pipeline]
    tables: dict[str, Table]
    profiles: dict[str, Profile]
    calculations: dict[str, Calculation]
    checksums: tuple[Checksum, ...]
    counters: dict[str, Counter]
    meters: dict[str, Meter]
    registers: dict[str, Register]
    digests: dict[str, Digest]
    field_lists: dict[int, FieldList]
    value_sets: dict[str, ValueSet]
    errors: dict[str, int]
    aliases: dict[str, tuple[str, str]]
