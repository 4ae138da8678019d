"""P4Runtime byte strings: unsigned, big-endian, canonical without leading zeros (spec 8.3)."""

from minip4.runtime.status import invalid, out_of_range


def decode(value: bytes, bitwidth: int, what: str) -> int:
    """Decode a byte string of any length that fits `bitwidth`; `what` names it in errors."""
    if not value:
        raise invalid(f"{what}: empty byte string, expected a value of {bitwidth} bits")
    number = int.from_bytes(value, "big")
    if number >> bitwidth:
        raise out_of_range(f"{what}: value {number:#x} does not fit in {bitwidth} bits")
    return number


def encode(number: int) -> bytes:
    """Encode in canonical form: no leading zero bytes, and one byte for zero."""
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


class Values:
    """Conversion of a field or parameter whose controller value is a number of `bitwidth` bits.

    Other types are in translation.py.
    """

    def __init__(self, bitwidth: int) -> None:
        self.bitwidth = bitwidth  # width in the data plane

    @property
    def controller_bitwidth(self) -> int:
        """Width of masks and prefixes for the controller. 0 means that the values are strings."""
        return self.bitwidth

    @property
    def exact_only(self) -> bool:
        """Return whether only exact matches are valid (no masks, prefixes or ranges)."""
        return False

    def decode(self, value: bytes, what: str) -> int:
        """Return the data plane's number. Raises StatusError."""
        return decode(value, self.bitwidth, what)

    def encode(self, number: int) -> bytes:
        """Return the controller's value of a data-plane number."""
        return encode(number)

    def reserve(self, number: int) -> None:
        """Reserve a number that the program uses. No other controller value can then get it."""

    def text(self, value: bytes, digits: int = 1) -> str:
        """Format a controller value as text, with at least `digits` hexadecimal digits."""
        return f"0x{int.from_bytes(value, 'big'):0{digits}x}"
