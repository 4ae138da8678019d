"""Tables, actions and objects that the control plane sees, in the order of P4Info."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from minip4.compiler import syntax, types
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.instances.names import control_plane_name, property_name
from minip4.compiler.instances.objects import (
    PLAIN_IMPLEMENTATIONS,
    ExternObject,
    Instance,
    applied,
    instantiate,
)
from minip4.compiler.syntax import CallKind


def live_children(node: syntax.Node) -> Iterator[syntax.Node]:
    """Yield the reachable children of a node; otherwise like syntax.children()."""
    match node:
        case syntax.If() if isinstance(node.condition.constant, bool):
            taken = node.then if node.condition.constant else node.otherwise
            if taken is not None:
                yield taken
        case syntax.Conditional() if isinstance(node.condition.constant, bool):
            yield node.then if node.condition.constant else node.otherwise
        case syntax.Binary() if node.operator == "&&" and node.left.constant is False:
            yield node.left
        case syntax.Binary() if node.operator == "||" and node.left.constant is True:
            yield node.left
        case _:
            yield from syntax.children(node)


_Part = tuple[Instance, ExternObject | syntax.Declaration]


@dataclass(slots=True, eq=False)
class TableItem:
    name: str
    table: syntax.Table
    owner: Instance
    actions: list[tuple[str, syntax.ActionReference]] = field(default_factory=list)
    default: tuple[str, syntax.ActionReference | None] = ("", None)


@dataclass(slots=True, eq=False)
class Contents:
    tables: list[TableItem] = field(default_factory=list)
    actions: dict[str, syntax.Action] = field(default_factory=dict)
    objects: list[ExternObject | TableItem] = field(default_factory=list)  # in the order of P4Info
    called_only: set[str] = field(default_factory=set)  # actions that are in no table
    value_sets: dict[str, syntax.ValueSet] = field(default_factory=dict)
    # (name, type); the name "" means that the name is derived from the type (v1model)
    digests: list[tuple[str, types.Type]] = field(default_factory=list)
    calls_externs: bool = False


def property_object(item: TableItem, name: str) -> ExternObject | None:
    """Return the extern object in a table property: either inline, or a named object."""
    made = _property_object(item, name)
    return None if made is not None and made.kind in PLAIN_IMPLEMENTATIONS else made


def _property_object(item: TableItem, name: str) -> ExternObject | None:
    found = item.table.property(name)
    if found is None:
        return None
    if isinstance(found.value, syntax.Call):
        name = property_name(found, item.name)
        made = instantiate(found.value, name, item.owner.environment)
        return made if isinstance(made, ExternObject) else None
    if isinstance(found.value, syntax.Name) and found.value.declaration is not None:
        bound = item.owner.environment.lookup(found.value.declaration)
        return bound if isinstance(bound, ExternObject) else None
    return None


class Collector:
    def __init__(self, program: syntax.Program, architecture: Architecture) -> None:
        self.contents = Contents()
        self._architecture = architecture
        no_action = program.find("NoAction")
        assert isinstance(no_action, syntax.Action)
        self._no_action = no_action

    def collect(self) -> Contents:
        self.contents.objects += self._architecture.globals
        for block in self._architecture.parsers:
            self._value_sets(self._architecture.blocks[block])
        for block in self._architecture.controls:
            self._control(self._architecture.blocks[block])
        return self.contents

    def _value_sets(self, instance: Instance) -> None:
        for child in instance.children:
            if isinstance(child, Instance):
                self._value_sets(child)
            elif isinstance(child, syntax.ValueSet):
                self.contents.value_sets.setdefault(control_plane_name(child, instance.name), child)

    def _control(self, block: Instance) -> None:
        """Collect the objects of a control.

        Outer actions come first, then all others in order of declaration.
        """
        parts = list(_parts(block))
        tables = self._tables(parts)
        used = {reference.action for t in tables.values() for _, reference in t.actions}
        used |= {self._no_action for t in tables.values() if t.default[1] is None}
        called = {action for owner in _instances(block) for action in _called_actions(owner)}
        for owner, part in parts:
            if isinstance(part, syntax.Table) and (owner, part) in tables:
                self._global_actions(tables[owner, part])
        for owner in _instances(block):
            for action in _called_actions(owner):
                if owner.environment.lookup(action) is None:
                    name = control_plane_name(action)
                    if name not in self.contents.actions:
                        self.contents.actions[name] = action
                        self.contents.called_only.add(name)
        for owner, part in parts:
            match part:
                case syntax.Table() if (owner, part) in tables:
                    self.contents.tables.append(tables[owner, part])
                    self.contents.objects.append(tables[owner, part])
                case syntax.Action() if part in used or part in called:
                    name = control_plane_name(part, owner.name)
                    self.contents.actions.setdefault(name, part)
                    if part not in used:
                        self.contents.called_only.add(name)
                case ExternObject():
                    self.contents.objects.append(part)
                    if part.type.name == "Digest":
                        self.contents.digests.append((part.name, part.type.arguments[0]))
        of_tables = [(t.owner, r.action) for t in tables.values() for _, r in t.actions]
        of_bodies = [(o, action) for o in _instances(block) for action in _called_actions(o)]
        actions = [
            (owner, action)
            for owner, action in [*of_tables, *of_bodies]
            if action is not None and owner.environment.lookup(action) is None
        ]
        for owner, part in parts:
            if isinstance(part, syntax.Action) and (part in used or part in called):
                actions.append((owner, part))
        self._extern_calls(block, actions)

    def _tables(self, parts: list[_Part]) -> dict[tuple[Instance, syntax.Table], TableItem]:
        result: dict[tuple[Instance, syntax.Table], TableItem] = {}
        for owner, part in parts:
            if isinstance(part, syntax.Table) and _is_applied(part, owner):
                item = TableItem(control_plane_name(part, owner.name), part, owner)
                for reference in part.actions:
                    assert reference.action is not None
                    item.actions.append((_action_name(reference.action, owner), reference))
                default = part.default_action
                name = "NoAction"
                if default is not None and default.action is not None:
                    name = _action_name(default.action, owner)
                item.default = (name, default)
                result[owner, part] = item
        return result

    def _global_actions(self, item: TableItem) -> None:
        actions = [reference.action for _, reference in item.actions]
        if item.default[1] is None:
            actions.append(self._no_action)
        for action in actions:
            assert action is not None
            if item.owner.environment.lookup(action) is None:
                self.contents.actions.setdefault(control_plane_name(action), action)

    def _extern_calls(self, block: Instance, actions: list[tuple[Instance, syntax.Action]]) -> None:
        """Collect extern calls: in global actions, in other actions, then in the body.

        The order is that of p4c. Before p4c collects extern calls, it inlines functions, actions
        called by actions, and sub-controls.
        """
        for owner, action in actions:
            self._extern_calls_in(action.body, owner, set(), in_action=True)
        assert isinstance(block.declaration, syntax.ControlDeclaration)
        self._extern_calls_in(block.declaration.body, block, set(), in_action=False)

    def _extern_calls_in(
        self,
        node: syntax.Node,
        instance: Instance,
        seen: set[tuple[Instance, syntax.Block]],
        *,
        in_action: bool,
    ) -> None:
        """Collect extern calls; `seen` contains earlier calls with their instances."""
        called = (syntax.Function, syntax.Action) if in_action else (syntax.Function,)
        for child in live_children(node):
            self._extern_calls_in(child, instance, seen, in_action=in_action)
        if not isinstance(node, syntax.Call):
            return
        if node.kind is CallKind.EXTERN_FUNCTION:
            self._extern_function(node, instance)
            return
        if node.kind is CallKind.CONTROL_APPLY:
            instance = applied(node, instance.environment, instance)
            assert isinstance(instance.declaration, syntax.ControlDeclaration)
            body: syntax.Block | None = instance.declaration.body
        elif isinstance(node.declaration, called):
            body = node.declaration.body
        else:
            return
        if body is not None and (instance, body) not in seen:
            seen.add((instance, body))
            self._extern_calls_in(body, instance, seen, in_action=in_action)

    def _extern_function(self, call: syntax.Call, instance: Instance) -> None:
        assert call.declaration is not None
        if call.declaration.name == "static_assert":
            return
        self.contents.calls_externs = True
        if call.declaration.name == "digest":
            of = instance.environment.resolve(call.parameter_types[1])
            self.contents.digests.append(("", of))


def _instances(instance: Instance) -> Iterator[Instance]:
    yield instance
    for child in instance.children:
        if isinstance(child, Instance):
            yield from _instances(child)


def _parts(instance: Instance) -> Iterator[_Part]:
    """Yield the declarations in the control and its sub-controls, in order."""
    for child in instance.children:
        if isinstance(child, Instance):
            yield from _parts(child)
        else:
            yield instance, child


def _action_name(action: syntax.Action, owner: Instance) -> str:
    bound = owner.environment.lookup(action)
    return control_plane_name(action, bound.name if isinstance(bound, Instance) else "")


def _is_applied(table: syntax.Table, owner: Instance) -> bool:
    declaration = owner.declaration
    assert isinstance(declaration, syntax.ControlDeclaration)
    users = [declaration.body, *(d for d in declaration.locals if isinstance(d, syntax.Table))]
    return any(_mentions(user, table) for user in users)


def _called_actions(owner: Instance) -> Iterator[syntax.Action]:
    """Yield the actions that the body of a control calls directly."""
    if isinstance(owner.declaration, syntax.ControlDeclaration):
        yield from _calls_of_actions(owner.declaration.body)


def _calls_of_actions(node: syntax.Node) -> Iterator[syntax.Action]:
    if isinstance(node, syntax.Call) and isinstance(node.declaration, syntax.Action):
        yield node.declaration
    for child in live_children(node):
        yield from _calls_of_actions(child)


def _mentions(node: syntax.Node, table: syntax.Table) -> bool:
    if isinstance(node, syntax.Call) and node.declaration is table:
        return True
    return any(_mentions(child, table) for child in live_children(node))
