"""Productions of statements, functions, and declarations inside blocks (spec 10 to 12)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import did_you_mean
from minip4.compiler.parse.annotations import AnnotationParser
from minip4.compiler.preprocess.lexer import Token

ASSIGNMENTS = frozenset(
    ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="]
)


class StatementParser(AnnotationParser):
    # ------------------------------------------------------------ statements (12)

    # statement: assignmentOrCall ';' | if | ';' | block | return | break | continue | exit
    #          | switch | for
    def statement(self) -> syntax.Statement:
        with self.nested():
            first = self.token
            if first.kind in ("{", "@"):
                annotations = self.annotations()
                if self.at("for"):
                    return self.for_statement(first, annotations)
                return self.block(first, annotations)
            production = {
                "if": self.if_statement,
                "switch": self.switch_statement,
                "return": self.return_statement,
            }.get(first.kind)
            if production is not None:
                return production()
            if first.kind == "for":
                return self.for_statement(first, [])
            simple = {
                "exit": syntax.Exit,
                "break": syntax.Break,
                "continue": syntax.Continue,
            }.get(first.kind)
            if simple is not None:
                self.advance()
                self.expect(";", f"after '{first.kind}'")
                return simple(self.since(first))
            if self.accept(";"):
                return syntax.Empty(first.source)
            result = self.assignment_or_call()
            self.expect(";", "after a statement")
            return result

    # assignmentOrCall: expression (('=' | '+=' | ...) expression)?
    def assignment_or_call(self) -> syntax.Statement:
        first = self.token
        left = self.suffixes(self.primary(), first)
        operator = self.token.kind
        if operator == ">" and self.peek().kind == ">=" and self.token.touches(self.peek()):
            self.advance()
            operator = ">>="
        elif operator not in ASSIGNMENTS:
            if not isinstance(left, syntax.Call):
                self.unexpected("'=' and a value, or '(' and arguments")
            return syntax.CallStatement(self.since(first), left)
        self.advance()
        right = self.expression()
        return syntax.Assignment(self.since(first), left, operator[:-1], right)

    # if '(' expression ')' statement (else if '(' expression ')' statement)* [else statement]
    def if_statement(self) -> syntax.Statement:
        """A chain of `else if` is flat in the source: it takes arms instead of nesting."""
        heads: list[tuple[Token, syntax.Expression, syntax.Statement]] = []
        otherwise: syntax.Statement | None = None
        while True:
            first = self.advance()
            self.expect("(", "after 'if'")
            condition = self.expression()
            self.expect(")", "after the condition")
            heads.append((first, condition, self.statement()))
            if not self.accept("else"):
                break
            if not self.at("if"):
                otherwise = self.statement()
                break
            self.arm()
        self.arms -= len(heads) - 1
        for first, condition, then in reversed(heads):
            otherwise = syntax.If(self.since(first), condition, then, otherwise)
        assert otherwise is not None
        return otherwise

    # return [expression] ';'
    def return_statement(self) -> syntax.Statement:
        first = self.advance()
        value = None if self.at(";") else self.expression()
        self.expect(";", "after 'return'")
        return syntax.Return(self.since(first), value)

    # switch '(' expression ')' '{' ((default | expression) ':' [block])* '}'
    def switch_statement(self) -> syntax.Statement:
        first = self.advance()
        self.expect("(", "after 'switch'")
        expression = self.expression()
        self.expect(")", "after the switch's expression")
        self.expect("{", "before the cases of a switch")
        cases: list[syntax.SwitchCase] = []
        while not self.at("}"):
            start = self.token
            if start.kind in ("default", "_"):
                self.advance()
                label: syntax.Expression = syntax.DontCare(start.source, start.kind)
            else:
                label = self.expression()
            self.expect(":", "after the label of a case")
            body = self.block(self.token, self.annotations()) if self.at("{", "@") else None
            cases.append(syntax.SwitchCase(self.since(start), label, body))
        self.advance()
        return syntax.Switch(self.since(first), expression, cases)

    # annotations '{' statementOrDeclaration* '}'
    def block(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Block:
        self.expect("{", "at the start of a block")
        statements: list[syntax.Statement | syntax.Declaration] = []
        with self.scope():
            while not self.at("}"):
                if self.at("end"):
                    self.unexpected("'}' to end the block")
                statements.append(self.statement_or_declaration())
        self.advance()
        return syntax.Block(self.since(first), annotations, statements)

    # statementOrDeclaration: const ... | typeRef name ... | statement
    def statement_or_declaration(self) -> syntax.Statement | syntax.Declaration:
        first, start = self.token, self.position
        annotations = self.annotations()
        if self.at("const"):
            return self.constant_declaration(first, annotations)
        if self.at_declaration():
            return self.variable_or_instantiation(first, annotations)
        if annotations:
            self.move_to(start)
        if self.token.kind == "name" and self.peek().kind == "name":
            self.unknown_type()
        return self.statement()

    def unknown_type(self, keywords: tuple[str, ...] = ()) -> None:
        """Refuses `name1 name2` unless name1 is a type; `keywords` could be meant too."""
        name = self.token.text
        if not self.is_type_name(self.token):
            is_known = any(name in scope for scope in self.scopes)
            what = "is no type" if is_known else "is not declared"
            hint = did_you_mean(name, [*self.known_types(), *keywords])
            self.fail(f"{name!r} {what}{hint}", "a type before the name of a variable")

    def at_declaration(self) -> bool:
        """Whether a type starts here, and not a value such as `error.X` or a call `C.apply()`."""
        if not self.at_type():
            return False
        if self.peek().kind == ".":
            return False
        if self.peek().kind != "<" or self.token.kind != "name":
            return True
        start = self.position
        self.plain_type()
        is_declaration = not self.at(".")
        self.move_to(start)
        return is_declaration

    # ------------------------------------------------------------ for loops (12.9)

    # for '(' [init (',' init)*] ';' expression ';' [update (',' update)*] ')' statement
    # for '(' annotations typeRef name in (expression | expression '..' expression) ')' statement
    def for_statement(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Statement:
        self.advance()
        self.expect("(", "after 'for'")
        with self.scope():
            initial: list[syntax.Statement | syntax.Declaration] = []
            while not self.at(";"):
                start = self.token
                of_variable = self.annotations()
                if self.at_declaration():
                    variable = self.variable(start, of_variable)
                    if self.accept("in"):
                        return self.for_in(first, annotations, variable)
                    initial.append(variable)
                else:
                    initial.append(self.assignment_or_call())
                if not self.accept(","):
                    break
            self.expect(";", "after the start of a for loop")
            condition = self.expression()
            self.expect(";", "after the condition of a for loop")
            updates: list[syntax.Statement] = []
            while not self.at(")"):
                updates.append(self.assignment_or_call())
                if not self.accept(","):
                    break
            self.expect(")", "after the head of a for loop")
            body = self.statement()
        return syntax.For(self.since(first), annotations, initial, condition, updates, body)

    def for_in(
        self,
        first: Token,
        annotations: list[syntax.Annotation],
        variable: syntax.VariableDeclaration,
    ) -> syntax.Statement:
        start = self.token
        collection = self.expression()
        if self.accept(".."):
            high = self.expression()
            collection = syntax.Range(self.since(start), collection, high)
        self.expect(")", "after the head of a for loop")
        body = self.statement()
        return syntax.ForIn(self.since(first), annotations, variable, collection, body)

    # ------------------------------------------------------------ local declarations (11)

    # constantDeclaration: const typeRef declarator '=' expression ';'
    def constant_declaration(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.ConstantDeclaration:
        self.advance()
        of = self.type_expression()
        name = self.name("the name of the constant")
        of = self.declarator_suffix(of)
        self.expect("=", "and the value of the constant")
        value = self.expression()
        self.expect(";", "after the constant")
        self.declare(name.text, is_type=False)
        return syntax.ConstantDeclaration(
            name.source, self.since(first), annotations, name.text, of, value
        )

    # variableDeclaration: typeRef declarator ['=' expression]
    def variable(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.VariableDeclaration:
        of = self.type_expression()
        name = self.name("the name of a variable")
        of = self.declarator_suffix(of)
        value = self.expression() if self.accept("=") else None
        self.declare(name.text, is_type=False)
        return syntax.VariableDeclaration(
            name.source, self.since(first), annotations, name.text, of, value
        )

    # declarator: name ('[' expression ']')*
    def declarator_suffix(self, of: syntax.TypeExpression) -> syntax.TypeExpression:
        first = self.token
        while self.accept("["):
            size = self.expression()
            self.expect("]", "after the size of an array")
            of = syntax.ArrayTypeName(self.since(first), of, size)
        return of

    # variableDeclaration ';'  |  instantiation
    def variable_or_instantiation(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.Declaration:
        start = self.position
        of = self.type_expression()
        if self.at("("):
            return self.instantiation(first, annotations, of)
        self.move_to(start)
        result = self.variable(first, annotations)
        self.expect(";", "after the declaration of a variable")
        return result

    # instantiation: typeRef '(' arguments ')' name ['=' '{' (function | instantiation)* '}'] ';'
    def instantiation(
        self, first: Token, annotations: list[syntax.Annotation], of: syntax.TypeExpression
    ) -> syntax.Instantiation:
        arguments = self.arguments()
        call = syntax.Call(self.since(first), syntax.TypeReference(of.source, of), [], arguments)
        name = self.name("the name of the instance")
        self.declare(name.text, is_type=False)
        objects: list[syntax.Declaration] = []
        if self.accept("="):
            self.expect("{", "before the methods of an instance")
            with self.scope():
                while not self.at("}"):
                    objects.append(self.instance_member())
            self.advance()
        self.expect(";", "after an instantiation")
        return syntax.Instantiation(
            name.source, self.since(first), annotations, name.text, call, objects
        )

    # instanceMember: functionDeclaration | instantiation
    def instance_member(self) -> syntax.Declaration:
        first = self.token
        annotations = self.annotations()
        start = self.position
        if self.at_type():
            of = self.type_expression()
            if self.at("("):
                return self.instantiation(first, annotations, of)
            self.move_to(start)
        return self.function(first, annotations)

    # ------------------------------------------------------------ functions (10)

    # functionDeclaration: functionPrototype block
    def function(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Function:
        with self.scope():
            result = self.prototype(first, annotations)
            result.body = self.block(self.token, [])
        result.whole = self.since(first)
        self.declare(result.name, is_type=False)
        return result

    # functionPrototype: (typeRef | void) name [typeParameters] '(' parameters ')'
    def prototype(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Function:
        """The result type may be one of the type parameters that only follow."""
        of = self.type_expression()
        name = self.name("the name of a function")
        type_parameters = self.type_parameters()
        parameters = self.parameters()
        return syntax.Function(
            name.source,
            self.since(first),
            annotations,
            name.text,
            of,
            type_parameters,
            parameters,
            None,
        )

    # typeParameters: ['<' name (',' name)* '>']
    def type_parameters(self) -> list[syntax.TypeParameter]:
        result: list[syntax.TypeParameter] = []
        if self.accept("<"):
            while True:
                name = self.name("the name of a type parameter")
                self.declare(name.text, is_type=True)
                result.append(syntax.TypeParameter(name.source, name.source, [], name.text))
                if not self.accept(","):
                    break
            self.expect(">", "after type parameters")
        return result

    # parameters: '(' [parameter (',' parameter)*] ')'
    def parameters(self) -> list[syntax.Parameter]:
        self.expect("(", "before parameters")
        result: list[syntax.Parameter] = []
        while not self.at(")"):
            result.append(self.parameter())
            if not self.accept(","):
                break
        self.expect(")", "or ',' after a parameter")
        return result

    # parameter: annotations [in | out | inout] typeRef declarator ['=' expression]
    def parameter(self) -> syntax.Parameter:
        first = self.token
        annotations = self.annotations()
        direction = self.advance().kind if self.at("in", "out", "inout") else ""
        of = self.type_expression()
        name = self.name("the name of the parameter")
        of = self.declarator_suffix(of)
        default = self.expression() if self.accept("=") else None
        self.declare(name.text, is_type=False)
        return syntax.Parameter(
            name.source, self.since(first), annotations, name.text, direction, of, default
        )
