"""Layout of values in words of 64 bits: fields, keys and action parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minip4.engine import model as m


def limbs(width: int) -> int:
    """Return the number of words of a value. A 0-bit value has one word, with value 0."""
    return max(1, (width + 63) // 64)


def param_words(action: m.Action) -> list[int]:
    """Return the index of the first word of each parameter in an entry's data."""
    words = []
    at = 0
    for param in action.params:
        words.append(at)
        at += limbs(param.width)
    return words


def data_words(action: m.Action) -> int:
    return sum(limbs(p.width) for p in action.params)


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """The width, first word and bit offset of each key field.

    A field of up to 64 bits does not cross a word boundary. A wider field starts at a word
    boundary.
    """

    widths: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    count: int

    @classmethod
    def pack(cls, widths: list[int], *, byte_aligned: bool = False) -> KeyLayout:
        places, word, used = [], 0, 0
        for width in widths:
            width = max(1, width)  # a 0-bit field takes one bit; this bit is always zero
            room = (width + 7) // 8 * 8 if byte_aligned else width
            if used and (room > 64 - used):
                word, used = word + 1, 0
            places.append((word, used))
            if width > 64:
                word, used = word + limbs(width), 0
            else:
                used += room
        return cls(tuple(widths), tuple(places), word + bool(used))

    def words(self, values: list[int]) -> list[int]:
        """Return the words of a key. Each value is truncated to the width of its field."""
        result = [0] * self.count
        for value, width, (word, shift) in zip(values, self.widths, self.places, strict=True):
            value &= (1 << width) - 1
            for i in range(limbs(width)):
                result[word + i] |= (value >> 64 * i << shift) & (2**64 - 1)
        return result

    def values(self, words: Sequence[int]) -> list[int]:
        """Return the values of a key from its words."""
        result = []
        for width, (word, shift) in zip(self.widths, self.places, strict=True):
            value = 0
            for i in range(limbs(width)):
                value |= words[word + i] >> shift << 64 * i
            result.append(value & ((1 << width) - 1))
        return result

    def c_words(self, limb_codes: list[str]) -> str:
        """Return C initialisers of the words, from the C code of each field's limbs in order."""
        parts: list[list[str]] = [[] for _ in range(self.count)]
        codes = iter(limb_codes)
        for width, (word, shift) in zip(self.widths, self.places, strict=True):
            for i in range(limbs(width)):
                code = next(codes)
                parts[word + i].append(f"(uint64_t)({code}) << {shift}" if shift else code)
        return ", ".join(" | ".join(p) for p in parts)
