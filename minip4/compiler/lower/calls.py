"""Lowers calls of functions, actions, controls and parsers by putting their bodies in place.

Parameters stand for the arguments' own storage where copying in and out (6.8) cannot be told
from that; elsewhere they get temporaries.
"""

from __future__ import annotations

from abc import abstractmethod

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Environment, ExternObject, Instance, applied
from minip4.compiler.lower import arithmetic, ir, places
from minip4.compiler.lower.arguments import Argument, Arguments, conflict
from minip4.compiler.lower.assignments import validity
from minip4.compiler.lower.base import Frame, Restart, Shared
from minip4.compiler.lower.expressions import has_effects
from minip4.compiler.syntax import CallKind
from minip4.compiler.types import Bits

_WHOLE = places.Scalar | places.Group | places.Header | places.Union | places.Stack | places.Varbit


class Calls(Arguments):
    def __init__(self, path: str, shared: Shared) -> None:
        super().__init__(path, shared)
        self.applied: set[Instance] = set()
        self.bound_to: dict[tuple[Instance, syntax.Parameter], object] = {}

    def call(self, call: syntax.Call) -> places.Value | None:
        match call.kind:
            case CallKind.FUNCTION:
                return self._function(call)
            case CallKind.ACTION:
                self._action(call)
                return None
            case CallKind.BUILTIN:
                return self._builtin(call)
            case CallKind.EXTERN_FUNCTION:
                return self.extern_function(call)
            case CallKind.EXTERN_METHOD:
                return self.extern_method(call)
            case CallKind.CONTROL_APPLY:
                self._control(call)
                return None
            case CallKind.PARSER_APPLY:
                self.apply_parser(applied(call, self.environment, self.instance), call)
                return None
            case CallKind.TABLE_APPLY:
                assert isinstance(call.declaration, syntax.Table)
                self.emit(self.apply_table(call.declaration, call.source))
                return None
        raise P4Error("an object cannot be constructed here", call.source)

    @abstractmethod
    def extern_function(self, call: syntax.Call) -> places.Value | None: ...

    @abstractmethod
    def extern_method(self, call: syntax.Call) -> places.Value | None: ...

    # -- inlining

    def _function(self, call: syntax.Call) -> places.Value | None:
        function = call.declaration
        assert isinstance(function, syntax.Function)
        assert function.body is not None
        environment = Environment(
            self.environment,
            {},
            dict(zip(function.type_parameters, call.type_arguments, strict=True)),
        )
        frame = Frame(self.new_label())
        self.bind_arguments(call, environment, frame, by_reference=True)
        with self.within(environment):
            result_type = self.environment.resolve(function.result_type)
            if result_type is not types.VOID:
                frame.result = self.temporary(result_type, call.source, function.name)
            self.inline(function.body, frame, call.source)
        return frame.result

    def _action(self, call: syntax.Call) -> None:
        action = call.declaration
        assert isinstance(action, syntax.Action)
        environment = Environment(self.environment)
        frame = Frame(self.new_label())
        self.bind_arguments(call, environment, frame, by_reference=False)
        with self.within(environment):
            self.inline(action.body, frame, call.source)

    def _control(self, call: syntax.Call) -> None:
        instance = applied(call, self.environment, self.instance)
        declaration = instance.declaration
        assert isinstance(declaration, syntax.ControlDeclaration)
        environment = Environment(instance.environment)
        is_shared = any(name == instance.name for name, _ in self.shared)
        frame = Frame(self.new_label(), is_shared=is_shared)
        self.bind_arguments(
            call, environment, frame, by_reference=True, parameters=declaration.parameters,
            instance=instance,
        )  # fmt: skip
        if frame.copy_out and instance in self.applied and not is_shared:
            raise Restart(instance.name, None)
        self.applied.add(instance)
        outer, self.instance = self.instance, instance
        with self.within(environment):
            self.declare_locals(declaration.locals, instance)
            self.inline(declaration.body, frame, call.source)
        self.instance = outer

    def declare_locals(self, declarations: list[syntax.Declaration], instance: Instance) -> None:
        """Variables of a control or parser; what else it has, its instance knows."""
        for local in declarations:
            if isinstance(local, syntax.VariableDeclaration):
                self.variable(local, f"{instance.name}.{local.name}", instance)

    def variable(
        self, declaration: syntax.VariableDeclaration, name: str, owner: Instance | None = None
    ) -> None:
        """Storage for a variable: always the same if it is one of an instance, as actions that
        use it are made once."""
        of = self.environment.resolve(declaration.type)
        initial: places.Value | None = None
        if declaration.initializer is not None:
            initial = self.value(declaration.initializer)
        if owner is None:
            place = self.storage.allocate(of, name, declaration.source)
        else:
            place = self._instance_storage(owner, declaration, of, name)
        self.environment.bindings[declaration] = place
        if initial is not None:
            self.assign(place, initial, declaration.whole)
        else:
            self.invalidate(place, declaration.source)

    def invalidate(self, place: places.Place, source: syntax.Source) -> None:
        """Headers in a new variable or out parameter are invalid, nextIndex of stacks 0 (6.8)."""
        if isinstance(place, places.Header):
            self.primitive("remove_header", [ir.Reference("header", place.name)], source)
        elif isinstance(place, places.Group | places.Union):
            for member in place.members.values():
                self.invalidate(member, source)
        elif isinstance(place, places.Stack):
            for element in place.elements:
                self.invalidate(element, source)
            if self.block == "parser":  # elsewhere nobody sees nextIndex
                self._shift("pop", place, len(place.elements), source)

    def inline(self, body: syntax.Block, frame: Frame, source: syntax.Source) -> None:
        """The body in its place; a return leads behind it, where out arguments are copied."""
        loops, self.loops = self.loops, []
        self.frames.append(frame)
        with self.collecting() as code:
            self.statement(body)
        self.frames.pop()
        self.loops = loops
        drop_last_leave(code, frame.label)
        if leaves(code, frame.label):
            self.emit(ir.Labelled(source, frame.label, code))
        else:
            self.code.extend(code)
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
        """Binds the parameters: those given where the call only knows the type of the callee.

        `instance` is the control that is applied: it keeps its storage each time.
        """
        bound = self.evaluated(
            parameters or call.parameters, call.parameter_types, call.arguments, call.order
        )
        by_reference = by_reference and not any(has_effects(a.expression) for a in bound)
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
        """What the parameter stands for: the argument itself, or a copy."""
        if item.thing is not None:
            return item.thing
        value, source = item.value, item.source
        is_shared = instance is not None and (instance.name, item.parameter) in self.shared
        is_fixed = isinstance(value, ir.Constant | ir.ActionData | ir.Text)
        if not is_shared and (is_fixed or (is_alone and isinstance(value, _WHOLE | ir.Field))):
            if instance is not None:
                self._require_same(instance, item.parameter, value)
            if item.parameter.direction == "out":
                assert isinstance(value, _WHOLE)
                self.invalidate(value, source)
            return value
        if item.parameter.direction not in ("out", "inout"):
            local = self._local(item, instance)
            self.assign(local, value, source)
            return local
        place = item.place
        local = self._local(item, instance)
        if item.parameter.direction == "inout":
            assert item.initial is not None
            self.assign(local, item.initial, source)
        else:
            self.invalidate(local, source)
        frame.copy_out.append(lambda: self.assign(place, local, source))
        return local

    def _local(self, item: Argument, instance: Instance | None) -> places.Place:
        """Storage of a parameter; that of an instance stays the same each time it is applied."""
        name = item.parameter.name
        if instance is None:
            return self.temporary(item.type, item.source, name)
        return self._instance_storage(
            instance, item.parameter, item.type, f"{instance.name}.{name}"
        )

    def _instance_storage(
        self, instance: Instance, declaration: syntax.Declaration, of: types.Type, name: str
    ) -> places.Place:
        key = (instance, declaration)
        if key not in self.instance_storage:
            self.instance_storage[key] = self.temporary(of, declaration.source, name)
        return self.instance_storage[key]

    def _require_same(
        self, instance: Instance, parameter: syntax.Parameter, value: places.Value
    ) -> None:
        """Each application of a control must bind the parameter alike, or copy."""
        meaning = value if isinstance(value, ir.Expression) else tuple(places.storage(value))
        if self.bound_to.setdefault((instance, parameter), meaning) != meaning:
            raise Restart(instance.name, parameter)

    # -- built-in methods (8.18)

    def _builtin(self, call: syntax.Call) -> places.Value | None:
        assert call.object is not None
        target = self.value(call.object)
        if call.method == "isValid":
            return validity(target)
        if call.method in ("setValid", "setInvalid"):
            self._set_validity(target, call)
            return None
        if call.method in ("push_front", "pop_front"):
            if not isinstance(target, places.Stack):
                raise P4Error("this header stack cannot be used here", call.source)
            argument = call.arguments[0]
            assert argument is not None
            assert isinstance(argument.constant, int)
            name = "push" if call.method == "push_front" else "pop"
            self._shift(name, target, argument.constant, call.source)
            return None
        raise P4Error(f"{call.method}() is not supported here", call.source)

    def _shift(self, name: str, stack: places.Stack, count: int, source: syntax.Source) -> None:
        kind = "header_union_stack" if stack.is_union else "header_stack"
        amount = ir.Constant(Bits(32), count)
        self.primitive(name, [ir.Reference(kind, stack.name), amount], source)

    def _set_validity(self, target: places.Value, call: syntax.Call) -> None:
        name = "add_header" if call.method == "setValid" else "remove_header"
        if isinstance(target, places.Header):
            self.primitive(name, [ir.Reference("header", target.name)], call.source)
        elif isinstance(target, places.Union) and name == "remove_header":
            self.invalidate(target, call.source)
        elif isinstance(target, places.Last):
            self._set_validity(
                places.Indexed(ir.LastIndex(Bits(32), target.stack.name), target.stack.elements),
                call,
            )
        elif isinstance(target, places.Indexed):
            for i, place in enumerate(target.places):
                with self.collecting() as body:
                    self._set_validity(place, call)
                here = arithmetic.binary(
                    "==", types.BOOL, target.index, ir.Constant(target.index.type, i)
                )
                self.emit(ir.If(call.source, here, body, []))
        else:
            raise P4Error(f"{call.method}() is not supported on this", call.source)


def drop_last_leave(code: list[ir.Statement], label: int) -> None:
    """Takes away a Leave that leads to where control goes anyway."""
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
    """Whether there is a Leave of the label in the code."""
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
