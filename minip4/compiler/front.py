"""The front end: parses and checks a P4-16 source file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minip4.compiler import syntax
from minip4.compiler.analysis import warn_of_mistakes
from minip4.compiler.check.program import check
from minip4.compiler.parse.parser import parse
from minip4.compiler.preprocess.lexer import Token
from minip4.compiler.preprocess.preprocessor import preprocess
from minip4.compiler.recursion import deep_recursion
from minip4.compiler.source import SourceFile
from minip4.compiler.warnings import Warnings
from minip4.errors import Minip4Error


def parse_and_check(
    path: str | Path, include_dirs: Sequence[str | Path] = (), defines: Sequence[str] = ()
) -> syntax.Program:
    """Return the decorated tree of the program at `path` (see minip4.compiler.syntax).

    `include_dirs` are searched before the built-in core.p4 and v1model.p4; `defines` are macros,
    "NAME" (for 1) or "NAME=value". Raises P4Error with a source location, and Minip4Error if the
    file cannot be read.
    """
    tokens, warnings = _tokens(path, include_dirs, defines)
    with deep_recursion(path):
        program = parse(tokens, str(path))
        program.warnings = warnings  # warnings of the checks are appended
        check(program)
        warn_of_mistakes(program)
    return program


def preprocessed(
    path: str | Path, include_dirs: Sequence[str | Path] = (), defines: Sequence[str] = ()
) -> str:
    """Return the source after preprocessing, with lines `# NUMBER "FILE"` as in cpp.

    Raises P4Error, and Minip4Error if the file cannot be read.
    """
    tokens, _ = _tokens(path, include_dirs, defines)
    parts: list[str] = []
    place: tuple[SourceFile, int] | None = None
    for token in tokens:
        if token.kind == "end":
            break
        if (token.file, token.line) != place:
            is_next = place is not None and place == (token.file, token.line - 1)
            parts.append("\n" if parts else "")
            parts.append("" if is_next else f'# {token.line} "{token.file.path}"\n')
            parts.append(" " * (token.column - 1))
        elif token.before:
            parts.append(" ")
        parts.append(token.text)
        place = token.file, token.end_line
    return "".join([*parts, "\n"])


def _tokens(
    path: str | Path, include_dirs: Sequence[str | Path], defines: Sequence[str]
) -> tuple[list[Token], Warnings]:
    try:
        return preprocess(path, include_dirs, defines)
    except FileNotFoundError:
        raise Minip4Error(f"{path}: no such file; expected a P4-16 program") from None
    except OSError as problem:
        raise Minip4Error(f"{path}: cannot be read: {problem}") from problem
