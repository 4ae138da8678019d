"""Expressions of #if."""

from __future__ import annotations

from collections.abc import Callable

from minip4.compiler.errors import P4Error
from minip4.compiler.preprocess.lexer import Token, integer

_MAX_SHIFT = 63

_PRECEDENCE: list[dict[str, Callable[[int, int], int]]] = [
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: a // b, "%": lambda a, b: a % b},
]


def evaluate(tokens: list[Token], directive: Token) -> int:
    """Return the value of an #if expression.

    Integers and operators are as in C; other names count as 0.
    """
    return _IfExpression(tokens, directive).value()


class _IfExpression:
    def __init__(self, tokens: list[Token], directive: Token) -> None:
        self.directive = directive
        self.tokens = tokens
        self.position = 0

    def value(self) -> int:
        result = self.binary(0, 0)
        if self.position < len(self.tokens):
            raise self.bad(f"unexpected {self.tokens[self.position].text!r}")
        return result

    def bad(self, what: str) -> P4Error:
        return P4Error(f"bad #if: {what}", self.directive.source, "an integer expression")

    def binary(self, level: int, depth: int) -> int:
        if level == len(_PRECEDENCE):
            return self.unary(depth)
        left = self.binary(level + 1, depth)
        while (operator := self.peek()) in _PRECEDENCE[level]:
            self.position += 2 if operator == ">>" else 1
            right = self.binary(level + 1, depth)
            if operator in ("<<", ">>") and not 0 <= right <= _MAX_SHIFT:
                raise self.bad(f"shift by {right}, not by 0 to {_MAX_SHIFT}")
            if operator in "/%" and right == 0:
                raise self.bad("division by zero")
            left = _PRECEDENCE[level][operator](left, right)
        return left

    def peek(self) -> str:
        if self.position == len(self.tokens):
            return ""
        text = self.tokens[self.position].text
        following = self.tokens[self.position + 1 : self.position + 2]
        # the lexer does not join > and >, because types may end with both
        is_shift = text == ">" and bool(following) and following[0].text == ">"
        return ">>" if is_shift and not following[0].before else text

    def unary(self, depth: int) -> int:
        if depth > 50:
            raise self.bad("nested too deeply")
        if self.position == len(self.tokens):
            raise self.bad("it ends too early")
        token = self.tokens[self.position]
        self.position += 1
        if token.kind == "number":
            return integer(token.text)[0]
        if token.text == "(":
            inner = self.binary(0, depth + 1)
            if self.peek() != ")":
                raise self.bad("')' is missing")
            self.position += 1
            return inner
        if token.text in ("!", "-", "+", "~"):
            operand = self.unary(depth + 1)
            return {"!": int(not operand), "-": -operand, "+": operand, "~": ~operand}[token.text]
        if token.text[0].isalpha() or token.text[0] == "_":
            return 1 if token.text == "true" else 0
        raise self.bad(f"unexpected {token.text!r}")
