"""Check that P4Info and BMv2 JSON of a new pipeline belong to the same program."""

from minip4.engine.model import Program
from minip4.runtime.p4info import p4data
from minip4.runtime.p4info.schema import MatchType, Schema, Table
from minip4.runtime.status import StatusError, invalid

_KINDS: dict[int, tuple[str, ...]] = {  # from P4Info match type to its names in BMv2 JSON
    MatchType.EXACT: ("exact",),
    MatchType.LPM: ("lpm",),
    MatchType.TERNARY: ("ternary",),
    MatchType.RANGE: ("range",),
    MatchType.OPTIONAL: ("optional", "ternary"),
}


def check(schema: Schema, program: Program) -> None:
    """Raise StatusError if P4Info and JSON contradict each other.

    The JSON may lack objects of P4Info, because a compiler omits unreachable code.
    """
    for table in schema.tables.values():
        if table.name in program.tables:
            _check_table(table, program)
    for counter in schema.counters.values():
        known = program.counters.get(counter.preamble.name)
        if known is not None:
            _check_number(f"counter {known.name}", "cells", counter.size, known.size)
    for meter in schema.meters.values():
        array = program.meters.get(meter.preamble.name)
        if array is not None:
            _check_number(f"meter {array.name}", "cells", meter.size, array.size)
    for register in schema.registers.values():
        cells = program.registers.get(register.preamble.name)
        if cells is not None:
            what = f"register {cells.name}"
            _check_number(what, "cells", register.size, cells.size)
            if register.type_spec.WhichOneof("type_spec") == "bitstring":
                _check_number(what, "bits", p4data.bitwidth(register.type_spec), cells.width)
    tables = {table.name for table in schema.tables.values()}
    if tables and not tables & program.tables.keys():
        raise _disagree("the BMv2 JSON has none of the tables: " + ", ".join(sorted(tables)))


def _check_table(table: Table, program: Program) -> None:
    what = f"table {table.name}"
    key = program.tables[table.name].key
    _check_number(what, "key fields", len(table.fields), len(key))
    for wanted, found in zip(table.fields, key, strict=True):
        field = f"{what}, field {wanted.name}"
        _check_number(field, "bits", wanted.bitwidth, found.width)
        if found.match_type not in _KINDS[wanted.kind]:
            raise _disagree(
                f"{field} is {_KINDS[wanted.kind][0]} in P4Info, but {found.match_type} in the JSON"
            )


def _check_number(what: str, unit: str, there: int, here: int) -> None:
    if there != here:
        raise _disagree(f"{what} has {there} {unit} in P4Info, but {here} in the JSON")


def _disagree(message: str) -> StatusError:
    return invalid(
        f"P4Info and BMv2 JSON (p4_device_config) belong to different programs: {message}"
    )
