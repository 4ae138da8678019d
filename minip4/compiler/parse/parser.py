"""The parser: converts tokens to a syntax tree.

This module has the productions of programs, parsers and controls.

The parser uses recursive descent with one method per production. A comment before each method has
the grammar, with terminals in quotes or in lower case. All production modules share the tokens.
P4's grammar depends on which names are types, and token_stream.py records them.
"""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.parse.annotations import AnnotationParser
from minip4.compiler.parse.declarations import DeclarationParser, Production
from minip4.compiler.parse.expressions import ExpressionParser
from minip4.compiler.parse.statements import StatementParser
from minip4.compiler.parse.tables import TableParser
from minip4.compiler.parse.token_stream import TokenStream
from minip4.compiler.preprocess.lexer import SOFT_KEYWORDS, Token


def parse(tokens: list[Token], path: str) -> syntax.Program:
    """Return the undecorated tree of a program. Raises P4Error at the first error."""
    return syntax.Program(tokens[0].source, path, Parser(TokenStream(tokens)).program())


DECLARATION_KEYWORDS = (
    "const",
    "extern",
    "action",
    "parser",
    "control",
    "struct",
    "header",
    "header_union",
    "enum",
    "typedef",
    "package",
)


class Parser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.expressions = ExpressionParser(tokens)
        self.annotations = AnnotationParser(tokens)
        self.statements = StatementParser(tokens)
        self.declarations = DeclarationParser(tokens)
        self.tables = TableParser(tokens)

    # program: (declaration | ';')*
    def program(self) -> list[syntax.Declaration]:
        result: list[syntax.Declaration] = []
        while not self.tokens.at("end"):
            if self.tokens.accept(";"):
                continue
            declaration = self.declaration()
            if declaration is not None:
                result.append(declaration)
        return result

    # declaration: const | extern | action | parser | control | struct | header | header_union
    #            | enum | typedef | type | error | match_kind | package | function | instantiation
    def declaration(self) -> syntax.Declaration | None:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        productions: dict[str, Production] = {
            "const": self.statements.constant_declaration,
            "extern": self.declarations.extern,
            "action": self.declarations.action,
            "parser": self.parser,
            "control": self.control,
            "struct": self.declarations.struct,
            "header": self.declarations.struct,
            "header_union": self.declarations.struct,
            "enum": self.declarations.enum,
            "typedef": self.declarations.typedef,
            "type": self.declarations.typedef,
            "package": self.declarations.package,
        }
        production = productions.get(self.tokens.token.kind)
        if production is None and self.tokens.peek().kind == "{":
            production = {
                "error": self.declarations.errors,
                "match_kind": self.declarations.match_kinds,
            }.get(self.tokens.token.kind)
        if production is None:
            production = self.function_or_instantiation
        return production(first, annotations)

    # functionDeclaration | instantiation
    def function_or_instantiation(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.Declaration:
        start = self.tokens.position
        if not (self.tokens.at_type() or self.tokens.at("void")) and not (
            self.tokens.at_name()
            and self.tokens.peek().kind == "name"
            and self.tokens.peek(2).kind == "<"
        ):
            if self.tokens.token.kind == "name" and self.tokens.peek().kind in ("name", "(", "<"):
                self.statements.unknown_type(DECLARATION_KEYWORDS)
            self.tokens.unexpected("a declaration (const, header, struct, parser, control, ...)")
        of = self.expressions.type_expression()
        if self.tokens.at("("):
            return self.statements.instantiation(first, annotations, of)
        self.tokens.move_to(start)
        return self.statements.function(first, annotations)

    # ------------------------------------------------------------ parsers (13)

    # parserDeclaration: parser name [typeParameters] '(' parameters ')'
    #                    (';' | ['(' parameters ')'] '{' local* state+ '}')
    def parser(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.tokens.advance()
        name = self.tokens.name("the name of the parser")
        self.tokens.declare(name.text, is_type=True)
        with self.tokens.scope():
            type_parameters = self.statements.type_parameters()
            parameters = self.statements.parameters()
            if self.tokens.accept(";"):
                return syntax.ParserTypeDeclaration(
                    name.source,
                    self.tokens.since(first),
                    annotations,
                    name.text,
                    type_parameters,
                    parameters,
                )
            constructor_parameters = self.statements.parameters() if self.tokens.at("(") else []
            self.tokens.expect("{", "before the states of a parser")
            declarations: list[syntax.Declaration] = []
            states: list[syntax.State] = []
            while not self.tokens.at("}"):
                start = self.tokens.token
                of_local = self.annotations.annotations()
                if self.tokens.at("state") and self.tokens.peek().kind in ("name", *SOFT_KEYWORDS):
                    states.append(self.state(start, of_local))
                else:
                    declarations.append(self.parser_local(start, of_local, states))
        self.tokens.advance()
        return syntax.ParserDeclaration(
            name.source,
            self.tokens.since(first),
            annotations,
            name.text,
            type_parameters,
            parameters,
            constructor_parameters,
            declarations,
            states,
        )

    # local: const ... | value_set '<' typeRef '>' '(' expression ')' name ';' | variable | instance
    def parser_local(
        self,
        first: Token,
        annotations: list[syntax.Annotation],
        states: list[syntax.State],
    ) -> syntax.Declaration:
        if states:
            self.tokens.unexpected("'state' (other declarations come before the states) or '}'")
        if self.tokens.at("const"):
            return self.statements.constant_declaration(first, annotations)
        if self.tokens.at("value_set"):
            return self.value_set(first, annotations)
        if not self.tokens.at_type():
            self.unknown_local()
        return self.statements.variable_or_instantiation(first, annotations)

    def unknown_local(self) -> None:
        if self.tokens.token.kind == "name" and self.tokens.peek().kind in ("name", "(", "<"):
            self.statements.unknown_type()
        self.tokens.unexpected("a declaration, a state, or apply")

    def value_set(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.ValueSet:
        self.tokens.advance()
        self.tokens.expect("<", "before the type of a value_set")
        of = self.expressions.type_expression()
        self.tokens.expect(">", "after the type of a value_set")
        self.tokens.expect("(", "before the size of a value_set")
        size = self.expressions.expression()
        self.tokens.expect(")", "after the size of a value_set")
        name = self.tokens.name("the name of the value_set")
        self.tokens.expect(";", "after a value_set")
        self.tokens.declare(name.text, is_type=False)
        return syntax.ValueSet(
            name.source, self.tokens.since(first), annotations, name.text, of, size
        )

    # state: annotations state name '{' statementOrDeclaration* [transition] '}'
    # transition: 'transition' (name ';' | select)
    def state(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.State:
        self.tokens.advance()
        name = self.tokens.name("the name of the state")
        self.tokens.expect("{", "before the statements of a state")
        statements: list[syntax.Statement | syntax.Declaration] = []
        transition: syntax.Goto | syntax.Select | None = None
        with self.tokens.scope():
            while not self.tokens.at("}", "transition"):
                if self.tokens.at("end"):
                    self.tokens.unexpected("'}' to end the state")
                statements.append(self.statements.statement_or_declaration())
            if self.tokens.accept("transition"):
                transition = self.select() if self.tokens.at("select") else self.goto()
        self.tokens.expect("}", "after the transition of a state")
        return syntax.State(
            name.source, self.tokens.since(first), annotations, name.text, statements, transition
        )

    # goto: name ';'
    def goto(self) -> syntax.Goto:
        name = self.tokens.name("the name of a state")
        self.tokens.expect(";", "after the name of the next state")
        return syntax.Goto(name.source, name.text)

    # select: 'select' '(' [expression (',' expression)*] ')' '{' (keyset ':' goto)* '}'
    def select(self) -> syntax.Select:
        first = self.tokens.advance()
        self.tokens.expect("(", "after 'select'")
        expressions: list[syntax.Expression] = []
        while not self.tokens.at(")"):
            expressions.append(self.expressions.expression())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "or ',' after an expression of a select")
        self.tokens.expect("{", "before the cases of a select")
        cases: list[syntax.SelectCase] = []
        while not self.tokens.at("}"):
            start = self.tokens.token
            keys = self.expressions.keyset()
            self.tokens.expect(":", "after the keyset of a case")
            target = self.goto()
            cases.append(syntax.SelectCase(self.tokens.since(start), keys, target))
        self.tokens.advance()
        return syntax.Select(self.tokens.since(first), expressions, cases)

    # ------------------------------------------------------------ controls (14)

    # controlDeclaration: control name [typeParameters] '(' parameters ')'
    #                     (';' | ['(' parameters ')'] '{' local* apply block '}')
    def control(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.tokens.advance()
        name = self.tokens.name("the name of the control")
        self.tokens.declare(name.text, is_type=True)
        with self.tokens.scope():
            type_parameters = self.statements.type_parameters()
            parameters = self.statements.parameters()
            if self.tokens.accept(";"):
                return syntax.ControlTypeDeclaration(
                    name.source,
                    self.tokens.since(first),
                    annotations,
                    name.text,
                    type_parameters,
                    parameters,
                )
            constructor_parameters = self.statements.parameters() if self.tokens.at("(") else []
            self.tokens.expect("{", "before the declarations of a control")
            declarations: list[syntax.Declaration] = []
            while not self.tokens.at("apply"):
                declarations.append(self.control_local())
            self.tokens.advance()
            body = self.statements.block(self.tokens.token, self.annotations.annotations())
            self.tokens.expect("}", "to end the control: nothing may follow its apply block")
        return syntax.ControlDeclaration(
            name.source,
            self.tokens.since(first),
            annotations,
            name.text,
            type_parameters,
            parameters,
            constructor_parameters,
            declarations,
            body,
        )

    # local: const ... | action | table | variable | instantiation
    def control_local(self) -> syntax.Declaration:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        if self.tokens.at("const"):
            return self.statements.constant_declaration(first, annotations)
        if self.tokens.at("action"):
            return self.declarations.action(first, annotations)
        if self.tokens.at("table"):
            return self.tables.table(first, annotations)
        if not self.tokens.at_type():
            self.unknown_local()
        return self.statements.variable_or_instantiation(first, annotations)
