"""Productions of types and expressions; comments show the grammar (spec section 7 and 8)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.token_stream import BASE_TYPES, TokenStream
from minip4.compiler.preprocess.lexer import Token, integer

# Binary operators, from the weakest to the strongest (spec section 8). `?:` is weaker than all.
PRECEDENCE = {
    operator: strength
    for strength, operators in enumerate(
        [
            ["||"],
            ["&&"],
            ["==", "!="],
            ["<", ">", "<=", ">="],
            ["|"],
            ["^"],
            ["&"],
            ["<<", ">>"],
            ["++", "+", "-", "|+|", "|-|"],
            ["*", "/", "%"],
        ],
        start=1,
    )
    for operator in operators
}
LONGEST_CHAIN = 400  # maximum operators of equal strength in a row: a + b + c + ...
WIDEST_INTEGER_TEXT = 4000  # maximum digits, since Python refuses to convert longer decimal numbers


class ExpressionParser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens

    # ------------------------------------------------------------ types (7)

    # typeRef: (baseType | typeName | tupleType | listType) ('[' expression ']')*
    def type_expression(self) -> syntax.TypeExpression:
        with self.tokens.nested():
            first = self.tokens.token
            result = self.plain_type()
            while self.tokens.accept("["):
                size = self.expression()
                self.tokens.expect("]", "after the size of an array")
                result = syntax.ArrayTypeName(self.tokens.since(first), result, size)
            return result

    # baseType: bool | error | ... | (bit | int | varbit) ['<' expression '>']
    # tupleType: tuple '<' typeArgs '>'    listType: list '<' typeArg '>'
    # typeName: ['.'] name ['<' typeArgs '>']
    def plain_type(self) -> syntax.TypeExpression:
        first = self.tokens.token
        if first.kind in ("bit", "int", "varbit"):
            return self.sized_type()
        if first.kind in BASE_TYPES or first.kind == "void":
            self.tokens.advance()
            return syntax.BaseTypeName(first.source, first.kind)
        if first.kind == "tuple":
            self.tokens.advance()
            elements = self.type_arguments()
            return syntax.TupleTypeName(self.tokens.since(first), elements)
        if first.kind == "list" and self.tokens.peek().kind == "<":
            self.tokens.advance()
            elements = self.type_arguments()
            if len(elements) != 1:
                raise P4Error("a list has one element type", first.source, "list<T>")
            return syntax.ListTypeName(self.tokens.since(first), elements[0])
        is_absolute = self.tokens.accept(".")
        if not self.tokens.at_name():
            self.tokens.unexpected("a type")
        name = self.tokens.advance()
        arguments = self.type_arguments() if self.tokens.at("<") else None
        return syntax.TypeName(self.tokens.since(first), name.text, is_absolute, arguments)

    def sized_type(self) -> syntax.TypeExpression:
        first = self.tokens.advance()
        width = None
        if self.tokens.accept("<"):
            width = self.expression(is_type_width=True)
            self.tokens.expect(">", f"after the width of {first.text}")
        elif first.kind == "varbit":
            self.tokens.unexpected("'<' and the largest width of the varbit")
        return syntax.BaseTypeName(self.tokens.since(first), first.kind, width)

    # typeArgs: '<' [typeArg (',' typeArg)*] '>'
    def type_arguments(self) -> list[syntax.TypeExpression]:
        self.tokens.expect("<", "before type arguments")
        arguments: list[syntax.TypeExpression] = []
        while not self.tokens.at(">"):
            arguments.append(self.type_argument())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(">", "after type arguments")
        return arguments

    # typeArg: typeRef | void | '_'
    def type_argument(self) -> syntax.TypeExpression:
        if self.tokens.at("_"):
            return syntax.BaseTypeName(self.tokens.advance().source, "_")
        return self.type_expression()

    # ------------------------------------------------------------ operators (8)

    # expression: binary ['?' expression ':' expression]
    def expression(self, *, is_type_width: bool = False) -> syntax.Expression:
        with self.tokens.nested():
            first = self.tokens.token
            condition = self.binary(1, is_type_width)
            if not self.tokens.accept("?"):
                return condition
            then = self.expression()
            self.tokens.expect(":", "in a conditional expression `condition ? a : b`")
            otherwise = self.expression(is_type_width=is_type_width)
            return syntax.Conditional(self.tokens.since(first), condition, then, otherwise)

    # binary: unary (operator binary)*, operators to the left first, stronger ones before weaker
    def binary(self, weakest: int, is_type_width: bool) -> syntax.Expression:
        first = self.tokens.token
        left = self.unary()
        for _ in range(LONGEST_CHAIN):
            operator = self.operator(is_type_width)
            strength = PRECEDENCE.get(operator, 0)
            if strength < weakest:
                return left
            self.tokens.advance()
            if operator == ">>":
                self.tokens.advance()
            right = self.binary(strength + 1, is_type_width)
            left = syntax.Binary(self.tokens.since(first), operator, left, right)
        self.tokens.fail(
            f"more than {LONGEST_CHAIN} operators in a row", "parentheses or variables"
        )

    def operator(self, is_type_width: bool) -> str:
        """Return the binary operator at the current token.

        '>' ends the width of a type, and two adjacent ones are `>>`.
        """
        if self.tokens.token.kind == ">":
            if is_type_width:
                return ""
            following = self.tokens.peek()
            if following.kind == ">" and self.tokens.token.touches(following):
                return ">>"
            if following.kind == ">=" and self.tokens.token.touches(following):
                return ""  # the assignment operator >>=
        return self.tokens.token.kind

    # unary: ('!' | '~' | '-' | '+') unary | '(' typeRef ')' unary | primary suffix*
    def unary(self) -> syntax.Expression:
        first = self.tokens.token
        with self.tokens.nested():
            if first.kind in ("!", "~", "-", "+"):
                self.tokens.advance()
                operand = self.unary()
                return syntax.Unary(self.tokens.since(first), first.kind, operand)
            if first.kind == "(":
                cast = self.cast()
                if cast is not None:
                    return cast
            return self.suffixes(self.primary(), first)

    def cast(self) -> syntax.Expression | None:
        """Parse `(type) unary`.

        Returns None, without reading anything, if the parenthesis contains an expression.
        """
        first, start = self.tokens.token, self.tokens.position
        self.tokens.advance()
        if self.tokens.at_type() and not (
            self.tokens.at("error") and self.tokens.peek().kind == "."
        ):
            target = self.type_expression()
            if self.tokens.accept(")"):
                return syntax.Cast(self.tokens.since(first), target, self.unary())
        self.tokens.move_to(start)
        return None

    # ------------------------------------------------------------ primaries and suffixes

    # primary: INTEGER | STRING | true | false | this | name | '(' expression ')' | '{' ... '}'
    #        | error | typeName | '...' | '_'
    def primary(self) -> syntax.Expression:
        token = self.tokens.token
        kind = token.kind
        if kind == "number":
            return self.int_literal()
        if kind == "quoted":
            self.tokens.advance()
            return syntax.StringLiteral(token.source, unquoted(token.text))
        if kind in ("true", "false"):
            self.tokens.advance()
            return syntax.BoolLiteral(token.source, kind == "true")
        if kind == "(":
            self.tokens.advance()
            inner = self.expression()
            self.tokens.expect(")", "to match '('")
            return inner
        if kind == "{":
            return self.braces()
        if kind == "{#}":
            return syntax.InvalidHeader(self.tokens.advance().source)
        if kind == "...":
            return syntax.DontCare(self.tokens.advance().source, kind)
        if kind == "this":
            return syntax.This(self.tokens.advance().source)
        if (kind == "error" and self.tokens.peek().kind == ".") or self.tokens.at_type():
            return syntax.TypeReference(token.source, self.plain_type())
        if kind == "." and self.tokens.peek().kind == "name":
            self.tokens.advance()
            return syntax.Name(self.tokens.since(token), self.tokens.advance().text, True)
        # valid as a name in a declaration, but not in an expression (appendix G: no nonTypeName)
        if kind == "list":
            self.tokens.fail("'list' is a keyword", "another name")
        if not self.tokens.at_name():
            self.tokens.unexpected("an expression")
        return syntax.Name(self.tokens.advance().source, token.text)

    def int_literal(self) -> syntax.Expression:
        token = self.tokens.advance()
        if len(token.text) > WIDEST_INTEGER_TEXT:
            raise P4Error("this number is too long", token.source, "at most 4000 digits")
        try:
            value, width, is_signed = integer(token.text)
        except ValueError:
            raise P4Error(f"{token.text!r} is not a number", token.source) from None
        return syntax.IntLiteral(token.source, value, width, is_signed, token.text)

    # '{' [expression (',' expression)*] [','] '}'  |  '{' name '=' expression (',' ...)* [','] '}'
    def braces(self) -> syntax.Expression:
        first = self.tokens.advance()
        elements: list[syntax.Expression] = []
        values: list[syntax.NamedValue] = []
        has_dots = False
        while not self.tokens.at("}") and not has_dots:
            if self.tokens.accept("..."):
                has_dots = True
            elif self.tokens.at_name() and self.tokens.peek().kind == "=":
                values.append(self.named_value())
            else:
                elements.append(self.expression())
            if not self.tokens.accept(","):
                break
        self.tokens.expect("}", "or ',' in a list in braces")
        source = self.tokens.since(first)
        if values and elements:
            raise P4Error("values with and without names are mixed", source, "{a = 1, b = 2}")
        if values:
            return syntax.StructExpression(source, values, has_dots)
        return syntax.ListExpression(source, elements, has_dots)

    def named_value(self) -> syntax.NamedValue:
        name = self.tokens.advance()
        self.tokens.advance()
        value = self.expression()
        return syntax.NamedValue(self.tokens.since(name), name.text, value)

    # suffix: '.' name | '[' expression [(':' | '+:') expression] ']' | ['<' typeArgs '>'] arguments
    def suffixes(self, base: syntax.Expression, first: Token) -> syntax.Expression:
        for _ in range(LONGEST_CHAIN):
            if self.tokens.accept("."):
                name = self.tokens.name("the name of a member after '.'")
                base = syntax.Member(self.tokens.since(first), base, name.text)
            elif self.tokens.at("["):
                base = self.subscript(base, first)
            elif self.tokens.at("("):
                arguments = self.arguments()
                base = syntax.Call(self.tokens.since(first), base, [], arguments)
            elif self.tokens.at("<"):
                types = self.call_type_arguments()
                if types is None:
                    return base
                arguments = self.arguments()
                base = syntax.Call(self.tokens.since(first), base, types, arguments)
            else:
                return base
        self.tokens.fail(f"more than {LONGEST_CHAIN} members in a row")

    def subscript(self, base: syntax.Expression, first: Token) -> syntax.Expression:
        self.tokens.advance()
        left = self.expression()
        right, separator = None, self.tokens.token.kind
        if separator in (":", "+:"):
            self.tokens.advance()
            right = self.expression()
        self.tokens.expect("]", "after an index")
        source = self.tokens.since(first)
        if right is None:
            return syntax.Index(source, base, left)
        if separator == ":":
            return syntax.Slice(source, base, left, right)
        return syntax.PartSelect(source, base, left, right)

    def call_type_arguments(self) -> list[syntax.TypeExpression] | None:
        """Parse `<types>` before `(`.

        Returns None, without reading anything, if `<` is a comparison.
        """
        following = self.tokens.peek()
        starts_type = following.kind in (*BASE_TYPES, "tuple", "list", "void", "_", ".", ">")
        if not starts_type and not self.tokens.is_type_name(following):
            return None
        start = self.tokens.position
        try:
            types = self.type_arguments()
        except P4Error:
            self.tokens.move_to(start)
            return None
        if self.tokens.at("("):
            return types
        self.tokens.move_to(start)
        return None

    # argumentList: '(' [argument (',' argument)*] ')'
    def arguments(self) -> list[syntax.Argument]:
        self.tokens.expect("(", "before arguments")
        result: list[syntax.Argument] = []
        while not self.tokens.at(")"):
            result.append(self.argument())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "or ',' after an argument")
        return result

    # argument: [name '='] (expression | '_')
    def argument(self) -> syntax.Argument:
        first = self.tokens.token
        name = None
        if self.tokens.at_name() and self.tokens.peek().kind == "=":
            name = self.tokens.advance().text
            self.tokens.advance()
        if self.tokens.at("_"):
            value: syntax.Expression = syntax.DontCare(self.tokens.advance().source, "_")
        else:
            value = self.expression()
        return syntax.Argument(self.tokens.since(first), name, value)

    # ------------------------------------------------------------ keysets (8.14)

    # keysetExpression: '(' simpleKeyset (',' simpleKeyset)* ')' | simpleKeyset
    def keyset(self) -> list[syntax.Expression]:
        """Parse keysets up to the ':' that follows, without the ':'."""
        if self.tokens.at("("):
            start = self.tokens.position
            try:
                self.tokens.advance()
                keys = [self.simple_keyset()]
                while self.tokens.accept(","):
                    keys.append(self.simple_keyset())
                self.tokens.expect(")", "or ',' after a keyset")
                if self.tokens.at(":"):
                    return keys
            except P4Error:
                if self.tokens.at(":", ";", "end"):
                    raise
            self.tokens.move_to(start)  # the parenthesis belongs to an expression
        return [self.simple_keyset()]

    # simpleKeyset: default | '_' | expression [('&&&' | '..') expression]
    def simple_keyset(self) -> syntax.Expression:
        first = self.tokens.token
        if first.kind in ("default", "_"):
            self.tokens.advance()
            return syntax.DontCare(first.source, first.kind)
        left = self.expression()
        if self.tokens.accept("&&&"):
            mask = self.expression()
            return syntax.Mask(self.tokens.since(first), left, mask)
        if self.tokens.accept(".."):
            high = self.expression()
            return syntax.Range(self.tokens.since(first), left, high)
        return left


def unquoted(text: str) -> str:
    """Return the value of a string literal, with the escapes `\\"`, `\\\\` and `\\n` (6.4.3.3)."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    result, escaped = [], False
    for c in inner:
        if escaped:
            result.append({'"': '"', "\\": "\\", "n": "\n", "\n": ""}.get(c, "\\" + c))
            escaped = False
        elif c == "\\":
            escaped = True
        else:
            result.append(c)
    return "".join(result)
