"""The parser: tokens to a syntax tree. Here: the program, parsers, controls and tables.

Recursive descent with one method a production, the production above it (terminals in quotes or
lower case). P4's grammar needs to know which names are types; token_stream.py keeps track.
"""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.declarations import DeclarationParser, Production
from minip4.compiler.preprocess.lexer import SOFT_KEYWORDS, Token


def parse(tokens: list[Token], path: str) -> syntax.Program:
    """The undecorated tree of a program. Raises P4Error at the first mistake."""
    parser = Parser(tokens)
    declarations = parser.program()
    source = tokens[0].source if tokens else parser.token.source
    return syntax.Program(source, path, declarations)


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


class Parser(DeclarationParser):
    # program: (declaration | ';')*
    def program(self) -> list[syntax.Declaration]:
        result: list[syntax.Declaration] = []
        while not self.at("end"):
            if self.accept(";"):
                continue
            declaration = self.declaration()
            if declaration is not None:
                result.append(declaration)
        return result

    # declaration: const | extern | action | parser | control | struct | header | header_union
    #            | enum | typedef | type | error | match_kind | package | function | instantiation
    def declaration(self) -> syntax.Declaration | None:
        first = self.token
        annotations = self.annotations()
        productions: dict[str, Production] = {
            "const": self.constant_declaration,
            "extern": self.extern,
            "action": self.action,
            "parser": self.parser,
            "control": self.control,
            "struct": self.struct,
            "header": self.struct,
            "header_union": self.struct,
            "enum": self.enum,
            "typedef": self.typedef,
            "type": self.typedef,
            "package": self.package,
        }
        production = productions.get(self.token.kind)
        if production is None and self.peek().kind == "{":
            production = {"error": self.errors, "match_kind": self.match_kinds}.get(self.token.kind)
        if production is None:
            production = self.function_or_instantiation
        return production(first, annotations)

    # functionDeclaration | instantiation
    def function_or_instantiation(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.Declaration:
        start = self.position
        if not (self.at_type() or self.at("void")) and not (
            self.at_name() and self.peek().kind == "name" and self.peek(2).kind == "<"
        ):
            if self.token.kind == "name" and self.peek().kind in ("name", "(", "<"):
                self.unknown_type(DECLARATION_KEYWORDS)
            self.unexpected("a declaration (const, header, struct, parser, control, ...)")
        of = self.type_expression()
        if self.at("("):
            return self.instantiation(first, annotations, of)
        self.move_to(start)
        return self.function(first, annotations)

    # ------------------------------------------------------------ parsers (13)

    # parserDeclaration: parser name [typeParameters] '(' parameters ')'
    #                    (';' | ['(' parameters ')'] '{' local* state+ '}')
    def parser(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.advance()
        name = self.name("the name of the parser")
        self.declare(name.text, is_type=True)
        with self.scope():
            type_parameters = self.type_parameters()
            parameters = self.parameters()
            if self.accept(";"):
                return syntax.ParserTypeDeclaration(
                    name.source,
                    self.since(first),
                    annotations,
                    name.text,
                    type_parameters,
                    parameters,
                )
            constructor_parameters = self.parameters() if self.at("(") else []
            self.expect("{", "before the states of a parser")
            declarations: list[syntax.Declaration] = []
            states: list[syntax.State] = []
            while not self.at("}"):
                start = self.token
                of_local = self.annotations()
                if self.at("state") and self.peek().kind in ("name", *SOFT_KEYWORDS):
                    states.append(self.state(start, of_local))
                else:
                    declarations.append(self.parser_local(start, of_local, states))
        self.advance()
        return syntax.ParserDeclaration(
            name.source,
            self.since(first),
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
            self.unexpected("'state' (other declarations come before the states) or '}'")
        if self.at("const"):
            return self.constant_declaration(first, annotations)
        if self.at("value_set"):
            return self.value_set(first, annotations)
        if not self.at_type():
            self.unknown_local()
        return self.variable_or_instantiation(first, annotations)

    def unknown_local(self) -> None:
        if self.token.kind == "name" and self.peek().kind in ("name", "(", "<"):
            self.unknown_type()
        self.unexpected("a declaration, or what comes after the declarations")

    def value_set(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.ValueSet:
        self.advance()
        self.expect("<", "before the type of a value_set")
        of = self.type_expression()
        self.expect(">", "after the type of a value_set")
        self.expect("(", "before the size of a value_set")
        size = self.expression()
        self.expect(")", "after the size of a value_set")
        name = self.name("the name of the value_set")
        self.expect(";", "after a value_set")
        self.declare(name.text, is_type=False)
        return syntax.ValueSet(name.source, self.since(first), annotations, name.text, of, size)

    # state: annotations state name '{' statementOrDeclaration* [transition] '}'
    # transition: 'transition' (name ';' | select)
    def state(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.State:
        self.advance()
        name = self.name("the name of the state")
        self.expect("{", "before the statements of a state")
        statements: list[syntax.Statement | syntax.Declaration] = []
        transition: syntax.Goto | syntax.Select | None = None
        with self.scope():
            while not self.at("}", "transition"):
                if self.at("end"):
                    self.unexpected("'}' to end the state")
                statements.append(self.statement_or_declaration())
            if self.accept("transition"):
                transition = self.select() if self.at("select") else self.goto()
        self.expect("}", "after the transition of a state")
        return syntax.State(
            name.source, self.since(first), annotations, name.text, statements, transition
        )

    # goto: name ';'
    def goto(self) -> syntax.Goto:
        name = self.name("the name of a state")
        self.expect(";", "after the name of the next state")
        return syntax.Goto(name.source, name.text)

    # select: 'select' '(' [expression (',' expression)*] ')' '{' (keyset ':' goto)* '}'
    def select(self) -> syntax.Select:
        first = self.advance()
        self.expect("(", "after 'select'")
        expressions: list[syntax.Expression] = []
        while not self.at(")"):
            expressions.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")", "or ',' after an expression of a select")
        self.expect("{", "before the cases of a select")
        cases: list[syntax.SelectCase] = []
        while not self.at("}"):
            start = self.token
            keys = self.keyset()
            self.expect(":", "after the keyset of a case")
            target = self.goto()
            cases.append(syntax.SelectCase(self.since(start), keys, target))
        self.advance()
        return syntax.Select(self.since(first), expressions, cases)

    # ------------------------------------------------------------ controls (14)

    # controlDeclaration: control name [typeParameters] '(' parameters ')'
    #                     (';' | ['(' parameters ')'] '{' local* apply block '}')
    def control(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.advance()
        name = self.name("the name of the control")
        self.declare(name.text, is_type=True)
        with self.scope():
            type_parameters = self.type_parameters()
            parameters = self.parameters()
            if self.accept(";"):
                return syntax.ControlTypeDeclaration(
                    name.source,
                    self.since(first),
                    annotations,
                    name.text,
                    type_parameters,
                    parameters,
                )
            constructor_parameters = self.parameters() if self.at("(") else []
            self.expect("{", "before the declarations of a control")
            declarations: list[syntax.Declaration] = []
            while not self.at("apply"):
                declarations.append(self.control_local())
            self.advance()
            body = self.block(self.token, self.annotations())
            self.expect("}", "to end the control: nothing may follow its apply block")
        return syntax.ControlDeclaration(
            name.source,
            self.since(first),
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
        first = self.token
        annotations = self.annotations()
        if self.at("const"):
            return self.constant_declaration(first, annotations)
        if self.at("action"):
            return self.action(first, annotations)
        if self.at("table"):
            return self.table(first, annotations)
        if not self.at_type():
            self.unknown_local()
        return self.variable_or_instantiation(first, annotations)

    # ------------------------------------------------------------ tables (14.2)

    # table: table name '{' (key | actions | entries | property)* '}'
    def table(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Table:
        self.advance()
        name = self.name("the name of the table")
        self.expect("{", "before the properties of a table")
        result = syntax.Table(
            name.source, first.source, annotations, name.text, [], [], None, False, None, False, []
        )
        seen: set[str] = set()
        while not self.at("}"):
            start = self.token
            of_property = self.annotations()
            is_const = self.accept("const")
            keyword = self.name("a table property: key, actions, entries, default_action, ...")
            if keyword.text in seen:
                message = f"the table has two properties {keyword.text!r}"
                raise P4Error(message, keyword.source, "one of each")
            seen.add(keyword.text)
            self.expect("=", f"after '{keyword.text}'")
            self.table_property(result, start, of_property, is_const, keyword)
        self.advance()
        result.whole = self.since(first)
        if "actions" not in seen:
            raise P4Error(f"table {name.text!r} has no actions", name.source, "actions = {...}")
        self.declare(name.text, is_type=False)
        return result

    def table_property(
        self,
        table: syntax.Table,
        first: Token,
        annotations: list[syntax.Annotation],
        is_const: bool,
        keyword: Token,
    ) -> None:
        if keyword.text in ("key", "actions") and is_const:
            raise P4Error(f"'{keyword.text}' cannot be const", keyword.source)
        if keyword.text in ("key", "actions", "entries"):
            self.expect("{", f"after '{keyword.text} ='")
            if keyword.text in ("key", "actions") and table.entries is not None:
                raise P4Error(f"'{keyword.text}' after the entries", keyword.source, "before them")
            if keyword.text == "entries":
                table.entries = []
                table.are_entries_const = is_const
            while not self.at("}"):
                if keyword.text == "key":
                    table.keys.append(self.key_element())
                elif keyword.text == "actions":
                    table.actions.append(self.action_reference())
                    self.expect(";", "after an action")
                else:
                    assert table.entries is not None
                    table.entries.append(self.entry())
            self.advance()
            return
        if keyword.text == "default_action":
            table.default_action = self.action_reference()
            table.is_default_action_const = is_const
        else:
            value = self.expression()
            table.properties.append(
                syntax.TableProperty(
                    keyword.source, self.since(first), annotations, keyword.text, is_const, value
                )
            )
        self.expect(";", f"after the table property '{keyword.text}'")

    # keyElement: expression ':' name annotations ';'
    def key_element(self) -> syntax.KeyElement:
        first = self.token
        expression = self.expression()
        self.expect(":", "and a match kind after a key")
        kind = self.name("a match kind: exact, lpm, ternary, ...")
        annotations = self.annotations()
        self.expect(";", "after a key element")
        return syntax.KeyElement(self.since(first), expression, kind.text, annotations)

    # actionRef: annotations ['.'] name ['(' arguments ')']
    def action_reference(self) -> syntax.ActionReference:
        first = self.token
        annotations = self.annotations()
        is_absolute = self.accept(".")
        name = self.name("the name of an action")
        arguments = self.arguments() if self.at("(") else None
        return syntax.ActionReference(
            self.since(first), annotations, name.text, is_absolute, arguments
        )

    # entry: [const] [priority '=' (INTEGER | '(' expression ')') ':'] keyset ':' actionRef
    #        annotations ';'
    def entry(self) -> syntax.Entry:
        first = self.token
        is_const = self.accept("const")
        priority = None
        if self.at("priority") and self.peek().kind == "=":
            self.advance()
            self.advance()
            priority = self.primary()
            self.expect(":", "after the priority of an entry")
        keys = self.keyset()
        self.expect(":", "after the keys of an entry")
        action = self.action_reference()
        annotations = self.annotations()
        self.expect(";", "after an entry")
        return syntax.Entry(self.since(first), annotations, is_const, priority, keys, action)
