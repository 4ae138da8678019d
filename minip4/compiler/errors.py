"""Errors in a P4 program, as the user reads them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from minip4.errors import Minip4Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from minip4.compiler.source import Source


class P4Error(Minip4Error):
    """A mistake in a P4 program, or a construct that this compiler does not support.

    `str()` is `file:line:col: error: message`, the source line, a caret, and `expected` if given.
    """

    def __init__(self, message: str, source: Source, expected: str = "") -> None:
        self.message = message
        self.source = source
        self.expected = expected
        lines = [f"{source}: error: {message}"]
        text = source.file.line(source.line)
        if text.strip():
            indent = "".join(c if c == "\t" else " " for c in text[: source.column - 1])
            end = source.end_column if source.end_line == source.line else len(text) + 1
            lines.append(f"  {text}")
            lines.append(f"  {indent}{'^' * max(1, end - source.column)}")
        if expected:
            lines.append(f"  expected: {expected}")
        super().__init__("\n".join(lines))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`, did you mean x?` for the known name nearest to `name`, or nothing."""
    matches = get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
