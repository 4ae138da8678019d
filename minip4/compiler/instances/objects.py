"""Instances of parsers, controls and extern objects, created at compile time (spec 17).

Lowering and P4Info both use these instances, so names are the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import add, mul, sub

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.syntax import CallKind


@dataclass(slots=True, eq=False)
class Environment:
    """Bindings of declarations to values and objects.

    Each declaration is a unique object, so shadowing does not matter.
    """

    parent: Environment | None = None
    bindings: dict[syntax.Declaration, object] = field(default_factory=dict)
    type_arguments: dict[syntax.TypeParameter, types.Type] = field(default_factory=dict)

    def lookup(self, declaration: syntax.Declaration) -> object:
        """Return the binding of a declaration, or None."""
        scope: Environment | None = self
        while scope is not None:
            if declaration in scope.bindings:
                return scope.bindings[declaration]
            scope = scope.parent
        return None

    @property
    def outermost(self) -> Environment:
        """The environment of the declarations at top level."""
        return self if self.parent is None else self.parent.outermost

    def owner(self, declaration: syntax.Declaration) -> Instance | None:
        """Return the instance that binds a declaration, or None at top level."""
        bound = self.lookup(declaration)
        return bound if isinstance(bound, Instance) else None

    def resolve(self, of: types.Type) -> types.Type:
        """Return a type whose known type parameters are replaced."""
        scope: Environment | None = self
        while scope is not None:
            of = types.substitute(of, scope.type_arguments)
            scope = scope.parent
        return of


@dataclass(slots=True, eq=False)
class Known:
    """A compile-time constant bound to a constructor parameter."""

    constant: syntax.Constant


# For externs of TNA: the v1model extern that is equivalent for the control plane.
_KINDS = {
    "Counter": "counter",
    "DirectCounter": "direct_counter",
    "Meter": "meter",
    "DirectMeter": "direct_meter",
    "Register": "register",
    "ActionProfile": "action_profile",
    "ActionSelector": "action_selector",
}


# Table implementations that only select the kind of memory that Tofino uses for a table.
PLAIN_IMPLEMENTATIONS = ("Alpm", "Atcam")


@dataclass(slots=True, eq=False)
class ExternObject:
    """An extern object.

    `arguments` are constants and other objects, or None if unknown.
    """

    name: str
    type: types.Extern
    arguments: list[syntax.Constant | ExternObject | None]
    source: syntax.Source
    declaration: syntax.Instantiation | None = None

    @property
    def kind(self) -> str:
        """The type's name. If v1model has an equivalent of a TNA type, the name in v1model."""
        return _KINDS.get(self.type.name, self.type.name)

    @property
    def declared_name(self) -> str:
        return self.name if self.declaration is None else self.declaration.name

    def method(self, name: str) -> syntax.Function:
        """Return a method that the object's declaration defines. Raises P4Error if it has none."""
        for method in [] if self.declaration is None else self.declaration.objects:
            if isinstance(method, syntax.Function) and method.name == name:
                return method
        raise P4Error(f"{self.name} has no method {name!r}", self.source, "= { ... }")


def profile_of(item: ExternObject) -> tuple[str, int]:
    """Return name and size of an action profile or selector.

    A selector of TNA that has a profile as argument is known by the name of this profile.
    """
    if item.type.name == "action_selector":  # of v1model; the first argument is the algorithm
        first = item.arguments[1]
    else:
        first = item.arguments[0]
    if isinstance(first, ExternObject):
        return profile_of(first)
    assert isinstance(first, int)
    return item.name, first


@dataclass(slots=True, eq=False)
class Instance:
    """A parser or control.

    `environment` contains its constructor parameters and children.

    `children` are its local instances, extern objects and other declarations, in order.
    """

    name: str
    declaration: syntax.ParserDeclaration | syntax.ControlDeclaration
    environment: Environment
    children: list[Instance | ExternObject | syntax.Declaration] = field(default_factory=list)
    anonymous: dict[types.Type, Instance] = field(default_factory=dict)


# operators of expressions of constructor parameters, such as `size = 2 * n`
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul}


def evaluate(expression: syntax.Expression, environment: Environment) -> syntax.Constant:
    """Return the value of a compile-time constant or a constructor parameter."""
    if expression.constant is not None:
        return expression.constant
    if isinstance(expression, syntax.Name) and expression.declaration is not None:
        bound = environment.lookup(expression.declaration)
        if isinstance(bound, Known):
            return bound.constant
        if isinstance(expression.declaration, syntax.ConstantDeclaration):
            return evaluate(expression.declaration.initializer, environment)
    if isinstance(expression, syntax.Cast):
        value = evaluate(expression.operand, environment)
        target = types.strip_newtypes(expression.type)
        if isinstance(value, syntax.EnumMember) and isinstance(target, types.Bits):
            return value.number
        return value
    if isinstance(expression, syntax.Binary) and expression.operator in _ARITHMETIC:
        left, right = (
            evaluate(expression.left, environment),
            evaluate(expression.right, environment),
        )
        of = types.strip_newtypes(expression.type)
        if isinstance(left, int) and isinstance(right, int):
            result = _ARITHMETIC[expression.operator](left, right)
            return result & ((1 << of.width) - 1) if isinstance(of, types.Bits) else result
    if isinstance(expression, syntax.Member) and isinstance(expression.declaration, syntax.Field):
        value = evaluate(expression.base, environment)
        if isinstance(value, tuple):
            fields = getattr(types.strip_newtypes(expression.base.type), "fields", {})
            return value[list(fields).index(expression.name)]
    raise P4Error("this is not known at compile time", expression.source, "a constant")


def evaluate_number(expression: syntax.Expression, environment: Environment) -> int:
    """Return a constant as a number; for a member of an enum, its position or value."""
    value = evaluate(expression, environment)
    if isinstance(value, syntax.EnumMember | syntax.ErrorMember):
        return value.number
    if isinstance(value, int):  # int or bool
        return int(value)
    raise P4Error("expected a number", expression.source)


def annotation_numbers(annotation: syntax.Annotation) -> list[int]:
    """Return the numbers in `@name(1, 2)`."""
    result = []
    for value in annotation.values:
        if isinstance(value, syntax.EnumMember):
            value = value.number
        if not isinstance(value, int):
            raise P4Error(f"@{annotation.name} takes numbers", annotation.source)
        result.append(int(value))
    return result


def annotation_pairs(annotation: syntax.Annotation) -> list[tuple[str, str | int]]:
    """Return the pairs of `@name(key = value, ...)`; values are strings or decimal numbers."""
    if annotation.pairs:
        return [(k, v) for k, v in annotation.pairs.items() if isinstance(v, str | int)]
    found = re.findall(r'(\w+) = (?:"([^"]*)"|(\d+))(?: ,|$)', annotation.text)
    return [(key, int(number) if number else text) for key, text, number in found]


def instantiate(
    call: syntax.Call,
    name: str,
    environment: Environment,
    declaration: syntax.Instantiation | None = None,
) -> Instance | ExternObject:
    """Evaluate a constructor call in `environment` and return the object."""
    of = environment.resolve(call.type)
    source = declaration.source if declaration is not None else call.source
    if isinstance(of, types.Extern):
        arguments = [
            None if a is None else _extern_argument(a, environment) for a in call.arguments
        ]
        return ExternObject(name, of, arguments, source, declaration)
    if not isinstance(of, types.Parser | types.Control):
        raise P4Error(f"cannot make an instance of {of} here", call.source)
    return make_instance(of, call.parameters, call.arguments, name, environment)


def applied(call: syntax.Call, environment: Environment, owner: Instance | None) -> Instance:
    """Return the parser or control that a call of `apply` in `owner` applies."""
    target: object = None
    assert call.object is not None
    if isinstance(call.object, syntax.Name) and call.object.declaration is not None:
        target = environment.lookup(call.object.declaration)
    elif owner is not None:
        target = owner.anonymous.get(environment.resolve(call.object.type))
    if not isinstance(target, Instance):
        raise P4Error("this cannot be applied here", call.source)
    return target


def _extern_argument(
    argument: syntax.Expression, environment: Environment
) -> syntax.Constant | ExternObject | None:
    if argument.constant is None and isinstance(argument.type, types.Extern):
        bound: object = None
        if isinstance(argument, syntax.Name) and argument.declaration is not None:
            bound = environment.lookup(argument.declaration)
        elif isinstance(argument, syntax.Call) and argument.kind is CallKind.CONSTRUCTOR:
            bound = instantiate(argument, "tmp", environment)
        return bound if isinstance(bound, ExternObject) else None
    return evaluate(argument, environment)


def make_instance(
    of: types.Parser | types.Control,
    parameters: list[syntax.Parameter],
    arguments: list[syntax.Expression | None],
    name: str,
    outer: Environment,
) -> Instance:
    """Create an instance of a parser or control with all its children."""
    declaration = of.declaration
    assert isinstance(declaration, syntax.ParserDeclaration | syntax.ControlDeclaration)
    environment = Environment(
        outer.outermost, {}, types.bind(declaration.type_parameters, of.arguments)
    )
    instance = Instance(name, declaration, environment)
    for parameter, argument in zip(parameters, arguments, strict=True):
        if argument is not None:
            environment.bindings[parameter] = _constructor_argument(
                parameter, argument, name, outer
            )
    for local in declaration.locals:
        if isinstance(local, syntax.Instantiation):
            child = instantiate(local.call, control_plane_name(local, name), environment, local)
            environment.bindings[local] = child
            instance.children.append(child)
        else:
            environment.bindings[local] = instance
            instance.children.append(local)
    _make_anonymous(instance)
    return instance


def _constructor_argument(
    parameter: syntax.Parameter, argument: syntax.Expression, name: str, outer: Environment
) -> object:
    if isinstance(argument, syntax.Call) and argument.kind is CallKind.CONSTRUCTOR:
        return instantiate(argument, f"{name}.{parameter.name}", outer)
    if isinstance(argument, syntax.Name) and argument.declaration is not None:
        bound = outer.lookup(argument.declaration)
        if isinstance(bound, Instance | ExternObject):
            return bound
    return Known(evaluate(argument, outer))


def _make_anonymous(instance: Instance) -> None:
    """Create the instances for direct applications `C.apply()`."""
    for node in _walk(instance.declaration):
        if not isinstance(node, syntax.Call):
            continue
        if node.kind not in (CallKind.PARSER_APPLY, CallKind.CONTROL_APPLY):
            continue
        if isinstance(node.object, syntax.TypeReference):
            of = instance.environment.resolve(node.object.type)
            assert isinstance(of, types.Parser | types.Control)
            if of not in instance.anonymous:
                name = control_plane_name(of.declaration, instance.name)
                child = make_instance(of, [], [], name, instance.environment)
                instance.anonymous[of] = child
                instance.children.append(child)


def _walk(node: syntax.Node) -> Iterator[syntax.Node]:
    yield node
    for child in syntax.children(node):
        yield from _walk(child)
