"""Operations: simple statements that are valid in any P4 code.

Operands are fields, constants and action parameters, unless stated otherwise. Headers, unions,
calculations, counters, meters and registers are identified by their names in the program.
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
    """One operation; control continues after it."""


# ---------------------------------------------------------------- storage


@dataclass(slots=True)
class Assign(Operation):
    """Assigns any expression to a field."""

    target: Field | LastField | LastUnionField
    value: Expression


@dataclass(slots=True)
class AssignVarbit(Operation):
    """Assigns a varbit and its length."""

    target: Field
    value: Expression


@dataclass(slots=True)
class CopyHeader(Operation):
    """Copies all fields and the validity of a header."""

    target: str
    origin: str


@dataclass(slots=True)
class CopyUnion(Operation):
    target: str
    origin: str


@dataclass(slots=True)
class CopyStack(Operation):
    """Copies all elements and nextIndex of a stack."""

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
    """Calls v1model's mark_to_drop() on the packet's standard metadata."""


@dataclass(slots=True)
class Truncate(Operation):
    length_bytes: Expression


@dataclass(slots=True)
class CloneI2E(Operation):
    """Clones the received packet to egress, with the fields of the list."""

    session: Expression
    field_list: FieldList


@dataclass(slots=True)
class CloneE2E(Operation):
    """Clones the packet at the end of egress to egress, with the fields of the list."""

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


@dataclass(slots=True)
class Mirror(Operation):
    """Sends a copy of the packet to a session (TNA). If `header` is given, it precedes the copy."""

    session: Expression
    header: str | None


@dataclass(slots=True)
class ResubmitWith(Operation):
    """Resubmits the received packet (TNA). If `header` is given, it precedes the packet."""

    header: str | None


# ---------------------------------------------------------------- counters, meters, registers


@dataclass(slots=True)
class Count(Operation):
    """Counts the packet and its bytes. `adjustment` bytes are not counted (TNA).

    In TNA, an index of None is the cell of the entry whose action runs. This also holds for
    ExecuteMeter, RegisterRead and RegisterWrite.
    """

    counter: str
    index: Expression | None
    adjustment: Expression | None = None


@dataclass(slots=True)
class ExecuteMeter(Operation):
    """Sets `result` to the packet's colour: 0 green, 1 yellow, 2 red.

    In TNA, the meter does not count `adjustment` bytes, and `colour` is the packet's earlier
    colour.
    """

    meter: str
    index: Expression | None
    result: Field
    adjustment: Expression | None = None
    colour: Expression | None = None


@dataclass(slots=True)
class RegisterRead(Operation):
    result: Field
    register: str
    index: Expression | None


@dataclass(slots=True)
class RegisterWrite(Operation):
    register: str
    index: Expression | None
    value: Expression


# ---------------------------------------------------------------- functions


@dataclass(slots=True)
class MathUnit(Operation):
    """Sets `result` to a function of `operand`, by a table of 16 values (TNA).

    docs/reference/tna.md states the function.
    """

    result: Field
    operand: Expression
    inverts: bool
    shift: int
    scale: int
    table: tuple[int, ...]


@dataclass(slots=True)
class Filter(Operation):
    """Sets `result` to the average of a low-pass filter after the sample `operand` (TNA).

    The registers have the time constants and the state of each filter. Without an index, the state
    is in the table entry whose action runs, and the settings are those of cell 0.
    """

    result: Field
    operand: Expression
    settings: str
    state: str
    index: Expression | None


@dataclass(slots=True)
class Wred(Operation):
    """Sets `result` to 1 if random early detection drops a packet after a sample (TNA), else to 0.

    Registers and index are as in Filter.
    """

    result: Field
    operand: Expression
    settings: str
    state: str
    index: Expression | None


@dataclass(slots=True)
class Random(Operation):
    """Sets `result` to a random number from `low` to `high`, including both."""

    result: Field
    low: Expression
    high: Expression


@dataclass(slots=True)
class Hash(Operation):
    """Sets `result` to `base` + (value of the calculation modulo `maximum`)."""

    result: Field
    calculation: str
    base: Expression
    maximum: Expression


@dataclass(slots=True)
class Calculate(Operation):
    """Sets `result` to the low bits of a calculation."""

    result: Field
    calculation: str


@dataclass(slots=True)
class Assert(Operation):
    """An assertion; the condition may be any expression."""

    condition: Expression


@dataclass(slots=True)
class Assume(Operation):
    """An assumption; the condition may be any expression."""

    condition: Expression


@dataclass(slots=True)
class LogMessage(Operation):
    """Logs a text. Each `{}` in the text is replaced by the next value, any expression."""

    text: str
    values: tuple[Expression, ...]
