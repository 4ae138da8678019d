"""Productions of annotations (spec section 18)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.expressions import ExpressionParser
from minip4.compiler.parse.token_stream import TokenStream
from minip4.compiler.preprocess.lexer import Token


class AnnotationParser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.expressions = ExpressionParser(tokens)

    # annotations: ('@' name ['(' tokens ')' | '[' expressions | name '=' expression ... ']'])*
    def annotations(self) -> list[syntax.Annotation]:
        result = []
        while self.tokens.at("@"):
            result.append(self.annotation())
        return result

    def annotation(self) -> syntax.Annotation:
        first = self.tokens.advance()
        if not (self.tokens.token.text[:1].isalpha() or self.tokens.token.text[:1] == "_"):
            self.tokens.unexpected("the name of an annotation")
        name = self.tokens.advance()
        if name.text == "pragma":
            return self.pragma(first)
        if self.tokens.at("("):
            return self.unstructured_annotation(first, name.text)
        if not self.tokens.accept("["):
            return syntax.Annotation(self.tokens.since(first), name.text, [], [])
        body: list[syntax.Expression] = []
        pairs: list[syntax.NamedValue] = []
        while not self.tokens.at("]"):
            if self.tokens.at_name() and self.tokens.peek().kind == "=":
                pairs.append(self.expressions.named_value())
            else:
                body.append(self.expressions.expression())
            if not self.tokens.accept(","):
                break
        self.tokens.expect("]", "after an annotation")
        result = syntax.Annotation(self.tokens.since(first), name.text, body, pairs, "", True)
        result.values = annotation_values(body)
        return result

    # '@' pragma name tokens-to-the-end-of-the-line (as in P4-14)
    def pragma(self, first: Token) -> syntax.Annotation:
        name = self.tokens.advance()
        words: list[str] = []
        while self.tokens.token.line == first.line and not self.tokens.at("end"):
            words.append(self.tokens.advance().text)
        return syntax.Annotation(self.tokens.since(first), name.text, [], [], " ".join(words))

    # '@' name '(' any tokens with matching parentheses ')'
    def unstructured_annotation(self, first: Token, name: str) -> syntax.Annotation:
        self.tokens.advance()
        start, depth = self.tokens.position, 0
        while depth > 0 or not self.tokens.at(")"):
            if self.tokens.at("end"):
                self.tokens.unexpected("')' to end the annotation")
            depth += self.tokens.at("(") - self.tokens.at(")")
            self.tokens.advance()
        text = " ".join(t.text for t in self.tokens.tokens[start : self.tokens.position])
        end = self.tokens.position
        body = self.annotation_body(start, end)
        self.tokens.advance()
        result = syntax.Annotation(self.tokens.since(first), name, body, [], text)
        result.values = annotation_values(body)
        return result

    def annotation_body(self, start: int, end: int) -> list[syntax.Expression]:
        """Return the tokens as a list of expressions, or [] if they are not expressions."""
        body: list[syntax.Expression] = []
        self.tokens.move_to(start)
        try:
            while self.tokens.position < end:
                body.append(self.expressions.expression())
                if self.tokens.position < end:
                    self.tokens.expect(",", "between values")
        except P4Error:
            body = []
        if self.tokens.position != end:
            body = []
        self.tokens.move_to(end)
        return body


def annotation_values(body: list[syntax.Expression]) -> list[syntax.Constant]:
    """Return the values of literals in a body.

    The checker adds the values of named constants.
    """
    literals = (syntax.IntLiteral, syntax.StringLiteral, syntax.BoolLiteral)
    return [item.value for item in body if isinstance(item, literals)]
