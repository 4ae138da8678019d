"""Declarations of a lowered program: storage, and objects that operations use."""

from __future__ import annotations

from dataclasses import dataclass, field

from minip4.compiler.ir.expressions import Expression, Field
from minip4.compiler.source import Source

SCALARS, SCALARS_TYPE = "scalars", "scalars_0"  # the metadata instance that has all variables


@dataclass(frozen=True, slots=True)
class HeaderField:
    """A field; the `width_bits` of a varbit is its maximum."""

    name: str
    width_bits: int
    is_signed: bool = False
    is_varbit: bool = False


@dataclass(slots=True)
class HeaderType:
    name: str
    fields: list[HeaderField]
    aliases: list[tuple[str, str]] = field(default_factory=list)  # (name in the target, field)


@dataclass(slots=True)
class Header:
    """A header or metadata instance. Metadata is always valid and not in the packet."""

    name: str
    type: str
    is_metadata: bool


@dataclass(slots=True)
class Stack:
    name: str
    type: str
    elements: list[str]  # names of header or union instances
    is_union: bool


@dataclass(slots=True)
class Union:
    name: str
    type: str
    members: list[str]  # names of header instances


@dataclass(slots=True)
class Calculation:
    """A calculation over its concatenated inputs. The inputs are fields and constants."""

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
class Counter:
    name: str
    source: Source
    size: int | None  # None: direct counter or meter
    table: str | None = None


@dataclass(slots=True)
class Meter:
    name: str
    source: Source
    unit: str  # packets or bytes
    size: int
    table: str | None = None  # table of a direct meter
    result: Field | None = None  # field that a direct meter writes


@dataclass(slots=True)
class Register:
    name: str
    source: Source
    size: int
    width_bits: int
    initial: int = 0  # value of each cell at the start
    table: str | None = None  # table whose entries have the cells (TNA)


@dataclass(slots=True)
class FieldList:
    """Fields that copies of a packet preserve; `id` counts from 1."""

    id: int
    name: str
    elements: list[Expression]


@dataclass(slots=True)
class Digest:
    """A digest to the controller; `id` counts from 1."""

    id: int
    name: str
    elements: list[Expression]
    source: Source


@dataclass(slots=True)
class ValueSet:
    name: str
    width_bits: int
    size: int
