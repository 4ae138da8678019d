"""Parser states and transitions (spec section 13)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.context import Context, describe, typed
from minip4.compiler.check.tables import flat_fields, is_selectable
from minip4.compiler.errors import P4Error, did_you_mean


class States:
    def __init__(self, context: Context) -> None:
        self.context = context

    def states(self, d: syntax.ParserDeclaration) -> dict[str, syntax.State]:
        states: dict[str, syntax.State] = {}
        for state in d.states:
            if state.name in ("accept", "reject"):
                raise P4Error(f"state {state.name!r} is predefined", state.source, "another name")
            if state.name in states:
                first = states[state.name].source
                message = f"state {state.name!r} is declared twice; first at {first}"
                raise P4Error(message, state.source)
            states[state.name] = state
        if "start" not in states:
            raise P4Error(f"parser {d.name!r} has no state 'start'", d.source, "state start {...}")
        return states

    def state(self, d: syntax.State, states: dict[str, syntax.State]) -> None:
        self.context.type_names.annotations(d.annotations)
        with self.context.scope():
            for s in d.statements:
                self.context.statements.statement(s)
            if isinstance(d.transition, syntax.Goto):
                self.goto(d.transition, states)
            elif d.transition is not None:
                self.select(d.transition, states)

    def goto(self, g: syntax.Goto, states: dict[str, syntax.State]) -> None:
        if g.name in ("accept", "reject"):
            return
        if g.name not in states:
            known = [*states, "accept", "reject"]
            message = f"there is no state {g.name!r}{did_you_mean(g.name, known)}"
            raise P4Error(message, g.source, ", ".join(known))
        g.state = states[g.name]

    def select(self, s: syntax.Select, states: dict[str, syntax.State]) -> None:
        s.expressions = _flat([self.context.conversions.value(e) for e in s.expressions])
        for e in s.expressions:
            if e.type is types.INTEGER:
                raise P4Error("this number has no width", e.source, "e.g. 8w1")
            if not is_selectable(e.type):
                message = f"a select over {describe(e.type)}"
                raise P4Error(message, e.source, "bit<N>, int<N>, bool, enum or error")
        for case in s.cases:
            case.keys = self.select_keys(s, case)
            self.goto(case.target, states)

    def select_keys(self, s: syntax.Select, case: syntax.SelectCase) -> list[syntax.Expression]:
        of = [e.type for e in s.expressions]
        keys = case.keys
        if len(keys) == 1 and len(of) != 1:
            only = keys[0]
            if isinstance(only, syntax.DontCare):
                return [typed(only, types.Set(types.Tuple(tuple(of))))]
            only = self.context.expressions.expression(only)
            if isinstance(only.type, types.Set):
                element = only.type.element
                if flat_fields(element) != of:
                    wanted = ", ".join(map(describe, of))
                    raise P4Error(f"a value_set of {element}", only.source, wanted)
                return [only]
        keys = _flat(keys)
        if len(keys) != len(of):
            message = f"this case has {len(keys)} keyset(s)"
            raise P4Error(message, keys[0].source, f"{len(of)}, one for each expression")
        keys = [self.context.tables.keyset(k, t) for k, t in zip(keys, of, strict=True)]
        for key in keys:
            is_set = isinstance(key, syntax.Name) and isinstance(key.declaration, syntax.ValueSet)
            if not (
                is_set
                or isinstance(key, syntax.DontCare)
                or self.context.arguments.is_compile_time(key)
            ):
                message = "a keyset must be known at compile time"
                raise P4Error(message, key.source, "a constant or a value_set")
        return keys


def can_end(states: dict[str, syntax.State]) -> bool:
    """Return whether some path from the start state leaves the parser."""
    seen: set[str] = set()
    todo = ["start"]
    while todo:
        name = todo.pop()
        if name in ("accept", "reject"):
            return True
        if name in seen:
            continue
        seen.add(name)
        transition = states[name].transition
        if transition is None:
            return True  # rejects
        if isinstance(transition, syntax.Goto):
            todo.append(transition.name)
        else:
            todo += [case.target.name for case in transition.cases]
            if not any(_matches_all(case) for case in transition.cases):
                return True  # NoMatch
    return False


def _matches_all(case: syntax.SelectCase) -> bool:
    return all(isinstance(key, syntax.DontCare) for key in case.keys)


def _flat(expressions: list[syntax.Expression]) -> list[syntax.Expression]:
    """Return the expressions in nested lists as one flat list."""
    result: list[syntax.Expression] = []
    for e in expressions:
        result += _flat(e.elements) if isinstance(e, syntax.ListExpression) else [e]
    return result
