"""Lowering of calls of functions, actions, controls and parsers. Their bodies are inlined.

Parameters use the storage of their arguments if the result is the same as with copying in and out
(6.8). Otherwise, they are temporaries.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Environment, ExternObject, Instance, applied
from minip4.compiler.lower import places
from minip4.compiler.lower.arguments import Argument, conflict, evaluated
from minip4.compiler.lower.assignments import assign
from minip4.compiler.lower.builtins import builtin_method, invalidate
from minip4.compiler.lower.context import Context, Frame, Restart
from minip4.compiler.lower.expressions import can_change
from minip4.compiler.lower.externs import extern_function, extern_method
from minip4.compiler.syntax import CallKind

_WHOLE = places.Scalar | places.Group | places.Header | places.Union | places.Stack | places.Varbit


class Calls:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._applied: set[Instance] = set()
        self._bound_to: dict[tuple[Instance, syntax.Parameter], object] = {}
        self._instance_places: dict[tuple[Instance, syntax.Declaration], places.Place] = {}

    def call(self, call: syntax.Call) -> places.Value | None:
        match call.kind:
            case CallKind.FUNCTION:
                return self._function(call)
            case CallKind.ACTION:
                self._action(call)
                return None
            case CallKind.BUILTIN:
                return builtin_method(self.context, call)
            case CallKind.EXTERN_FUNCTION:
                return extern_function(self.context, call)
            case CallKind.EXTERN_METHOD:
                return extern_method(self.context, call)
            case CallKind.CONTROL_APPLY:
                self._control(call)
                return None
            case CallKind.PARSER_APPLY:
                self.context.parsers.apply_parser(
                    applied(call, self.context.environment, self.context.instance), call
                )
                return None
            case CallKind.TABLE_APPLY:
                assert isinstance(call.declaration, syntax.Table)
                self.context.emit(self.context.tables.apply_table(call.declaration, call.source))
                return None
        raise P4Error("an object cannot be constructed here", call.source)

    # -- inlining

    def _function(self, call: syntax.Call) -> places.Value | None:
        function = call.declaration
        assert isinstance(function, syntax.Function)
        assert function.body is not None
        environment = Environment(
            self.context.environment,
            {},
            dict(zip(function.type_parameters, call.type_arguments, strict=True)),
        )
        frame = Frame(self.context.new_label())
        self.bind_arguments(call, environment, frame, by_reference=True)
        with self.context.within(environment):
            result_type = self.context.environment.resolve(function.result_type)
            if result_type is not types.VOID:
                frame.result = self.context.temporary(result_type, call.source, function.name)
            self.inline(function.body, frame, call.source)
        return frame.result

    def _action(self, call: syntax.Call) -> None:
        action = call.declaration
        assert isinstance(action, syntax.Action)
        environment = Environment(self.context.environment)
        frame = Frame(self.context.new_label())
        self.bind_arguments(call, environment, frame, by_reference=False)
        with self.context.within(environment), self.context.collecting() as code:
            self.inline(action.body, frame, call.source)
        if self.context.block in ("ingress", "egress") and is_critical(code):
            self.context.emit(ir.Atomic(call.source, code))
        else:
            self.context.code.extend(code)

    def _control(self, call: syntax.Call) -> None:
        instance = applied(call, self.context.environment, self.context.instance)
        declaration = instance.declaration
        assert isinstance(declaration, syntax.ControlDeclaration)
        environment = Environment(instance.environment)
        application = self.context.applications.enter(instance, call.source)
        frame = Frame(self.context.new_label(), instance=instance, application=application)
        self.bind_arguments(
            call, environment, frame, by_reference=True, parameters=declaration.parameters,
            instance=instance,
        )  # fmt: skip
        if frame.copy_out and instance in self._applied and application is None:
            raise Restart(instance.name)
        self._applied.add(instance)
        outer, self.context.instance = self.context.instance, instance
        with self.context.within(environment):
            self.declare_locals(declaration.locals, instance)
            self.inline(declaration.body, frame, call.source)
        self.context.instance = outer
        if application is not None:
            self.context.applications.leave(frame, application, call.source)

    def declare_locals(self, declarations: list[syntax.Declaration], instance: Instance) -> None:
        """Declare the variables of a control or parser.

        All other locals belong to its instance.
        """
        for local in declarations:
            if isinstance(local, syntax.VariableDeclaration):
                self.variable(local, f"{instance.name}.{local.name}", instance)

    def variable(
        self, declaration: syntax.VariableDeclaration, name: str, owner: Instance | None = None
    ) -> None:
        """Allocate and initialize a variable.

        Variables of an instance always have the same storage, because the actions that use them
        exist once.
        """
        of = self.context.environment.resolve(declaration.type)
        initial: places.Value | None = None
        if declaration.initializer is not None:
            initial = self.context.expressions.value(declaration.initializer)
        if owner is None:
            place = self.context.storage.allocate(of, name, declaration.source)
        else:
            place = self._instance_storage(owner, declaration, of, name)
        self.context.environment.bindings[declaration] = place
        if initial is not None:
            assign(self.context, place, initial, declaration.whole)
        else:
            invalidate(self.context, place, declaration.source)

    def inline(self, body: syntax.Block, frame: Frame, source: syntax.Source) -> None:
        """Inline a body.

        A return jumps to the end of the body. There, out arguments are copied out.
        """
        loops, self.context.loops = self.context.loops, []
        self.context.frames.append(frame)
        with self.context.collecting() as code:
            self.context.statements.statement(body)
        self.context.frames.pop()
        self.context.loops = loops
        drop_last_leave(code, frame.label)
        if leaves(code, frame.label):
            self.context.emit(ir.Labelled(source, frame.label, code))
        else:
            self.context.code.extend(code)
        for copy in frame.copy_out:
            copy()

    # -- arguments

    def bind_arguments(
        self,
        call: syntax.Call,
        environment: Environment,
        frame: Frame,
        *,
        by_reference: bool,
        parameters: list[syntax.Parameter] | None = None,
        instance: Instance | None = None,
    ) -> None:
        """Bind the parameters of a call.

        `parameters` must be given if the call contains only the type of the callee. `instance` is
        the applied control. All its applications use the same storage.
        """
        bound = evaluated(
            self.context,
            parameters or call.parameters,
            call.parameter_types,
            call.arguments,
            call.order,
        )
        by_reference = by_reference and not any(can_change(a.expression) for a in bound)
        for i, argument in enumerate(bound):
            others = bound[:i] + bound[i + 1 :]
            is_alone = by_reference and not any(conflict(argument, other) for other in others)
            environment.bindings[argument.parameter] = self.parameter(
                argument, frame, is_alone=is_alone, instance=instance
            )

    def parameter(
        self,
        item: Argument,
        frame: Frame,
        *,
        is_alone: bool = False,
        instance: Instance | None = None,
    ) -> places.Value | ExternObject | Instance:
        """Return the binding of a parameter: either the argument itself, or a copy of it."""
        if item.thing is not None:
            return item.thing
        value, source = item.value, item.source
        is_shared = instance is not None and (instance.name, item.parameter) in self.context.shared
        is_fixed = isinstance(value, ir.Constant | ir.ActionData | ir.Text)
        if not is_shared and (is_fixed or (is_alone and isinstance(value, _WHOLE | ir.Field))):
            if instance is not None:
                self._require_same(instance, item.parameter, value)
            if item.parameter.direction == "out":
                assert isinstance(value, _WHOLE)
                invalidate(self.context, value, source)
            return value
        if item.parameter.direction not in ("out", "inout"):
            local = self._local(item, instance)
            assign(self.context, local, value, source)
            return local
        place = item.place
        local = self._local(item, instance)
        if item.parameter.direction == "inout":
            assert item.initial is not None
            assign(self.context, local, item.initial, source)
        else:
            invalidate(self.context, local, source)
        frame.copy_out.append(lambda: assign(self.context, place, local, source))
        return local

    def _local(self, item: Argument, instance: Instance | None) -> places.Place:
        """Return the storage of a parameter.

        Parameters of an instance have the same storage in all applications.
        """
        name = item.parameter.name
        if instance is None:
            return self.context.temporary(item.type, item.source, name)
        return self._instance_storage(
            instance, item.parameter, item.type, f"{instance.name}.{name}"
        )

    def _instance_storage(
        self, instance: Instance, declaration: syntax.Declaration, of: types.Type, name: str
    ) -> places.Place:
        key = (instance, declaration)
        if key not in self._instance_places:
            self._instance_places[key] = self.context.temporary(of, declaration.source, name)
        return self._instance_places[key]

    def _require_same(
        self, instance: Instance, parameter: syntax.Parameter, value: places.Value
    ) -> None:
        """Require that all applications of a control bind the parameter to the same storage."""
        meaning = value if isinstance(value, ir.Expression) else tuple(places.storage(value))
        if self._bound_to.setdefault((instance, parameter), meaning) != meaning:
            raise Restart(instance.name, parameter)


def is_critical(code: list[ir.Statement]) -> bool:
    """Return whether branches would split code with register accesses into several actions.

    Ingress and egress of bmv2 are threads, so registers may change between two actions.
    """
    statements = [*all_statements(code)]
    return (
        any(isinstance(each, ir.RegisterRead | ir.RegisterWrite) for each in statements)
        and any(not isinstance(each, ir.Operation) for each in statements)
        and not any(isinstance(each, ir.Exit) for each in statements)
    )


def all_statements(code: list[ir.Statement]) -> Iterator[ir.Statement]:
    """Yield the statements of an action, including nested ones."""
    for statement in code:
        yield statement
        match statement:
            case ir.If():
                yield from all_statements(statement.then + statement.otherwise)
            case ir.Labelled() | ir.Loop() | ir.Atomic():
                yield from all_statements(statement.body)


def drop_last_leave(code: list[ir.Statement], label: int) -> None:
    """Remove a Leave that jumps to the next statement."""
    if not code:
        return
    last = code[-1]
    if isinstance(last, ir.Leave) and last.label == label:
        code.pop()
    elif isinstance(last, ir.If):
        drop_last_leave(last.then, label)
        drop_last_leave(last.otherwise, label)
    elif isinstance(last, ir.Labelled):
        drop_last_leave(last.body, label)


def leaves(code: list[ir.Statement], label: int) -> bool:
    """Return whether the code has a Leave of the label."""
    for statement in code:
        match statement:
            case ir.Leave():
                found = statement.label == label
            case ir.If():
                found = leaves(statement.then, label) or leaves(statement.otherwise, label)
            case ir.Labelled() | ir.Loop():
                found = leaves(statement.body, label)
            case ir.Apply():
                branches = [statement.hit, statement.miss, statement.default]
                branches += list((statement.actions or {}).values())
                found = any(leaves(branch, label) for branch in branches)
            case _:
                found = False
        if found:
            return True
    return False
