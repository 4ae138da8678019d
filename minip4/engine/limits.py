"""Resource limits of programs.

A controller may push any program: one that exceeds a limit is rejected in one line before the C
compiler runs, and the switch keeps its current program.
"""

from __future__ import annotations

import re

from minip4.engine import model as m
from minip4.engine.errors import TooLarge
from minip4.engine.words import data_words, limbs

MAX_PARSED_BYTES = 64 << 10  # headers and metadata: each of 65,536 packets has them
MAX_STATE_BYTES = 1 << 30  # registers, counters, meters, action profiles, const entries
MAX_HEADER_BYTES = 64 << 10  # the longest frame has 9,216
MAX_WIDE_WORDS = 1 << 18  # of fields wider than 64 bits, wherever the program names them
MAX_CODE_LINES = 100_000  # of C: a minute of cc
LARGE_CODE_LINES = 10_000  # from here on cc optimises less, since its time grows with the square

METER_BYTES = 152  # struct meter of program.h
CELL_BYTES = 16  # struct cell
ENTRY_WORDS = 8  # of an entry beside key, mask and data: its head, counters, time, index


class WideWords:
    """Counts the words of wide fields while a program is read: each use becomes C code."""

    def __init__(self) -> None:
        self._words = 0

    def spend(self, bits: int, times: int = 1) -> None:
        """Count `times` uses of `bits` bits. Raises TooLarge."""
        if bits > 64:
            self._words += times * limbs(bits)
        if self._words > MAX_WIDE_WORDS:
            raise TooLarge(
                f"the program uses fields wider than 64 bits so often that they come to more than "
                f"{MAX_WIDE_WORDS} words, the limit"
            )


def check_state(program: m.Program) -> None:
    """Raise TooLarge if headers exceed a frame or the state exceeds its limit.

    Tables count with their const entries only: other entries take memory when they are added.
    """
    for header in program.headers.values():
        if not header.metadata and header.type.longest_bytes > MAX_HEADER_BYTES:
            _refuse(f"header {header.name}", header.type.longest_bytes, MAX_HEADER_BYTES)
    sizes = {
        **{f"register {r.name}": 8 * r.size * r.limbs for r in program.registers.values()},
        **{f"counter {c.name}": CELL_BYTES * c.size for c in program.counters.values()},
        **{f"meter {x.name}": METER_BYTES * x.size for x in program.meters.values()},
        **{f"action profile {p.name}": _profile_bytes(program, p)
           for p in program.profiles.values()},
        **{f"table {t.name}": _table_bytes(t) for t in program.tables.values()},
    }  # fmt: skip
    total = sum(sizes.values())
    if total > MAX_STATE_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        what = f"the program's state (the most of it: {largest}, {sizes[largest]} bytes)"
        _refuse(what, total, MAX_STATE_BYTES)


def check_parsed(needed: int) -> None:
    """Raise TooLarge if the stored headers and metadata exceed the limit."""
    if needed > MAX_PARSED_BYTES:
        _refuse("a parsed packet (all headers and metadata)", needed, MAX_PARSED_BYTES)


def code_lines(text: str) -> int:
    """Return the lines of C that cc compiles, with header functions counted per call.

    Raises TooLarge.
    """
    functions = re.finditer(r"^ALWAYS_INLINE void (\w+)\(.*?^}", text, re.MULTILINE | re.DOTALL)
    sizes = {function[1]: function[0].count("\n") for function in functions}
    calls = re.finditer(r"\b(?:load|write_back|put)_t\d+_\w+(?=\()", text)
    lines = text.count("\n") + sum(sizes.get(call[0], 0) for call in calls)
    if lines > MAX_CODE_LINES:
        raise TooLarge(
            f"the program comes to {lines} lines of C; at most {MAX_CODE_LINES} are accepted: "
            "fewer statements, tables, parser states, or headers with fewer fields that are used"
        )
    return lines


def _profile_bytes(program: m.Program, profile: m.Profile) -> int:
    tables = [t for t in program.tables.values() if t.profile == profile.name]
    words = max((data_words(a) for t in tables for a in t.actions), default=0)
    return profile.max_size * (8 * (words + 1) + 1)


def _table_bytes(table: m.Table) -> int:
    key_words = sum(limbs(k.width) for k in table.key)
    words = max((data_words(a) for a in table.actions), default=0) + 2 * key_words + ENTRY_WORDS
    return 8 * words * (2 * len(table.entries) + 1)  # they grow by doubling


def _refuse(what: str, needed: int, limit: int) -> None:
    raise TooLarge(f"{what} needs {needed} bytes; at most {limit} are accepted")
