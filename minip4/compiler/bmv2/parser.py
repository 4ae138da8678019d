"""The parser as BMv2 JSON."""

from __future__ import annotations

from minip4.compiler.bmv2.actions import primitive
from minip4.compiler.bmv2.expressions import Json, expression, hexstr, parameter, target
from minip4.compiler.errors import P4Error
from minip4.compiler.lower import ir


def parser(program: ir.Program) -> Json:
    states = [_state(i, s) for i, s in enumerate(program.states)]
    return {"name": "parser", "id": 0, "init_state": "start", "parse_states": states}


def _state(number: int, state: ir.State) -> Json:
    transitions = [_case(case) for case in state.cases]
    transitions.append(
        {"type": "default", "value": None, "mask": None, "next_state": state.default}
    )
    return {
        "name": state.name,
        "id": number,
        "parser_ops": [_operation(s) for s in state.body],
        "transitions": transitions,
        "transition_key": [target(key) for key in state.keys],
    }


def _case(case: ir.Case) -> Json:
    if case.value_set is not None:
        kind, value, mask = "parse_vset", case.value_set, None
    else:
        width = 8 * case.width_bytes
        kind, value = "hexstr", hexstr(case.value, width)
        mask = None if case.mask is None else hexstr(case.mask, width)
    return {"type": kind, "value": value, "mask": mask, "next_state": case.next_state}


def _operation(statement: ir.Statement) -> Json:
    match statement:
        case ir.Extract():
            where = (
                list(statement.target) if isinstance(statement.target, tuple) else statement.target
            )
            arguments: list[Json] = [{"type": statement.kind, "value": where}]
            if statement.varbit_length_bits is None:
                return {"op": "extract", "parameters": arguments}
            length = expression(statement.varbit_length_bits)
            arguments.append({"type": "expression", "value": length})
            return {"op": "extract_VL", "parameters": arguments}
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
        case ir.Primitive():
            return {"op": "primitive", "parameters": [primitive(statement)]}
    raise AssertionError(statement)
