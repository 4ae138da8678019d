"""Productions of statements, functions, and declarations inside blocks (spec 10 to 12)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import did_you_mean
from minip4.compiler.parse.annotations import AnnotationParser
from minip4.compiler.parse.expressions import ExpressionParser
from minip4.compiler.parse.token_stream import TokenStream
from minip4.compiler.preprocess.lexer import Token

ASSIGNMENTS = frozenset(
    ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="]
)


class StatementParser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.expressions = ExpressionParser(tokens)
        self.annotations = AnnotationParser(tokens)

    # ------------------------------------------------------------ statements (12)

    # statement: assignmentOrCall ';' | if | ';' | block | return | break | continue | exit
    #          | switch | for
    def statement(self) -> syntax.Statement:
        with self.tokens.nested():
            first = self.tokens.token
            if first.kind in ("{", "@"):
                annotations = self.annotations.annotations()
                if self.tokens.at("for"):
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
                self.tokens.advance()
                self.tokens.expect(";", f"after '{first.kind}'")
                return simple(self.tokens.since(first))
            if self.tokens.accept(";"):
                return syntax.Empty(first.source)
            result = self.assignment_or_call()
            self.tokens.expect(";", "after a statement")
            return result

    # assignmentOrCall: expression (('=' | '+=' | ...) expression)?
    def assignment_or_call(self) -> syntax.Statement:
        first = self.tokens.token
        left = self.expressions.suffixes(self.expressions.primary(), first)
        operator = self.tokens.token.kind
        if (
            operator == ">"
            and self.tokens.peek().kind == ">="
            and self.tokens.token.touches(self.tokens.peek())
        ):
            self.tokens.advance()
            operator = ">>="
        elif operator not in ASSIGNMENTS:
            if not isinstance(left, syntax.Call):
                self.tokens.unexpected("'=' and a value, or '(' and arguments")
            return syntax.CallStatement(self.tokens.since(first), left)
        self.tokens.advance()
        right = self.expressions.expression()
        return syntax.Assignment(self.tokens.since(first), left, operator[:-1], right)

    # if '(' expression ')' statement (else if '(' expression ')' statement)* [else statement]
    def if_statement(self) -> syntax.Statement:
        """Parse an if statement.

        A chain of `else if` is parsed iteratively and does not count as nesting.
        """
        heads: list[tuple[Token, syntax.Expression, syntax.Statement]] = []
        otherwise: syntax.Statement | None = None
        while True:
            first = self.tokens.advance()
            self.tokens.expect("(", "after 'if'")
            condition = self.expressions.expression()
            self.tokens.expect(")", "after the condition")
            heads.append((first, condition, self.statement()))
            if not self.tokens.accept("else"):
                break
            if not self.tokens.at("if"):
                otherwise = self.statement()
                break
            self.tokens.arm()
        self.tokens.arms -= len(heads) - 1
        for first, condition, then in reversed(heads):
            otherwise = syntax.If(self.tokens.since(first), condition, then, otherwise)
        assert otherwise is not None
        return otherwise

    # return [expression] ';'
    def return_statement(self) -> syntax.Statement:
        first = self.tokens.advance()
        value = None if self.tokens.at(";") else self.expressions.expression()
        self.tokens.expect(";", "after 'return'")
        return syntax.Return(self.tokens.since(first), value)

    # switch '(' expression ')' '{' ((default | expression) ':' [block])* '}'
    def switch_statement(self) -> syntax.Statement:
        first = self.tokens.advance()
        self.tokens.expect("(", "after 'switch'")
        expression = self.expressions.expression()
        self.tokens.expect(")", "after the switch's expression")
        self.tokens.expect("{", "before the cases of a switch")
        cases: list[syntax.SwitchCase] = []
        while not self.tokens.at("}"):
            start = self.tokens.token
            if start.kind in ("default", "_"):
                self.tokens.advance()
                label: syntax.Expression = syntax.DontCare(start.source, start.kind)
            else:
                label = self.expressions.expression()
            self.tokens.expect(":", "after the label of a case")
            body = (
                self.block(self.tokens.token, self.annotations.annotations())
                if self.tokens.at("{", "@")
                else None
            )
            cases.append(syntax.SwitchCase(self.tokens.since(start), label, body))
        self.tokens.advance()
        return syntax.Switch(self.tokens.since(first), expression, cases)

    # annotations '{' statementOrDeclaration* '}'
    def block(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Block:
        self.tokens.expect("{", "at the start of a block")
        statements: list[syntax.Statement | syntax.Declaration] = []
        with self.tokens.scope():
            while not self.tokens.at("}"):
                if self.tokens.at("end"):
                    self.tokens.unexpected("'}' to end the block")
                statements.append(self.statement_or_declaration())
        self.tokens.advance()
        return syntax.Block(self.tokens.since(first), annotations, statements)

    # statementOrDeclaration: const ... | typeRef name ... | statement
    def statement_or_declaration(self) -> syntax.Statement | syntax.Declaration:
        first, start = self.tokens.token, self.tokens.position
        annotations = self.annotations.annotations()
        if self.tokens.at("const"):
            return self.constant_declaration(first, annotations)
        if self.at_declaration():
            return self.variable_or_instantiation(first, annotations)
        if annotations:
            self.tokens.move_to(start)
        if self.tokens.token.kind == "name" and self.tokens.peek().kind == "name":
            self.unknown_type()
        return self.statement()

    def unknown_type(self, keywords: tuple[str, ...] = ()) -> None:
        """Reject `name1 name2` if name1 is not a type.

        name1 may be a misspelt keyword; `keywords` contains the possible keywords.
        """
        name = self.tokens.token.text
        if not self.tokens.is_type_name(self.tokens.token):
            is_known = any(name in scope for scope in self.tokens.scopes)
            what = "is not a type" if is_known else "is not declared"
            hint = did_you_mean(name, [*self.tokens.known_types(), *keywords])
            self.tokens.fail(f"{name!r} {what}{hint}", "a type before the name of a variable")

    def at_declaration(self) -> bool:
        """Return whether a declaration starts here: a type that is no part of a value or a call.

        `error.X` is a value, and `C.apply()` is a call.
        """
        if not self.tokens.at_type():
            return False
        if self.tokens.peek().kind == ".":
            return False
        if self.tokens.peek().kind != "<" or self.tokens.token.kind != "name":
            return True
        start = self.tokens.position
        self.expressions.plain_type()
        is_declaration = not self.tokens.at(".")
        self.tokens.move_to(start)
        return is_declaration

    # ------------------------------------------------------------ for loops (12.9)

    # for '(' [init (',' init)*] ';' expression ';' [update (',' update)*] ')' statement
    # for '(' annotations typeRef name in (expression | expression '..' expression) ')' statement
    def for_statement(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Statement:
        self.tokens.advance()
        self.tokens.expect("(", "after 'for'")
        with self.tokens.scope():
            initial: list[syntax.Statement | syntax.Declaration] = []
            while not self.tokens.at(";"):
                start = self.tokens.token
                of_variable = self.annotations.annotations()
                if self.at_declaration():
                    variable = self.variable(start, of_variable)
                    if self.tokens.accept("in"):
                        return self.for_in(first, annotations, variable)
                    initial.append(variable)
                else:
                    initial.append(self.assignment_or_call())
                if not self.tokens.accept(","):
                    break
            self.tokens.expect(";", "after the start of a for loop")
            condition = self.expressions.expression()
            self.tokens.expect(";", "after the condition of a for loop")
            updates: list[syntax.Statement] = []
            while not self.tokens.at(")"):
                updates.append(self.assignment_or_call())
                if not self.tokens.accept(","):
                    break
            self.tokens.expect(")", "after the head of a for loop")
            body = self.statement()
        return syntax.For(self.tokens.since(first), annotations, initial, condition, updates, body)

    def for_in(
        self,
        first: Token,
        annotations: list[syntax.Annotation],
        variable: syntax.VariableDeclaration,
    ) -> syntax.Statement:
        start = self.tokens.token
        collection = self.expressions.expression()
        if self.tokens.accept(".."):
            high = self.expressions.expression()
            collection = syntax.Range(self.tokens.since(start), collection, high)
        self.tokens.expect(")", "after the head of a for loop")
        body = self.statement()
        return syntax.ForIn(self.tokens.since(first), annotations, variable, collection, body)

    # ------------------------------------------------------------ local declarations (11)

    # constantDeclaration: const typeRef declarator '=' expression ';'
    def constant_declaration(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.ConstantDeclaration:
        self.tokens.advance()
        of = self.expressions.type_expression()
        name = self.tokens.name("the name of the constant")
        of = self.declarator_suffix(of)
        self.tokens.expect("=", "and the value of the constant")
        value = self.expressions.expression()
        self.tokens.expect(";", "after the constant")
        self.tokens.declare(name.text, is_type=False)
        return syntax.ConstantDeclaration(
            name.source, self.tokens.since(first), annotations, name.text, of, value
        )

    # variableDeclaration: typeRef declarator ['=' expression]
    def variable(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.VariableDeclaration:
        of = self.expressions.type_expression()
        name = self.tokens.name("the name of a variable")
        of = self.declarator_suffix(of)
        value = self.expressions.expression() if self.tokens.accept("=") else None
        self.tokens.declare(name.text, is_type=False)
        return syntax.VariableDeclaration(
            name.source, self.tokens.since(first), annotations, name.text, of, value
        )

    # declarator: name ('[' expression ']')*
    def declarator_suffix(self, of: syntax.TypeExpression) -> syntax.TypeExpression:
        first = self.tokens.token
        while self.tokens.accept("["):
            size = self.expressions.expression()
            self.tokens.expect("]", "after the size of an array")
            of = syntax.ArrayTypeName(self.tokens.since(first), of, size)
        return of

    # variableDeclaration ';'  |  instantiation
    def variable_or_instantiation(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.Declaration:
        start = self.tokens.position
        of = self.expressions.type_expression()
        if self.tokens.at("("):
            return self.instantiation(first, annotations, of)
        self.tokens.move_to(start)
        result = self.variable(first, annotations)
        self.tokens.expect(";", "after the declaration of a variable")
        return result

    # instantiation: typeRef '(' arguments ')' name ['=' '{' (function | instantiation)* '}'] ';'
    def instantiation(
        self, first: Token, annotations: list[syntax.Annotation], of: syntax.TypeExpression
    ) -> syntax.Instantiation:
        arguments = self.expressions.arguments()
        call = syntax.Call(
            self.tokens.since(first), syntax.TypeReference(of.source, of), [], arguments
        )
        name = self.tokens.name("the name of the instance")
        self.tokens.declare(name.text, is_type=False)
        objects: list[syntax.Declaration] = []
        if self.tokens.accept("="):
            self.tokens.expect("{", "before the methods of an instance")
            with self.tokens.scope():
                while not self.tokens.at("}"):
                    objects.append(self.instance_member())
            self.tokens.advance()
        self.tokens.expect(";", "after an instantiation")
        return syntax.Instantiation(
            name.source, self.tokens.since(first), annotations, name.text, call, objects
        )

    # instanceMember: functionDeclaration | instantiation
    def instance_member(self) -> syntax.Declaration:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        start = self.tokens.position
        if self.tokens.at_type():
            of = self.expressions.type_expression()
            if self.tokens.at("("):
                return self.instantiation(first, annotations, of)
            self.tokens.move_to(start)
        return self.function(first, annotations)

    # ------------------------------------------------------------ functions (10)

    # functionDeclaration: functionPrototype block
    def function(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Function:
        with self.tokens.scope():
            result = self.prototype(first, annotations)
            result.body = self.block(self.tokens.token, [])
        result.whole = self.tokens.since(first)
        self.tokens.declare(result.name, is_type=False)
        return result

    # functionPrototype: (typeRef | void) name [typeParameters] '(' parameters ')'
    def prototype(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Function:
        """Parse a prototype; the result type may be a type parameter that is declared after it."""
        of = self.expressions.type_expression()
        name = self.tokens.name("the name of a function")
        type_parameters = self.type_parameters()
        parameters = self.parameters()
        return syntax.Function(
            name.source,
            self.tokens.since(first),
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
        if self.tokens.accept("<"):
            while True:
                name = self.tokens.name("the name of a type parameter")
                self.tokens.declare(name.text, is_type=True)
                result.append(syntax.TypeParameter(name.source, name.source, [], name.text))
                if not self.tokens.accept(","):
                    break
            self.tokens.expect(">", "after type parameters")
        return result

    # parameters: '(' [parameter (',' parameter)*] ')'
    def parameters(self) -> list[syntax.Parameter]:
        self.tokens.expect("(", "before parameters")
        result: list[syntax.Parameter] = []
        while not self.tokens.at(")"):
            result.append(self.parameter())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "or ',' after a parameter")
        return result

    # parameter: annotations [in | out | inout] typeRef declarator ['=' expression]
    def parameter(self) -> syntax.Parameter:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        direction = self.tokens.advance().kind if self.tokens.at("in", "out", "inout") else ""
        of = self.expressions.type_expression()
        name = self.tokens.name("the name of the parameter")
        of = self.declarator_suffix(of)
        default = self.expressions.expression() if self.tokens.accept("=") else None
        self.tokens.declare(name.text, is_type=False)
        return syntax.Parameter(
            name.source, self.tokens.since(first), annotations, name.text, direction, of, default
        )
