"""Data-flow analysis for uninitialized values and for fields of invalid headers.

The analysis follows each parser, control and function along all paths, as p4c does. At the start,
`in` parameters are set, and their headers are valid. A condition may restrict later conditions.
Calls of actions and tables are followed. Calls of functions and of other controls are not followed,
because these are analysed on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from minip4.compiler import syntax, types
from minip4.compiler.analysis.expressions import Applied, ExpressionFlow
from minip4.compiler.analysis.places import place_of, values_in, written
from minip4.compiler.analysis.state import State, copied, join, join_all
from minip4.compiler.analysis.unused import targets
from minip4.compiler.warnings import Warnings


def check_values(program: syntax.Program) -> None:
    """Add warnings about uninitialized values and invalid headers to the program."""
    for d in program.declarations:
        if isinstance(d, syntax.Function) and d.body is not None:
            Flow(program.warnings).function(d, d.body)
        elif isinstance(d, syntax.ControlDeclaration):
            Flow(program.warnings).control(d)
        elif isinstance(d, syntax.ParserDeclaration):
            Flow(program.warnings).parser(d)


@dataclass(slots=True)
class Exits:
    """The states at statements that leave a body before its end."""

    returned: list[State] = field(default_factory=list)
    broken: list[State] = field(default_factory=list)
    continued: list[State] = field(default_factory=list)


class Flow(ExpressionFlow):
    """Analysis of one parser, control or function."""

    def __init__(self, warnings: Warnings) -> None:
        super().__init__(warnings)
        self.exits = Exits()
        self.actions_done: dict[tuple[object, ...], State | None] = {}
        self.loops_done: dict[tuple[object, ...], tuple[State | None, list[State]]] = {}
        self.rules: dict[type, Callable[[Any, State], State | None]] = {
            syntax.Assignment: self.assignment,
            syntax.CallStatement: lambda st, s: self.expression(st.call, s),
            syntax.If: self.if_statement,
            syntax.Block: lambda st, s: self.statements(st.statements, s),
            syntax.Return: self.return_statement,
            syntax.Exit: lambda st, s: None,
            syntax.Break: lambda st, s: _leave(self.exits.broken, s),
            syntax.Continue: lambda st, s: _leave(self.exits.continued, s),
            syntax.Empty: lambda st, s: s,
            syntax.Switch: self.switch,
            syntax.For: self.for_statement,
            syntax.ForIn: self.for_in,
            syntax.VariableDeclaration: self.variable,
        }

    # ------------------------------------------------------------ parsers, controls, functions

    def function(self, d: syntax.Function, body: syntax.Block) -> None:
        self.body(d, d.parameters, self.entered(d.parameters, ()), body)

    def control(self, d: syntax.ControlDeclaration) -> None:
        self.body(d, d.parameters, self.entered(d.parameters, d.locals), d.body)

    def entered(
        self, parameters: list[syntax.Parameter], local: Iterable[syntax.Declaration]
    ) -> State | None:
        s: State | None = State()
        for p in parameters:
            if p.direction == "out" and s is not None:
                s.clear((p,), p.type)
        return self.statements([d for d in local if isinstance(d, syntax.VariableDeclaration)], s)

    def body(
        self, d: syntax.Declaration, parameters: list[syntax.Parameter], s: State | None,
        body: syntax.Block,
    ) -> State | None:  # fmt: skip
        """Follow a body. All out parameters must be set at its end and at its returns."""
        outer, self.exits = self.exits, Exits()
        s = join_all([self.statement(body, s), *self.exits.returned])
        self.exits = outer
        self.out_parameters(d, parameters, s)
        return s

    def out_parameters(
        self, d: syntax.Declaration, parameters: list[syntax.Parameter], s: State | None
    ) -> None:
        for p in parameters:
            for value, is_in_header in values_in((p,), p.type) if p.direction == "out" else ():
                if s is not None and value in s.unset and not is_in_header:
                    message = f"out parameter {written(value)!r} may be unset where {d.name!r} ends"
                    self.warn("uninitialized-out-param", message, p.source)
                    s.unset.discard(value)

    def parser(self, d: syntax.ParserDeclaration) -> None:
        """Iterate over the states until a fixed point is reached, then report warnings."""
        start = next(state for state in d.states if state.name == "start")
        before: dict[syntax.State, State | None] = {start: self.entered(d.parameters, d.locals)}
        order = {state: i for i, state in enumerate(_forward_order(start))}
        in_order = list(order)
        self.is_silent, todo = True, [0]
        while todo:
            state = in_order[heappop(todo)]
            after = self.parser_state(state, before[state])
            for target in {goto.state: None for goto in targets(state)}:
                if target is None or after is None:
                    continue
                joined = join(before.get(target), after.copy())
                if target not in before or joined != before[target]:
                    before[target] = joined
                    if order[target] not in todo:
                        heappush(todo, order[target])
        self.is_silent = False
        ends: State | None = None
        for state in d.states:
            if state in before:
                after = self.parser_state(state, before[state])
                if any(goto.state is None for goto in targets(state)):
                    ends = join(ends, after)
        self.out_parameters(d, d.parameters, ends)

    def parser_state(self, d: syntax.State, before: State | None) -> State | None:
        s = self.statements(d.statements, copied(before))
        if isinstance(d.transition, syntax.Select):
            for e in d.transition.expressions:
                s = self.expression(e, s)
        return s

    # ------------------------------------------------------------ statements

    def statements(
        self, statements: Iterable[syntax.Statement | syntax.Declaration], s: State | None
    ) -> State | None:
        for statement in statements:
            s = self.statement(statement, s)
        return s

    def statement(
        self, statement: syntax.Statement | syntax.Declaration, s: State | None
    ) -> State | None:
        rule = self.rules.get(type(statement))
        return s if s is None or rule is None else rule(statement, s)

    def variable(self, d: syntax.VariableDeclaration, s: State) -> State | None:
        s.clear((d,), d.type)
        if d.initializer is None:
            return s
        name = syntax.Name(d.source, d.name)
        name.declaration, name.type = d, d.type
        return self.assign(name, d.initializer, s)

    def assignment(self, statement: syntax.Assignment, s: State) -> State | None:
        if statement.operator:
            after = self.expression(statement.right, self.expression(statement.left, s))
            return self.write(statement.left, after)
        return self.assign(statement.left, statement.right, s)

    def assign(
        self, left: syntax.Expression, right: syntax.Expression, s: State | None
    ) -> State | None:
        """Evaluate `left = right`: the copy is set and valid if the original is."""
        to, of = place_of(left), left.type
        if to is None or not isinstance(of, (types.StructLike, types.Stack)):
            return self.write(left, self.expression(right, s))
        if isinstance(right, syntax.StructExpression):
            for value in right.values:
                s = self.expression(value.value, s)
        else:
            origin = place_of(right)
            if origin is None:
                s = self.expression(right, s)
            else:
                s = self.inside(right, s)
                if s is not None and not to.is_part:
                    s.copy_part(to.path, origin.path, of)
                    self.only_one(left, s)
                    return s
        s = self.write(left, s)
        if s is not None and isinstance(right, syntax.InvalidHeader) and not to.is_part:
            s.clear(to.path, of)
        return s

    def if_statement(self, statement: syntax.If, s: State) -> State | None:
        then, otherwise = self.condition(statement.condition, s)
        then = self.statement(statement.then, then)
        if statement.otherwise is not None:
            otherwise = self.statement(statement.otherwise, otherwise)
        return join(then, otherwise)

    def return_statement(self, statement: syntax.Return, s: State) -> None:
        after = s if statement.value is None else self.expression(statement.value, s)
        if after is not None:
            self.exits.returned.append(after)

    def switch(self, statement: syntax.Switch, s: State) -> State | None:
        """Evaluate a switch.

        A label without a body uses the next body. It is possible that no label matches.
        """
        e = statement.expression
        if isinstance(e.type, types.ActionRun) and isinstance(e, syntax.Member):
            applied = self.applied(e.base, s)
            by_action, other = applied.by_action, applied.implicit
        else:
            by_action, other = {}, self.expression(e, s)
        ends: list[State | None] = []
        entering: State | None = None
        for case in statement.cases:
            label = case.label
            if isinstance(label, syntax.DontCare):
                entering = join_all([entering, other, *by_action.values()])
                by_action, other = {}, None
            elif isinstance(label, syntax.Name) and label.declaration in by_action:
                entering = join(entering, by_action.pop(label.declaration))
            elif other is not None:
                entering = join(entering, copied(other))
            if case.body is not None:
                ends.append(self.statement(case.body, entering))
                entering = None
        return join_all([*ends, entering, other, *by_action.values()])

    # ------------------------------------------------------------ loops

    def for_statement(self, statement: syntax.For, s: State) -> State | None:
        def once(before: State | None) -> tuple[State | None, State | None]:
            holds, fails = self.condition(statement.condition, before)
            after = join_all([self.statement(statement.body, holds), *self.exits.continued])
            return self.statements(statement.updates, after), fails

        return self.loop(statement, self.statements(statement.initial, s), once)

    def for_in(self, statement: syntax.ForIn, s: State) -> State | None:
        def once(before: State | None) -> tuple[State | None, State | None]:
            ended = copied(before)
            if before is not None:
                before.assign((statement.variable,), statement.variable.type)
            after = join_all([self.statement(statement.body, before), *self.exits.continued])
            return after, after if _has_a_round(statement.collection) else ended

        entered = self.expression(statement.collection, s)
        return self.loop(statement, entered, once)

    def loop(
        self, statement: syntax.For | syntax.ForIn, entered: State | None,
        once: Callable[[State | None], tuple[State | None, State | None]],
    ) -> State | None:  # fmt: skip
        """Iterate until the state before the loop body is stable.

        Each state is visited only once, because nested loops return here repeatedly. `once` returns
        the states after an iteration and those at the end of the loop.
        """
        if entered is None:
            return None
        key = (statement, self.is_silent, self.is_in_table, *entered.frozen())
        if key not in self.loops_done:
            self.loops_done[key] = self.rounds(entered, once)
        ended, returned = self.loops_done[key]
        self.exits.returned += [state.copy() for state in returned]
        return copied(ended)

    def rounds(
        self, entered: State, once: Callable[[State | None], tuple[State | None, State | None]]
    ) -> tuple[State | None, list[State]]:
        """Return the state after the loop, and the states at returns in the loop."""
        outer, was_silent = self.exits, self.is_silent
        before: State | None = entered
        self.is_silent = True
        while True:
            self.exits = Exits()
            after, _ = once(copied(before))
            joined = join(copied(before), after)
            if joined == before:
                break
            before = joined
        self.is_silent = was_silent
        self.exits = Exits()
        _, ended = once(before)
        exits, self.exits = self.exits, outer
        return join_all([ended, *exits.broken]), exits.returned

    # ------------------------------------------------------------ actions and tables

    def action_call(
        self, action: syntax.Action, arguments: list[syntax.Expression | None], s: State | None
    ) -> State | None:
        """Follow the body of an action. Calls with the same state before it share the result."""
        for p, a in zip(action.parameters, arguments, strict=True):
            s = self.copy_in(p, a, s)
        if s is None:
            return None
        key = (action, self.is_silent, self.is_in_table, *s.frozen())
        if key not in self.actions_done:
            self.actions_done[key] = self.body(action, action.parameters, s, action.body)
        after = self.actions_done[key]
        after = copied(after)
        for p, a in zip(action.parameters, arguments, strict=True):
            place = None if a is None else place_of(a)
            if after is None or a is None or place is None or p.direction not in ("out", "inout"):
                continue
            after = self.write(a, after)
            if after is not None and not place.is_part:
                after.copy_part(place.path, (p,), p.type)
        return after

    def copy_in(
        self, p: syntax.Parameter, a: syntax.Expression | None, s: State | None
    ) -> State | None:
        if s is None:
            return None
        if p.direction == "out":
            s.clear((p,), p.type)
            return s
        s.assign((p,), p.type)
        place = None if a is None else place_of(a)
        if a is None:
            return s
        if place is not None and isinstance(p.type, (types.StructLike, types.Stack)):
            s = self.inside(a, s)
            if s is not None and not place.is_part:
                s.copy_part((p,), place.path, p.type)
            return s
        return self.expression(a, s)

    def table_apply(self, table: syntax.Table, s: State) -> Applied:
        """Apply a table; the control plane selects the action, unless the program defines it."""
        entered: State | None = s
        self.is_key = True
        for key in table.keys:
            entered = self.expression(key.expression, entered)
        self.is_key = False
        default = table.default_action
        is_fixed = default is not None and table.is_default_action_const
        by_action: dict[syntax.Declaration, State | None] = {}
        hit, miss = [], [None if default is not None else copied(entered)]
        for reference in [*table.actions, *([] if default is None else [default])]:
            after = self.by_table(reference, entered)
            if reference.action is not None:
                by_action[reference.action] = join(by_action.get(reference.action), after)
            if table.keys and reference is not default and not reference.annotation("defaultonly"):
                hit.append(copied(after))
            if reference is default or not (is_fixed or reference.annotation("tableonly")):
                miss.append(copied(after))
        return Applied(by_action, join_all(hit), join_all(miss), miss[0])

    def by_table(self, reference: syntax.ActionReference, s: State | None) -> State | None:
        if reference.action is None or s is None:
            return s
        outer, self.is_in_table = self.is_in_table, True
        after = self.action_call(reference.action, reference.arguments, s.copy())
        self.is_in_table = outer
        return after


def _forward_order(start: syntax.State) -> list[syntax.State]:
    """Return the reachable parser states in reverse postorder.

    So predecessors come first, except along back edges.
    """
    seen, left = {start}, []
    open_states = [(start, iter(targets(start)))]
    while open_states:
        state, gotos = open_states[-1]
        goto = next(gotos, None)
        if goto is None:
            left.append(state)
            open_states.pop()
        elif goto.state is not None and goto.state not in seen:
            seen.add(goto.state)
            open_states.append((goto.state, iter(targets(goto.state))))
    return left[::-1]


def _leave(states: list[State], s: State) -> None:
    states.append(s)


def _has_a_round(collection: syntax.Expression) -> bool:
    if isinstance(collection, syntax.Range):
        low, high = collection.low.constant, collection.high.constant
        return isinstance(low, int) and isinstance(high, int) and low <= high
    return isinstance(collection.type, types.Stack) and collection.type.size > 0
