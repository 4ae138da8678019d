"""The front end: a P4-16 source file to a checked syntax tree."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minip4.compiler import syntax
from minip4.compiler.analysis import warn_of_mistakes
from minip4.compiler.check.program import check
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.parser import parse
from minip4.compiler.preprocess.preprocessor import preprocess
from minip4.compiler.source import Source, SourceFile
from minip4.errors import Minip4Error

# The parser limits nesting, and operators in a row (token_stream.py, expressions.py), but not one
# times the other; one level takes a few Python frames in each pass.
DEEPEST_RECURSION = 10_000


def parse_and_check(
    path: str | Path, include_dirs: Sequence[str | Path] = (), defines: Sequence[str] = ()
) -> syntax.Program:
    """The decorated tree of the program at `path` (see minip4.compiler.syntax).

    `include_dirs` are searched before our own core.p4 and v1model.p4; `defines` are macros,
    "NAME" (for 1) or "NAME=value".
    Raises P4Error with the place of a mistake, Minip4Error if the file cannot be read.
    """
    try:
        tokens, warnings = preprocess(path, include_dirs, defines)
    except FileNotFoundError:
        raise Minip4Error(f"{path}: no such file; expected a P4-16 program") from None
    except OSError as problem:
        raise Minip4Error(f"{path}: cannot be read: {problem}") from problem
    with deep_recursion(path):
        program = parse(tokens, str(path))
        program.warnings = warnings  # those of the checks join them
        check(program)
        warn_of_mistakes(program)
    return program


@contextmanager
def deep_recursion(path: str | Path) -> Iterator[None]:
    """Room for passes that recurse over the tree of a program; refuses it if that is not enough."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST_RECURSION))
    try:
        yield
    except RecursionError:
        somewhere = Source(SourceFile(str(path), ""), 1, 1, 1, 1)
        message = "an expression of this program is nested too deeply"
        raise P4Error(message, somewhere, "variables for parts of it") from None
    finally:
        sys.setrecursionlimit(limit)
