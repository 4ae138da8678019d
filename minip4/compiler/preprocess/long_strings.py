"""Strings that span several lines, with the same result as in p4c.

p4c's preprocessor (cpp) is line-based: for cpp, a string ends with its line. Therefore it executes
directives, replaces macros and merges blanks in all lines after the first, and in the last line up
to the quote. For cpp, the text after this quote is a string, which it does not change. Comments are
preserved. Lines removed by directives become empty lines. If these are more than eight lines, cpp
writes a line marker.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from minip4.compiler.preprocess.lexer import Token, tokenize_text
from minip4.compiler.preprocess.macros import Macros

_UP_TO_QUOTE = re.compile(r'(?:[^"\\]|\\[\s\S])*')


class LongString:
    """A string whose end has not been found yet.

    `line` is the number of its last line so far; joined lines have the number of their first line.
    """

    def __init__(self, opened: Token, line: int) -> None:
        self.opened = opened
        self.parts = [opened.text]
        self.line = line

    def continued(
        self, line: list[Token], macros: Macros, output: list[Token]
    ) -> LongString | None:
        """Add the tokens of the next line, and return the string that is open after it.

        If the string ends in this line, the string and the tokens after it are appended to the
        output.
        """
        first = line[0]
        text = _printed(line, macros)
        self.parts.append("\n" * (first.line - self.line))
        self.line = first.line
        found = _UP_TO_QUOTE.match(text)
        assert found is not None
        if found.end() == len(text):
            self.parts.append(text)
            self.line += text.count("\n")
            return self
        self.parts.append(found[0] + '"')
        self.line += found[0].count("\n")
        whole = replace(
            self.opened, kind="quoted", text="".join(self.parts), end_line=self.line,
            end_column=found.end() + 2,
        )  # fmt: skip
        output.append(whole)
        rest = tokenize_text(text[found.end() + 1 :], first.file, self.line, whole.end_column)
        output += [token for token in rest if token.kind not in ("comment", "open")]
        return LongString(rest[-1], self.line) if rest and rest[-1].kind == "open" else None

    def unfinished(self) -> Token:
        """Return a token for an unterminated string at the end of the file.

        A valid program never has it.
        """
        opened = self.opened
        return replace(opened, kind="bad", text='"', end_column=opened.column + 1)


def _printed(line: list[Token], macros: Macros) -> str:
    """Return a line as cpp prints it, with macros replaced and white space as single blanks."""
    code: list[Token] = []
    tokens: list[Token] = []
    for token in line:
        if token.kind == "comment":
            tokens += [*macros.expand(code), token]
            code = []
        else:
            code.append(token)
    tokens += macros.expand(code)
    text = " " * (line[0].column - 1) + tokens[0].text if tokens else ""
    for last, token in pairwise(tokens):
        touches_comment = last.kind == "comment" and last.end_column == token.column
        text += (" " if token.before and not touches_comment else "") + token.text
    return text
