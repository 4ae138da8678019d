"""Lowering of statements (spec 12)."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower import places
from minip4.compiler.lower.assignments import assign, read
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.expressions import has_effects
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.types import BOOL

_MAX_UNROLLED = 256


class Statements:
    def __init__(self, context: Context) -> None:
        self.context = context

    def statement(self, statement: syntax.Statement | syntax.Declaration) -> None:
        match statement:
            case syntax.Assignment():
                self._assignment(statement)
            case syntax.CallStatement():
                self.context.calls.call(statement.call)
            case syntax.If():
                self._if(statement)
            case syntax.Block():
                for inner in statement.statements:
                    self.statement(inner)
            case syntax.Return():
                self._return(statement)
            case syntax.Exit():
                self._exit(statement)
            case syntax.Break() | syntax.Continue():
                is_break = isinstance(statement, syntax.Break)
                self.context.emit(
                    ir.Leave(statement.source, self.context.loops[-1][0 if is_break else 1])
                )
            case syntax.Empty() | syntax.ConstantDeclaration():
                pass
            case syntax.Switch():
                self._switch(statement)
            case syntax.For():
                self._for(statement)
            case syntax.ForIn():
                self._for_in(statement)
            case syntax.VariableDeclaration():
                self.context.calls.variable(statement, self._variable_name(statement))
            case _:
                raise P4Error("this is not supported here on this target", statement.source)

    def _variable_name(self, declaration: syntax.VariableDeclaration) -> str:
        return (
            f"{self.context.instance.name}.{declaration.name}"
            if self.context.instance
            else declaration.name
        )

    def _assignment(self, statement: syntax.Assignment) -> None:
        """Lower an assignment.

        Indices on the left side are evaluated before the right side (12.1).
        """
        target = self.context.expressions.place(statement.left)
        if has_effects(statement.right):
            target = self.context.expressions.pinned(target, statement.source)
        if not statement.operator:
            assign(
                self.context,
                target,
                self.context.expressions.value(statement.right),
                statement.source,
            )
            return
        left = read(target)
        if has_effects(statement.right):
            left = self.context.saved(left, statement.source)
        right = self.context.expressions.scalar(statement.right)
        if statement.operator in ("<<", ">>"):
            result = arithmetic.shift(statement.operator, left, right)
        else:
            result = arithmetic.binary(statement.operator, left.type, left, right)
        assign(self.context, target, result, statement.source)

    def _if(self, statement: syntax.If) -> None:
        table = _hit_or_miss(statement.condition)
        apply: ir.Apply | None = None
        condition: ir.Expression = ir.TRUE
        if table is not None:
            apply = self.context.tables.apply_table(table[0], statement.condition.source)
        else:
            condition = self.context.expressions.scalar(statement.condition)
            if isinstance(condition, ir.Constant):
                # tables in the other branch are not applied, so they must not get a site
                taken = statement.then if condition.value else statement.otherwise
                if taken is not None:
                    self.statement(taken)
                return
        self.context.conditions.append(condition)
        with self.context.collecting() as then:
            self.statement(statement.then)
        self.context.conditions[-1] = ir.negate(condition)
        with self.context.collecting() as otherwise:
            if statement.otherwise is not None:
                self.statement(statement.otherwise)
        self.context.conditions.pop()
        if apply is not None and table is not None:
            apply.hit, apply.miss = (then, otherwise) if table[1] else (otherwise, then)
            apply.has_branches = True
            self.context.emit(apply)
        elif then or otherwise:
            self.context.emit(ir.If(statement.condition.source, condition, then, otherwise))

    def _return(self, statement: syntax.Return) -> None:
        frame = self.context.frames[-1]
        if statement.value is not None:
            assert frame.result is not None
            assign(
                self.context,
                frame.result,
                self.context.expressions.value(statement.value),
                statement.source,
            )
        self.context.emit(ir.Leave(statement.source, frame.label))

    def _exit(self, statement: syntax.Exit) -> None:
        """Lower an exit.

        First, the out arguments of all enclosing calls are copied out (12.5).
        """
        if self.context.in_action:
            self.context.applications.exit_in_action()
        for frame in reversed(self.context.frames):
            if frame.application is not None and frame.copy_out and self.context.in_action:
                self.context.applications.exit(frame, frame.application, statement.source)
                continue
            for copy in frame.copy_out:
                copy()
        self.context.emit(ir.Exit(statement.source))

    # -- switch (12.7)

    def _switch(self, statement: syntax.Switch) -> None:
        if isinstance(statement.expression.type, types.ActionRun):
            self._switch_action_run(statement)
            return
        value = self.context.expressions.scalar(statement.expression)
        if not isinstance(value, ir.Field | ir.Constant) or isinstance(value, ir.Field):
            value = self.context.saved(value, statement.source)
        branches: list[tuple[ir.Expression, list[ir.Statement]]] = []
        default: list[ir.Statement] = []
        labels: list[syntax.Expression] = []
        for case in statement.cases:
            labels.append(case.label)
            if case.body is None:
                continue
            with self.context.collecting() as body:
                self.statement(case.body)
            if any(isinstance(label, syntax.DontCare) for label in labels):
                default = body
            else:
                condition: ir.Expression = ir.FALSE
                for label in labels:
                    test = arithmetic.binary(
                        "==", BOOL, value, self.context.expressions.scalar(label)
                    )
                    condition = ir.either(condition, test)
                branches.append((condition, body))
            labels = []
        result = default
        for condition, body in reversed(branches):
            result = [ir.If(statement.source, condition, body, result)]
        self.context.code.extend(result)

    def _switch_action_run(self, statement: syntax.Switch) -> None:
        member = statement.expression
        assert isinstance(member, syntax.Member)
        assert isinstance(member.base, syntax.Call)
        assert isinstance(member.base.declaration, syntax.Table)
        apply = self.context.tables.apply_table(member.base.declaration, statement.source)
        apply.actions, apply.has_branches = {}, True
        names: list[str | None] = []
        for case in statement.cases:
            names.append(self._action_label(case.label))
            if case.body is None:
                continue
            for name in names:
                # Each label gets its own code, because branches are lists, not jump targets.
                with self.context.collecting() as body:
                    self.statement(case.body)
                if name is None:
                    apply.default = body
                else:
                    apply.actions[name] = body
            names = []
        self.context.emit(apply)

    def _action_label(self, label: syntax.Expression) -> str | None:
        if isinstance(label, syntax.DontCare):
            return None
        assert isinstance(label, syntax.Name)
        assert isinstance(label.declaration, syntax.Action)
        return self.context.tables.action_name(label.declaration)

    # -- loops (12.8)

    def _for(self, statement: syntax.For) -> None:
        for initial in statement.initial:
            self.statement(initial)
        end, next_round = self.context.new_label(), self.context.new_label()
        with self.context.collecting() as code:
            condition = self.context.expressions.scalar(statement.condition)
            self.context.emit(
                ir.If(statement.source, condition, [], [ir.Leave(statement.source, end)])
            )
            self._loop_body(statement.body, end, next_round)
            for update in statement.updates:
                self.statement(update)
        loop = ir.Loop(statement.source, code)
        self.context.emit(ir.Labelled(statement.source, end, [loop]))

    def _loop_body(self, body: syntax.Statement, end: int, next_round: int) -> None:
        self.context.loops.append((end, next_round))
        with self.context.collecting() as code:
            self.statement(body)
        self.context.loops.pop()
        self.context.emit(ir.Labelled(body.source, next_round, code))

    def _for_in(self, statement: syntax.ForIn) -> None:
        variable = statement.variable
        of = self.context.environment.resolve(variable.type)
        place = self.context.storage.allocate(of, self._variable_name(variable), variable.source)
        self.context.environment.bindings[variable] = place
        end = self.context.new_label()
        if isinstance(statement.collection, syntax.Range):
            with self.context.collecting() as code:
                self._for_range(statement, statement.collection, place, end)
        else:
            collection = self.context.expressions.value(statement.collection)
            elements = (
                list(collection.elements)
                if isinstance(collection, places.Stack)
                else list(places.members_of(collection).values())
            )
            with self.context.collecting() as code:
                for element in elements:
                    assign(self.context, place, element, statement.source)
                    self._loop_body(statement.body, end, self.context.new_label())
        self.context.emit(ir.Labelled(statement.source, end, code))

    def _for_range(
        self, statement: syntax.ForIn, bounds: syntax.Range, place: places.Place, end: int
    ) -> None:
        of = scalar_type(self.context.environment.resolve(statement.variable.type))
        assert of is not None
        low, high = (
            arithmetic.cast(read(v), of)
            for v in self.context.expressions.values([bounds.low, bounds.high])
        )
        if isinstance(low, ir.Constant) and isinstance(high, ir.Constant):
            if high.value - low.value >= _MAX_UNROLLED:
                raise P4Error(
                    f"a loop of {high.value - low.value + 1} rounds is too long",
                    bounds.source,
                    f"at most {_MAX_UNROLLED}",
                )
            for number in range(low.value, high.value + 1):
                assign(self.context, place, ir.Constant(of, number), statement.source)
                self._loop_body(statement.body, end, self.context.new_label())
            return
        low, high = self.context.saved(low, bounds.source), self.context.saved(high, bounds.source)
        counter = self.context.temporary_field(of, statement.source)
        self.context.emit(ir.Assign(statement.source, counter, low))
        too_far = arithmetic.binary(">", BOOL, counter, high)
        leave: list[ir.Statement] = [ir.Leave(statement.source, end)]
        self.context.emit(ir.If(statement.source, too_far, leave, []))
        with self.context.collecting() as code:
            assign(self.context, place, counter, statement.source)
            self._loop_body(statement.body, end, self.context.new_label())
            # The last number may be the largest of its type, so compare before adding one.
            done = arithmetic.binary("==", BOOL, counter, high)
            self.context.emit(ir.If(statement.source, done, [ir.Leave(statement.source, end)], []))
            more = arithmetic.binary("+", of, counter, ir.Constant(of, 1))
            self.context.emit(ir.Assign(statement.source, counter, more))
        self.context.emit(ir.Loop(statement.source, code))


def _hit_or_miss(condition: syntax.Expression) -> tuple[syntax.Table, bool] | None:
    """Return the table of `t.apply().hit` or `.miss`, and whether "hit" is tested.

    The expression may contain negations.
    """
    if isinstance(condition, syntax.Unary) and condition.operator == "!":
        inner = _hit_or_miss(condition.operand)
        return None if inner is None else (inner[0], not inner[1])
    if (
        isinstance(condition, syntax.Member)
        and isinstance(condition.base, syntax.Call)
        and isinstance(condition.base.declaration, syntax.Table)
        and condition.name in ("hit", "miss")
    ):
        return condition.base.declaration, condition.name == "hit"
    return None
