"""Mirrored and resubmitted packets, and digests: requests of a deparser to the engine."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import Argument, extern_arguments
from minip4.compiler.lower.assignments import assign
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import operand, require_block

LONGEST_MIRROR_HEADER = 64  # bytes, ENGINE side: struct tna in tna.h
RESUBMIT_DATA = 8  # bytes


def mirror(context: Context, call: syntax.Call, _: ExternObject) -> None:
    require_block(context, call, "deparser")
    session, *header = extern_arguments(context, call)
    number = operand(context, session)
    name = _header(context, call, header, LONGEST_MIRROR_HEADER)
    context.emit(ir.Mirror(call.source, number, name))


def resubmit(context: Context, call: syntax.Call, _: ExternObject) -> None:
    require_block(context, call, "deparser")
    name = _header(context, call, extern_arguments(context, call), RESUBMIT_DATA)
    context.emit(ir.ResubmitWith(call.source, name))


def _header(context: Context, call: syntax.Call, data: list[Argument], longest: int) -> str | None:
    """Return a valid header with the data of emit(), or None if there are none."""
    if not data:
        return None
    (argument,) = data
    of = context.environment.resolve(argument.type)
    if not isinstance(of, types.Header):
        raise P4Error(f"emit() of {of} is not supported", argument.source, "a header")
    size = ((types.width_in_bits(of) or 0) + 7) // 8
    if size > longest:
        raise P4Error(f"{of} has {size} bytes", argument.source, f"at most {longest} bytes")
    header = context.temporary(of, call.source, f"{call.method}_{of.name}")
    assert isinstance(header, places.Header)
    assign(context, header, argument.value, call.source)
    return header.name


def pack(context: Context, call: syntax.Call, digest: ExternObject) -> None:
    """Send a digest whose fields are copied, since the engine reads them later."""
    require_block(context, call, "deparser")
    (data,) = extern_arguments(context, call)
    elements: list[ir.Expression] = []
    for expression in context.expressions.flattened(data.value, data.source):
        elements.append(context.saved_field(expression, data.source))
    digests = context.program.digests
    digests.append(ir.Digest(len(digests) + 1, digest.name, elements, data.source))
    receiver = ir.Constant(types.Bits(32), 0)
    context.emit(ir.SendDigest(call.source, receiver, digests[-1]))
