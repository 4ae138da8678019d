"""@p4runtime_translation: values that differ between controllers and data plane.

P4Runtime spec 8.4.6 and 18. A data-plane number of a translated type stands for a controller string
(`sdn_string`) or for a controller number of another width (`sdn_bitwidth`). The switch assigns
numbers to strings:

- A string in @p4runtime_translation_mappings has the number stated there.
- A decimal string stands for its number if the number fits in the type, so port "3" is port 3.
- Any other string gets a number at its first use.

Numbers are assigned from the largest number downwards, because ports are unlikely to have large
numbers. When no number is left, the numbers of unused strings become free.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator

from finsy.proto import p4i, p4t

from minip4.runtime.p4info import values
from minip4.runtime.p4info.values import Values
from minip4.runtime.status import Code, StatusError, invalid, out_of_range, unimplemented

MAX_BITS = 2048  # maximum width of a translated type, for controllers and in the data plane
MAX_DIGITS = 617  # digits of the largest decimal string that fits in MAX_BITS
COLLECT_AT = 4096  # number of strings of a type at which the switch first looks for unused ones

_MAPPINGS = "p4runtime_translation_mappings"
_NUMBER = r"(?:[0-9]+w)?(0[xX][0-9a-fA-F]{1,256}|[0-9]{1,256})"
_PAIR = re.compile(rf'\s*\{{\s*(?:"((?:[^"\\]|\\.)*)"|{_NUMBER})\s*,\s*{_NUMBER}\s*\}}\s*,?')


class Translated(Values):
    """Base class of translated types.

    The class stores the pairs of values that the program states.
    """

    def __init__(self, name: str, spec: p4t.P4NewTypeSpec) -> None:
        """Initialize the type.

        `bitwidth` is not in P4Info. The width is 0 until bind() finds a use of the type in the
        program.
        """
        super().__init__(0)
        self.name = name
        self._numbers: dict[bytes, int] = {}  # map from controller value to data-plane number
        self._values: dict[int, bytes] = {}
        for value, number in _mappings(name, spec.annotations):
            key = value if isinstance(value, bytes) else values.encode(value)
            if key in self._numbers or number in self._values:
                raise invalid(f"type {name}: @{_MAPPINGS} maps {self.text(key)} or {number} twice")
            self._assign(key, number)

    def check(self) -> None:
        """Reject values that do not fit in the data plane, after its width is known.

        Raises StatusError.
        """
        for bitwidth in (self.bitwidth, self.controller_bitwidth or 1):
            if not 0 < bitwidth <= MAX_BITS:
                raise unimplemented(
                    f"type {self.name}: {bitwidth} bits; expected 1 to {MAX_BITS} "
                    f"for a type with @p4runtime_translation"
                )
        for number in self._values:
            if number >> self.bitwidth:
                raise invalid(
                    f"type {self.name}: @{_MAPPINGS} has {number}, which does not "
                    f"fit in {self.bitwidth} bits"
                )

    def _assign(self, value: bytes, number: int) -> None:
        self._numbers[value], self._values[number] = number, value

    def _taken(self, what: str, value: bytes, number: int) -> StatusError:
        owner = self.text(self._values[number])
        return StatusError(
            Code.ALREADY_EXISTS,
            f"{what}: {self.text(value)} cannot have number {number}, which stands for {owner}",
        )


class Numbers(Translated):
    """Type with sdn_bitwidth: controller numbers of another width.

    A controller number and its data-plane number are equal, except in the pairs that the program
    states.
    """

    def __init__(self, name: str, spec: p4t.P4NewTypeSpec) -> None:
        super().__init__(name, spec)
        self._controller_bitwidth = spec.translated_type.sdn_bitwidth

    @property
    def controller_bitwidth(self) -> int:
        return self._controller_bitwidth

    @property
    def exact_only(self) -> bool:
        return self._controller_bitwidth != self.bitwidth or bool(self._numbers)

    def decode(self, value: bytes, what: str) -> int:
        number = values.decode(value, self._controller_bitwidth, what)
        key = values.encode(number)
        if key in self._numbers:
            return self._numbers[key]
        if number in self._values:
            raise self._taken(what, key, number)
        if number >> self.bitwidth:
            raise out_of_range(
                f"{what}: value {number:#x} does not fit in type {self.name}, "
                f"which has {self.bitwidth} bits in the program"
            )
        return number

    def encode(self, number: int) -> bytes:
        return self._values.get(number) or values.encode(number)


class Strings(Translated):
    """Type with sdn_string: assigns a number to each string at its first use."""

    def __init__(self, name: str, spec: p4t.P4NewTypeSpec) -> None:
        super().__init__(name, spec)
        self._fixed = set(self._values)  # numbers stated in the program, never freed
        self._used: set[int] = set()  # numbers used since begin()
        self.collect_at = COLLECT_AT
        # the search for a free number starts here (modulo the count of numbers)
        self._next = -1
        self.collect: Callable[[], None] = lambda: None
        """Calls decode() for all strings that the pipeline holds, and then sweep()."""

    @property
    def controller_bitwidth(self) -> int:
        return 0

    @property
    def exact_only(self) -> bool:
        return True

    def check(self) -> None:
        super().check()
        for value, number in self._numbers.items():
            if self._decimal(value) not in (None, number):
                raise invalid(
                    f"type {self.name}: @{_MAPPINGS} has {self.text(value)} for {number}, but a "
                    "decimal string stands for itself"
                )

    @property
    def known(self) -> int:
        """Return the count of strings that have a number."""
        return len(self._numbers)

    def begin(self) -> None:
        """Begin a batch of updates.

        Until the batch ends, tables do not contain its strings, although these strings are in use.
        """
        self._used.clear()

    def sweep(self) -> None:
        """Free the numbers of all strings that were not decoded since begin()."""
        for number in self._values.keys() - self._fixed - self._used:
            del self._numbers[self._values.pop(number)]

    def reserve(self, number: int) -> None:
        if number not in self._values:
            self._assign(str(number).encode(), number)
        self._fixed.add(number)

    def decode(self, value: bytes, what: str) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._give(value, what)
        self._used.add(number)
        return number

    def encode(self, number: int) -> bytes:
        value = self._values.get(number)
        return str(number).encode() if value is None else value

    def text(self, value: bytes, digits: int = 1) -> str:
        return json.dumps(value.decode(errors="backslashreplace"), ensure_ascii=False)

    def _give(self, value: bytes, what: str) -> int:
        if not value:
            raise invalid(f"{what}: empty string, expected the name of a {self.name}")
        if self.known >= self.collect_at:
            self.collect()
            self.collect_at = max(self.collect_at, 2 * self.known)
        number = self._decimal(value)
        if number is None:
            number = self._free(what)
        elif number in self._values:
            self.collect()
            if number in self._values:
                raise self._taken(what, value, number)
        self._assign(value, number)
        return number

    def _decimal(self, value: bytes) -> int | None:
        """Return the number of a decimal string if it fits in the data plane, else None."""
        if not value.isdigit() or len(value) > MAX_DIGITS or (value[:1] == b"0" and value != b"0"):
            return None
        number = int(value)
        return None if number >> self.bitwidth else number

    def _free(self, what: str) -> int:
        size = 1 << self.bitwidth
        if len(self._values) >= size:
            self.collect()
        if len(self._values) >= size:
            raise StatusError(
                Code.RESOURCE_EXHAUSTED,
                f"{what}: all {size} numbers of type {self.name} are in use",
            )
        number = self._next % size
        while number in self._values:
            number = (number - 1) % size
        self._next = number - 1
        return number


def translations(types: p4t.P4TypeInfo) -> dict[str, Translated]:
    """Return the translated types of a P4Info, by name. Raises StatusError."""
    found: dict[str, Translated] = {}
    for name, spec in types.new_types.items():
        kind = spec.translated_type.WhichOneof("sdn_type")
        if kind == "sdn_string":
            found[name] = Strings(name, spec)
        elif kind == "sdn_bitwidth":
            found[name] = Numbers(name, spec)
    return found


def check_kind(owner: str, match: p4i.MatchField, of: Values) -> None:
    """Reject match kinds that need masks, if the values are strings (spec 18.2)."""
    exact = (p4i.MatchField.EXACT, p4i.MatchField.OPTIONAL)
    if isinstance(of, Strings) and match.match_type not in exact:
        raise unimplemented(
            f"{owner}, field {match.name}: type {of.name} is a string for "
            f"controllers, so the field must be exact or optional"
        )


def _mappings(name: str, annotations: Iterable[str]) -> Iterator[tuple[bytes | int, int]]:
    """Yield the pairs of `@p4runtime_translation_mappings({{"", 0}, ...})`."""
    for annotation in annotations:
        found = re.fullmatch(rf"@{_MAPPINGS}\s*\((.*)\)", annotation.strip(), re.DOTALL)
        if found is None:
            continue
        body = found[1].strip()
        inside = body[1:-1]
        at = 0
        while pair := _PAIR.match(inside, at):
            at = pair.end()
            text, number, of = pair.groups()
            yield (_unquoted(text) if number is None else _number(number)), _number(of)
        if inside[at:].strip() or body[:1] + body[-1:] != "{}":
            raise invalid(
                f"type {name}: @{_MAPPINGS}({body[:40]}...): expected "
                '({ {"name", number}, ... })'
            )


def _number(text: str) -> int:
    return int(text, 16 if text[:2] in ("0x", "0X") else 10)


def _unquoted(text: str) -> bytes:
    return re.sub(r"\\(.)", r"\1", text).encode()
