"""P4Runtime byte strings: unsigned, big-endian; the shortest is the canonical one (spec 8.3)."""

from minip4.runtime.status import invalid, out_of_range, unimplemented


def decode(value: bytes, bitwidth: int, what: str) -> int:
    """Read a byte string of any length that fits `bitwidth`; `what` names it in errors."""
    if not value:
        raise invalid(f"{what}: empty byte string, expected a value of {bitwidth} bits")
    if bitwidth == 0:
        raise unimplemented(f"{what}: string values (p4runtime_translation) are not supported")
    number = int.from_bytes(value, "big")
    if number >> bitwidth:
        raise out_of_range(f"{what}: value {number:#x} does not fit in {bitwidth} bits")
    return number


def encode(number: int) -> bytes:
    """Write the canonical form: no leading zero bytes, and one byte for zero."""
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")
