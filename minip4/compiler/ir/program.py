"""A whole lowered program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minip4.compiler.ir.control import Action, Pipeline
from minip4.compiler.ir.objects import (
    Calculation,
    Checksum,
    Counter,
    Digest,
    FieldList,
    Header,
    HeaderType,
    Meter,
    Register,
    Stack,
    Union,
    ValueSet,
)
from minip4.compiler.ir.parsing import Deparser, Parser


@dataclass(slots=True)
class Program:
    path: str
    architecture: str = "v1model"
    meta: dict[str, object] = field(default_factory=dict)  # of the architecture, for the engine
    header_types: list[HeaderType] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    union_types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unions: list[Union] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    enums: Mapping[str, list[tuple[str, int]]] = field(default_factory=dict)
    parsers: list[Parser] = field(default_factory=list)
    value_sets: list[ValueSet] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    deparsers: list[Deparser] = field(default_factory=list)
    calculations: list[Calculation] = field(default_factory=list)
    checksums: list[Checksum] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    meters: list[Meter] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    field_lists: list[FieldList] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
