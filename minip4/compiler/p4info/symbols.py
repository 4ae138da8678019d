"""Ids and aliases of control-plane objects (P4Runtime specification, section 6.3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import annotation_numbers

ACTION = 0x01
TABLE = 0x02
VALUE_SET = 0x03
CONTROLLER_HEADER = 0x04
ACTION_PROFILE = 0x11
COUNTER = 0x12
DIRECT_COUNTER = 0x13
METER = 0x14
DIRECT_METER = 0x15
REGISTER = 0x16
DIGEST = 0x17


def name_hash(name: str) -> int:
    """Return Jenkins' one-at-a-time hash of a name (32 bits)."""
    result = 0
    for byte in name.encode():
        result = (result + byte) & 0xFFFFFFFF
        result = (result + (result << 10)) & 0xFFFFFFFF
        result ^= result >> 6
    result = (result + (result << 3)) & 0xFFFFFFFF
    result ^= result >> 11
    return (result + (result << 15)) & 0xFFFFFFFF


@dataclass
class Symbols:
    """Ids and aliases of objects.

    Call `add` for all objects, then `assign`; only then, `id` and `alias` can be used.
    """

    _ids: dict[int, dict[str, int | None]] = field(default_factory=dict)
    _used: set[int] = field(default_factory=set)
    _suffixes: Counter[str] = field(default_factory=Counter)
    _names: set[str] = field(default_factory=set)

    def add(self, kind: int, name: str, declaration: syntax.Declaration | None = None) -> None:
        known = self._ids.setdefault(kind, {})
        if name in known:
            return
        known[name] = None if declaration is None else self._written_id(kind, declaration)
        if name not in self._names:
            self._names.add(name)
            parts = name.split(".")
            self._suffixes.update(".".join(parts[i:]) for i in range(len(parts)))

    def _written_id(self, kind: int, declaration: syntax.Declaration) -> int | None:
        annotation = declaration.annotation("id")
        if annotation is None or not annotation.values:
            return None
        number = annotation_numbers(annotation)[0]
        if number >> 24 not in (0, kind):
            raise P4Error(
                f"@id({number:#x}) has the wrong first byte", annotation.source, f"{kind:#04x}"
            )
        number |= kind << 24
        if number in self._used:
            raise P4Error(f"@id({number:#x}) is used twice", annotation.source)
        self._used.add(number)
        return number

    def assign(self) -> None:
        """Assign missing ids: a hash of the name or, if it is in use, the next free id."""
        for kind in sorted(self._ids):
            known = self._ids[kind]
            for name in sorted(n for n, number in known.items() if number is None):
                hashed = name_hash(name)
                while (kind << 24 | hashed & 0xFFFFFF) in self._used:
                    hashed += 1
                known[name] = kind << 24 | hashed & 0xFFFFFF
                self._used.add(kind << 24 | hashed & 0xFFFFFF)

    def id(self, kind: int, name: str) -> int:
        number = self._ids[kind][name]
        assert number is not None
        return number

    def alias(self, name: str) -> str:
        """Return the shortest unique suffix of a name."""
        parts = name.split(".")
        for start in reversed(range(len(parts))):
            suffix = ".".join(parts[start:])
            if self._suffixes[suffix] < 2:
                return suffix
        return name
