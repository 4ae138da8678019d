"""Conversion of structured code to flat parser states."""

from __future__ import annotations

from collections.abc import Callable

from minip4.compiler import ir, syntax, types
from minip4.compiler.lower.context import Context

Edge = Callable[[str | None], None]


class SubParser(ir.Statement):
    """A sub-parser that starts in `start`; its states return to `end`."""

    __slots__ = ("end", "start")

    def __init__(self, source: syntax.Source, start: str, end: str) -> None:
        super().__init__(source)
        self.start = start
        self.end = end


class StateBuilder:
    """Converts structured code to flat states. `_open` contains the edges without a target."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._open: list[Edge] = []
        self._state: ir.State | None = None
        self._labels: dict[int, list[Edge]] = {}
        self._new(name)

    def _new(self, name: str) -> ir.State:
        for edge in self._open:
            edge(name)
        self._open = []
        self._state = ir.State(name, [], [], [], None)
        self._context.program.parsers[-1].states.append(self._state)
        return self._state

    def state(self) -> ir.State:
        """Return the current state, to which code is added."""
        if self._state is None:
            return self._new(self._context.parsers.new_state(f"{self._name}_next"))
        return self._state

    def _is_reachable(self) -> bool:
        return self._state is not None or bool(self._open)

    def _close(self) -> list[Edge]:
        """End the state.

        The caller connects its default edge and the open edges.
        """
        edges = self._open
        if self._state is not None:
            edges = [*edges, _default_edge(self._state)]
        self._state, self._open = None, []
        return edges

    def end(self, target: str | None) -> None:
        for edge in self._close():
            edge(target)

    def code(self, statements: list[ir.Statement]) -> None:
        for statement in statements:
            if not self._is_reachable():
                return
            match statement:
                case ir.If():
                    self._if(statement)
                case ir.Labelled():
                    self._labels[statement.label] = []
                    self.code(statement.body)
                    left = self._labels.pop(statement.label)
                    if left:
                        self._open = self._close() + left
                case ir.Leave():
                    self._labels[statement.label] += self._close()
                case ir.Loop():
                    self._open = self._close()
                    head = self._new(self._context.parsers.new_state(f"{self._name}_loop"))
                    self.code(statement.body)
                    self.end(head.name)
                case SubParser():
                    self.end(statement.start)
                    self._new(statement.end)
                case _:
                    self.state().body.append(statement)

    def _if(self, statement: ir.If) -> None:
        state = self.state()
        assert statement.source is not None
        key = statement.condition
        if not isinstance(key, ir.Field):
            key = self._context.temporary_field(types.BOOL, statement.source)
            state.body.append(ir.Assign(statement.source, key, statement.condition))
        case = ir.Case([ir.Match(1, 1, 1)], None)
        state.keys, state.cases = [key], [case]
        self._state, self._open = None, [_case_edge(case)]
        self.code(statement.then)
        after = self._close()
        self._open = [_default_edge(state)]
        self.code(statement.otherwise)
        self._open = after + self._close()


def _default_edge(state: ir.State) -> Edge:
    def patch(name: str | None) -> None:
        state.default = name

    return patch


def _case_edge(case: ir.Case) -> Edge:
    def patch(name: str | None) -> None:
        case.next_state = name

    return patch
