"""The parser in BMv2 JSON."""

from __future__ import annotations

from minip4.compiler import ir
from minip4.compiler.bmv2.expressions import (
    Json,
    expression,
    hexstr,
    parameter,
    source_info,
    target,
)
from minip4.compiler.bmv2.primitives import primitive
from minip4.compiler.errors import P4Error


def parser(number: int, p: ir.Parser) -> Json:
    states = [_state(i, s) for i, s in enumerate(p.states)]
    return {"name": p.name, "id": number, "init_state": "start", "parse_states": states}


def _state(number: int, state: ir.State) -> Json:
    transitions = [_case(case) for case in state.cases]
    transitions.append(
        {"type": "default", "value": None, "mask": None, "next_state": state.default}
    )
    return {
        "name": state.name,
        "id": number,
        "parser_ops": [{**_operation(s), **source_info(s.source)} for s in state.body],
        "transitions": transitions,
        "transition_key": [target(key) for key in state.keys],
    }


def _case(case: ir.Case | ir.ValueSetCase) -> Json:
    if isinstance(case, ir.ValueSetCase):
        kind, value, mask = "parse_vset", case.value_set, None
    else:
        kind, value, mask = "hexstr", *_joined(case.matches)
    return {"type": kind, "value": value, "mask": mask, "next_state": case.next_state}


def _joined(matches: list[ir.Match]) -> tuple[str, str | None]:
    """Return the joined values and the joined masks of all keys, each padded to whole bytes.

    The mask is None if it is all ones.
    """
    value = mask = width = 0
    for match in matches:
        padded = 8 * ((match.width_bits + 7) // 8)
        value = value << padded | match.value
        mask = mask << padded | match.mask
        width += padded
    is_exact = all(match.mask == (1 << match.width_bits) - 1 for match in matches)
    return hexstr(value, width), None if is_exact else hexstr(mask, width)


def _extract(where: Json, varbit_length_bits: ir.Expression | None) -> Json:
    if varbit_length_bits is None:
        return {"op": "extract", "parameters": [where]}
    length = {"type": "expression", "value": expression(varbit_length_bits)}
    return {"op": "extract_VL", "parameters": [where, length]}


def _operation(statement: ir.Statement) -> Json:
    match statement:
        case ir.Extract():
            where: Json = {"type": "regular", "value": statement.header}
            return _extract(where, statement.varbit_length_bits)
        case ir.ExtractNext(stack=stack, member=None):
            return _extract({"type": "stack", "value": stack.name}, statement.varbit_length_bits)
        case ir.ExtractNext(stack=stack, member=member):
            where = {"type": "union_stack", "value": [stack.name, member]}
            return _extract(where, statement.varbit_length_bits)
        case ir.Advance():
            return {"op": "advance", "parameters": [parameter(statement.bits)]}
        case ir.Verify():
            arguments = [expression(statement.condition), expression(statement.error)]
            return {"op": "verify", "parameters": arguments}
        case ir.Assign():
            if not isinstance(statement.target, ir.Field):
                assert statement.source is not None
                raise P4Error("assigning to a field of .last is not supported", statement.source)
            arguments = [target(statement.target), parameter(statement.value)]
            return {"op": "set", "parameters": arguments}
        case ir.Operation():
            return {"op": "primitive", "parameters": [primitive(statement)]}
    raise AssertionError(statement)
