"""Checks of a TNA program from JSON: direct objects, filters and math units.

The C code relies on them: an action finds the objects of an entry only in the table that has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.engine import model as m
from minip4.engine.errors import InvalidArgument

MAX_CELL_BITS = 1024  # of a direct register

# position of the object in the arguments of a primitive
_OBJECTS = {"register_read": 1, "register_write": 0, "count": 0, "execute_meter": 0}
# bits of the settings of a filter; its state has _STATE_BITS
_SETTINGS = {"filter": 128, "wred": 256}
_STATE_BITS = 128
# numbers of a math unit as in the JSON: whether it inverts, its shift, its scale, and the table
_MATH_LIMITS = (1, 2, 63, *[255] * 16)


def check_program(program: m.Program) -> None:
    """Raise InvalidArgument if a primitive refers to an object that it cannot use."""
    for register in program.registers.values():
        if register.table is not None and register.width > MAX_CELL_BITS:
            raise InvalidArgument(
                f"register {register.name}: {register.width} bits; expected up to {MAX_CELL_BITS} "
                "bits in a direct register"
            )
    for table, primitive in primitives(program):
        if primitive.op in _OBJECTS:
            _check_owner(program, table, primitive)
        elif primitive.op in _SETTINGS:
            _check_filter(program, table, primitive)
        elif primitive.op == "math_unit":
            _check_math_unit(primitive)


def primitives(program: m.Program) -> Iterator[tuple[m.Table | None, m.Primitive]]:
    """Yield the primitives with the table in which they run, or None."""
    for pipeline in program.pipelines.values():
        for node in pipeline.nodes.values():
            if isinstance(node, m.Table):
                default = [node.default_action] if node.default_action else []
                for action in (*node.actions, *default):
                    yield from ((node, p) for p in action.primitives)
            elif isinstance(node, m.ActionCall):
                yield from ((None, p) for p in node.action.primitives)
    for parser in program.parsers:
        for state in parser.states.values():
            yield from ((None, op.primitive) for op in state.ops if op.primitive)
    for deparser in program.deparsers:
        yield from ((None, p) for p in deparser.primitives)


def _named(e: m.Expr) -> str:
    assert isinstance(e, m.Named)
    return e.name


def _check_owner(program: m.Program, table: m.Table | None, p: m.Primitive) -> None:
    name = _named(p.args[_OBJECTS[p.op]])
    found: m.Counter | m.Meter | m.Register
    if p.op == "count":
        found, has = program.counters[name], table is not None and table.has_counters
    elif p.op == "execute_meter":
        found, has = program.meters[name], table is not None and table.meter == name
    else:
        found, has = program.registers[name], True
    if found.table is None:
        return
    if table is None or found.table != table.name or not has:
        raise InvalidArgument(f"{name} belongs to another table {p.where}".rstrip())


def _check_filter(program: m.Program, table: m.Table | None, p: m.Primitive) -> None:
    settings, state = (program.registers[_named(e)] for e in p.args[2:4])
    widths, expected = (settings.width, state.width), (_SETTINGS[p.op], _STATE_BITS)
    is_direct = state.table is not None
    if is_direct and (table is None or state.table != table.name):
        raise InvalidArgument(f"{state.name} belongs to another table {p.where}".rstrip())
    has_cells = settings.size > 0 if is_direct else settings.size <= state.size
    if (
        settings.table is not None
        or widths != expected
        or not has_cells
        or len(p.args) != (4 if is_direct else 5)
    ):
        raise InvalidArgument(
            f"{p.op} with registers of {widths[0]} and {widths[1]} bits; expected {expected[0]} "
            f"and {expected[1]} bits, and a state for each cell {p.where}".rstrip()
        )


def _check_math_unit(p: m.Primitive) -> None:
    numbers = [e.value for e in p.args[2:] if isinstance(e, m.Const)]
    is_complete = len(numbers) == len(p.args[2:]) == len(_MATH_LIMITS)
    if not is_complete or any(
        not 0 <= n <= limit for n, limit in zip(numbers, _MATH_LIMITS, strict=True)
    ):
        raise InvalidArgument(f"a math unit with wrong numbers {p.where}".rstrip())
