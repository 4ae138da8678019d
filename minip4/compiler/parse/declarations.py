"""Productions of type, extern and package declarations (spec section 7.2, 7.3 and 16)."""

from __future__ import annotations

from collections.abc import Callable

from minip4.compiler import syntax
from minip4.compiler.parse.annotations import AnnotationParser
from minip4.compiler.parse.expressions import ExpressionParser
from minip4.compiler.parse.statements import StatementParser
from minip4.compiler.parse.token_stream import TokenStream
from minip4.compiler.preprocess.lexer import Token


class DeclarationParser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.expressions = ExpressionParser(tokens)
        self.annotations = AnnotationParser(tokens)
        self.statements = StatementParser(tokens)

    # structDeclaration: (struct | header | header_union) name [typeParameters] '{' field* '}'
    def struct(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.StructDeclaration:
        keyword = self.tokens.advance().kind
        name = self.tokens.name(f"the name of the {keyword}")
        self.tokens.declare(name.text, is_type=True)
        fields: list[syntax.Field] = []
        with self.tokens.scope():
            type_parameters = self.statements.type_parameters()
            self.tokens.expect("{", f"before the fields of a {keyword}")
            while not self.tokens.at("}"):
                fields.append(self.field())
        self.tokens.advance()
        return syntax.StructDeclaration(
            name.source,
            self.tokens.since(first),
            annotations,
            name.text,
            keyword,
            type_parameters,
            fields,
        )

    # field: annotations typeRef declarator ';'
    def field(self) -> syntax.Field:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        of = self.expressions.type_expression()
        name = self.tokens.name("the name of a field")
        of = self.statements.declarator_suffix(of)
        self.tokens.expect(";", "after a field")
        return syntax.Field(name.source, self.tokens.since(first), annotations, name.text, of)

    # enumDeclaration: enum name '{' name (',' name)* [','] '}'
    #                | enum typeRef name '{' name '=' expression (',' ...)* [','] '}'
    def enum(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.EnumDeclaration:
        self.tokens.advance()
        underlying = None
        if not (self.tokens.at_name() and self.tokens.peek().kind == "{"):
            underlying = self.expressions.type_expression()
        name = self.tokens.name("the name of the enum")
        self.tokens.declare(name.text, is_type=True)
        self.tokens.expect("{", "before the members of an enum")
        members: list[syntax.EnumMember] = []
        while not self.tokens.at("}"):
            start = self.tokens.token
            of_member = self.annotations.annotations()
            member = self.tokens.name("the name of a member")
            value = self.expressions.expression() if self.tokens.accept("=") else None
            members.append(
                syntax.EnumMember(
                    member.source, self.tokens.since(start), of_member, member.text, value
                )
            )
            if not self.tokens.accept(","):
                break
        self.tokens.expect("}", "or ',' after a member")
        return syntax.EnumDeclaration(
            name.source, self.tokens.since(first), annotations, name.text, underlying, members
        )

    # errorDeclaration: error '{' names '}'
    def errors(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        names = self.name_list()
        members = [syntax.ErrorMember(n.source, n.source, [], n.text) for n in names]
        return syntax.ErrorDeclaration(
            first.source, self.tokens.since(first), annotations, "error", members
        )

    # matchKindDeclaration: match_kind '{' names [','] '}'
    def match_kinds(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        names = self.name_list()
        members = [syntax.MatchKindMember(n.source, n.source, [], n.text) for n in names]
        return syntax.MatchKindDeclaration(
            first.source, self.tokens.since(first), annotations, "match_kind", members
        )

    def name_list(self) -> list[Token]:
        keyword = self.tokens.advance().kind
        self.tokens.expect("{", f"after '{keyword}'")
        names: list[Token] = []
        while not self.tokens.at("}"):
            names.append(self.tokens.name(f"a name of the {keyword}"))
            if not self.tokens.accept(","):
                break
        self.tokens.expect("}", "or ',' after a name")
        return names

    # typedefDeclaration: (typedef | type) (typeRef | structDeclaration | enum) declarator ';'
    def typedef(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.TypedefDeclaration:
        is_new = self.tokens.advance().kind == "type"
        inner: syntax.Declaration | None = None
        start = self.tokens.token
        of_inner = self.annotations.annotations()
        if self.tokens.at("struct", "header", "header_union"):
            inner = self.struct(start, of_inner)
        elif self.tokens.at("enum"):
            inner = self.enum(start, of_inner)
        if inner is None:
            of = self.expressions.type_expression()
        else:
            of = syntax.TypeName(inner.source, inner.name)
        name = self.tokens.name("the new name of the type")
        of = self.statements.declarator_suffix(of)
        self.tokens.expect(";", "after a typedef")
        self.tokens.declare(name.text, is_type=True)
        return syntax.TypedefDeclaration(
            name.source, self.tokens.since(first), annotations, name.text, of, is_new, inner
        )

    # externDeclaration: extern name [typeParameters] '{' method* '}' | extern name ';'
    #                  | extern functionPrototype ';'
    def extern(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.Declaration | None:
        self.tokens.advance()
        is_object = self.tokens.at_name() and self.tokens.peek().kind in ("{", "<", ";")
        if (
            is_object
            and self.tokens.peek().kind == "<"
            and self.tokens.is_type_name(self.tokens.token)
        ):
            is_object = not self.is_generic_result()
        if not is_object:
            with self.tokens.scope():
                function = self.statements.prototype(first, annotations)
            self.tokens.expect(";", "after the prototype of an extern function")
            self.tokens.declare(function.name, is_type=False)
            return function
        name = self.tokens.advance()
        self.tokens.declare(name.text, is_type=True)
        if self.tokens.accept(";"):
            return None  # a forward declaration only announces the name
        result = syntax.ExternDeclaration(
            name.source, first.source, annotations, name.text, [], [], []
        )
        with self.tokens.scope():
            result.type_parameters = self.statements.type_parameters()
            self.tokens.expect("{", "before the methods of an extern object")
            while not self.tokens.at("}"):
                self.method(result)
        self.tokens.advance()
        result.whole = self.tokens.since(first)
        return result

    def is_generic_result(self) -> bool:
        """Return whether `name<...>` is the result type of a function (another name follows)."""
        start = self.tokens.position
        self.expressions.plain_type()
        is_result = self.tokens.at_name()
        self.tokens.move_to(start)
        return is_result

    # method: annotations ([abstract] functionPrototype | name '(' parameters ')') ';'
    def method(self, extern: syntax.ExternDeclaration) -> None:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        with self.tokens.scope():
            if self.tokens.token.text == extern.name and self.tokens.peek().kind == "(":
                name = self.tokens.advance()
                parameters = self.statements.parameters()
                extern.constructors.append(
                    syntax.Function(
                        name.source,
                        self.tokens.since(first),
                        annotations,
                        name.text,
                        None,
                        [],
                        parameters,
                        None,
                    )
                )
            else:
                is_abstract = self.tokens.accept("abstract")
                method = self.statements.prototype(first, annotations)
                method.is_abstract = is_abstract
                extern.methods.append(method)
        self.tokens.expect(";", "after the prototype of a method")

    # packageTypeDeclaration: package name [typeParameters] '(' parameters ')' ';'
    def package(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.PackageDeclaration:
        self.tokens.advance()
        name = self.tokens.name("the name of the package")
        self.tokens.declare(name.text, is_type=True)
        with self.tokens.scope():
            type_parameters = self.statements.type_parameters()
            parameters = self.statements.parameters()
        self.tokens.expect(";", "after a package type")
        return syntax.PackageDeclaration(
            name.source,
            self.tokens.since(first),
            annotations,
            name.text,
            type_parameters,
            parameters,
        )

    # actionDeclaration: action name '(' parameters ')' block
    def action(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Action:
        self.tokens.advance()
        name = self.tokens.name("the name of the action")
        with self.tokens.scope():
            parameters = self.statements.parameters()
            body = self.statements.block(self.tokens.token, [])
        self.tokens.declare(name.text, is_type=False)
        return syntax.Action(
            name.source, self.tokens.since(first), annotations, name.text, parameters, body
        )


Production = Callable[[Token, list[syntax.Annotation]], syntax.Declaration | None]
