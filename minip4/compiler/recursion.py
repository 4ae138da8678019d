"""Stack space for recursive passes, and the source location at which it is exceeded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import TracebackType

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.source import Source, SourceFile

# The parser limits nesting, and operators in a row (token_stream.py, expressions.py). But it limits
# neither the combination of nesting and operators nor the depth of calls. One level needs a few
# Python frames in each pass.
DEEPEST_RECURSION = 10_000


@contextmanager
def deep_recursion(path: str | Path) -> Iterator[None]:
    """Increase the recursion limit, and raise P4Error for a program that exceeds it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST_RECURSION))
    try:
        yield
    except RecursionError as error:
        place = _place(error.__traceback__) or Source(SourceFile(str(path), ""), 1, 1, 1, 1)
        expected = "variables for parts of it, or fewer nested calls"
        raise P4Error("this is nested too deeply", place, expected) from None
    finally:
        sys.setrecursionlimit(limit)


def _place(trace: TracebackType | None) -> Source | None:
    """Return the source location of the innermost expression in progress."""
    for frame, _ in walk_tb(trace):
        for value in frame.f_locals.values():
            if isinstance(value, syntax.Expression):
                return value.source
    return None
