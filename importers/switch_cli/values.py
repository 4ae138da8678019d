"""Values of match fields and of action parameters, in the syntax of simple_switch_CLI."""

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

from finsy.p4schema import P4MatchField, P4MatchType

from importers.switch_cli.commands import CommandError

MAC = re.compile("[0-9A-Fa-f]{1,2}(:[0-9A-Fa-f]{1,2}){5}")
IPV4_BITS, MAC_BITS, IPV6_BITS = 32, 48, 128


def number(word: str, bits: int) -> int:
    """Parse a value of `bits` bits: 10, 0x0a, 0b1010, or an address with this number of bits."""
    try:
        if bits == IPV4_BITS and "." in word:
            value = int(IPv4Address(word))
        elif bits == MAC_BITS and ":" in word:
            value = _mac(word)
        elif bits == IPV6_BITS and ":" in word:
            value = int(IPv6Address(word))
        else:
            value = int(word, 0)
    except (AddressValueError, ValueError):
        raise CommandError(f"value {word!r}: expected {_expected(bits)}") from None
    if not 0 <= value < 1 << bits:
        raise CommandError(f"value {word!r}: expected 0 to {(1 << bits) - 1:#x} ({bits} bits)")
    return value


def match(field: P4MatchField, word: str) -> Any:
    """Return a match value for finsy; None means that anything matches. Raises CommandError."""
    try:
        return _MATCHES[field.match_type](word, field.bitwidth)
    except CommandError as error:
        raise CommandError(f"key {field.name}: {error}") from None


def _lpm(word: str, bits: int) -> tuple[int, int]:
    value, length = _pair(word, "/", "10.0.0.0/8")
    if not length.isdecimal() or int(length) > bits:
        raise CommandError(f"prefix {word!r}: expected a length of 0 to {bits}")
    return number(value, bits), int(length)


def _ternary(word: str, bits: int) -> tuple[int, int] | None:
    value, mask = (number(part, bits) for part in _pair(word, "&&&", "0x0800&&&0xffff"))
    return (value & mask, mask) if mask else None


def _optional(word: str, bits: int) -> int | None:
    """Parse an optional field: VALUE&&&MASK, like a ternary field.

    All bits of the mask must be ones (exact match), or all must be zeros (anything matches).
    """
    masked = _ternary(word, bits)
    if masked is None:
        return None
    value, mask = masked
    if mask != (1 << bits) - 1:
        raise CommandError(f"optional {word!r}: expected a mask with all bits or none")
    return value


def _range(word: str, bits: int) -> tuple[int, int] | None:
    first, last = (number(part, bits) for part in _pair(word, "->", "1024->65535"))
    if first > last:
        raise CommandError(f"range {word!r}: the end is less than the start")
    return None if (first, last) == (0, (1 << bits) - 1) else (first, last)


_MATCHES: dict[P4MatchType | str, Callable[[str, int], Any]] = {
    P4MatchType.EXACT: number,
    P4MatchType.LPM: _lpm,
    P4MatchType.TERNARY: _ternary,
    P4MatchType.OPTIONAL: _optional,
    P4MatchType.RANGE: _range,
}


def _pair(word: str, separator: str, example: str) -> tuple[str, str]:
    parts = word.split(separator)
    if len(parts) != 2:
        raise CommandError(f"value {word!r}: expected two values, such as {example}")
    return parts[0], parts[1]


def _mac(word: str) -> int:
    if not MAC.fullmatch(word):
        raise ValueError(word)
    return int.from_bytes(bytes(int(part, 16) for part in word.split(":")), "big")


def _expected(bits: int) -> str:
    address = {IPV4_BITS: ", or an IPv4 address", MAC_BITS: ", or a MAC address",
               IPV6_BITS: ", or an IPv6 address"}  # fmt: skip
    return f"a number such as 10 or 0x0a{address.get(bits, '')}"
