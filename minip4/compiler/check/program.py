"""Checks a program: decorates the syntax tree, or raises an error.

Declarations are checked in order, because P4 requires a declaration before its use (6.8). Each
module has its own rules (types, conversions, operators, expressions, arguments, calls, statements,
tables, states and declarations). The rules are mutually recursive, so modules call each other
through the shared context.
"""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import syntax, types
from minip4.compiler.check.arguments import Arguments
from minip4.compiler.check.calls import Calls
from minip4.compiler.check.context import Context
from minip4.compiler.check.conversion import Conversions
from minip4.compiler.check.declarations import (
    Declarations,
    check_control_plane_names,
    control_plane_name,
)
from minip4.compiler.check.expressions import Expressions
from minip4.compiler.check.operators import Operators
from minip4.compiler.check.statements import Statements
from minip4.compiler.check.states import States
from minip4.compiler.check.tables import Tables
from minip4.compiler.check.type_names import TypeNames
from minip4.compiler.errors import P4Error


def check(program: syntax.Program) -> None:
    """Decorate the program in place. Raises P4Error at the first error."""
    context = _context(program)
    for d in program.declarations:
        if not isinstance(d, (syntax.ErrorDeclaration, syntax.MatchKindDeclaration)):
            context.type_names.annotations(d.annotations)
        context.declarations.declaration(d)
    controls = [d for d in program.declarations if isinstance(d, syntax.ControlDeclaration)]
    check_control_plane_names([*program.declarations, *_absolute_names(controls)])
    program.main = _find_main(context)


def _absolute_names(controls: list[syntax.ControlDeclaration]) -> Iterator[syntax.Declaration]:
    """Yield the locals of controls with an absolute name, without copies of actions.

    Programs converted from P4-14 have a copy of an action in each control that uses it. For the
    control plane, they are one action.
    """
    seen: set[tuple[object, ...]] = set()
    for control in controls:
        absolute = {d: _key(d) for d in control.locals if control_plane_name(d).startswith(".")}
        yield from (d for d, key in absolute.items() if key not in seen)
        seen.update(absolute.values())


def _key(d: syntax.Declaration) -> tuple[object, ...]:
    """Return what copies of an action have in common; other declarations have no copies."""
    if not isinstance(d, syntax.Action):
        return (d,)
    return control_plane_name(d), *((p.name, p.type) for p in d.parameters)


def _context(program: syntax.Program) -> Context:
    context = Context(program)
    context.type_names = TypeNames(context)
    context.conversions = Conversions(context)
    context.operators = Operators(context)
    context.arguments = Arguments(context)
    context.calls = Calls(context)
    # created last, because its table of rules refers to all others
    context.expressions = Expressions(context)
    context.statements = Statements(context)
    context.tables = Tables(context)
    context.states = States(context)
    context.declarations = Declarations(context)
    return context


def _find_main(context: Context) -> syntax.Instantiation:
    program = context.program
    main = context.scopes[0].names.get("main", [])
    if not main or not isinstance(main[-1], syntax.Instantiation):
        source = program.declarations[-1].whole if program.declarations else program.source
        expected = "e.g. V1Switch(MyParser(), ...) main;"
        raise P4Error("the program has no instance called 'main'", source, expected)
    if not isinstance(main[-1].type, types.Package):
        raise P4Error(f"'main' is an instance of {main[-1].type}", main[-1].source, "a package")
    return main[-1]
