"""Productions of tables (spec section 14.2)."""

from __future__ import annotations

from minip4.compiler import syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.parse.annotations import AnnotationParser
from minip4.compiler.parse.expressions import ExpressionParser
from minip4.compiler.parse.token_stream import TokenStream
from minip4.compiler.preprocess.lexer import Token


class TableParser:
    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.expressions = ExpressionParser(tokens)
        self.annotations = AnnotationParser(tokens)

    # table: table name '{' (key | actions | entries | property)* '}'
    def table(self, first: Token, annotations: list[syntax.Annotation]) -> syntax.Table:
        self.tokens.advance()
        name = self.tokens.name("the name of the table")
        self.tokens.expect("{", "before the properties of a table")
        result = syntax.Table(
            name.source, first.source, annotations, name.text, [], [], None, False, None, False, []
        )
        seen: set[str] = set()
        while not self.tokens.at("}"):
            start = self.tokens.token
            of_property = self.annotations.annotations()
            is_const = self.tokens.accept("const")
            keyword = self.tokens.name(
                "a table property: key, actions, entries, default_action, ..."
            )
            if keyword.text in seen:
                message = f"the table has two properties {keyword.text!r}"
                raise P4Error(message, keyword.source, "one of each")
            seen.add(keyword.text)
            self.tokens.expect("=", f"after '{keyword.text}'")
            self.table_property(result, start, of_property, is_const, keyword)
        self.tokens.advance()
        result.whole = self.tokens.since(first)
        if "actions" not in seen:
            raise P4Error(f"table {name.text!r} has no actions", name.source, "actions = {...}")
        self.tokens.declare(name.text, is_type=False)
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
            self.tokens.expect("{", f"after '{keyword.text} ='")
            if keyword.text in ("key", "actions") and table.entries is not None:
                raise P4Error(f"'{keyword.text}' after the entries", keyword.source, "before them")
            if keyword.text == "entries":
                table.entries = []
                table.are_entries_const = is_const
            while not self.tokens.at("}"):
                if keyword.text == "key":
                    table.keys.append(self.key_element())
                elif keyword.text == "actions":
                    table.actions.append(self.action_reference())
                    self.tokens.expect(";", "after an action")
                else:
                    assert table.entries is not None
                    table.entries.append(self.entry())
            self.tokens.advance()
            return
        if keyword.text == "default_action":
            table.default_action = self.action_reference()
            table.is_default_action_const = is_const
        else:
            value = self.expressions.expression()
            table.properties.append(
                syntax.TableProperty(
                    keyword.source,
                    self.tokens.since(first),
                    annotations,
                    keyword.text,
                    is_const,
                    value,
                )
            )
        self.tokens.expect(";", f"after the table property '{keyword.text}'")

    # keyElement: expression ':' name annotations ';'
    def key_element(self) -> syntax.KeyElement:
        first = self.tokens.token
        expression = self.expressions.expression()
        self.tokens.expect(":", "and a match kind after a key")
        kind = self.tokens.name("a match kind: exact, lpm, ternary, ...")
        annotations = self.annotations.annotations()
        self.tokens.expect(";", "after a key element")
        return syntax.KeyElement(self.tokens.since(first), expression, kind.text, annotations)

    # actionRef: annotations ['.'] name ['(' arguments ')']
    def action_reference(self) -> syntax.ActionReference:
        first = self.tokens.token
        annotations = self.annotations.annotations()
        is_absolute = self.tokens.accept(".")
        name = self.tokens.name("the name of an action")
        arguments = self.expressions.arguments() if self.tokens.at("(") else None
        return syntax.ActionReference(
            self.tokens.since(first), annotations, name.text, is_absolute, arguments
        )

    # entry: [const] [priority '=' (INTEGER | '(' expression ')') ':'] keyset ':' actionRef
    #        annotations ';'
    def entry(self) -> syntax.Entry:
        first = self.tokens.token
        is_const = self.tokens.accept("const")
        priority = None
        if self.tokens.at("priority") and self.tokens.peek().kind == "=":
            self.tokens.advance()
            self.tokens.advance()
            priority = self.expressions.primary()
            self.tokens.expect(":", "after the priority of an entry")
        keys = self.expressions.keyset()
        self.tokens.expect(":", "after the keys of an entry")
        action = self.action_reference()
        annotations = self.annotations.annotations()
        self.tokens.expect(";", "after an entry")
        return syntax.Entry(self.tokens.since(first), annotations, is_const, priority, keys, action)
