"""The front end: parses and checks a P4-16 source file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minip4.compiler import syntax
from minip4.compiler.analysis import warn_of_mistakes
from minip4.compiler.check.program import check
from minip4.compiler.parse.parser import parse
from minip4.compiler.preprocess.preprocessor import preprocess
from minip4.compiler.recursion import deep_recursion
from minip4.errors import Minip4Error


def parse_and_check(
    path: str | Path, include_dirs: Sequence[str | Path] = (), defines: Sequence[str] = ()
) -> syntax.Program:
    """Return the decorated tree of the program at `path` (see minip4.compiler.syntax).

    `include_dirs` are searched before the built-in core.p4 and v1model.p4; `defines` are macros,
    "NAME" (for 1) or "NAME=value". Raises P4Error with a source location, and Minip4Error if the
    file cannot be read.
    """
    try:
        tokens, warnings = preprocess(path, include_dirs, defines)
    except FileNotFoundError:
        raise Minip4Error(f"{path}: no such file; expected a P4-16 program") from None
    except OSError as problem:
        raise Minip4Error(f"{path}: cannot be read: {problem}") from problem
    with deep_recursion(path):
        program = parse(tokens, str(path))
        program.warnings = warnings  # warnings of the checks are appended
        check(program)
        warn_of_mistakes(program)
    return program
