"""Lowering of calls of extern functions and methods; here are those of v1model."""

from __future__ import annotations

from collections.abc import Mapping

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import object_of
from minip4.compiler.lower.context import Context, ExternFunction, ExternMethod
from minip4.compiler.lower.externs import arrays, checksums, copies, functions, packets

FUNCTIONS: Mapping[str, ExternFunction] = {
    "assert": functions.assert_,
    "assume": functions.assume,
    "clone": copies.clone,
    "clone3": copies.clone3,
    "clone_preserving_field_list": copies.clone,
    "digest": functions.digest,
    "hash": checksums.hash_,
    "log_msg": functions.log_msg,
    "mark_to_drop": functions.mark_to_drop,
    "random": functions.random,
    "recirculate": copies.recirculate_data,
    "recirculate_preserving_field_list": copies.recirculate,
    "resubmit": copies.resubmit_data,
    "resubmit_preserving_field_list": copies.resubmit,
    "static_assert": functions.static_assert,
    "truncate": functions.truncate,
    "update_checksum": checksums.update,
    "update_checksum_with_payload": checksums.update,
    "verify": functions.verify,
    "verify_checksum": checksums.verify,
    "verify_checksum_with_payload": checksums.verify,
}
METHODS: Mapping[tuple[str, str], ExternMethod] = {
    ("counter", "count"): arrays.count,
    ("meter", "execute_meter"): arrays.execute_meter,
    ("register", "read"): arrays.read_register,
    ("register", "write"): arrays.write_register,
    ("direct_counter", "count"): arrays.count_direct,
    ("direct_meter", "read"): arrays.read_direct_meter,
}

_INSTEAD = {("Checksum16", "get"): "verify_checksum() or update_checksum()"}


def selector_algorithm(selector: ExternObject) -> str:
    member = selector.arguments[0]
    assert isinstance(member, syntax.EnumMember)
    return member.name


def extern_function(context: Context, call: syntax.Call) -> places.Value | None:
    """Lower an extern function and return its value, if it has one."""
    assert call.declaration is not None
    name = call.declaration.name
    if name not in context.externs.functions:
        raise P4Error(f"extern function {name}() is not supported", call.source)
    return context.externs.functions[name](context, call)


def extern_method(context: Context, call: syntax.Call) -> places.Value | None:
    """Lower an extern method and return its value, if it has one."""
    assert call.object is not None
    target = object_of(context, call.object)
    assert isinstance(target, ExternObject)
    kind, method = target.type.name, call.method
    if kind == "packet_in":
        return packets.packet_in(context, call)
    if kind == "packet_out" and method == "emit":
        packets.emit(context, call)
        return None
    lowering = context.externs.methods.get((kind, method))
    if lowering is None:
        instead = _INSTEAD.get((kind, method), "")
        raise P4Error(f"{kind}.{method}() is not supported", call.source, instead)
    return lowering(context, call, target)
