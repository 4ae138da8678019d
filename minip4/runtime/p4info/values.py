"""P4Runtime byte strings: unsigned, big-endian; the shortest is the canonical one (spec 8.3)."""

from minip4.runtime.status import invalid, out_of_range


def decode(value: bytes, bitwidth: int, what: str) -> int:
    """Read a byte string of any length that fits `bitwidth`; `what` names it in errors."""
    if not value:
        raise invalid(f"{what}: empty byte string, expected a value of {bitwidth} bits")
    number = int.from_bytes(value, "big")
    if number >> bitwidth:
        raise out_of_range(f"{what}: value {number:#x} does not fit in {bitwidth} bits")
    return number


def encode(number: int) -> bytes:
    """Write the canonical form: no leading zero bytes, and one byte for zero."""
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


class Values:
    """How the values of a field or parameter look to controllers: as numbers of `bitwidth`.

    translation.py has the types with others.
    """

    def __init__(self, bitwidth: int) -> None:
        self.bitwidth = bitwidth  # of the data plane

    @property
    def controller_bitwidth(self) -> int:
        """What masks and prefixes of the controller are measured by; 0: it has strings."""
        return self.bitwidth

    @property
    def exact_only(self) -> bool:
        """Masks, prefixes and ranges mean nothing, but for those of one value."""
        return False

    def decode(self, value: bytes, what: str) -> int:
        """The data plane's number. Raises StatusError."""
        return decode(value, self.bitwidth, what)

    def encode(self, number: int) -> bytes:
        """What controllers get for the data plane's number."""
        return encode(number)

    def reserve(self, number: int) -> None:
        """The program itself uses a number: no other value of a controller's shall get it."""

    def text(self, value: bytes, digits: int = 1) -> str:
        """A controller's value for a reader, of so many hexadecimal digits at least."""
        return f"0x{int.from_bytes(value, 'big'):0{digits}x}"
