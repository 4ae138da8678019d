"""Operations as BMv2 primitives (docs/JSON_format.md, "primitives", and simple_switch's own)."""

from __future__ import annotations

from minip4.compiler import ir
from minip4.compiler.bmv2.expressions import Json, data, parameter, source_info, target


def primitive(operation: ir.Operation) -> Json:
    name, parameters = _called(operation)
    return {"op": name, "parameters": parameters, **source_info(operation.source)}


def _called(operation: ir.Operation) -> tuple[str, list[Json]]:
    match operation:
        case ir.Assign():
            return "assign", [target(operation.target), parameter(operation.value)]
        case ir.MarkToDrop():
            return "mark_to_drop", [_header("standard_metadata")]
        case ir.Truncate():
            return "truncate", [parameter(operation.length_bytes)]
        case ir.Assert():
            return "assert", [parameter(operation.condition)]
        case ir.Assume():
            return "assume", [parameter(operation.condition)]
        case ir.LogMessage():
            text = {"type": "string", "value": operation.text}
            values = [parameter(value) for value in operation.values]
            return "log_msg", [text, {"type": "parameters_vector", "value": values}]
        case ir.Random():
            field, low = parameter(operation.result), parameter(operation.low)
            return "modify_field_rng_uniform", [field, low, parameter(operation.high)]
        case ir.Hash():
            name = "modify_field_with_hash_based_offset"
            field, base = parameter(operation.result), parameter(operation.base)
            calculation = {"type": "calculation", "value": operation.calculation}
            return name, [field, base, calculation, parameter(operation.maximum)]
        case ir.Calculate():
            calculation = {"type": "calculation", "value": operation.calculation}
            return "calculate", [parameter(operation.result), calculation]
        case ir.MathUnit():
            head = [parameter(operation.result), parameter(operation.operand)]
            # the shift and scale are stored without a sign
            numbers = (operation.inverts, operation.shift + 1, operation.scale + 32)
            return "math_unit", head + [data(int(n), 8) for n in (*numbers, *operation.table)]
        case ir.Filter() | ir.Wred():
            name = "filter" if isinstance(operation, ir.Filter) else "wred"
            index = [] if operation.index is None else [parameter(operation.index)]
            return name, [
                parameter(operation.result),
                parameter(operation.operand),
                _register(operation.settings),
                _register(operation.state),
                *index,
            ]
    return _on_storage(operation) or _on_array(operation) or _sent(operation)


def _on_storage(operation: ir.Operation) -> tuple[str, list[Json]] | None:
    match operation:
        case ir.AssignVarbit():
            return "assign_VL", [parameter(operation.target), parameter(operation.value)]
        case ir.CopyHeader():
            return "assign_header", [_header(operation.target), _header(operation.origin)]
        case ir.CopyUnion():
            names = (operation.target, operation.origin)
            return "assign_union", [{"type": "header_union", "value": name} for name in names]
        case ir.CopyStack():
            name = "assign_union_stack" if operation.target.is_union else "assign_header_stack"
            return name, [_stack(operation.target), _stack(operation.origin)]
        case ir.SetValid():
            return "add_header", [_header(operation.header)]
        case ir.SetInvalid():
            return "remove_header", [_header(operation.header)]
        case ir.PushFront():
            return "push", [_stack(operation.stack), data(operation.count, 32)]
        case ir.PopFront():
            return "pop", [_stack(operation.stack), data(operation.count, 32)]
    return None


def _on_array(operation: ir.Operation) -> tuple[str, list[Json]] | None:
    match operation:
        case ir.Count():
            counter = {"type": "counter_array", "value": operation.counter}
            return "count", [counter, *_given(operation.index, operation.adjustment)]
        case ir.ExecuteMeter():
            meter = {"type": "meter_array", "value": operation.meter}
            at, result = _given(operation.index), parameter(operation.result)
            others = _given(operation.adjustment, operation.colour)
            return "execute_meter", [meter, *at, result, *others]
        case ir.RegisterRead():
            register, at = _register(operation.register), _given(operation.index)
            return "register_read", [parameter(operation.result), register, *at]
        case ir.RegisterWrite():
            register, at = _register(operation.register), _given(operation.index)
            return "register_write", [register, *at, parameter(operation.value)]
    return None


def _sent(operation: ir.Operation) -> tuple[str, list[Json]]:
    match operation:
        case ir.CloneI2E(session=session, field_list=taken):
            return "clone_ingress_pkt_to_egress", [parameter(session), data(taken.id, 32)]
        case ir.CloneE2E(session=session, field_list=taken):
            return "clone_egress_pkt_to_egress", [parameter(session), data(taken.id, 32)]
        case ir.Resubmit():
            return "resubmit", [data(operation.field_list.id, 32)]
        case ir.Recirculate():
            return "recirculate", [data(operation.field_list.id, 32)]
        case ir.SendDigest(receiver=receiver, digest=digest):
            return "generate_digest", [parameter(receiver), data(digest.id, 32)]
        case ir.Mirror(session=session, header=header):
            return "mirror_with", [parameter(session), *_headers(header)]
        case ir.ResubmitWith(header=header):
            return "resubmit_with", _headers(header)
    raise AssertionError(operation)


def _given(*operands: ir.Expression | None) -> list[Json]:
    return [parameter(operand) for operand in operands if operand is not None]


def _header(name: str) -> Json:
    return {"type": "header", "value": name}


def _headers(name: str | None) -> list[Json]:
    return [] if name is None else [_header(name)]


def _stack(stack: ir.Stack) -> Json:
    kind = "header_union_stack" if stack.is_union else "header_stack"
    return {"type": kind, "value": stack.name}


def _register(name: str) -> Json:
    return {"type": "register_array", "value": name}
