"""Macros of the preprocessor and their expansion in tokens, as in C (spec 6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minip4.compiler.errors import P4Error
from minip4.compiler.preprocess.lexer import Token, tokenize_text

MOST_TOKENS = 300_000  # maximum tokens in a program; stops macros that grow exponentially


@dataclass(slots=True)
class Macro:
    """A macro; `parameters` is None if the macro is object-like."""

    parameters: list[str] | None
    body: list[Token]


class Macros:
    """The macros that are defined at one point of the program."""

    def __init__(self) -> None:
        self.known: dict[str, Macro] = {}

    def define(self, token: Token, rest: str) -> None:
        """Define the macro in a `#define` directive; `token` is the first token after `#define`."""
        tokens = directive_tokens(token, rest)
        if not tokens or not is_word(tokens[0]):
            raise P4Error("#define without a name", token.source, "#define NAME tokens")
        name, parameters, body = tokens[0], None, tokens[1:]
        if body and body[0].kind == "(" and name.touches(body[0]):
            close = next((i for i, t in enumerate(body) if t.kind == ")"), None)
            if close is None:
                raise P4Error("missing ')' after the parameters of the macro", token.source)
            inner = body[1:close]
            parameters = [t.text for t in inner if t.kind != ","]
            if any((t.kind == ",") != (i % 2 == 1) for i, t in enumerate(inner)) or (
                len(inner) % 2 == 0 and inner
            ):
                raise P4Error("bad macro parameters", token.source, "#define NAME(a, b) tokens")
            body = body[close + 1 :]
        self.known[name.text] = Macro(parameters, _with_paste_operators(body))

    def expand(self, tokens: Sequence[Token]) -> list[Token]:
        """Return the tokens with all macros replaced.

        Each token records the macros from which it comes.
        """
        todo = [(token, frozenset[str]()) for token in reversed(tokens)]
        output: list[Token] = []
        while todo:
            token, hidden = todo.pop()
            macro = self.known.get(token.text)
            if macro is None or token.text in hidden or token.kind in ("quoted", "open"):
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
            body = [_moved(t, token) for t in body]
            if body:
                body[0].before = token.before
            todo += [(t, hidden) for t in reversed(body)]
            if len(todo) + len(output) > MOST_TOKENS:
                raise P4Error(f"macro {token.text} expands without end", token.source)
        return output

    def fill_in(self, use: Token, macro: Macro, arguments: list[list[Token]]) -> list[Token]:
        """Return the body of a function-like macro with its parameters replaced."""
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
                quoted = f'"{_stringified(argument)}"'
                result.append(replace(use, kind="quoted", text=quoted, before=body[i - 1].before))
            else:
                whole = argument if _next_to_paste(body, i) else self.expand(argument)
                if whole:
                    result.append(replace(whole[0], before=token.before))
                    result += whole[1:]
        return _paste(result)


def directive_tokens(directive: Token, rest: str) -> list[Token]:
    """Return the tokens of the rest of a directive, with their locations and spacing."""
    return tokenize_text(rest, directive.file, directive.line)


def is_word(token: Token) -> bool:
    return token.text[:1].isalpha() or token.text[:1] == "_"


def _moved(token: Token, use: Token) -> Token:
    """Return a copy of the token at the location where its macro is used."""
    return Token(
        token.kind, token.text, use.file, use.line, use.column, use.end_line, use.end_column,
        token.before,
    )  # fmt: skip


def _special(token: Token) -> Token:
    if token.text == "__LINE__":
        return replace(token, kind="number", text=str(token.line))
    if token.text == "__FILE__":
        return replace(token, kind="quoted", text=f'"{token.file.path}"')
    return token


def _arguments(
    use: Token, macro: Macro, todo: list[tuple[Token, frozenset[str]]]
) -> list[list[Token]]:
    """Remove the arguments `(a, b)` of a function-like macro from `todo`, and return them."""
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
        raise P4Error(f"the arguments of macro {use.text} have no closing ')'", use.source)
    assert macro.parameters is not None
    if arguments == [[]] and not macro.parameters:
        arguments = []
    if len(arguments) != len(macro.parameters):
        count = len(macro.parameters)
        message = f"macro {use.text} takes {count} argument(s), {len(arguments)} given"
        raise P4Error(message, use.source)
    return arguments


def _with_paste_operators(body: list[Token]) -> list[Token]:
    """Return the body of a macro, with each `##` as one token."""
    result: list[Token] = []
    for token in body:
        if token.text == "#" and result and result[-1].text == "#" and result[-1].touches(token):
            result[-1] = replace(token, kind="##", text="##")
        else:
            result.append(token)
    return result


def _next_to_paste(body: list[Token], i: int) -> bool:
    """Return whether `##` precedes or follows body[i]. Arguments are not expanded there."""
    return any(t.kind == "##" for t in (*body[max(0, i - 1) : i], *body[i + 1 : i + 2]))


def _paste(tokens: list[Token]) -> list[Token]:
    """Join the tokens before and after each `##`."""
    if not any(t.kind == "##" for t in tokens):
        return tokens
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        if tokens[i].kind == "##" and result and i + 1 < len(tokens):
            left = result.pop()
            joined = tokenize_text(left.text + tokens[i + 1].text, left.file, left.line)
            joined[0].before = left.before
            result += [_moved(t, left) for t in joined]
            i += 2
        else:
            result.append(tokens[i])
            i += 1
    return result


def _stringified(argument: list[Token]) -> str:
    """Return the result of applying `#` to an argument: its text with single blanks."""
    text = ""
    for i, token in enumerate(argument):
        quoted = token.text
        if token.kind == "quoted":
            quoted = quoted.replace("\\", "\\\\").replace('"', '\\"')
        text += (" " if i and token.before else "") + quoted
    return text
