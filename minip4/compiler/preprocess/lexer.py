"""The lexer: converts the text of a file to tokens, including directives (spec section 6.2)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
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

# Keywords that are ordinary names wherever the grammar does not require them (6.2).
SOFT_KEYWORDS = frozenset(
    ["actions", "apply", "entries", "key", "list", "priority", "state", "type"]
)


@dataclass(slots=True, eq=False)
class Token:
    """A token.

    `kind` is "name", "number", "quoted", "directive", "bad", "end", or the keyword or symbol
    itself.

    The preprocessor also uses "comment" and "open" (the part of an unterminated string up to the
    end of the line). `end_column` differs from column + len(text) if a macro has inserted the
    token. `before` is "\\n" if the token begins a line, " " if white space or a comment precedes
    the token, and "" otherwise.
    """

    kind: str
    text: str
    file: SourceFile
    line: int
    column: int
    end_line: int
    end_column: int
    before: str = ""

    @property
    def source(self) -> Source:
        return Source(self.file, self.line, self.column, self.end_line, self.end_column)

    def touches(self, following: Token) -> bool:
        """Return whether the next token follows without white space (`> >` is not a shift)."""
        return not following.before and self.file is following.file


_COMMENT = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""
      (?P<blank>[ \t\r\f\v]+)
    | (?P<newline>\n)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<comment>{_COMMENT})
    | (?P<number>(?:[0-9]+[ws])?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+
        |[0-9][0-9_]*)(?P<tail>[A-Za-z0-9_]*))
    | (?P<quoted>{_STRING})
    | (?P<open>"[^\n]*)
    | (?P<bad>'(?:(?:[^'\\\n]|\\.)*'|[^\n]*))
    | (?P<symbol>\{{\#\}}|&&&|&&|&=|\|\||\|\+\|=?|\|-\|=?|\|=|\.\.\.|\.\.|<<=|<<|<=|>=|==|!=
        |\+\+|\+:|\+=|-=|\*=|/=|%=|\^=|[-+*/%&|^~!<>=?:;,.(){{}}\[\]@])
    | (?P<directive>\#(?:[^\n/"]|{_COMMENT}|/|{_STRING}|")*)
    """,
    re.VERBOSE,
)
_NEWLINE = re.compile(r"\n")
_JOIN = re.compile(r"\\[ \t\f\v]*\r?\n")


def tokenize(file: SourceFile) -> list[Token]:
    """Return all tokens of a file; a line that starts with `#` is one "directive" token.

    Invalid text becomes a "bad" token, because only the parser knows whether it matters.
    """
    return tokenize_text(file.text, file, 1, fresh_line=True)


def tokenize_text(
    text: str, file: SourceFile, line: int, column: int = 1, *, fresh_line: bool = False
) -> list[Token]:
    """Tokenize a part of a file like tokenize().

    `fresh_line` is True if the part begins at the start of a line.
    """
    positions = _Positions(text, line, column)
    text = _JOIN.sub("", text)
    tokens: list[Token] = []
    offset = 0
    before = "\n" if fresh_line else ""
    match = _TOKEN.match
    while offset < len(text):
        found = match(text, offset)
        if found is None:
            kind, end = "bad", offset + 1
        elif text.startswith("/*", offset) and found.lastgroup == "symbol":
            kind, end = "bad", len(text)  # an unterminated comment
        else:
            kind, end = found.lastgroup or "bad", found.end()
        if kind in ("blank", "newline"):
            before = "\n" if kind == "newline" else before or " "
            fresh_line = fresh_line or kind == "newline"
            offset = end
            continue
        word = text[offset:end]
        if kind == "symbol" or (kind == "name" and word in KEYWORDS):
            kind = word
        elif kind == "directive" and not fresh_line:
            kind, end, word = "bad", offset + 1, "#"
        elif kind == "number" and found and found["tail"]:
            kind = "bad"
        start, finish = positions.of(offset), positions.of(end, is_end=True)
        tokens.append(Token(kind, word, file, *start, *finish, before))
        is_comment = kind == "comment"
        before = " " if is_comment else ""
        fresh_line = fresh_line and is_comment
        offset = end
    return tokens


class _Positions:
    """Converts offsets in a text with joined lines to lines and columns of the original text."""

    def __init__(self, text: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        self.starts = [0, *(newline.end() for newline in _NEWLINE.finditer(text))]
        self.joins: list[int] = []  # offsets of the joins
        self.removed = [0]  # numbers of removed characters before the first, second, ... join
        for join in _JOIN.finditer(text):
            self.joins.append(join.start() - self.removed[-1])
            self.removed.append(self.removed[-1] + len(join[0]))

    def of(self, offset: int, *, is_end: bool = False) -> tuple[int, int]:
        """Return line and column.

        If a token ends at a line join, the position is before the join. If it starts there, the
        position is after the join.
        """
        written = offset
        if self.joins:
            count = bisect_left(self.joins, offset) if is_end else bisect_right(self.joins, offset)
            written += self.removed[count]
        number = bisect_right(self.starts, written) - 1
        column = written - self.starts[number] + (1 if number else self.column)
        return self.line + number, column


def integer(text: str) -> tuple[int, int | None, bool]:
    """Return the value, width (None if not given) and signedness of a "number" token."""
    width, signed = None, False
    prefix = re.match(r"([0-9]+)([ws])", text)
    if prefix:
        width, signed = int(prefix[1]), prefix[2] == "s"
        text = text[prefix.end() :]
    digits = text.replace("_", "")
    base = {"x": 16, "b": 2, "o": 8, "d": 10}.get(digits[1:2].lower())
    return (int(digits, 10) if base is None else int(digits[2:], base)), width, signed
