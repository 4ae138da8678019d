"""Field lists: user metadata that copies of a packet preserve (v1model: @field_list)."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import annotation_numbers
from minip4.compiler.lower import places
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.storage import field_types, scalar_type


def field_list(program: ir.Program, name: str) -> ir.FieldList:
    """Return the field list `name`. If no field is tagged with this list, create an empty one."""
    for known in program.field_lists:
        if known.name == name:
            return known
    program.field_lists.append(ir.FieldList(len(program.field_lists) + 1, name, []))
    return program.field_lists[-1]


def list_of(program: ir.Program, elements: list[ir.Expression]) -> ir.FieldList:
    """Return a list of the given fields. All calls with the same data share one list."""
    for known in program.field_lists:
        if known.elements == elements:
            return known
    number = len(program.field_lists) + 1
    program.field_lists.append(ir.FieldList(number, f"data{number}", elements))
    return program.field_lists[-1]


def add_tagged(
    context: Context,
    of: types.Type,
    place: places.Place,
    source: syntax.Source,
    tags: tuple[int, ...] = (),
) -> None:
    """Add each field of a place to its field lists. Tags of an enclosing struct count, too."""
    of = types.strip_newtypes(of)
    if isinstance(of, types.StructLike) and isinstance(place, places.Group | places.Header):
        for f in of.declaration.fields:
            annotation = f.annotation("field_list")
            own = () if annotation is None else tuple(annotation_numbers(annotation))
            add_tagged(context, of.fields[f.name], place.members[f.name], source, tags + own)
        return
    if not tags:
        return
    if scalar_type(of) is None and field_types(of) is None:
        raise P4Error(f"@field_list on {of} is not supported", source)
    for expression in context.expressions.flattened(place, source):
        for tag in tags:
            elements = field_list(context.program, f"field_list{tag}").elements
            if expression not in elements:
                elements.append(expression)
