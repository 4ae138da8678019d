"""Operations: statements that do one thing, wherever P4 code may stand.

Operands are fields, constants and parameters of actions, where nothing else is said. Headers,
unions, calculations, counters, meters and registers are meant by their names in the program.
"""

from __future__ import annotations

from dataclasses import dataclass

from minip4.compiler.ir.expressions import Expression, Field, LastField, LastUnionField
from minip4.compiler.ir.objects import Digest, FieldList, Stack
from minip4.compiler.source import Source


@dataclass(slots=True)
class Statement:
    source: Source | None


@dataclass(slots=True)
class Operation(Statement):
    """One step, of which control always comes out behind it."""


# ---------------------------------------------------------------- storage


@dataclass(slots=True)
class Assign(Operation):
    """Stores the value of any expression."""

    target: Field | LastField | LastUnionField
    value: Expression


@dataclass(slots=True)
class AssignVarbit(Operation):
    """The varbit takes the value, and its length, too."""

    target: Field
    value: Expression


@dataclass(slots=True)
class CopyHeader(Operation):
    """All fields, and whether it is valid."""

    target: str
    origin: str


@dataclass(slots=True)
class CopyUnion(Operation):
    target: str
    origin: str


@dataclass(slots=True)
class CopyStack(Operation):
    """All elements, and nextIndex."""

    target: Stack
    origin: Stack


@dataclass(slots=True)
class SetValid(Operation):
    header: str


@dataclass(slots=True)
class SetInvalid(Operation):
    header: str


@dataclass(slots=True)
class PushFront(Operation):
    stack: Stack
    count: int


@dataclass(slots=True)
class PopFront(Operation):
    stack: Stack
    count: int


# ---------------------------------------------------------------- packets


@dataclass(slots=True)
class MarkToDrop(Operation):
    """v1model's mark_to_drop() of the packet's own standard metadata."""


@dataclass(slots=True)
class Truncate(Operation):
    length_bytes: Expression


@dataclass(slots=True)
class CloneI2E(Operation):
    """A copy of the packet as it came in goes to egress; it takes the fields of the list along."""

    session: Expression
    field_list: FieldList


@dataclass(slots=True)
class CloneE2E(Operation):
    """A copy of the packet as it leaves goes to egress; it takes the fields of the list along."""

    session: Expression
    field_list: FieldList


@dataclass(slots=True)
class Resubmit(Operation):
    field_list: FieldList


@dataclass(slots=True)
class Recirculate(Operation):
    field_list: FieldList


@dataclass(slots=True)
class SendDigest(Operation):
    receiver: Expression
    digest: Digest


# ---------------------------------------------------------------- counters, meters, registers


@dataclass(slots=True)
class Count(Operation):
    counter: str
    index: Expression


@dataclass(slots=True)
class ExecuteMeter(Operation):
    """`result` becomes the packet's color: 0 green, 1 yellow, 2 red."""

    meter: str
    index: Expression
    result: Field


@dataclass(slots=True)
class RegisterRead(Operation):
    result: Field
    register: str
    index: Expression


@dataclass(slots=True)
class RegisterWrite(Operation):
    register: str
    index: Expression
    value: Expression


# ---------------------------------------------------------------- functions


@dataclass(slots=True)
class Random(Operation):
    """`result` becomes a number from `low` to `high`, both included."""

    result: Field
    low: Expression
    high: Expression


@dataclass(slots=True)
class Hash(Operation):
    """`result` becomes `base` + (the calculation's value modulo `maximum`)."""

    result: Field
    calculation: str
    base: Expression
    maximum: Expression


@dataclass(slots=True)
class Assert(Operation):
    """Of any expression."""

    condition: Expression


@dataclass(slots=True)
class Assume(Operation):
    """Of any expression."""

    condition: Expression


@dataclass(slots=True)
class LogMessage(Operation):
    """Each `{}` in the text stands for one of the values, which may be any expressions."""

    text: str
    values: tuple[Expression, ...]
