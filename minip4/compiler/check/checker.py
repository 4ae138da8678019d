"""The checker: decorates the tree that the parser built, or refuses the program.

Declarations in order, as P4 wants names declared before use (6.8). Each part is a class of its
own that adds rules: scopes, types, conversions, expressions, calls, statements, tables; this file
has functions, parsers, controls, instances and the program.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from minip4.compiler import syntax, types
from minip4.compiler.check.parsers import StateChecker, can_end
from minip4.compiler.check.scope import Applicable, Place, Scope, describe
from minip4.compiler.check.statements import returns
from minip4.compiler.check.tables import is_selectable
from minip4.compiler.errors import P4Error


def check(program: syntax.Program) -> None:
    """Decorates the program in place. Raises P4Error at the first mistake."""
    Checker(program).check_program()


class Checker(StateChecker):
    def __init__(self, program: syntax.Program) -> None:
        super().__init__(program)
        self.templates: dict[Applicable, Applicable] = {}
        self.specializations: dict[tuple[Applicable, tuple[types.Type, ...]], Applicable] = {}
        self.declaration_rules: dict[type, Callable[[Any], None]] = {
            syntax.ConstantDeclaration: self.constant,
            syntax.VariableDeclaration: self.variable,
            syntax.StructDeclaration: self.struct,
            syntax.EnumDeclaration: self.enum,
            syntax.TypedefDeclaration: self.typedef,
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
            syntax.Table: self.table,
        }

    def check_program(self) -> None:
        for d in self.program.declarations:
            if not isinstance(d, (syntax.ErrorDeclaration, syntax.MatchKindDeclaration)):
                self.annotations(d.annotations)
            self.declaration_rules[type(d)](d)
        top = self.program.declarations
        controls = [d for d in top if isinstance(d, syntax.ControlDeclaration)]
        in_controls = [local for control in controls for local in control.locals]
        absolute = [d for d in in_controls if _control_plane_name(d).startswith(".")]
        self.control_plane_names([*top, *absolute])
        self.program.main = self.find_main()

    def find_main(self) -> syntax.Instantiation:
        main = self.scopes[0].names.get("main", [])
        if not main or not isinstance(main[-1], syntax.Instantiation):
            declarations = self.program.declarations
            source = declarations[-1].whole if declarations else self.program.source
            expected = "e.g. V1Switch(MyParser(), ...) main;"
            raise P4Error("the program has no instance called 'main'", source, expected)
        if not isinstance(main[-1].type, types.Package):
            message = f"'main' is an instance of {main[-1].type}"
            raise P4Error(message, main[-1].source, "a package")
        return main[-1]

    def control_plane_names(self, declarations: list[syntax.Declaration]) -> None:
        """Refuses two tables, actions or instances that the control plane cannot tell apart."""
        seen: dict[tuple[type, str], syntax.Declaration] = {}
        for d in declarations:
            if isinstance(d, (syntax.Table, syntax.Action, syntax.Instantiation)):
                name = _control_plane_name(d).removeprefix(".")
                other = seen.setdefault((type(d), name), d)
                if other is not d and not (_is_no_action(d) and _is_no_action(other)):
                    message = f"control-plane name {name!r} is taken by {other.source}"
                    raise P4Error(message, d.source, "another @name")

    # ------------------------------------------------------------ errors and match kinds

    def error_declaration(self, d: syntax.ErrorDeclaration) -> None:
        for member in d.members:
            if member.name in self.errors:
                first = self.errors[member.name].source
                raise P4Error(
                    f"error {member.name!r} is declared twice; first at {first}", member.source
                )
            member.number = len(self.errors)
            self.errors[member.name] = member
            self.program.errors.append(member)

    def match_kind_declaration(self, d: syntax.MatchKindDeclaration) -> None:
        for member in d.members:
            if member.name in self.match_kinds:
                raise P4Error(f"match kind {member.name!r} is declared twice", member.source)
            self.match_kinds[member.name] = member
            self.program.match_kinds.append(member)

    # ------------------------------------------------------------ parameters and functions

    def parameters(
        self,
        parameters: list[syntax.Parameter],
        *,
        takes_objects: bool = False,
        takes_optional: bool = False,
    ) -> None:
        """Types and default values, and the names in the current scope."""
        for p in parameters:
            self.annotations(p.annotations)
            p.type = self.type_of(p.type_expression)
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
            self.declare(p)

    def default_argument(
        self, p: syntax.Parameter, default: syntax.Expression
    ) -> syntax.Expression:
        if p.direction in ("out", "inout"):
            message = f"an '{p.direction}' parameter has no default value"
            raise P4Error(message, default.source, "an in or directionless parameter")
        value = self.converted(default, p.type, "the default value")
        if not self.is_compile_time(value):
            raise P4Error("a default value is not constant", default.source, "a constant")
        return value

    def prototype(self, d: syntax.Function) -> None:
        self.type_parameters(d.type_parameters)
        if d.result is not None:
            d.result_type = self.type_of(d.result)
        self.parameters(d.parameters, takes_optional=d.body is None)

    def function(self, d: syntax.Function) -> None:
        with self.scope():
            self.prototype(d)
            if d.body is not None:
                with self.at(Place("function", d.name, d.result_type)):
                    self.statement(d.body)
                if d.result_type is not types.VOID and not returns(d.body):
                    message = f"function {d.name!r} can end without 'return'"
                    raise P4Error(message, d.source, f"a value of type {d.result_type}")
        self.declare(d)

    def action(self, d: syntax.Action) -> None:
        self.annotations(d.annotations)
        seen_data = False
        with self.scope():
            self.parameters(d.parameters)
            for p in d.parameters:
                if p.direction and seen_data:
                    message = f"{p.name!r} with a direction follows one without"
                    raise P4Error(message, p.source, "parameters for the control plane last")
                seen_data = seen_data or not p.direction
                if not p.direction and not is_selectable(p.type):
                    message = f"the control plane cannot set a {describe(p.type)}"
                    raise P4Error(message, p.source, "bit<N>, int<N>, bool or serializable enum")
            with self.at(Place("action", d.name)):
                self.statement(d.body)
        self.declare(d)

    def extern(self, d: syntax.ExternDeclaration) -> None:
        self.declare(d)  # its methods may mention it
        with self.scope():
            self.type_parameters(d.type_parameters)
            for constructor in d.constructors:
                with self.scope():
                    self.parameters(constructor.parameters, takes_optional=True)
            for method in d.methods:
                with self.scope():
                    self.prototype(method)
                self.declare(method)

    def signature(
        self,
        d: syntax.ParserTypeDeclaration | syntax.ControlTypeDeclaration | syntax.PackageDeclaration,
    ) -> None:
        with self.scope():
            self.type_parameters(d.type_parameters)
            is_package = isinstance(d, syntax.PackageDeclaration)
            self.parameters(d.parameters, takes_objects=is_package, takes_optional=True)
        self.declare(d)

    # ------------------------------------------------------------ instances

    def instantiation(self, d: syntax.Instantiation) -> None:
        self.annotations(d.annotations)
        d.type = self.expression(d.call).type
        inside = self.place.kind
        allowed: dict[str, tuple[type, ...]] = {
            "parser": (types.Extern, types.Parser),
            "control": (types.Extern, types.Control),
            "top": (types.Extern, types.Package),
        }
        if not isinstance(d.type, allowed[inside]):
            where = "at the top level" if inside == "top" else f"in a {inside}"
            raise P4Error(f"{d.type} instantiated {where}", d.call.source)
        if d.objects:
            message = "methods of an instance are not supported"
            raise P4Error(message, d.objects[0].source, "no '= {...}'")
        self.declare(d)

    def value_set(self, d: syntax.ValueSet) -> None:
        self.annotations(d.annotations)
        of = self.value_type(d.type_expression, "a value_set")
        d.type = types.Set(of)
        d.size = self.expression(d.size)
        self.constant_integer(d.size, "the size of a value_set")
        self.declare(d)

    # ------------------------------------------------------------ parsers (13)

    def parser(self, d: syntax.ParserDeclaration) -> None:
        self.keep_template(d)
        self.parser_inside(d)
        self.declare(d)

    def parser_inside(self, d: syntax.ParserDeclaration) -> None:
        with self.scope(), self.at(Place("parser", d.name)):
            self.head_and_locals(d)
            states = self.states(d)
            for state in d.states:
                self.state(state, states)
            if not can_end(states):
                message = f"parser {d.name!r} never reaches accept or reject"
                raise P4Error(message, d.source, "a transition to accept")

    def head_and_locals(self, d: syntax.ParserDeclaration | syntax.ControlDeclaration) -> None:
        """What parsers and controls have in common."""
        self.type_parameters(d.type_parameters)
        self.parameters(d.parameters)
        self.parameters(d.constructor_parameters, takes_objects=True)
        self.constructor_parameters.update(d.constructor_parameters)
        for local in d.locals:
            self.declaration_rules[type(local)](local)

    # ------------------------------------------------------------ controls (14)

    def control(self, d: syntax.ControlDeclaration) -> None:
        self.keep_template(d)
        self.control_inside(d)
        self.declare(d)

    def control_inside(self, d: syntax.ControlDeclaration) -> None:
        with self.scope(), self.at(Place("control", d.name)):
            self.head_and_locals(d)
            self.control_plane_names(
                [local for local in d.locals if not _control_plane_name(local).startswith(".")]
            )
            self.statement(d.body)

    # ------------------------------------------------------------ generic parsers and controls

    def keep_template(self, d: Applicable) -> None:
        """A generic parser or control is copied before it is checked: each use gets its own."""
        if d.type_parameters:
            self.templates[d] = deepcopy(d)

    def specialized(self, d: Applicable, arguments: tuple[types.Type, ...]) -> Applicable:
        """A copy of the generic `d` with its type parameters replaced."""
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
        outer, self.scopes = self.scopes, [self.scopes[0], bound]
        if isinstance(result, syntax.ParserDeclaration):
            self.parser_inside(result)
        else:
            self.control_inside(result)
        self.scopes = outer
        self.specializations[d, arguments] = result
        return result


def _control_plane_name(d: syntax.Declaration) -> str:
    annotation = d.annotation("name")
    if annotation is not None and annotation.values:
        return str(annotation.values[0])
    return d.name


def _is_no_action(d: syntax.Declaration) -> bool:
    """Whether it is NoAction by name and deed: p4c's dumps have one for each table."""
    if not isinstance(d, syntax.Action) or d.parameters or d.body.statements:
        return False
    return d.source.file.is_system or _control_plane_name(d) == ".NoAction"
