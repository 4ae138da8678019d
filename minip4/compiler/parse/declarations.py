"""Productions of type, extern and package declarations (spec section 7.2, 7.3 and 16)."""

from __future__ import annotations

from collections.abc import Callable

from minip4.compiler import syntax
from minip4.compiler.parse.statements import StatementParser
from minip4.compiler.preprocess.lexer import Token


class DeclarationParser(StatementParser):
    # structDeclaration: (struct | header | header_union) name [typeParameters] '{' field* '}'
    def struct(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.StructDeclaration:
        keyword = self.advance().kind
        name = self.name(f"the name of the {keyword}")
        self.declare(name.text, is_type=True)
        fields: list[syntax.Field] = []
        with self.scope():
            type_parameters = self.type_parameters()
            self.expect("{", f"before the fields of a {keyword}")
            while not self.at("}"):
                fields.append(self.field())
        self.advance()
        return syntax.StructDeclaration(
            name.source,
            self.since(first),
            annotations,
            name.text,
            keyword,
            type_parameters,
            fields,
        )

    # field: annotations typeRef declarator ';'
    def field(self) -> syntax.Field:
        first = self.token
        annotations = self.annotations()
        of = self.type_expression()
        name = self.name("the name of a field")
        of = self.declarator_suffix(of)
        self.expect(";", "after a field")
        return syntax.Field(name.source, self.since(first), annotations, name.text, of)

    # enumDeclaration: enum name '{' name (',' name)* [','] '}'
    #                | enum typeRef name '{' name '=' expression (',' ...)* [','] '}'
    def enum(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.EnumDeclaration:
        self.advance()
        underlying = None
        if not (self.at_name() and self.peek().kind == "{"):
            underlying = self.type_expression()
        name = self.name("the name of the enum")
        self.declare(name.text, is_type=True)
        self.expect("{", "before the members of an enum")
        members: list[syntax.EnumMember] = []
        while not self.at("}"):
            start = self.token
            of_member = self.annotations()
            member = self.name("the name of a member")
            value = self.expression() if self.accept("=") else None
            members.append(
                syntax.EnumMember(member.source, self.since(start), of_member, member.text, value)
            )
            if not self.accept(","):
                break
        self.expect("}", "or ',' after a member")
        return syntax.EnumDeclaration(
            name.source, self.since(first), annotations, name.text, underlying, members
        )

    # errorDeclaration: error '{' names '}'
    def errors(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        names = self.name_list()
        members = [syntax.ErrorMember(n.source, n.source, [], n.text) for n in names]
        return syntax.ErrorDeclaration(
            first.source, self.since(first), annotations, "error", members
        )

    # matchKindDeclaration: match_kind '{' names [','] '}'
    def match_kinds(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        names = self.name_list()
        members = [syntax.MatchKindMember(n.source, n.source, [], n.text) for n in names]
        return syntax.MatchKindDeclaration(
            first.source, self.since(first), annotations, "match_kind", members
        )

    def name_list(self) -> list[Token]:
        keyword = self.advance().kind
        self.expect("{", f"after '{keyword}'")
        names: list[Token] = []
        while not self.at("}"):
            names.append(self.name(f"a name of the {keyword}"))
            if not self.accept(","):
                break
        self.expect("}", "or ',' after a name")
        return names

    # typedefDeclaration: (typedef | type) (typeRef | structDeclaration | enum) declarator ';'
    def typedef(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.TypedefDeclaration:
        is_new = self.advance().kind == "type"
        inner: syntax.Declaration | None = None
        start = self.token
        of_inner = self.annotations()
        if self.at("struct", "header", "header_union"):
            inner = self.struct(start, of_inner)
        elif self.at("enum"):
            inner = self.enum(start, of_inner)
        if inner is None:
            of = self.type_expression()
        else:
            of = syntax.TypeName(inner.source, inner.name)
        name = self.name("the new name of the type")
        of = self.declarator_suffix(of)
        self.expect(";", "after a typedef")
        self.declare(name.text, is_type=True)
        return syntax.TypedefDeclaration(
            name.source, self.since(first), annotations, name.text, of, is_new, inner
        )

    # externDeclaration: extern name [typeParameters] '{' method* '}' | extern name ';'
    #                  | extern functionPrototype ';'
    def extern(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.Declaration | None:
        self.advance()
        is_object = self.at_name() and self.peek().kind in ("{", "<", ";")
        if is_object and self.peek().kind == "<" and self.is_type_name(self.token):
            is_object = not self.is_generic_result()
        if not is_object:
            with self.scope():
                function = self.prototype(first, annotations)
            self.expect(";", "after the prototype of an extern function")
            self.declare(function.name, is_type=False)
            return function
        name = self.advance()
        self.declare(name.text, is_type=True)
        if self.accept(";"):
            return None  # only announces the name
        result = syntax.ExternDeclaration(
            name.source, first.source, annotations, name.text, [], [], []
        )
        with self.scope():
            result.type_parameters = self.type_parameters()
            self.expect("{", "before the methods of an extern object")
            while not self.at("}"):
                self.method(result)
        self.advance()
        result.whole = self.since(first)
        return result

    def is_generic_result(self) -> bool:
        """Whether `name<...>` is the result of a function: another name follows."""
        start = self.position
        self.plain_type()
        is_result = self.at_name()
        self.move_to(start)
        return is_result

    # method: annotations ([abstract] functionPrototype | name '(' parameters ')') ';'
    def method(self, extern: syntax.ExternDeclaration) -> None:
        first = self.token
        annotations = self.annotations()
        with self.scope():
            if self.token.text == extern.name and self.peek().kind == "(":
                name = self.advance()
                parameters = self.parameters()
                extern.constructors.append(
                    syntax.Function(
                        name.source,
                        self.since(first),
                        annotations,
                        name.text,
                        None,
                        [],
                        parameters,
                        None,
                    )
                )
            else:
                is_abstract = self.accept("abstract")
                method = self.prototype(first, annotations)
                method.is_abstract = is_abstract
                extern.methods.append(method)
        self.expect(";", "after the prototype of a method")

    # packageTypeDeclaration: package name [typeParameters] '(' parameters ')' ';'
    def package(
        self, first: Token, annotations: list[syntax.Annotation]
    ) -> syntax.PackageDeclaration:
        self.advance()
        name = self.name("the name of the package")
        self.declare(name.text, is_type=True)
        with self.scope():
            type_parameters = self.type_parameters()
            parameters = self.parameters()
        self.expect(";", "after a package type")
        return syntax.PackageDeclaration(
            name.source, self.since(first), annotations, name.text, type_parameters, parameters
        )

    # actionDeclaration: action name '(' parameters ')' block
    def action(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Action:
        self.advance()
        name = self.name("the name of the action")
        with self.scope():
            parameters = self.parameters()
            body = self.block(self.token, [])
        self.declare(name.text, is_type=False)
        return syntax.Action(
            name.source, self.since(first), annotations, name.text, parameters, body
        )


Production = Callable[[Token, list[syntax.Annotation]], syntax.Declaration | None]
