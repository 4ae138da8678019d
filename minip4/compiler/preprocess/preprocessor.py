"""The preprocessor: #include, macros and conditionals.

The preprocessor works on tokens, which retain their locations.

The preprocessor follows C (spec section 6.3.1) with object-like and function-like macros, `#` and
`##`, `#if` expressions and `#pragma once`. It follows p4c's preprocessor in `#warning`, unknown
directives, and strings that span lines (long_strings.py). A token from a macro has the location
where the macro is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.preprocess.conditions import evaluate
from minip4.compiler.preprocess.lexer import Token, tokenize, tokenize_text
from minip4.compiler.preprocess.long_strings import LongString
from minip4.compiler.preprocess.macros import MOST_TOKENS, Macro, Macros, directive_tokens, is_word
from minip4.compiler.source import SourceFile
from minip4.compiler.warnings import Warnings
from minip4.errors import Minip4Error

INCLUDE_DIR = Path(__file__).parents[1] / "include"
# system files: the built-in ones, or those of p4c in an include directory
SYSTEM_FILES = ("core.p4", "v1model.p4", "tna.p4", "t2na.p4")
CONDITIONALS = ("if", "ifdef", "ifndef", "elif", "else", "endif")
MARKERS = ("line", "ident")
DIRECTIVES = (*CONDITIONALS, *MARKERS, "include", "define", "undef", "error", "warning", "pragma")
DEEPEST_INCLUDE = 64
MOST_INCLUDES = 1000

_DIRECTIVE = re.compile(r"#\s*([A-Za-z_]\w*|)")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*[\s\S]*?\*/')


@dataclass(slots=True)
class _Condition:
    opened: Token
    is_active: bool  # whether the current branch is active
    was_taken: bool  # whether an earlier branch was active, or the whole conditional is skipped
    has_else: bool = False


def preprocess(
    path: str | Path, include_dirs: Sequence[str | Path], defines: Sequence[str]
) -> tuple[list[Token], Warnings]:
    """Return the tokens of the program at `path` (the last has kind "end"), and its warnings.

    Raises P4Error, and OSError if `path` itself cannot be read.
    """
    text = _read(Path(path))
    preprocessor = _Preprocessor([Path(d) for d in include_dirs])
    for definition in ("__TARGET_BMV2__", *defines):
        name, has_value, value = definition.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise Minip4Error(f"-D {definition}: expected NAME or NAME=value")
        file = SourceFile("<command line>", value if has_value else "1")
        preprocessor.macros.known[name] = Macro(None, _code(tokenize(file)))
    file = SourceFile(str(path), text)
    preprocessor.run(file, 0)
    lines = text.split("\n")
    preprocessor.output.append(
        Token("end", "", file, len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 1)
    )
    return preprocessor.output, preprocessor.warnings


def _read(path: Path) -> str:
    """Return the text of a source file; invalid UTF-8 is accepted in comments."""
    return path.read_text(encoding="utf-8-sig", errors="replace")


class _Preprocessor:
    def __init__(self, include_dirs: list[Path]) -> None:
        self.include_dirs = include_dirs
        self.macros = Macros()
        self.output: list[Token] = []
        self.warnings = Warnings()
        self.once: set[Path] = set()  # files that have `#pragma once`
        # for each file: a macro which, once defined, makes the file empty
        self.guards: dict[Path, str] = {}
        self.includes = 0
        self.handlers: dict[str, Callable[[Token, str], None]] = {
            "define": self.macros.define,
            "undef": self.undef,
            "error": self.error,
            "warning": self.warning,
            "pragma": self.pragma,
        }

    def run(self, file: SourceFile, depth: int) -> None:
        """Append the tokens of one file to the output."""
        conditions: list[_Condition] = []
        # tokens of earlier lines, because arguments of macros may span several lines
        pending: list[Token] = []
        string: LongString | None = None
        tokens = tokenize(file)
        guard = _guard(tokens)
        if guard is not None:
            self.guards[Path(file.path).resolve()] = guard
        for line in _lines(tokens):
            is_active = not conditions or conditions[-1].is_active
            first = line[0]
            if first.kind == "directive" and string is not None and not self.is_known(first):
                line = tokenize_text(first.text, file, first.line, first.column)
            if line[0].kind == "directive":
                self.flush(pending)
                if string is not None and is_active and _split(first)[0] == "include":
                    raise P4Error("#include in a string", first.source, "a whole string")
                self.directive(first, depth, conditions)
            elif is_active and string is not None:
                string = string.continued(line, self.macros, self.output)
            elif is_active:
                pending += _code(line)
                if pending and pending[-1].kind == "open":
                    begun = first.line + sum(token.text.count("\n") for token in line)
                    string = LongString(pending.pop(), begun)
                    self.flush(pending)
        self.flush(pending)
        if string is not None:
            self.output.append(string.unfinished())
        if conditions:
            opened = conditions[-1].opened
            raise P4Error("this conditional has no #endif", opened.source)

    def is_known(self, directive: Token) -> bool:
        """Return whether cpp treats the line as a directive.

        In a string, other lines are text.
        """
        name, rest = _split(directive)
        return name in DIRECTIVES or not (name or rest)

    def directive(self, token: Token, depth: int, conditions: list[_Condition]) -> None:
        name, rest = _split(token)
        is_active = not conditions or conditions[-1].is_active
        if name in CONDITIONALS:
            self.conditional(name, rest, token, conditions)
        elif not is_active or name in MARKERS or (not name and (not rest or rest[0].isdigit())):
            pass  # line markers have no effect: errors name the file that was read
        elif name == "include":
            self.include(token, rest, depth)
        elif name in self.handlers:
            self.handlers[name](token, rest)
        else:
            hint = did_you_mean(name, DIRECTIVES)
            self.warnings.add(
                "cpp", f"unknown directive #{name or rest[0]} is ignored{hint}", token.source
            )

    def flush(self, pending: list[Token]) -> None:
        known = self.macros.known
        if known and any(t.text in known or t.text in ("__LINE__", "__FILE__") for t in pending):
            self.output += self.macros.expand(pending)
        else:
            self.output += pending
        if len(self.output) > MOST_TOKENS:
            raise P4Error(f"the program has more than {MOST_TOKENS} tokens", pending[0].source)
        pending.clear()

    def include(self, token: Token, rest: str, depth: int) -> None:
        if not rest.startswith(("<", '"')):
            rest = " ".join(t.text for t in self.macros.expand(directive_tokens(token, rest)))
        found = re.fullmatch(r'"([^"]+)"|<([^>]+)>', rest.strip())
        if not found:
            raise P4Error("bad #include", token.source, '#include <file> or #include "file"')
        self.includes += 1
        if depth >= DEEPEST_INCLUDE or self.includes > MOST_INCLUDES:
            what = "nested too deeply" if depth >= DEEPEST_INCLUDE else "used too often"
            raise P4Error(f"#include is {what}; possibly a file includes itself", token.source)
        name = found[1] or found[2]
        local = [Path(token.file.path).parent] if found[1] else []
        for folder in [*local, *self.include_dirs, INCLUDE_DIR]:
            path = folder / name
            if path.is_file():
                if self.is_empty(path.resolve()):
                    return
                try:
                    text = _read(path)
                except OSError as problem:
                    raise P4Error(f"cannot read {path}: {problem}", token.source) from problem
                included = SourceFile(str(path), text, path.name in SYSTEM_FILES)
                token.file.includes.append(included)
                self.run(included, depth + 1)
                return
        raise P4Error(
            f"cannot find {name!r} to include",
            token.source,
            "core.p4, v1model.p4, or a file next to this one or in an include directory (-I)",
        )

    def is_empty(self, path: Path) -> bool:
        """Return whether a file was read before and would have no effect if it was read again."""
        return path in self.once or self.guards.get(path) in self.macros.known

    def undef(self, token: Token, rest: str) -> None:
        self.macros.known.pop(_single_name(token, rest, "undef"), None)

    def error(self, token: Token, rest: str) -> None:
        raise P4Error(f"#error {rest.strip()}", token.source)

    def warning(self, token: Token, rest: str) -> None:
        self.warnings.add("cpp", f"#warning {rest}", token.source)

    def pragma(self, token: Token, rest: str) -> None:
        """Handle a #pragma; pragmas of other compilers are ignored."""
        if rest == "once":
            self.once.add(Path(token.file.path).resolve())

    def conditional(self, name: str, rest: str, token: Token, conditions: list[_Condition]) -> None:
        if name in ("if", "ifdef", "ifndef"):
            outer = not conditions or conditions[-1].is_active
            taken = outer and self.holds(name, rest, token)
            conditions.append(_Condition(token, taken, taken or not outer))
            return
        if not conditions:
            raise P4Error(f"#{name} without #if", token.source)
        current = conditions[-1]
        if name == "endif":
            conditions.pop()
        elif current.has_else:
            raise P4Error(f"#{name} after #else", token.source)
        elif name == "else":
            current.is_active = not current.was_taken
            current.has_else = True
        else:
            current.is_active = not current.was_taken and self.holds("if", rest, token)
            current.was_taken = current.was_taken or current.is_active

    def holds(self, name: str, rest: str, token: Token) -> bool:
        if name != "if":
            return (_single_name(token, rest, name) in self.macros.known) == (name == "ifdef")
        text = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda found: "1" if (found[1] or found[2]) in self.macros.known else "0",
            rest,
        )
        return evaluate(self.macros.expand(directive_tokens(token, text)), token) != 0


def _split(token: Token) -> tuple[str, str]:
    """Return the name of a directive, and the rest of its line without comments."""
    text = _COMMENT.sub(lambda found: found[1] or " ", token.text)
    found = _DIRECTIVE.match(text)
    assert found is not None
    return found[1], text[found.end() :].strip()


def _single_name(token: Token, rest: str, directive: str) -> str:
    words = directive_tokens(token, rest)
    if not words or not is_word(words[0]):
        raise P4Error(f"#{directive} without a name", token.source, f"#{directive} NAME")
    return words[0].text


def _guard(tokens: list[Token]) -> str | None:
    """Return the macro of a file that consists of one `#ifndef MACRO ... #endif` without #else."""
    code = _code(tokens)
    if len(code) < 2 or code[0].kind != "directive" or code[-1].kind != "directive":
        return None
    opening, *inner, closing = [_split(token)[0] for token in code if token.kind == "directive"]
    depth = 1
    for name in inner:
        depth += (name in ("if", "ifdef", "ifndef")) - (name == "endif")
        if depth == 0 or (depth == 1 and name in ("elif", "else")):
            return None
    if opening != "ifndef" or closing != "endif" or depth != 1:
        return None
    return _single_name(code[0], _split(code[0])[1], opening)


def _lines(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each logical line. Comments and line joins may extend a line."""
    line: list[Token] = []
    for token in tokens:
        if token.before == "\n" and line:
            yield line
            line = []
        line.append(token)
    if line:
        yield line


def _code(tokens: list[Token]) -> list[Token]:
    return [token for token in tokens if token.kind != "comment"]
