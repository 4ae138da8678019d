"""Low-pass filters and random early detection (WRED) with their average.

P4Runtime has no such objects. So the settings are a register with the name of the object, whose
cells are structs (minip4_lpf_t, minip4_wred_t). A second register has the state. All entries of a
direct filter share its settings, and its state is a direct register.
"""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.tna.direct import STATE, own_index
from minip4.compiler.types import BOOL, Bits

_WIDEST = 32  # bits of a sample
_STATE_BITS = 128  # average and time of the last sample, STATE side: filters.c
_FLAG = Bits(8)


def execute(context: Context, call: syntax.Call, lpf: ExternObject) -> places.Value:
    sample, index, state = _operands(context, call, lpf)
    result = context.temporary_field(sample.type, call.source)
    context.emit(ir.Filter(call.source, result, sample, lpf.name, state, index))
    return result


def execute_wred(context: Context, call: syntax.Call, wred: ExternObject) -> places.Value:
    sample, index, state = _operands(context, call, wred)
    drops = context.temporary_field(_FLAG, call.source)
    context.emit(ir.Wred(call.source, drops, sample, wred.name, state, index))
    drop_value, no_drop_value = wred.arguments[-2:]
    assert isinstance(drop_value, int)
    assert isinstance(no_drop_value, int)
    dropped = arithmetic.binary("!=", BOOL, drops, ir.Constant(_FLAG, 0))
    drop, no_drop = ir.Constant(_FLAG, drop_value), ir.Constant(_FLAG, no_drop_value)
    return context.saved(arithmetic.choice(dropped, drop, no_drop), call.source)


def _operands(
    context: Context, call: syntax.Call, item: ExternObject
) -> tuple[ir.Expression, ir.Expression | None, str]:
    """Return the sample, the index, and the name of the register with the state."""
    require_block(context, call, "ingress", "egress")
    sample, *given = (operand(context, argument) for argument in extern_arguments(context, call))
    of = sample.type
    if not isinstance(of, Bits) or of.signed or of.width > _WIDEST:
        raise P4Error(
            f"{item.type.name} of {of} is not supported", call.source, f"up to bit<{_WIDEST}>"
        )
    name = f"{item.name}{STATE}"
    index = given[0] if given else own_index(context, name, call.source)
    registers = context.program.registers
    if all(known.name != name for known in registers):
        size = item.arguments[0] if given else 1
        assert isinstance(size, int)
        registers.append(ir.Register(name, item.source, size, _STATE_BITS))
    return sample, index, name
