"""Resource limits of programs.

A controller may push any program. A program that exceeds a limit is rejected with a one-line
message before the C compiler runs, and the switch continues with its current program.
"""

from __future__ import annotations

import re

from minip4.engine import model as m
from minip4.engine.errors import TooLarge
from minip4.engine.words import data_words, limbs

MAX_PARSED_BYTES = 64 << 10  # headers and metadata of a packet; a switch has up to 65,536 packets
MAX_STATE_BYTES = 1 << 30  # registers, counters, meters, action profiles, const entries
MAX_HEADER_BYTES = 64 << 10  # the longest frame has 9,216 bytes
MAX_WIDE_WORDS = 1 << 18  # words of fields wider than 64 bits, counted once per use in the program
MAX_CODE_LINES = 100_000  # lines of C; cc compiles this number in about a minute
LARGE_CODE_LINES = 10_000  # above this limit, cc optimizes less, since its time grows quadratically

METER_BYTES = 152  # size of struct meter in program.h
CELL_BYTES = 16  # size of struct cell
ENTRY_WORDS = 8  # words of an entry other than key, mask and data: head, counters, time, index


class WideWords:
    """Counts the words of wide fields while a program is read. Each use becomes C code."""

    def __init__(self) -> None:
        self._words = 0

    def spend(self, bits: int, times: int = 1) -> None:
        """Count `times` uses of `bits` bits each. Raises TooLarge."""
        if bits > 64:
            self._words += times * limbs(bits)
        if self._words > MAX_WIDE_WORDS:
            raise TooLarge(
                f"the program uses fields wider than 64 bits too often: all uses "
                f"together exceed the limit of {MAX_WIDE_WORDS} words"
            )


def check_state(program: m.Program) -> None:
    """Raise TooLarge if a header is too long, or if the state needs too much memory.

    Tables count only with their const entries; other entries need memory when they are added.
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
        **{f"table {t.name}": _table_bytes(program, t) for t in program.tables.values()},
    }  # fmt: skip
    total = sum(sizes.values())
    if total > MAX_STATE_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        what = f"the program's state (largest part: {largest}, {sizes[largest]} bytes)"
        _refuse(what, total, MAX_STATE_BYTES)


def check_parsed(needed: int) -> None:
    """Raise TooLarge if the stored headers and metadata exceed the limit."""
    if needed > MAX_PARSED_BYTES:
        _refuse("a parsed packet (all headers and metadata)", needed, MAX_PARSED_BYTES)


def code_lines(text: str) -> int:
    """Return the number of lines of C that cc compiles.

    Functions that process headers are inlined, so they count once per call. Raises TooLarge.
    """
    functions = re.finditer(r"^ALWAYS_INLINE void (\w+)\(.*?^}", text, re.MULTILINE | re.DOTALL)
    sizes = {function[1]: function[0].count("\n") for function in functions}
    calls = re.finditer(r"\b(?:load|write_back|put)_t\d+_\w+(?=\()", text)
    lines = text.count("\n") + sum(sizes.get(call[0], 0) for call in calls)
    if lines > MAX_CODE_LINES:
        raise TooLarge(
            f"the program becomes {lines} lines of C, but at most {MAX_CODE_LINES} "
            f"are accepted; use fewer statements, tables, parser states or header fields"
        )
    return lines


def _profile_bytes(program: m.Program, profile: m.Profile) -> int:
    tables = [t for t in program.tables.values() if t.profile == profile.name]
    words = max((data_words(a) for t in tables for a in t.actions), default=0)
    return profile.max_size * (8 * (words + 1) + 1)


def _table_bytes(program: m.Program, table: m.Table) -> int:
    key_words = sum(limbs(k.width) for k in table.key)
    words = max((data_words(a) for a in table.actions), default=0) + 2 * key_words + ENTRY_WORDS
    words += sum(limbs(r.width) for r in program.registers.values() if r.table == table.name)
    return 8 * words * (2 * len(table.entries) + 1)  # arrays grow by doubling


def _refuse(what: str, needed: int, limit: int) -> None:
    raise TooLarge(f"{what} needs {needed} bytes; at most {limit} are accepted")
