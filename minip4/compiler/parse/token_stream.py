"""Base class of all productions: the token stream, and the names of types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.preprocess.lexer import SOFT_KEYWORDS, Token
from minip4.compiler.source import Source

# maximum nesting of expressions, types and statements, because later passes recurse over the tree
DEEPEST_NESTING = 200
MOST_ARMS = 1500  # maximum number of `else if` in a chain, because each one is a level of the tree
MOST_RETRIES = 2  # maximum retries per token, for the few productions that need unlimited lookahead

BASE_TYPES = frozenset(["bit", "bool", "error", "int", "match_kind", "string", "varbit"])


class TokenStream:
    """A cursor in the tokens, and a stack of scopes that record which names are types."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.token = tokens[0]
        self.scopes: list[dict[str, bool]] = [{}]
        self.depth = 0
        self.arms = 0
        self.retries = 0

    # ------------------------------------------------------------ tokens

    def peek(self, distance: int = 1) -> Token:
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.position += 1
            self.token = self.tokens[self.position]
        return token

    def move_to(self, position: int) -> None:
        """Return to an earlier position, in order to try another production."""
        self.retries += position < self.position
        if self.retries > MOST_RETRIES * len(self.tokens):
            self.fail("parsing takes too many retries", "fewer nested parentheses")
        self.position = position
        self.token = self.tokens[position]

    def at(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def accept(self, kind: str) -> bool:
        if self.token.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str, where: str) -> Token:
        if self.token.kind != kind:
            if kind == ";":
                self.reject_open_line(where)
            self.unexpected(f"'{kind}' {where}")
        return self.advance()

    def reject_open_line(self, where: str) -> None:
        """Report a missing ';' at the end of its line, not at the start of the next line."""
        last = self.tokens[max(0, self.position - 1)]
        if last.file is self.token.file and last.end_line < self.token.line:
            place = Source(
                last.file, last.end_line, last.end_column, last.end_line, last.end_column + 1
            )
            raise P4Error("missing ';'", place, f"';' {where}")

    def unexpected(self, expected: str) -> NoReturn:
        token = self.token
        if token.kind == "end":
            self.fail("unexpected end of the program", expected)
        if token.kind == "bad":
            self.fail(_what_is_bad(token.text), expected)
        if token.kind == "name" and self.peek().kind in ("name", "(", "<", "[", "{"):
            hint = did_you_mean(token.text, self.known_types())
            if hint:
                self.fail(f"unexpected {token.text!r}{hint}", expected)
        self.fail(f"unexpected {token.text!r}", expected)

    def fail(self, message: str, expected: str = "") -> NoReturn:
        raise P4Error(message, self.token.source, expected)

    def since(self, first: Token) -> Source:
        """Return the source range from `first` to the token before the current one."""
        last = self.tokens[self.position - 1] if self.position else first
        if last.file is not first.file or last.line < first.line:
            return first.source
        return Source(first.file, first.line, first.column, last.end_line, max(last.end_column, 1))

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Limit the nesting of a production that can contain itself."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            self.fail(f"nested deeper than {DEEPEST_NESTING} levels", "a simpler program")
        try:
            yield
        finally:
            self.depth -= 1

    def arm(self) -> None:
        """Limit the number of `else if` in a chain."""
        self.arms += 1
        if self.arms > MOST_ARMS:
            self.fail(f"more than {MOST_ARMS} 'else if' in a chain", "a table, or a switch")

    # ------------------------------------------------------------ names

    def at_name(self) -> bool:
        return self.token.kind == "name" or self.token.kind in SOFT_KEYWORDS

    def name(self, what: str) -> Token:
        """Parse a name: IDENTIFIER, or a keyword that is not reserved here."""
        if not self.at_name():
            if self.token.text[:1].isalpha():
                self.fail(f"{self.token.text!r} is a keyword", what)
            self.unexpected(what)
        return self.advance()

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def declare(self, name: str, *, is_type: bool) -> None:
        self.scopes[-1][name] = is_type

    def is_type_name(self, token: Token) -> bool:
        if token.kind != "name" and token.kind not in SOFT_KEYWORDS:
            return False
        for scope in reversed(self.scopes):
            if token.text in scope:
                return scope[token.text]
        return False

    def at_type(self) -> bool:
        """Return whether a type may start here.

        `error.Name` also starts like a type, so callers must check further.
        """
        token = self.token
        if token.kind == "name":
            return self.is_type_name(token)
        if token.kind == "list":
            return self.peek().kind == "<"
        if token.kind == ".":
            return self.is_absolute_type_name(self.peek())
        return token.kind in BASE_TYPES or token.kind == "tuple" or self.is_type_name(token)

    def known_types(self) -> list[str]:
        return [name for scope in self.scopes for name, is_type in scope.items() if is_type]

    def is_absolute_type_name(self, token: Token) -> bool:
        return token.kind == "name" and self.scopes[0].get(token.text, False)


def _what_is_bad(text: str) -> str:
    if text.startswith("/*"):
        return "this comment is not closed"
    if text == '"':
        return "this string is not closed"
    if text[0].isdigit():
        return f"{text!r} is not a number"
    return f"unexpected character {text[0]!r}"
