"""Lowering of tables (spec 14.2) and their actions."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import DEFAULT_TABLE_SIZE
from minip4.compiler.instances.names import control_plane_name, key_name
from minip4.compiler.instances.objects import (
    Environment,
    Instance,
    evaluate,
)
from minip4.compiler.ir import arithmetic
from minip4.compiler.lower.arguments import Argument, evaluated
from minip4.compiler.lower.assignments import is_compound, read
from minip4.compiler.lower.context import Context, Frame
from minip4.compiler.lower.entries import action_data, entries_of
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.types import Bits

SITE = Bits(8)  # type of a site: the number of a location that applies a table
MATCH_KINDS = ("exact", "lpm", "ternary", "range", "optional", "selector")


class Tables:
    def __init__(self, context: Context, no_action: syntax.Action) -> None:
        self.context = context
        self._no_action = no_action
        self._tables: dict[tuple[Instance | None, syntax.Table], ir.Table] = {}
        self._applications: dict[ir.Table, int] = {}
        self._actions: dict[tuple[Instance | Environment, syntax.Action], ir.Action] = {}

    def lowered(self) -> list[ir.Table]:
        return list(self._tables.values())

    def action_name(self, action: syntax.Action) -> str:
        owner = self.context.environment.owner(action)
        return control_plane_name(action, owner.name if owner else "")

    def apply_table(self, table: syntax.Table, source: syntax.Source) -> ir.Apply:
        if self.context.in_action or self.context.block not in ("ingress", "egress"):
            raise P4Error("a table can be applied only in a control", source)
        key = (self.context.environment.owner(table), table)
        known = self._tables.get(key)
        if known is None:
            known = self._tables[key] = self._table(table)
        else:
            self._keys(table, known)
            if known.site is None:
                known.site = self.context.temporary_field(SITE, source)
        site = self._applications.get(known, 0)
        self._applications[known] = site + 1
        if site >= 1 << SITE.width:
            raise P4Error("this table is applied in too many places", source)
        return ir.Apply(source, known, site=site)

    def _table(self, table: syntax.Table) -> ir.Table:
        owner = self.context.environment.owner(table)
        name = control_plane_name(table, owner.name if owner else "")
        if any(known.name == name for known in self._tables.values()):
            raise P4Error(f"there are two tables called {name}", table.source, "another @name")
        result = ir.Table(name, table.source, [], [], None, [], False, None, self._size(table))
        self._keys(table, result)
        actions: dict[syntax.Action, ir.Action] = {}
        for reference in table.actions:
            assert reference.action is not None
            actions[reference.action] = self._table_action(reference)
        result.actions = list(actions.values())
        self.context.properties.lower(table, result)
        self._default_action(table, result, actions)
        if result.profile and self.context.program.architecture == "v1model":
            result.default_action = None  # BMv2 ignores it in a table with a profile
        if table.entries is not None:
            result.entries = entries_of(table, result, actions, self.context.environment)
            if result.entries:
                result.size = max(len(result.entries), 1)
        return result

    def _size(self, table: syntax.Table) -> int:
        size = table.property("size")
        if size is None:
            return DEFAULT_TABLE_SIZE
        value = evaluate(size.value, self.context.environment)
        if not isinstance(value, int) or value < 0:
            raise P4Error("the size of a table is a number", size.value.source)
        return value or DEFAULT_TABLE_SIZE

    # -- keys

    def _keys(self, table: syntax.Table, result: ir.Table) -> None:
        """Evaluate the keys; expressions that are not fields are stored in temporaries."""
        is_first = not result.keys and result.profile is None
        fields: list[ir.KeyField] = []
        selectors: list[ir.Expression] = []
        old = iter(result.keys)
        values = self.context.expressions.values([element.expression for element in table.keys])
        for element, value in zip(table.keys, values, strict=True):
            if element.match_kind not in MATCH_KINDS:
                raise P4Error(
                    f"match kind {element.match_kind} is not supported",
                    element.source,
                    " ".join(MATCH_KINDS),
                )
            if is_compound(value):
                raise P4Error("a table key is a number or bool", element.expression.source)
            expression = read(value)
            if element.match_kind == "selector":
                selectors.append(self.context.simple(expression, element.source))
                continue
            known = next(old, None)
            fields.append(self._key(element, expression, known))
        if is_first:
            result.keys = fields
            if selectors:
                self.context.properties.use_selector(table, selectors)

    def _key(
        self, element: syntax.KeyElement, expression: ir.Expression, known: ir.KeyField | None
    ) -> ir.KeyField:
        target: ir.Expression = expression
        if not isinstance(expression, ir.Field | ir.IsValid):
            if known is not None and isinstance(known.target, ir.Field):
                target = known.target
            else:
                target = self.context.temporary_field(expression.type, element.source)
            assert isinstance(target, ir.Field)
            self.context.emit(ir.Assign(element.source, target, expression))
        elif known is not None and known.target != expression:
            raise P4Error(
                "this table is applied twice, with different storage as key", element.source
            )
        return ir.KeyField(element.match_kind, key_name(element), target, ir.width_of(expression))

    # -- actions

    def _table_action(self, reference: syntax.ActionReference) -> ir.Action:
        action = reference.action
        assert action is not None
        has_arguments = any(a is not None for a in reference.arguments)
        # An exit in an action copies out the arguments of the enclosing controls, so such an action
        # cannot be shared.
        has_copies = any(frame.copy_out for frame in self.context.frames)
        environment = self.context.environment
        # a global action can use global objects, which each pipeline of TNA has
        owner = self.context.instance if has_copies else environment.owner(action)
        key = (owner or environment.outermost, action)
        if not has_arguments and key in self._actions:
            return self._actions[key]
        environment = Environment(self.context.environment)
        frame = Frame(self.context.new_label())
        result = ir.Action(self.action_name(action), [], [])
        outer, self.context.in_action = self.context.in_action, True
        with self.context.collecting() as body:
            for argument in self._bound_arguments(reference, action):
                bound = self.context.calls.parameter(argument, frame)
                environment.bindings[argument.parameter] = bound
            for parameter in action.parameters:
                if parameter not in environment.bindings:
                    data = self._action_data(parameter, result)
                    environment.bindings[parameter] = data
            with self.context.within(environment):
                self.context.calls.inline(action.body, frame, action.source)
        self.context.in_action = outer
        result.body = body
        self.context.program.actions.append(result)
        if not has_arguments:
            self._actions[key] = result
        return result

    def _bound_arguments(
        self, reference: syntax.ActionReference, action: syntax.Action
    ) -> list[Argument]:
        """Return the arguments of parameters with a direction, as given in the list of actions."""
        return evaluated(
            self.context,
            action.parameters,
            [parameter.type for parameter in action.parameters],
            reference.arguments,
            reference.order,
        )

    def _action_data(self, parameter: syntax.Parameter, result: ir.Action) -> ir.Expression:
        """Return an action parameter that table entries set."""
        of = self.context.environment.resolve(parameter.type)
        scalar = scalar_type(of)
        if scalar is None:
            raise P4Error(
                f"an action parameter cannot have type {of}",
                parameter.source,
                "a number, bool or enum",
            )
        width = scalar.width if isinstance(scalar, Bits) else 1
        # Entries have unsigned bits, so a signed parameter is converted where it is used.
        plain = Bits(width) if isinstance(scalar, Bits) else scalar
        data = ir.ActionData(plain, len(result.parameters))
        result.parameters.append((control_plane_name(parameter), width))
        return arithmetic.cast(data, scalar)

    def _default_action(
        self, table: syntax.Table, result: ir.Table, actions: dict[syntax.Action, ir.Action]
    ) -> None:
        reference = table.default_action
        if reference is None:
            no_action = next(
                (a for a in actions if self.action_name(a) == "NoAction"), self._no_action
            )
            if no_action not in actions:
                implicit = syntax.ActionReference(table.source, [], "NoAction", True, None)
                implicit.action = no_action
                actions[no_action] = self._table_action(implicit)
                result.actions.append(actions[no_action])
            result.default_action = actions[no_action]
            return
        assert reference.action is not None
        if reference.action not in actions:
            raise P4Error("the default action is not in the list of actions", reference.source)
        result.default_action = actions[reference.action]
        result.default_arguments = action_data(reference, self.context.environment)
        result.is_default_const = table.is_default_action_const
