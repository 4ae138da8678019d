"""Productions of annotations (spec section 18)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.expressions import ExpressionParser
from minip4.compiler.preprocess.lexer import Token


class AnnotationParser(ExpressionParser):
    # annotations: ('@' name ['(' tokens ')' | '[' expressions | name '=' expression ... ']'])*
    def annotations(self) -> list[syntax.Annotation]:
        result = []
        while self.at("@"):
            result.append(self.annotation())
        return result

    def annotation(self) -> syntax.Annotation:
        first = self.advance()
        if not (self.token.text[:1].isalpha() or self.token.text[:1] == "_"):
            self.unexpected("the name of an annotation")
        name = self.advance()
        if name.text == "pragma":
            return self.pragma(first)
        if self.at("("):
            return self.unstructured_annotation(first, name.text)
        if not self.accept("["):
            return syntax.Annotation(self.since(first), name.text, [], [])
        body: list[syntax.Expression] = []
        pairs: list[syntax.NamedValue] = []
        while not self.at("]"):
            if self.at_name() and self.peek().kind == "=":
                pairs.append(self.named_value())
            else:
                body.append(self.expression())
            if not self.accept(","):
                break
        self.expect("]", "after an annotation")
        result = syntax.Annotation(self.since(first), name.text, body, pairs, "", True)
        result.values = annotation_values(body)
        return result

    # '@' pragma name tokens-to-the-end-of-the-line (as in P4-14)
    def pragma(self, first: Token) -> syntax.Annotation:
        name = self.advance()
        words: list[str] = []
        while self.token.line == first.line and not self.at("end"):
            words.append(self.advance().text)
        return syntax.Annotation(self.since(first), name.text, [], [], " ".join(words))

    # '@' name '(' any tokens with matching parentheses ')'
    def unstructured_annotation(self, first: Token, name: str) -> syntax.Annotation:
        self.advance()
        start, depth = self.position, 0
        while depth > 0 or not self.at(")"):
            if self.at("end"):
                self.unexpected("')' to end the annotation")
            depth += self.at("(") - self.at(")")
            self.advance()
        text = " ".join(t.text for t in self.tokens[start : self.position])
        end = self.position
        body = self.annotation_body(start, end)
        self.advance()
        result = syntax.Annotation(self.since(first), name, body, [], text)
        result.values = annotation_values(body)
        return result

    def annotation_body(self, start: int, end: int) -> list[syntax.Expression]:
        """The tokens as a list of expressions, or [] if they are none."""
        body: list[syntax.Expression] = []
        self.move_to(start)
        try:
            while self.position < end:
                body.append(self.expression())
                if self.position < end:
                    self.expect(",", "between values")
        except P4Error:
            body = []
        if self.position != end:
            body = []
        self.move_to(end)
        return body


def annotation_values(body: list[syntax.Expression]) -> list[syntax.Constant]:
    """The values of a body's literals (the checker adds those of named constants)."""
    literals = (syntax.IntLiteral, syntax.StringLiteral, syntax.BoolLiteral)
    return [item.value for item in body if isinstance(item, literals)]
