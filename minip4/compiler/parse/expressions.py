"""Productions of types and expressions. Above each: what it reads (spec section 7 and 8)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.token_stream import BASE_TYPES, TokenStream
from minip4.compiler.preprocess.lexer import Token, integer

# Binding strength of binary operators (8: from weakest to strongest); ?: is weaker than all.
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
LONGEST_CHAIN = 400  # of operators of one strength: a + b + c + ...
WIDEST_INTEGER_TEXT = 4000  # characters: Python refuses to convert longer decimal numbers


class ExpressionParser(TokenStream):
    # ------------------------------------------------------------ types (7)

    # typeRef: (baseType | typeName | tupleType | listType) ('[' expression ']')*
    def type_expression(self) -> syntax.TypeExpression:
        with self.nested():
            first = self.token
            result = self.plain_type()
            while self.accept("["):
                size = self.expression()
                self.expect("]", "after the size of an array")
                result = syntax.ArrayTypeName(self.since(first), result, size)
            return result

    # baseType: bool | error | ... | (bit | int | varbit) ['<' expression '>']
    # tupleType: tuple '<' typeArgs '>'    listType: list '<' typeArg '>'
    # typeName: ['.'] name ['<' typeArgs '>']
    def plain_type(self) -> syntax.TypeExpression:
        first = self.token
        if first.kind in ("bit", "int", "varbit"):
            return self.sized_type()
        if first.kind in BASE_TYPES or first.kind == "void":
            self.advance()
            return syntax.BaseTypeName(first.source, first.kind)
        if first.kind == "tuple":
            self.advance()
            elements = self.type_arguments()
            return syntax.TupleTypeName(self.since(first), elements)
        if first.kind == "list" and self.peek().kind == "<":
            self.advance()
            elements = self.type_arguments()
            if len(elements) != 1:
                raise P4Error("a list has one element type", first.source, "list<T>")
            return syntax.ListTypeName(self.since(first), elements[0])
        is_absolute = self.accept(".")
        if not self.at_name():
            self.unexpected("a type")
        name = self.advance()
        arguments = self.type_arguments() if self.at("<") else None
        return syntax.TypeName(self.since(first), name.text, is_absolute, arguments)

    def sized_type(self) -> syntax.TypeExpression:
        first = self.advance()
        width = None
        if self.accept("<"):
            width = self.expression(is_type_width=True)
            self.expect(">", f"after the width of {first.text}")
        elif first.kind == "varbit":
            self.unexpected("'<' and the largest width of the varbit")
        return syntax.BaseTypeName(self.since(first), first.kind, width)

    # typeArgs: '<' [typeArg (',' typeArg)*] '>'
    def type_arguments(self) -> list[syntax.TypeExpression]:
        self.expect("<", "before type arguments")
        arguments: list[syntax.TypeExpression] = []
        while not self.at(">"):
            arguments.append(self.type_argument())
            if not self.accept(","):
                break
        self.expect(">", "after type arguments")
        return arguments

    # typeArg: typeRef | void | '_'
    def type_argument(self) -> syntax.TypeExpression:
        if self.at("_"):
            return syntax.BaseTypeName(self.advance().source, "_")
        return self.type_expression()

    # ------------------------------------------------------------ operators (8)

    # expression: binary ['?' expression ':' expression]
    def expression(self, *, is_type_width: bool = False) -> syntax.Expression:
        with self.nested():
            first = self.token
            condition = self.binary(1, is_type_width)
            if not self.accept("?"):
                return condition
            then = self.expression()
            self.expect(":", "in a conditional expression `condition ? a : b`")
            otherwise = self.expression(is_type_width=is_type_width)
            return syntax.Conditional(self.since(first), condition, then, otherwise)

    # binary: unary (operator binary)*, operators to the left first, stronger ones before weaker
    def binary(self, weakest: int, is_type_width: bool) -> syntax.Expression:
        first = self.token
        left = self.unary()
        for _ in range(LONGEST_CHAIN):
            operator = self.operator(is_type_width)
            strength = PRECEDENCE.get(operator, 0)
            if strength < weakest:
                return left
            self.advance()
            if operator == ">>":
                self.advance()
            right = self.binary(strength + 1, is_type_width)
            left = syntax.Binary(self.since(first), operator, left, right)
        self.fail(f"more than {LONGEST_CHAIN} operators in a row", "parentheses or variables")

    def operator(self, is_type_width: bool) -> str:
        """The binary operator here; '>' ends the width of a type, two touching ones are `>>`."""
        if self.token.kind == ">":
            if is_type_width:
                return ""
            following = self.peek()
            if following.kind == ">" and self.token.touches(following):
                return ">>"
            if following.kind == ">=" and self.token.touches(following):
                return ""  # the assignment >>=
        return self.token.kind

    # unary: ('!' | '~' | '-' | '+') unary | '(' typeRef ')' unary | primary suffix*
    def unary(self) -> syntax.Expression:
        first = self.token
        with self.nested():
            if first.kind in ("!", "~", "-", "+"):
                self.advance()
                operand = self.unary()
                return syntax.Unary(self.since(first), first.kind, operand)
            if first.kind == "(":
                cast = self.cast()
                if cast is not None:
                    return cast
            return self.suffixes(self.primary(), first)

    def cast(self) -> syntax.Expression | None:
        """`(type) unary`, or None (and nothing read) if the parenthesis holds an expression."""
        first, start = self.token, self.position
        self.advance()
        if self.at_type() and not (self.at("error") and self.peek().kind == "."):
            target = self.type_expression()
            if self.accept(")"):
                return syntax.Cast(self.since(first), target, self.unary())
        self.move_to(start)
        return None

    # ------------------------------------------------------------ primaries and suffixes

    # primary: INTEGER | STRING | true | false | this | name | '(' expression ')' | '{' ... '}'
    #        | error | typeName | '...' | '_'
    def primary(self) -> syntax.Expression:
        token = self.token
        kind = token.kind
        if kind == "number":
            return self.int_literal()
        if kind == "quoted":
            self.advance()
            return syntax.StringLiteral(token.source, unquoted(token.text))
        if kind in ("true", "false"):
            self.advance()
            return syntax.BoolLiteral(token.source, kind == "true")
        if kind == "(":
            self.advance()
            inner = self.expression()
            self.expect(")", "to match '('")
            return inner
        if kind == "{":
            return self.braces()
        if kind == "{#}":
            return syntax.InvalidHeader(self.advance().source)
        if kind == "...":
            return syntax.DontCare(self.advance().source, kind)
        if kind == "this":
            return syntax.This(self.advance().source)
        if (kind == "error" and self.peek().kind == ".") or self.at_type():
            return syntax.TypeReference(token.source, self.plain_type())
        if kind == "." and self.peek().kind == "name":
            self.advance()
            return syntax.Name(self.since(token), self.advance().text, True)
        if not self.at_name():
            self.unexpected("an expression")
        return syntax.Name(self.advance().source, token.text)

    def int_literal(self) -> syntax.Expression:
        token = self.advance()
        if len(token.text) > WIDEST_INTEGER_TEXT:
            raise P4Error("this number is too long", token.source, "at most 4000 digits")
        try:
            value, width, is_signed = integer(token.text)
        except ValueError:
            raise P4Error(f"{token.text!r} is no number", token.source) from None
        return syntax.IntLiteral(token.source, value, width, is_signed, token.text)

    # '{' [expression (',' expression)*] [','] '}'  |  '{' name '=' expression (',' ...)* [','] '}'
    def braces(self) -> syntax.Expression:
        first = self.advance()
        elements: list[syntax.Expression] = []
        values: list[syntax.NamedValue] = []
        has_dots = False
        while not self.at("}") and not has_dots:
            if self.accept("..."):
                has_dots = True
            elif self.at_name() and self.peek().kind == "=":
                values.append(self.named_value())
            else:
                elements.append(self.expression())
            if not self.accept(","):
                break
        self.expect("}", "or ',' in a list in braces")
        source = self.since(first)
        if values and elements:
            raise P4Error("values with and without names are mixed", source, "{a = 1, b = 2}")
        if values:
            return syntax.StructExpression(source, values, has_dots)
        return syntax.ListExpression(source, elements, has_dots)

    def named_value(self) -> syntax.NamedValue:
        name = self.advance()
        self.advance()
        value = self.expression()
        return syntax.NamedValue(self.since(name), name.text, value)

    # suffix: '.' name | '[' expression [(':' | '+:') expression] ']' | ['<' typeArgs '>'] arguments
    def suffixes(self, base: syntax.Expression, first: Token) -> syntax.Expression:
        for _ in range(LONGEST_CHAIN):
            if self.accept("."):
                name = self.name("the name of a member after '.'")
                base = syntax.Member(self.since(first), base, name.text)
            elif self.at("["):
                base = self.subscript(base, first)
            elif self.at("("):
                arguments = self.arguments()
                base = syntax.Call(self.since(first), base, [], arguments)
            elif self.at("<"):
                types = self.call_type_arguments()
                if types is None:
                    return base
                arguments = self.arguments()
                base = syntax.Call(self.since(first), base, types, arguments)
            else:
                return base
        self.fail(f"more than {LONGEST_CHAIN} members in a row")

    def subscript(self, base: syntax.Expression, first: Token) -> syntax.Expression:
        self.advance()
        left = self.expression()
        right, separator = None, self.token.kind
        if separator in (":", "+:"):
            self.advance()
            right = self.expression()
        self.expect("]", "after an index")
        source = self.since(first)
        if right is None:
            return syntax.Index(source, base, left)
        if separator == ":":
            return syntax.Slice(source, base, left, right)
        return syntax.PartSelect(source, base, left, right)

    def call_type_arguments(self) -> list[syntax.TypeExpression] | None:
        """`<types>` before `(`; None (and nothing read) if `<` compares."""
        following = self.peek()
        starts_type = following.kind in (*BASE_TYPES, "tuple", "list", "void", "_", ".", ">")
        if not starts_type and not self.is_type_name(following):
            return None
        start = self.position
        try:
            types = self.type_arguments()
        except P4Error:
            self.move_to(start)
            return None
        if self.at("("):
            return types
        self.move_to(start)
        return None

    # argumentList: '(' [argument (',' argument)*] ')'
    def arguments(self) -> list[syntax.Argument]:
        self.expect("(", "before arguments")
        result: list[syntax.Argument] = []
        while not self.at(")"):
            result.append(self.argument())
            if not self.accept(","):
                break
        self.expect(")", "or ',' after an argument")
        return result

    # argument: [name '='] (expression | '_')
    def argument(self) -> syntax.Argument:
        first = self.token
        name = None
        if self.at_name() and self.peek().kind == "=":
            name = self.advance().text
            self.advance()
        if self.at("_"):
            value: syntax.Expression = syntax.DontCare(self.advance().source, "_")
        else:
            value = self.expression()
        return syntax.Argument(self.since(first), name, value)

    # ------------------------------------------------------------ keysets (8.14)

    # keysetExpression: '(' simpleKeyset (',' simpleKeyset)* ')' | simpleKeyset
    def keyset(self) -> list[syntax.Expression]:
        """The keysets up to, not including, the ':' that follows."""
        if self.at("("):
            start = self.position
            try:
                self.advance()
                keys = [self.simple_keyset()]
                while self.accept(","):
                    keys.append(self.simple_keyset())
                self.expect(")", "or ',' after a keyset")
                if self.at(":"):
                    return keys
            except P4Error:
                if self.at(":", ";", "end"):
                    raise
            self.move_to(start)  # the parenthesis was part of an expression
        return [self.simple_keyset()]

    # simpleKeyset: default | '_' | expression [('&&&' | '..') expression]
    def simple_keyset(self) -> syntax.Expression:
        first = self.token
        if first.kind in ("default", "_"):
            self.advance()
            return syntax.DontCare(first.source, first.kind)
        left = self.expression()
        if self.accept("&&&"):
            mask = self.expression()
            return syntax.Mask(self.since(first), left, mask)
        if self.accept(".."):
            high = self.expression()
            return syntax.Range(self.since(first), left, high)
        return left


def unquoted(text: str) -> str:
    """The value of a string literal: `\\"`, `\\\\` and `\\n` are the escapes (6.4.3.3)."""
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
