"""Declarations: functions, actions, parsers, controls and instances (spec 7.2, 11 to 14)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from minip4.compiler import syntax, types
from minip4.compiler.check.context import Applicable, Context, Place, Scope, describe
from minip4.compiler.check.inference import fits
from minip4.compiler.check.statements import returns
from minip4.compiler.check.states import can_end
from minip4.compiler.check.tables import is_selectable
from minip4.compiler.errors import P4Error

# abstract methods of t2na.p4 that an instance need not define
_OPTIONAL_METHODS = {"overflow", "underflow"}


class Declarations:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.templates: dict[Applicable, Applicable] = {}
        self.specializations: dict[tuple[Applicable, tuple[types.Type, ...]], Applicable] = {}
        self._rules: dict[type, Callable[[Any], None]] = {
            syntax.ConstantDeclaration: self.context.statements.constant,
            syntax.VariableDeclaration: self.context.statements.variable,
            syntax.StructDeclaration: self.context.type_names.struct,
            syntax.EnumDeclaration: self.context.type_names.enum,
            syntax.TypedefDeclaration: self.context.type_names.typedef,
            syntax.ErrorDeclaration: self.error_declaration,
            syntax.MatchKindDeclaration: self.match_kind_declaration,
            syntax.ExternDeclaration: self.extern,
            syntax.Function: self.function,
            syntax.Action: self.action,
            syntax.ParserTypeDeclaration: self.signature,
            syntax.ControlTypeDeclaration: self.signature,
            syntax.PackageDeclaration: self.signature,
            syntax.ParserDeclaration: self.parser,
            syntax.ControlDeclaration: self.control,
            syntax.Instantiation: self.instantiation,
            syntax.ValueSet: self.value_set,
            syntax.Table: self.context.tables.table,
        }

    def declaration(self, d: syntax.Declaration) -> None:
        self._rules[type(d)](d)

    # ------------------------------------------------------------ errors and match kinds

    def error_declaration(self, d: syntax.ErrorDeclaration) -> None:
        for member in d.members:
            if member.name in self.context.errors:
                first = self.context.errors[member.name].source
                raise P4Error(
                    f"error {member.name!r} is declared twice; first at {first}", member.source
                )
            member.number = len(self.context.errors)
            self.context.errors[member.name] = member
            self.context.program.errors.append(member)

    def match_kind_declaration(self, d: syntax.MatchKindDeclaration) -> None:
        for member in d.members:
            if member.name in self.context.match_kinds:
                raise P4Error(f"match kind {member.name!r} is declared twice", member.source)
            self.context.match_kinds[member.name] = member
            self.context.program.match_kinds.append(member)

    # ------------------------------------------------------------ parameters and functions

    def parameters(
        self,
        parameters: list[syntax.Parameter],
        *,
        takes_objects: bool = False,
        takes_optional: bool = False,
    ) -> None:
        """Check types and default values, and declare the names in the current scope."""
        for p in parameters:
            self.context.type_names.annotations(p.annotations)
            p.type = self.context.type_names.type_of(p.type_expression)
            if p.type in (types.VOID, types.DONT_CARE):
                raise P4Error(f"a parameter cannot have type {p.type}", p.type_expression.source)
            no_direction = (types.Extern, types.Parser, types.Control, types.Package)
            if p.direction and (
                isinstance(p.type, no_direction) or p.type in (types.STRING, types.INTEGER)
            ):
                message = f"a parameter of type {p.type} has no direction"
                raise P4Error(message, p.source, f"{p.type} {p.name}")
            if isinstance(p.type, no_direction[1:]) and not takes_objects:
                message = f"a parameter cannot have type {p.type} here"
                raise P4Error(message, p.source, "a parameter of a package or constructor")
            if p.annotation("optional") is not None and not takes_optional:
                raise P4Error("@optional is not allowed here", p.source, "a default value")
            if p.default is not None:
                p.default = self.default_argument(p, p.default)
            self.context.declare(p)

    def default_argument(
        self, p: syntax.Parameter, default: syntax.Expression
    ) -> syntax.Expression:
        if p.direction in ("out", "inout"):
            message = f"an '{p.direction}' parameter has no default value"
            raise P4Error(message, default.source, "an in or directionless parameter")
        value = self.context.conversions.converted(default, p.type, "the default value")
        if not self.context.arguments.is_compile_time(value):
            raise P4Error("a default value is not constant", default.source, "a constant")
        return value

    def prototype(self, d: syntax.Function) -> None:
        self.context.type_names.type_parameters(d.type_parameters)
        if d.result is not None:
            d.result_type = self.context.type_names.type_of(d.result)
        self.parameters(d.parameters, takes_optional=d.body is None)

    def function(self, d: syntax.Function) -> None:
        with self.context.scope():
            self.prototype(d)
            if d.body is not None:
                with self.context.at(Place("function", d.name, d.result_type)):
                    self.context.statements.statement(d.body)
                if d.result_type is not types.VOID and not returns(d.body):
                    message = f"function {d.name!r} can end without 'return'"
                    raise P4Error(message, d.source, f"a value of type {d.result_type}")
        self.context.declare(d)

    def action(self, d: syntax.Action) -> None:
        self.context.type_names.annotations(d.annotations)
        seen_data = False
        with self.context.scope():
            self.parameters(d.parameters)
            for p in d.parameters:
                if p.direction and seen_data:
                    message = f"{p.name!r} with a direction follows a parameter without a direction"
                    raise P4Error(message, p.source, "parameters for the control plane last")
                seen_data = seen_data or not p.direction
                if not p.direction and not is_selectable(p.type):
                    message = f"the control plane cannot set a {describe(p.type)}"
                    raise P4Error(message, p.source, "bit<N>, int<N>, bool or serializable enum")
            with self.context.at(Place("action", d.name)):
                self.context.statements.statement(d.body)
        self.context.declare(d)

    def extern(self, d: syntax.ExternDeclaration) -> None:
        self.context.declare(d)  # declared before its methods, which may refer to it
        with self.context.scope():
            self.context.type_names.type_parameters(d.type_parameters)
            for constructor in d.constructors:
                with self.context.scope():
                    self.parameters(constructor.parameters, takes_optional=True)
            for method in d.methods:
                with self.context.scope():
                    self.prototype(method)
                self.context.declare(method)

    def signature(
        self,
        d: syntax.ParserTypeDeclaration | syntax.ControlTypeDeclaration | syntax.PackageDeclaration,
    ) -> None:
        with self.context.scope():
            self.context.type_names.type_parameters(d.type_parameters)
            is_package = isinstance(d, syntax.PackageDeclaration)
            self.parameters(d.parameters, takes_objects=is_package, takes_optional=True)
        self.context.declare(d)

    # ------------------------------------------------------------ instances

    def instantiation(self, d: syntax.Instantiation) -> None:
        self.context.type_names.annotations(d.annotations)
        d.type = self.context.expressions.expression(d.call).type
        inside = self.context.place.kind
        allowed: dict[str, tuple[type, ...]] = {
            "parser": (types.Extern, types.Parser),
            "control": (types.Extern, types.Control),
            "top": (types.Extern, types.Package),
        }
        if not isinstance(d.type, allowed[inside]):
            where = "at the top level" if inside == "top" else f"in a {inside}"
            raise P4Error(f"{d.type} instantiated {where}", d.call.source)
        self.methods(d)
        self.context.declare(d)

    def methods(self, d: syntax.Instantiation) -> None:
        """Check the methods that implement abstract methods of the instance's extern (11.3.2)."""
        abstract: dict[str, syntax.Function] = {}
        if isinstance(d.type, types.Extern):
            abstract = {m.name: m for m in d.type.declaration.methods if m.is_abstract}
        given: set[str] = set()
        for method in d.objects:
            if not isinstance(method, syntax.Function) or method.name not in abstract:
                message = f"{method.name!r} is not an abstract method of {d.type}"
                raise P4Error(message, method.source, ", ".join(abstract) or "no '= {...}'")
            if method.name in given:
                raise P4Error(f"method {method.name!r} is given twice", method.source)
            given.add(method.name)
            self.method(d, method, abstract[method.name])
        missing = [m.name for m in abstract.values() if m.name not in given | _OPTIONAL_METHODS]
        if missing:
            message = f"{d.type} has no method {missing[0]!r}"
            raise P4Error(message, d.call.source, f"= {{ void {missing[0]}(...) {{ ... }} }}")

    def method(
        self, d: syntax.Instantiation, method: syntax.Function, abstract: syntax.Function
    ) -> None:
        """Check a method against the abstract method. @optional parameters may be missing."""
        assert isinstance(d.type, types.Extern)
        binding = types.bind(d.type.declaration.type_parameters, d.type.arguments)
        with self.context.scope():
            self.prototype(method)
            if not same_parameters(abstract.parameters, method.parameters, binding):
                wanted = ", ".join(
                    f"{p.direction} {types.substitute(p.type, binding)} {p.name}".strip()
                    for p in abstract.parameters
                )
                message = f"{method.name!r} does not have the parameters of the abstract method"
                raise P4Error(message, method.source, f"({wanted})")
            assert method.body is not None
            with self.context.at(Place("function", method.name, method.result_type, this=d.type)):
                self.context.statements.statement(method.body)

    def value_set(self, d: syntax.ValueSet) -> None:
        self.context.type_names.annotations(d.annotations)
        of = self.context.type_names.value_type(d.type_expression, "a value_set")
        d.type = types.Set(of)
        d.size = self.context.expressions.expression(d.size)
        self.context.type_names.constant_integer(d.size, "the size of a value_set")
        self.context.declare(d)

    # ------------------------------------------------------------ parsers (13)

    def parser(self, d: syntax.ParserDeclaration) -> None:
        self.keep_template(d)
        self.parser_inside(d)
        self.context.declare(d)

    def parser_inside(self, d: syntax.ParserDeclaration) -> None:
        with self.context.scope(), self.context.at(Place("parser", d.name)):
            self.head_and_locals(d)
            states = self.context.states.states(d)
            for state in d.states:
                self.context.states.state(state, states)
            if not can_end(states):
                message = f"parser {d.name!r} never reaches accept or reject"
                raise P4Error(message, d.source, "a transition to accept")

    def head_and_locals(self, d: syntax.ParserDeclaration | syntax.ControlDeclaration) -> None:
        """Check the parameters and declarations of a parser or control."""
        self.context.type_names.type_parameters(d.type_parameters)
        self.parameters(d.parameters)
        self.parameters(d.constructor_parameters, takes_objects=True)
        self.context.arguments.constructor_parameters.update(d.constructor_parameters)
        for local in d.locals:
            self.declaration(local)

    # ------------------------------------------------------------ controls (14)

    def control(self, d: syntax.ControlDeclaration) -> None:
        self.keep_template(d)
        self.control_inside(d)
        self.context.declare(d)

    def control_inside(self, d: syntax.ControlDeclaration) -> None:
        with self.context.scope(), self.context.at(Place("control", d.name)):
            self.head_and_locals(d)
            check_control_plane_names(
                [local for local in d.locals if not control_plane_name(local).startswith(".")]
            )
            self.context.statements.statement(d.body)

    # ------------------------------------------------------------ generic parsers and controls

    def keep_template(self, d: Applicable) -> None:
        """Store a copy of a generic parser or control, before the original is checked.

        Each use needs its own unchecked copy.
        """
        if d.type_parameters:
            self.templates[d] = deepcopy(d)

    def specialized(self, d: Applicable, arguments: tuple[types.Type, ...]) -> Applicable:
        """Return a copy of the generic `d` with its type parameters replaced."""
        known = self.specializations.get((d, arguments))
        if known is not None:
            return known
        template = self.templates[d]
        result = deepcopy(template)
        result.type_parameters = []
        bound = Scope()
        for parameter, argument in zip(template.type_parameters, arguments, strict=True):
            source = parameter.source
            name = syntax.TypeName(source, parameter.name)
            typedef = syntax.TypedefDeclaration(source, source, [], parameter.name, name, False)
            typedef.type_of_definition = argument
            bound.names[parameter.name] = [typedef]
        outer, self.context.scopes = self.context.scopes, [self.context.scopes[0], bound]
        if isinstance(result, syntax.ParserDeclaration):
            self.parser_inside(result)
        else:
            self.control_inside(result)
        self.context.scopes = outer
        self.specializations[d, arguments] = result
        return result


def same_parameters(
    wanted: list[syntax.Parameter], given: list[syntax.Parameter], binding: types.Binding
) -> bool:
    """Return whether directions and types agree; `given` may lack parameters marked @optional."""
    required = [p for p in wanted if p.annotation("optional") is None]
    if not len(required) <= len(given) <= len(wanted):
        return False
    return all(
        w.direction == g.direction and fits(g.type, types.substitute(w.type, binding))
        for w, g in zip(wanted, given, strict=False)
    )


def check_control_plane_names(declarations: list[syntax.Declaration]) -> None:
    """Reject tables, actions or instances with the same control-plane name."""
    seen: dict[tuple[type, str], syntax.Declaration] = {}
    for d in declarations:
        if isinstance(d, (syntax.Table, syntax.Action, syntax.Instantiation)):
            name = control_plane_name(d).removeprefix(".")
            other = seen.setdefault((type(d), name), d)
            if other is not d and not (_is_no_action(d) and _is_no_action(other)):
                message = f"control-plane name {name!r} is already used by {other.source}"
                raise P4Error(message, d.source, "another @name")


def control_plane_name(d: syntax.Declaration) -> str:
    annotation = d.annotation("name")
    if annotation is not None and annotation.values:
        return str(annotation.values[0])
    return d.name


def _is_no_action(d: syntax.Declaration) -> bool:
    """Return whether an action is NoAction by name and body.

    Dumps of p4c contain such an action per table.
    """
    if not isinstance(d, syntax.Action) or d.parameters or d.body.statements:
        return False
    return d.source.file.is_system or control_plane_name(d) == ".NoAction"
