"""The lexer: text of one file to tokens, preprocessor directives included (spec section 6.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minip4.compiler.source import Source, SourceFile

# fmt: off
KEYWORDS = frozenset([
    "abstract", "action", "actions", "apply", "bit", "bool", "break", "const", "continue",
    "control", "default", "else", "entries", "enum", "error", "exit", "extern", "false", "for",
    "header", "header_union", "if", "in", "inout", "int", "key", "list", "match_kind", "out",
    "package", "parser", "priority", "return", "select", "state", "string", "struct", "switch",
    "table", "this", "transition", "true", "tuple", "type", "typedef", "value_set", "varbit",
    "void", "_",
])
# fmt: on

# Keywords that are ordinary names wherever the grammar does not ask for them (6.2).
SOFT_KEYWORDS = frozenset(
    ["actions", "apply", "entries", "key", "list", "priority", "state", "type"]
)


@dataclass(slots=True, eq=False)
class Token:
    """`kind`: "name" "number" "quoted" "directive" "bad" "end", or the keyword or symbol itself.

    `end_column` differs from column + len(text) in tokens that a macro put in the place of its use.
    """

    kind: str
    text: str
    file: SourceFile
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def source(self) -> Source:
        return Source(self.file, self.line, self.column, self.end_line, self.end_column)

    def touches(self, following: Token) -> bool:
        """Whether nothing stands between this token and the next: `> >` is no shift."""
        return (
            self.end_column == following.column
            and self.line == following.line
            and self.file is following.file
        )


_COMMENT = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
_STRING = r'"(?:[^"\\]|\\[\s\S])*"'
_TOKEN = re.compile(
    rf"""
      (?P<blank>(?:[ \t\r\f\v]|\\\r?\n)+)
    | (?P<newline>\n)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<comment>{_COMMENT})
    | (?P<number>(?:[0-9]+[ws])?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+
        |[0-9][0-9_]*)(?P<tail>[A-Za-z0-9_]*))
    | (?P<quoted>{_STRING})
    | (?P<symbol>\{{\#\}}|&&&|&&|&=|\|\||\|\+\|=?|\|-\|=?|\|=|\.\.\.|\.\.|<<=|<<|<=|>=|==|!=
        |\+\+|\+:|\+=|-=|\*=|/=|%=|\^=|[-+*/%&|^~!<>=?:;,.(){{}}\[\]@])
    | (?P<directive>\#(?:[^\n\\/"]|\\\r?\n|\\|{_COMMENT}|/|{_STRING}|")*)
    """,
    re.VERBOSE,
)


def tokenize(file: SourceFile) -> list[Token]:
    """All tokens of the file; a `#` that starts a line takes the line as one "directive" token.

    What is no token at all becomes a "bad" one: only the parser knows whether it matters.
    """
    return tokenize_text(file.text, file, 1, fresh_line=True)


def tokenize_text(
    text: str, file: SourceFile, line: int, *, fresh_line: bool = False
) -> list[Token]:
    """As `tokenize`, for a text that stands in `line`; at its start if it is a fresh one."""
    tokens: list[Token] = []
    line_start = 0
    position = 0
    match = _TOKEN.match
    while position < len(text):
        found = match(text, position)
        if found is None:
            kind, end = "bad", position + 1
        elif text.startswith("/*", position) and found.lastgroup == "symbol":
            kind, end = "bad", len(text)  # a comment without its end
        else:
            kind, end = found.lastgroup or "bad", found.end()
        if kind == "newline":
            line += 1
            line_start = end
            fresh_line = True
            position = end
            continue
        word = text[position:end]
        start_line, start_column = line, position - line_start + 1
        if "\n" in word:
            line += word.count("\n")
            line_start = position + word.rindex("\n") + 1
        if kind not in ("blank", "comment"):
            if kind == "symbol" or (kind == "name" and word in KEYWORDS):
                kind = word
            elif kind == "directive" and not fresh_line:
                kind, end = "bad", position + 1
                word, line, line_start = "#", start_line, position - start_column + 1
            elif kind == "number" and found and found["tail"]:
                kind = "bad"
            tokens.append(
                Token(kind, word, file, start_line, start_column, line, end - line_start + 1)
            )
            fresh_line = False
        position = end
    return tokens


def integer(text: str) -> tuple[int, int | None, bool]:
    """Value, width (None if not given) and signedness of a "number" token."""
    width, signed = None, False
    prefix = re.match(r"([0-9]+)([ws])", text)
    if prefix:
        width, signed = int(prefix[1]), prefix[2] == "s"
        text = text[prefix.end() :]
    digits = text.replace("_", "")
    base = {"x": 16, "b": 2, "o": 8, "d": 10}.get(digits[1:2].lower())
    return (int(digits, 10) if base is None else int(digits[2:], base)), width, signed
