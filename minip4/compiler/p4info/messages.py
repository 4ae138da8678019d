"""Common parts of P4Info messages: preambles, types of fields, ids of fields."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.instances.objects import annotation_numbers
from minip4.compiler.p4info.annotations import add_annotations, add_documentation
from minip4.compiler.p4info.contents import Collector
from minip4.compiler.p4info.symbols import Symbols
from minip4.compiler.p4info.type_info import TypeInfo, translated_width, type_name


class Messages:
    def __init__(self, program: syntax.Program, architecture: Architecture) -> None:
        self.program = program
        self.contents = Collector(program, architecture).collect()
        self.symbols = Symbols()
        self.info: Any = p4i.P4Info()
        self.types = TypeInfo(self.info.type_info, program.errors)

    def preamble(
        self,
        message: Any,
        kind: int,
        name: str,
        annotations: list[syntax.Annotation],
        skip: tuple[str, ...] = (),
    ) -> None:
        preamble = message.preamble
        preamble.id = self.symbols.id(kind, name)
        preamble.name = name
        preamble.alias = self.symbols.alias(name)
        add_annotations(preamble, annotations, skip)
        add_documentation(preamble, annotations)

    def typed(self, message: Any, of: types.Type, source: syntax.Source) -> None:
        """Set bitwidth and type_name of a message."""
        self.info.type_info.SetInParent()
        plain = types.strip_newtypes(of)
        if isinstance(plain, types.Enum):
            message.type_name.name = control_plane_name(plain.declaration)
        else:
            width = types.width_in_bits(plain)
            translation = None
            if isinstance(of, types.NewType):
                translation = of.declaration.annotation("p4runtime_translation")
            if translation is not None:
                width = translated_width(translation)
            elif plain is types.ERROR:
                width = 0
            if width is None:
                raise P4Error(f"the control plane cannot see a value of type {of}", source)
            if width:
                message.bitwidth = width
        self.types.note(of)
        name = type_name(of)
        if name is not None:
            message.type_name.name = name


def written_id(annotations: list[syntax.Annotation]) -> int | None:
    found = next((a for a in annotations if a.name == "id" and a.values), None)
    if found is None:
        return None
    number = annotation_numbers(found)[0]
    if not 0 < number < 1 << 32:
        raise P4Error(f"@id({number}) is not a valid id", found.source, "1 .. 0xffffffff")
    return number


def checked_size(number: int, source: syntax.Source) -> int:
    """Return a number of cells, entries or members. Reject numbers that do not fit in an int32."""
    if not 0 <= number < 1 << 31:
        raise P4Error(f"a size of {number} is out of range", source, f"0 .. {(1 << 31) - 1}")
    return number


def field_ids(items: list[Any]) -> list[int]:
    """Return the ids of match fields and parameters.

    Without @id, they are 1, 2 and so on.
    """
    return numbered([written_id(item.annotations) for item in items])


def numbered(written: list[int | None]) -> list[int]:
    used = {number for number in written if number is not None}
    result = []
    index = 1
    for number in written:
        if number is not None:
            result.append(number)
            index += 1
            continue
        while index in used:
            index += 1
        used.add(index)
        result.append(index)
    return result
