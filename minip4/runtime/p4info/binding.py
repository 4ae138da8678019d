"""Bit widths and used values of translated types; P4Info does not contain them."""

from collections.abc import Iterator

from minip4.engine.model import Program
from minip4.engine.model import Table as ProgramTable
from minip4.runtime.p4info.packetio import header_layout
from minip4.runtime.p4info.schema import Schema, Table
from minip4.runtime.p4info.translation import Translated
from minip4.runtime.p4info.values import Values

UNUSED_BITS = 32  # assumed width of a type that occurs only in code that the compiler omitted


def bind(schema: Schema, program: Program) -> None:
    """Set the width and the used values of the translated types of a P4Info.

    Raises StatusError.
    """
    for of, width in _uses(schema, program):
        if isinstance(of, Translated) and not of.bitwidth:
            of.bitwidth = width
    for translation in schema.translations.values():
        translation.bitwidth = translation.bitwidth or UNUSED_BITS
        translation.check()
    for table in schema.tables.values():
        if table.name in program.tables:
            _reserve(schema, table, program, program.tables[table.name])


def _reserve(schema: Schema, table: Table, program: Program, there: ProgramTable) -> None:
    """Reserve the values that the const entries and the default action of a table use."""
    calls = [(program.actions[entry.action].name, entry.params) for entry in there.entries]
    if there.default_action is not None:
        calls.append((there.default_action.name, there.default_params))
    actions = {action.name: action for action in schema.actions.values()}
    for name, numbers in calls:
        params = actions[name].params if name in actions else ()
        for param, number in zip(params, numbers, strict=False):
            param.values.reserve(number)
    for entry in there.entries:
        for field, (number, _) in zip(table.fields, entry.key, strict=False):
            field.values.reserve(number)


def _uses(schema: Schema, program: Program) -> Iterator[tuple[Values, int]]:
    """Yield the fields and parameters of translated types, with their width in the program."""
    for table in schema.tables.values():
        if table.name in program.tables:
            for field, key in zip(table.fields, program.tables[table.name].key, strict=False):
                yield field.values, key.width
    actions = {action.name: action for action in program.actions.values()}
    for action in schema.actions.values():
        if action.name in actions:
            for param, there in zip(action.params, actions[action.name].params, strict=False):
                yield param.values, there.width
    for register in schema.registers.values():
        of = schema.translations.get(register.type_spec.new_type.name)
        if of is not None and register.preamble.name in program.registers:
            yield of, program.registers[register.preamble.name].width
    for header in schema.controller_headers.values():
        for metadata, width in header_layout(header, program):
            if metadata is not None:
                yield schema.values(metadata), width
