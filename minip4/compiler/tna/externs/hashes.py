"""Hashes and random numbers."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import extern_arguments
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.externs.checksums import add_calculation
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.types import Bits

_ALGORITHMS = {
    "CRC8": "crc(8,0x7,0,0x0,0x0)",
    "CRC16": "crc16",
    "CRC32": "crc32",
    "RANDOM": "xxh64",  # the hardware's is a random matrix
    "CRC64": "crc(64,0x42f0e1eba9ea3693,0,0x0,0x0)",
    "XOR16": "xor16",
    "XOR32": "xor32",
}
_CRC_BITS = {"CRC8": 8, "CRC16": 16, "CRC32": 32, "CRC64": 64}
MAX_RESULT_BITS = 64


def get(context: Context, call: syntax.Call, hash_: ExternObject) -> places.Value:
    """Lower a hash over all its data, also over the fields of invalid headers."""
    (data,) = extern_arguments(context, call)
    of = _result_type(hash_)
    flat = context.expressions.flattened(data.value, data.source)
    algorithm = algorithm_of(hash_)
    if algorithm == "identity":
        return _identity(context, flat, of, call.source)
    inputs = [context.saved(e, data.source) for e in flat]
    padding = -sum(ir.width_of(e) for e in inputs) % 8
    if padding:
        inputs.insert(0, ir.Constant(Bits(padding), 0))
    name = add_calculation(context, algorithm, inputs, call.source)
    period = _period(hash_)
    is_wide = period < of.width
    result = context.temporary_field(Bits(period) if is_wide else of, call.source)
    context.emit(ir.Calculate(call.source, result, name))
    return context.saved(_repeated(result, of), call.source) if is_wide else result


def _repeated(value: ir.Expression, of: Bits) -> ir.Expression:
    """Return the low bits of `value ++ value ++ ...`."""
    period = ir.width_of(value)
    whole = value
    while ir.width_of(whole) < of.width:
        whole = arithmetic.concatenate(value, whole, Bits(ir.width_of(whole) + period))
    return arithmetic.cast(whole, of)


def _period(hash_: ExternObject) -> int:
    """Return after how many bits the result of a hash repeats.

    CRCs without a polynomial repeat, others only if the polynomial is extended.
    """
    member = hash_.arguments[0]
    assert isinstance(member, syntax.EnumMember)
    if member.name != "CUSTOM":
        return _CRC_BITS.get(member.name, MAX_RESULT_BITS)
    polynomial = hash_.arguments[1]
    assert isinstance(polynomial, ExternObject)
    width = scalar_type(polynomial.type.arguments[0])
    assert isinstance(width, Bits)
    is_extended = polynomial.arguments[3]
    return width.width if is_extended else MAX_RESULT_BITS


def algorithm_of(hash_: ExternObject) -> str:
    """Return the algorithm of a Hash, as in ir.Calculation."""
    member = hash_.arguments[0]
    assert isinstance(member, syntax.EnumMember)
    if member.name == "CUSTOM":
        if len(hash_.arguments) < 2 or not isinstance(hash_.arguments[1], ExternObject):
            raise P4Error("a custom hash needs a polynomial", hash_.source, "a CRCPolynomial")
        return _custom(hash_.arguments[1])
    if member.name == "IDENTITY":
        return "identity"
    if member.name not in _ALGORITHMS:
        known = ", ".join([*_ALGORITHMS, "IDENTITY", "CUSTOM"])
        raise P4Error(f"hash algorithm {member.name} is not supported", hash_.source, known)
    return _ALGORITHMS[member.name]


def selector_algorithm(selector: ExternObject) -> str:
    hash_ = selector.arguments[1]
    assert isinstance(hash_, ExternObject)
    return algorithm_of(hash_)


def _custom(polynomial: ExternObject) -> str:
    """Return the algorithm of a CRCPolynomial.

    `msb` selects which bits of the CRC a narrower hash has on Tofino; the compiler of Tofino uses
    the low bits for both values.
    """
    width = scalar_type(polynomial.type.arguments[0])
    coefficients, is_reversed, _, _, initial, final = polynomial.arguments
    assert isinstance(width, Bits)
    assert isinstance(coefficients, int)
    assert isinstance(initial, int)
    assert isinstance(final, int)
    if not 8 <= width.width <= 64:
        raise P4Error(f"a CRC of {width.width} bits is not supported", polynomial.source, "8 to 64")
    ones = (1 << width.width) - 1
    numbers = (coefficients & ones, int(bool(is_reversed)), initial & ones, final & ones)
    return "crc({},{:#x},{},{:#x},{:#x})".format(width.width, *numbers)


def _result_type(object_: ExternObject) -> Bits:
    of = scalar_type(object_.type.arguments[0])
    if not isinstance(of, Bits) or of.width > MAX_RESULT_BITS:
        raise P4Error(
            f"a result of {of} is not supported", object_.source, f"up to {MAX_RESULT_BITS} bits"
        )
    return of


def _identity(
    context: Context, flat: list[ir.Expression], of: Bits, source: syntax.Source
) -> ir.Expression:
    """Return the low bits of the concatenated data."""
    width = sum(ir.width_of(e) for e in flat)
    whole: ir.Expression | None = None
    at = 0
    for e in reversed(flat):
        part = arithmetic.cast(e, Bits(ir.width_of(e)))
        at += ir.width_of(e)
        whole = part if whole is None else arithmetic.concatenate(part, whole, Bits(at))
        if at >= of.width:
            break
    if whole is None:
        raise P4Error("a hash of nothing", source, f"up to {width} bits of data")
    return context.saved(arithmetic.cast(whole, of), source)


def random(context: Context, call: syntax.Call, source: ExternObject) -> places.Value:
    of = _result_type(source)
    result = context.temporary_field(of, call.source)
    plain = Bits(of.width)
    low, high = ir.Constant(plain, 0), ir.Constant(plain, (1 << of.width) - 1)
    context.emit(ir.Random(call.source, result, low, high))
    return result
