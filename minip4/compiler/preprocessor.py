"""The preprocessor: #include, macros and conditionals, on tokens, so that positions stay exact.

It follows C (spec section 6.3.1): object-like and function-like macros with `#` and `##`, `#if`
expressions, `#pragma once`; and p4c's preprocessor in `#warning`. A token out of a macro has the
place where the macro is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minip4.compiler.errors import P4Error
from minip4.compiler.if_expression import evaluate
from minip4.compiler.lexer import Token, tokenize, tokenize_text
from minip4.compiler.source import SourceFile
from minip4.compiler.warnings import Warnings
from minip4.errors import Minip4Error

INCLUDE_DIR = Path(__file__).parent / "include"
SYSTEM_FILES = ("core.p4", "v1model.p4")  # ours, or p4c's from an include directory
DEEPEST_INCLUDE = 64
MOST_INCLUDES = 1000
MOST_TOKENS = 300_000  # of one program: a macro that grows exponentially ends here

_DIRECTIVE = re.compile(r"#\s*([A-Za-z_]\w*|)")
_COMMENT_OR_JOIN = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/|\\\r?\n")


@dataclass(slots=True)
class Macro:
    """`parameters` is None for an object-like macro."""

    parameters: list[str] | None
    body: list[Token]


@dataclass(slots=True)
class _Condition:
    opened: Token
    is_active: bool  # tokens of the current branch count
    was_taken: bool  # some branch so far did, or the whole conditional is skipped
    has_else: bool = False


def preprocess(
    path: str | Path, include_dirs: Sequence[str | Path], defines: Sequence[str]
) -> tuple[list[Token], Warnings]:
    """Tokens of the program at `path`, ending in one of kind "end", and warnings for the user.

    Raises P4Error, and OSError if `path` itself cannot be read.
    """
    text = _read(Path(path))
    preprocessor = _Preprocessor([Path(d) for d in include_dirs])
    for definition in ("__TARGET_BMV2__", *defines):
        name, has_value, value = definition.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise Minip4Error(f"-D {definition}: expected NAME or NAME=value")
        file = SourceFile("<command line>", value if has_value else "1")
        preprocessor.macros[name] = Macro(None, tokenize(file))
    file = SourceFile(str(path), text)
    preprocessor.run(file, 0)
    lines = text.split("\n")
    preprocessor.output.append(
        Token("end", "", file, len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 1)
    )
    return preprocessor.output, preprocessor.warnings


def _read(path: Path) -> str:
    """Text of a source file; what is no UTF-8 does no harm in a comment."""
    return path.read_text(encoding="utf-8-sig", errors="replace")


class _Preprocessor:
    def __init__(self, include_dirs: list[Path]) -> None:
        self.include_dirs = include_dirs
        self.macros: dict[str, Macro] = {}
        self.output: list[Token] = []
        self.warnings = Warnings()
        self.once: set[Path] = set()  # files that have `#pragma once`
        self.includes = 0
        self.handlers: dict[str, Callable[[Token, str], None]] = {
            "define": self.define,
            "undef": self.undef,
            "error": self.error,
            "warning": self.warning,
            "pragma": self.pragma,
        }

    def run(self, file: SourceFile, depth: int) -> None:
        """Appends the tokens of one file to the output."""
        conditions: list[_Condition] = []
        pending: list[Token] = []  # macros may take arguments over several lines
        for token in tokenize(file):
            is_active = not conditions or conditions[-1].is_active
            if token.kind != "directive":
                if is_active:
                    pending.append(token)
                continue
            self.flush(pending)
            name, rest = _split(token)
            if name in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
                self.conditional(name, rest, token, conditions)
            elif not is_active or name in ("", "line", "ident"):
                continue  # line markers: errors name the file that was read
            elif name == "include":
                self.include(token, rest, depth)
            elif name in self.handlers:
                self.handlers[name](token, rest)
            else:
                known = "include define undef if ifdef ifndef elif else endif error warning pragma"
                raise P4Error(f"unknown directive #{name}", token.source, known)
        self.flush(pending)
        if conditions:
            opened = conditions[-1].opened
            raise P4Error("this conditional has no #endif", opened.source)

    def flush(self, pending: list[Token]) -> None:
        if self.macros and any(
            t.text in self.macros or t.text in ("__LINE__", "__FILE__") for t in pending
        ):
            self.output += self.expand(pending)
        else:
            self.output += pending
        if len(self.output) > MOST_TOKENS:
            raise P4Error(f"the program has more than {MOST_TOKENS} tokens", pending[0].source)
        pending.clear()

    def include(self, token: Token, rest: str, depth: int) -> None:
        if not rest.startswith(("<", '"')):
            rest = " ".join(t.text for t in self.expand(_tokens(token, rest)))
        found = re.fullmatch(r'"([^"]+)"|<([^>]+)>', rest.strip())
        if not found:
            raise P4Error("bad #include", token.source, '#include <file> or #include "file"')
        self.includes += 1
        if depth >= DEEPEST_INCLUDE or self.includes > MOST_INCLUDES:
            what = "nested too deeply" if depth >= DEEPEST_INCLUDE else "used too often"
            raise P4Error(f"#include is {what}: does a file include itself?", token.source)
        name = found[1] or found[2]
        local = [Path(token.file.path).parent] if found[1] else []
        for folder in [*local, *self.include_dirs, INCLUDE_DIR]:
            path = folder / name
            if path.is_file():
                if path.resolve() in self.once:
                    return
                try:
                    text = _read(path)
                except OSError as problem:
                    raise P4Error(f"cannot read {path}: {problem}", token.source) from problem
                self.run(SourceFile(str(path), text, path.name in SYSTEM_FILES), depth + 1)
                return
        raise P4Error(
            f"cannot find {name!r} to include",
            token.source,
            "core.p4, v1model.p4, or a file next to this one or in an include directory (-I)",
        )

    def define(self, token: Token, rest: str) -> None:
        tokens = _tokens(token, rest)
        if not tokens or not _is_word(tokens[0]):
            raise P4Error("#define without a name", token.source, "#define NAME tokens")
        name, parameters, body = tokens[0], None, tokens[1:]
        if body and body[0].kind == "(" and name.touches(body[0]):
            close = next((i for i, t in enumerate(body) if t.kind == ")"), None)
            if close is None:
                raise P4Error("the macro's parameters have no ')'", token.source)
            inner = body[1:close]
            parameters = [t.text for t in inner if t.kind != ","]
            if any((t.kind == ",") != (i % 2 == 1) for i, t in enumerate(inner)) or (
                len(inner) % 2 == 0 and inner
            ):
                raise P4Error("bad macro parameters", token.source, "#define NAME(a, b) tokens")
            body = body[close + 1 :]
        self.macros[name.text] = Macro(parameters, _with_paste_operators(body))

    def undef(self, token: Token, rest: str) -> None:
        self.macros.pop(_single_name(token, rest, "undef"), None)

    def error(self, token: Token, rest: str) -> None:
        raise P4Error(f"#error {rest.strip()}", token.source)

    def warning(self, token: Token, rest: str) -> None:
        self.warnings.add("cpp", f"#warning {rest}", token.source)

    def pragma(self, token: Token, rest: str) -> None:
        """Those that are not for the preprocessor are other compilers'."""
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
            return (_single_name(token, rest, name) in self.macros) == (name == "ifdef")
        text = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda found: "1" if (found[1] or found[2]) in self.macros else "0",
            rest,
        )
        return evaluate(self.expand(_tokens(token, text)), token) != 0

    # ------------------------------------------------------------ macro expansion

    def expand(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with all macros replaced; each token carries the macros it came out of."""
        todo = [(token, frozenset[str]()) for token in reversed(tokens)]
        output: list[Token] = []
        while todo:
            token, hidden = todo.pop()
            macro = self.macros.get(token.text)
            if macro is None or token.text in hidden or token.kind == "quoted":
                output.append(_special(token))
                continue
            if macro.parameters is None:
                body = _paste(macro.body)
            elif todo and todo[-1][0].kind == "(":
                arguments = _arguments(token, macro, todo)
                body = self.fill_in(token, macro, arguments)
            else:
                output.append(token)
                continue
            hidden = hidden | {token.text}
            todo += [(_moved(t, token), hidden) for t in reversed(body)]
            if len(todo) + len(output) > MOST_TOKENS:
                raise P4Error(f"macro {token.text} expands without end", token.source)
        return output

    def fill_in(self, use: Token, macro: Macro, arguments: list[list[Token]]) -> list[Token]:
        """The body of a function-like macro with its parameters replaced."""
        assert macro.parameters is not None
        given = dict(zip(macro.parameters, arguments, strict=True))
        result: list[Token] = []
        body = macro.body
        for i, token in enumerate(body):
            argument = given.get(token.text)
            if token.text == "#" and i + 1 < len(body) and body[i + 1].text in given:
                continue
            if argument is None:
                result.append(token)
            elif i > 0 and body[i - 1].text == "#":
                text = " ".join(t.text for t in argument)
                quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
                result.append(replace(use, kind="quoted", text=quoted))
            elif _next_to_paste(body, i):
                result += argument
            else:
                result += self.expand(argument)
        return _paste(result)


def _split(token: Token) -> tuple[str, str]:
    """Name of a directive, and the rest of its line without comments and line joins."""
    text = _COMMENT_OR_JOIN.sub(" ", token.text)
    found = _DIRECTIVE.match(text)
    assert found is not None
    return found[1], text[found.end() :].strip()


def _tokens(directive: Token, rest: str) -> list[Token]:
    """Tokens of a directive's rest; all have the place of the directive, spacing kept."""
    return tokenize_text(rest, directive.file, directive.line)


def _is_word(token: Token) -> bool:
    return token.text[:1].isalpha() or token.text[:1] == "_"


def _single_name(token: Token, rest: str, directive: str) -> str:
    words = _tokens(token, rest)
    if not words or not _is_word(words[0]):
        raise P4Error(f"#{directive} without a name", token.source, f"#{directive} NAME")
    return words[0].text


def _moved(token: Token, use: Token) -> Token:
    """The token at the place where the macro it comes from is used."""
    return Token(
        token.kind, token.text, use.file, use.line, use.column, use.end_line, use.end_column
    )


def _special(token: Token) -> Token:
    if token.text == "__LINE__":
        return replace(token, kind="number", text=str(token.line))
    if token.text == "__FILE__":
        return replace(token, kind="quoted", text=f'"{token.file.path}"')
    return token


def _arguments(
    use: Token, macro: Macro, todo: list[tuple[Token, frozenset[str]]]
) -> list[list[Token]]:
    """Takes `(a, b)` off `todo`: the arguments of a use of a function-like macro."""
    todo.pop()
    arguments: list[list[Token]] = [[]]
    depth = 0
    while todo:
        token = todo.pop()[0]
        if token.kind == ")" and depth == 0:
            break
        if token.kind == "," and depth == 0:
            arguments.append([])
            continue
        depth += (token.kind in ("(", "[", "{")) - (token.kind in (")", "]", "}"))
        arguments[-1].append(token)
    else:
        raise P4Error(f"the arguments of macro {use.text} have no ')'", use.source)
    assert macro.parameters is not None
    if arguments == [[]] and not macro.parameters:
        arguments = []
    if len(arguments) != len(macro.parameters):
        count = len(macro.parameters)
        message = f"macro {use.text} takes {count} argument(s), {len(arguments)} given"
        raise P4Error(message, use.source)
    return arguments


def _with_paste_operators(body: list[Token]) -> list[Token]:
    """The body of a macro with each `##` as one token."""
    result: list[Token] = []
    for token in body:
        if token.text == "#" and result and result[-1].text == "#" and result[-1].touches(token):
            result[-1] = replace(token, kind="##", text="##")
        else:
            result.append(token)
    return result


def _next_to_paste(body: list[Token], i: int) -> bool:
    """Whether `##` stands before or after body[i]: then arguments are taken unexpanded."""
    return any(t.kind == "##" for t in (*body[max(0, i - 1) : i], *body[i + 1 : i + 2]))


def _paste(tokens: list[Token]) -> list[Token]:
    """Joins the tokens around each `##`."""
    if not any(t.kind == "##" for t in tokens):
        return tokens
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        if tokens[i].kind == "##" and result and i + 1 < len(tokens):
            left = result.pop()
            joined = tokenize_text(left.text + tokens[i + 1].text, left.file, left.line)
            result += [_moved(t, left) for t in joined]
            i += 2
        else:
            result.append(tokens[i])
            i += 1
    return result
