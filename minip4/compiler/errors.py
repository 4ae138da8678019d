"""Errors in P4 programs, with their source locations."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from minip4.errors import Minip4Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from minip4.compiler.source import Source

WIDEST_LINE = 200


class P4Error(Minip4Error):
    """An error in a P4 program, or a construct that this compiler does not support.

    `str()` is `file:line:col: error: message`, then the source line, a caret, and `expected` if
    given.
    """

    has_place = True

    def __init__(self, message: str, source: Source, expected: str = "") -> None:
        self.message = message
        self.source = source
        self.expected = expected
        super().__init__(located("error", message, source, expected))


def located(kind: str, message: str, source: Source, expected: str = "") -> str:
    """Format a message with its source location, as in P4Error.

    `kind` is "error" or "warning".
    """
    lines = [f"{source}: {kind}: {message}"]
    text = source.file.line(source.line)
    if text.strip():
        left = max(0, source.column - 1 - WIDEST_LINE // 2)  # truncate long lines around the error
        shown = text[left : left + WIDEST_LINE]
        indent = "".join(c if c == "\t" else " " for c in text[left : source.column - 1])
        end = source.end_column if source.end_line == source.line else len(text) + 1
        length = min(end - source.column, len(shown) - len(indent))
        lines.append(f"  {shown}")
        lines.append(f"  {indent}{'^' * max(1, length)}")
    if expected:
        lines.append(f"  expected: {expected}")
    return "\n".join(lines)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` for the known name closest to `name`, or an empty string."""
    matches = get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
