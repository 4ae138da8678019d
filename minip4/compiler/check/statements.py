"""Statements, and declarations inside blocks (spec sections 11 and 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minip4.compiler import syntax, types
from minip4.compiler.check.context import Context, describe, is_numeric, typed
from minip4.compiler.errors import P4Error


class Statements:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.statement_rules: dict[type, Callable[[Any], None]] = {
            syntax.Assignment: self.assignment,
            syntax.CallStatement: self.call_statement,
            syntax.If: self.if_statement,
            syntax.Block: self.block,
            syntax.Return: self.return_statement,
            syntax.Exit: self.exit,
            syntax.Break: self.loop_exit,
            syntax.Continue: self.loop_exit,
            syntax.Empty: lambda s: None,
            syntax.Switch: self.switch,
            syntax.For: self.for_statement,
            syntax.ForIn: self.for_in,
            syntax.VariableDeclaration: self.variable,
            syntax.ConstantDeclaration: self.constant,
            syntax.Instantiation: self.misplaced_instantiation,
        }

    def statement(self, s: syntax.Statement | syntax.Declaration) -> None:
        self.statement_rules[type(s)](s)

    def block(self, s: syntax.Block) -> None:
        self.context.type_names.annotations(s.annotations)
        with self.context.scope():
            for inner in s.statements:
                self.statement(inner)

    # ------------------------------------------------------------ simple statements

    def assignment(self, s: syntax.Assignment) -> None:
        s.left = self.context.conversions.value(s.left)
        self.context.arguments.lvalue(s.left, "the left side of an assignment")
        of = s.left.type
        if not s.operator:
            s.right = self.context.conversions.converted(s.right, of, "the assigned value")
            return
        right = self.context.conversions.value(s.right)
        # Checked as `left = left op right`, so that the rules of the operator apply.
        whole = syntax.Binary(s.source, s.operator, s.left, right)
        result = self.context.operators.binary(whole)
        s.right = whole.right
        if result.type != of:
            raise P4Error(f"'{s.operator}=' gives {describe(result.type)}", s.source, str(of))

    def call_statement(self, s: syntax.CallStatement) -> None:
        result = self.context.expressions.expression(s.call)
        assert isinstance(result, syntax.Call)
        if result.kind is syntax.CallKind.CONSTRUCTOR:
            raise P4Error("an instance needs a name", s.source, "T(...) name;")

    def if_statement(self, s: syntax.If) -> None:
        s.condition = self.context.conversions.converted(s.condition, types.BOOL, "the condition")
        with self.context.scope():
            self.statement(s.then)
        if s.otherwise is not None:
            with self.context.scope():
                self.statement(s.otherwise)

    def return_statement(self, s: syntax.Return) -> None:
        if self.context.place.kind == "parser":
            raise P4Error("'return' in a parser", s.source, "transition accept or reject")
        wanted = self.context.place.result
        if s.value is None:
            if wanted is not None and wanted is not types.VOID:
                raise P4Error("'return' without a value", s.source, f"a value of type {wanted}")
        elif wanted is None or wanted is types.VOID:
            raise P4Error(
                f"{self.context.place.name!r} returns no value", s.value.source, "return;"
            )
        else:
            s.value = self.context.conversions.converted(s.value, wanted, "the returned value")

    def exit(self, s: syntax.Exit) -> None:
        if self.context.place.kind not in ("control", "action"):
            raise P4Error(
                f"'exit' in a {self.context.place.kind}", s.source, "in a control or action"
            )

    def loop_exit(self, s: syntax.Break | syntax.Continue) -> None:
        if self.context.place.loops == 0:
            word = "break" if isinstance(s, syntax.Break) else "continue"
            raise P4Error(f"'{word}' outside of a loop", s.source, "in a for loop")

    # ------------------------------------------------------------ switch (12.7)

    def switch(self, s: syntax.Switch) -> None:
        if self.context.place.kind == "parser":
            raise P4Error("'switch' in a parser", s.source, "transition select(...)")
        s.expression = self.context.expressions.expression(s.expression)
        of = s.expression.type
        if not isinstance(of, types.ActionRun):
            s.expression = self.context.conversions.value(s.expression)
            if (
                not is_numeric(of)
                and not isinstance(of, (types.Enum, types.SerializableEnum))
                and of not in (types.ERROR, types.BOOL)
            ):
                message = f"a switch over {describe(of)}"
                raise P4Error(message, s.expression.source, "action_run, bit<N>, enum or error")
        seen: dict[object, syntax.SwitchCase] = {}
        for position, case in enumerate(s.cases):
            key = self.switch_label(s, case, position == len(s.cases) - 1)
            if key in seen:
                message = f"a second case for {case.label.source.text}"
                raise P4Error(message, case.label.source, f"one; first at {seen[key].source}")
            seen[key] = case
            if case.body is not None:
                self.statement(case.body)

    def switch_label(self, s: syntax.Switch, case: syntax.SwitchCase, is_last: bool) -> object:
        """Check a label and return its key. The keys of all cases must be different."""
        label, of = case.label, s.expression.type
        if isinstance(label, syntax.DontCare):
            if not is_last:
                raise P4Error("'default' is not the last case", label.source)
            typed(label, types.DONT_CARE)
            return "default"
        if isinstance(of, types.ActionRun):
            return self.action_label(label, of.table)
        case.label = self.context.conversions.converted(label, of, "the label of a case")
        if case.label.constant is None:
            raise P4Error("the label of a case is not constant", label.source, "a constant")
        return case.label.constant

    def action_label(self, label: syntax.Expression, table: syntax.Table) -> syntax.Action:
        actions = {a.name: a.action for a in table.actions if a.action is not None}
        action = actions.get(label.name) if isinstance(label, syntax.Name) else None
        if action is None or not isinstance(label, syntax.Name):
            message = f"{label.source.text!r} is not an action of table {table.name!r}"
            raise P4Error(message, label.source, ", ".join(actions))
        label.declaration = action
        typed(label, types.Function(action.name))
        return action

    # ------------------------------------------------------------ loops (12.9)

    def for_statement(self, s: syntax.For) -> None:
        self.loop_allowed(s)
        with self.context.scope():
            for initial in s.initial:
                self.statement(initial)
            s.condition = self.context.conversions.converted(
                s.condition, types.BOOL, "the condition"
            )
            for update in s.updates:
                self.statement(update)
            self.loop_body(s.body)

    def for_in(self, s: syntax.ForIn) -> None:
        self.loop_allowed(s)
        with self.context.scope():
            of = self.context.type_names.value_type(
                s.variable.type_expression, "the variable of a loop"
            )
            s.variable.type = of
            if isinstance(s.collection, syntax.Range):
                r = s.collection
                r.low = self.context.conversions.converted(r.low, of, "the lower end of the range")
                r.high = self.context.conversions.converted(
                    r.high, of, "the upper end of the range"
                )
                typed(r, types.Set(of))
            else:
                s.collection = self.collection(s.collection, of)
            self.context.declare(s.variable)
            self.loop_body(s.body)

    def collection(self, e: syntax.Expression, of: types.Type) -> syntax.Expression:
        e = self.context.conversions.value(e)
        if isinstance(e, syntax.ListExpression):
            return self.context.conversions.convert(e, types.List(of), "an element of the list")
        element = e.type.element if isinstance(e.type, (types.Stack, types.List)) else None
        if element != of:
            expected = f"a stack or list of {of}, or low .. high"
            raise P4Error(f"a loop over {describe(e.type)}", e.source, expected)
        return e

    def loop_allowed(self, s: syntax.For | syntax.ForIn) -> None:
        self.context.type_names.annotations(s.annotations)
        if self.context.place.kind == "parser":
            raise P4Error("'for' in a parser", s.source, "a state that transitions to itself")

    def loop_body(self, body: syntax.Statement) -> None:
        self.context.place.loops += 1
        self.statement(body)
        self.context.place.loops -= 1

    # ------------------------------------------------------------ declarations (11)

    def variable(self, d: syntax.VariableDeclaration) -> None:
        self.context.type_names.annotations(d.annotations)
        d.type = self.context.type_names.value_type(d.type_expression, "a variable")
        no_variable = (types.Set, types.List)
        if d.type in (types.INTEGER, types.STRING, types.MATCH_KIND, types.DONT_CARE) or isinstance(
            d.type, no_variable
        ):
            message = f"a variable cannot have type {d.type}"
            raise P4Error(message, d.type_expression.source, "e.g. bit<32>, or 'const'")
        if d.initializer is not None:
            d.initializer = self.context.conversions.converted(
                d.initializer, d.type, "the initial value"
            )
        self.context.declare(d)

    def constant(self, d: syntax.ConstantDeclaration) -> None:
        self.context.type_names.annotations(d.annotations)
        d.type = self.context.type_names.value_type(d.type_expression, "a constant")
        d.initializer = self.context.conversions.converted(d.initializer, d.type, "the value")
        if d.initializer.constant is None and not _is_compound_constant(d.initializer):
            message = f"the value of {d.name!r} is not known at compile time"
            raise P4Error(message, d.initializer.source, "a constant")
        self.context.declare(d)

    def misplaced_instantiation(self, d: syntax.Instantiation) -> None:
        raise P4Error(
            f"{d.name!r} is instantiated in a block",
            d.whole,
            "an instantiation among the declarations of the control or parser",
        )


def _is_compound_constant(e: syntax.Expression) -> bool:
    """Return whether a value in braces is constant. Invalid headers count as constant."""
    if isinstance(e, syntax.ListExpression):
        return all(_is_compound_constant(element) for element in e.elements)
    if isinstance(e, syntax.StructExpression):
        return all(_is_compound_constant(v.value) for v in e.values)
    return e.constant is not None or isinstance(e, syntax.InvalidHeader)


def returns(s: syntax.Statement | syntax.Declaration) -> bool:
    """Return whether every path through the statement ends in a return (10)."""
    if isinstance(s, (syntax.Return, syntax.Exit)):
        return True
    if isinstance(s, syntax.Block):
        return any(returns(inner) for inner in s.statements)
    if isinstance(s, syntax.If):
        if s.otherwise is None:
            return False
        return returns(s.then) and returns(s.otherwise)
    if isinstance(s, syntax.Switch):
        has_default = any(isinstance(c.label, syntax.DontCare) for c in s.cases)
        return has_default and all(returns(c.body) for c in s.cases if c.body is not None)
    return False
