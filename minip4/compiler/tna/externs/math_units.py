"""Math units: approximate functions by a table of 16 values.

A number x > 0 is about 2^e * (i / 8), where i are its first four bits (8 to 15). With a shift of
-1 and an odd e, e is increased by 1 and i is halved. For x = 0, e and i are 0. The result is
table[i] * 2^(scale + f), where f is e, 2 * e or e / 2 for a shift of 0, 1 or -1, and its negative
if the unit inverts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.operands import operand, require_block
from minip4.compiler.types import Bits

# function of the first bits, whether the unit inverts, and its shift
_FUNCTIONS: dict[str, tuple[Callable[[float], float], bool, int]] = {
    "MUL": (lambda x: x, False, 0),
    "SQR": (lambda x: x * x, False, 1),
    "SQRT": (math.sqrt, False, -1),
    "DIV": (lambda x: 1 / x, True, 0),
    "RSQR": (lambda x: 1 / (x * x), True, 1),
    "RSQRT": (lambda x: 1 / math.sqrt(x), True, -1),
}
_SCALES = range(-32, 32)
_LARGEST = 255  # of the table
_WIDEST = 64  # bits of the argument


def execute(context: Context, call: syntax.Call, unit: ExternObject) -> places.Value:
    require_block(context, call, "ingress", "egress")
    (argument,) = extern_arguments(context, call)
    x = operand(context, argument)
    if not isinstance(x.type, Bits) or x.type.signed or x.type.width > _WIDEST:
        raise P4Error(
            f"MathUnit of {x.type} is not supported", call.source, f"up to bit<{_WIDEST}>"
        )
    result = context.temporary_field(x.type, call.source)
    inverts, shift, scale, table = _settings(unit)
    context.emit(ir.MathUnit(call.source, result, x, inverts, shift, scale, table))
    return result


def _settings(unit: ExternObject) -> tuple[bool, int, int, tuple[int, ...]]:
    first, *others = unit.arguments
    if isinstance(first, syntax.EnumMember):
        numbers = [n for n in others if isinstance(n, int)]
        assert len(numbers) == len(others)
        return _table(unit, first.name, numbers)
    shift, scale, values = others
    assert isinstance(first, bool)
    assert isinstance(shift, int)
    assert isinstance(scale, int)
    assert isinstance(values, tuple)
    if shift < -1:
        raise P4Error(f"a math unit with a shift of {shift}", unit.source, "-1, 0 or 1")
    table = [value for value in reversed(values) if isinstance(value, int)]
    return first, shift, scale, tuple(table)


def _table(
    unit: ExternObject, operation: str, factors: list[int]
) -> tuple[bool, int, int, tuple[int, ...]]:
    """Return the settings for a factor, or a fraction, times the function of the operation."""
    numerator, denominator = (*factors, 1)[:2]
    if numerator <= 0 or denominator <= 0:
        raise P4Error("the factor of a math unit is not positive", unit.source, "1 or more")
    function, inverts, shift = _FUNCTIONS[operation]
    first = 4 if shift < 0 else 8
    exact = [function(i / 8) * numerator / denominator for i in range(first, 16)]
    scale = math.floor(math.log2(max(exact))) - 7  # so that the largest value has 8 bits
    scale = min(max(scale, _SCALES[0]), _SCALES[-1])
    table = [min(round(value / 2.0**scale), _LARGEST) for value in exact]
    return inverts, shift, scale, (*[0] * first, *table)
