"""Unused declarations and unreachable parser states.

There are no warnings about types and constants outside of controls and parsers, nor about included
files, because other programs may use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minip4.compiler import syntax

_WORDS = {
    syntax.Table: "table",
    syntax.Action: "action",
    syntax.Function: "function",
    syntax.VariableDeclaration: "variable",
    syntax.ConstantDeclaration: "constant",
    syntax.Parameter: "parameter",
    syntax.Instantiation: "instance",
    syntax.ValueSet: "value_set",
    syntax.ControlDeclaration: "control",
    syntax.ParserDeclaration: "parser",
}


def check_uses(program: syntax.Program, nodes: Iterable[syntax.Node]) -> None:
    """Add warnings about unused declarations to the program; `nodes` are all its nodes."""
    used = set(_used(nodes))
    for d in _declared(program):
        word = _WORDS.get(type(d))
        if word is not None and d not in used and not _is_meant(d, program):
            program.warnings.add("unused", f"{word} {d.name!r} is unused", d.source)


def check_states(program: syntax.Program) -> None:
    """Add warnings about parser states to the program."""
    for d in program.declarations:
        if isinstance(d, syntax.ParserDeclaration):
            _check_parser(d, program)


def _check_parser(d: syntax.ParserDeclaration, program: syntax.Program) -> None:
    todo = [state for state in d.states if state.name == "start"]
    reached, names = set(todo), set()
    while todo:
        for goto in targets(todo.pop()):
            names.add(goto.name)
            if goto.state is not None and goto.state not in reached:
                reached.add(goto.state)
                todo.append(goto.state)
    for state in d.states:
        if state not in reached:
            program.warnings.add(
                "unreachable", f"state {state.name!r} is unreachable", state.source
            )
        elif state.transition is None:
            message = f"state {state.name!r} has no transition, so it rejects the packet"
            program.warnings.add("parser-transition", message, state.source, "transition ...;")
    if "accept" not in names:
        program.warnings.add("unreachable", f"parser {d.name!r} never reaches accept", d.source)


def targets(state: syntax.State) -> list[syntax.Goto]:
    """Return the possible next states of a transition."""
    if isinstance(state.transition, syntax.Select):
        return [case.target for case in state.transition.cases]
    return [] if state.transition is None else [state.transition]


def _is_meant(d: syntax.Declaration, program: syntax.Program) -> bool:
    """Return whether an annotation or the context allows an unused declaration."""
    no_warning = d.annotation("noWarn")
    if d.name.startswith("__") or (no_warning is not None and "unused" in no_warning.values):
        return True
    if d is program.main or d not in program.declarations:
        return d is program.main
    return isinstance(d, syntax.ConstantDeclaration) or d.source.file.path != program.path


def _declared(program: syntax.Program) -> Iterator[syntax.Declaration]:
    """Yield the declarations of the user's program, except parameters that calls set."""
    todo: list[syntax.Node] = [d for d in program.declarations if not d.source.file.is_system]
    while todo:
        node = todo.pop()
        if isinstance(node, syntax.Declaration):
            yield node
        if isinstance(node, syntax.Action):
            todo += [*node.parameters, node.body]
        elif isinstance(node, syntax.Function):
            todo += [] if node.body is None else [node.body]
        elif isinstance(node, syntax.ControlDeclaration):
            todo += [*node.locals, node.body]
        elif isinstance(node, syntax.ParserDeclaration):
            todo += [*node.locals, *node.states]
        elif isinstance(node, (syntax.Statement, syntax.State, syntax.SwitchCase)):
            todo += syntax.children(node)


def _used(nodes: Iterable[syntax.Node]) -> Iterator[syntax.Declaration | None]:
    """Yield each declaration that the program uses by name."""
    for node in nodes:
        if isinstance(node, (syntax.Name, syntax.TypeName, syntax.Call)):
            yield node.declaration
        elif isinstance(node, syntax.ActionReference):
            yield node.action
