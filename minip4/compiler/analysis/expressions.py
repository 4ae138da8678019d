"""Effects of the evaluation of expressions: values read, headers accessed, conditions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from minip4.compiler import syntax, types
from minip4.compiler.analysis.places import Path, headers_in, place_of, values_in
from minip4.compiler.analysis.state import State, copied, join
from minip4.compiler.source import Source
from minip4.compiler.syntax import CallKind
from minip4.compiler.types import Type
from minip4.compiler.warnings import Kind, Warnings


@dataclass(slots=True)
class Applied:
    """The states after `table.apply()`: per action, for a hit and for a miss.

    `implicit` is the state after NoAction, if the program names no default action.
    """

    by_action: dict[syntax.Declaration, State | None]
    hit: State | None
    miss: State | None
    implicit: State | None


class ExpressionFlow(ABC):
    """Evaluation of expressions.

    Each method receives the state before the evaluation and returns the state after it.

    The evaluation may change the given state. None stands for an unreachable point.
    """

    def __init__(self, warnings: Warnings) -> None:
        self.warnings = warnings
        self.is_silent = False  # true while the analysis of loops has not reached its fixed point
        self.is_in_table = False  # true in an action that the control plane selects
        # true in a table key; a header may be invalid there, because entries need not match the
        # content of an invalid header
        self.is_key = False

    @abstractmethod
    def table_apply(self, table: syntax.Table, s: State) -> Applied: ...

    @abstractmethod
    def action_call(
        self, action: syntax.Action, arguments: list[syntax.Expression | None], s: State
    ) -> State | None: ...

    def warn(self, kind: Kind, message: str, source: Source) -> None:
        if not self.is_silent:
            self.warnings.add(kind, message, source)

    # ------------------------------------------------------------ reading

    def expression(self, e: syntax.Expression, s: State | None) -> State | None:
        """Evaluate an expression."""
        if s is None or e.constant is not None:
            return s
        if isinstance(e, syntax.Call):
            return self.call(e, s)
        if isinstance(e, syntax.Conditional) or _is_logical(e):
            return join(*self.condition(e, s))
        place = place_of(e)
        if place is None:
            return self.parts(e, s)
        after = self.inside(e, s)
        if after is not None:
            self.read(place.path, e, after)
        return after

    def parts(self, e: syntax.Node, s: State | None) -> State | None:
        for child in syntax.children(e):
            inner = child.value if isinstance(child, syntax.NamedValue) else child
            if isinstance(inner, syntax.Expression):
                s = self.expression(inner, s)
        return s

    def inside(self, e: syntax.Expression, s: State | None) -> State | None:
        """Evaluate the indices in an lvalue, and check its headers."""
        if s is not None and isinstance(e, (syntax.Member, syntax.Index)):
            s = self.inside(e.base, s)
            if isinstance(e, syntax.Index):
                return self.expression(e.index, s)
            if s is not None and isinstance(e.base.type, types.Header):
                self.access(e.base, s)
        elif s is not None and isinstance(e, (syntax.Slice, syntax.PartSelect)):
            s = self.expression(e.low, self.inside(e.base, s))
        return s

    def access(self, header: syntax.Expression, s: State) -> None:
        """Check an access to a field of the header."""
        place = place_of(header)
        if place is None or self.is_key:
            return
        is_invalid = s.is_invalid(place.path)
        if self.is_in_table:  # entries may contain the same condition as the code around the table
            is_invalid = s.invalid.get(place.path) or None
        if is_invalid is None:
            return
        doubt = "is" if is_invalid else "may be"
        message = f"a field of {header.source.text!r}, which {doubt} invalid here"
        self.warn("invalid-header", message, header.source)
        s.assign(place.path, header.type)  # warn only once

    def read(self, path: Path, e: syntax.Expression, s: State) -> None:
        """Read a value.

        In a compound value, headers may be invalid, but other fields must be set.
        """
        for value, is_in_header in values_in(path, e.type) if s.unset else ():
            if value in s.unset and not is_in_header:
                name = ".".join([e.source.text, *map(str, value[len(path) :])])
                self.warn("uninitialized-use", f"{name!r} may be uninitialized", e.source)
                s.unset.discard(value)  # warn only once

    # ------------------------------------------------------------ writing

    def write(self, e: syntax.Expression, s: State | None) -> State | None:
        """Write a whole lvalue, by an assignment or an out argument."""
        s = self.inside(e, s)
        place = place_of(e)
        if s is not None and place is not None:
            self.only_one(e, s)
            s.assign(place.path, _root_type(e))
        return s

    # ------------------------------------------------------------ conditions

    def condition(self, e: syntax.Expression, s: State | None) -> tuple[State | None, State | None]:
        """Return two states: the first if the condition is true, the second if it is false."""
        if isinstance(e.constant, bool):
            return (s, None) if e.constant else (None, s)
        if s is None:
            return None, None
        if isinstance(e, syntax.Unary) and e.operator == "!":
            holds, fails = self.condition(e.operand, s)
            return fails, holds
        if isinstance(e, syntax.Binary) and e.operator == "&&":
            left, left_fails = self.condition(e.left, s)
            right, right_fails = self.condition(e.right, left)
            return right, join(left_fails, right_fails)
        if isinstance(e, syntax.Binary) and e.operator == "||":
            left, left_fails = self.condition(e.left, s)
            right, right_fails = self.condition(e.right, left_fails)
            return join(left, right), right_fails
        if isinstance(e, syntax.Conditional):
            return self.conditional(e, s)
        if isinstance(e, syntax.Call) and e.kind is CallKind.BUILTIN and e.method == "isValid":
            return self.validity_test(e, s)
        if isinstance(e, syntax.Member) and isinstance(e.base.type, types.ApplyResult):
            applied = self.applied(e.base, s)
            hit, miss = applied.hit, applied.miss
            return (hit, miss) if e.name == "hit" else (miss, hit)
        after = self.expression(e, s)
        return after, copied(after)

    def conditional(self, e: syntax.Conditional, s: State) -> tuple[State | None, State | None]:
        then, otherwise = self.condition(e.condition, s)
        if e.type is not types.BOOL:
            after = join(self.expression(e.then, then), self.expression(e.otherwise, otherwise))
            return after, None
        holds, fails = self.condition(e.then, then)
        also_holds, also_fails = self.condition(e.otherwise, otherwise)
        return join(holds, also_holds), join(fails, also_fails)

    def validity_test(self, e: syntax.Call, s: State) -> tuple[State | None, State | None]:
        """Evaluate `header.isValid()`. A union is valid if any of its members is valid."""
        place = None if e.object is None else place_of(e.object)
        if e.object is None or place is None:
            return s, s.copy()
        headers = list(headers_in(place.path, e.object.type))
        holds = s.copy().test(headers, is_valid=True)
        if place.is_part:
            return holds, s  # another element of the stack may be valid
        return holds, s.test(headers, is_valid=False)

    def applied(self, e: syntax.Expression, s: State) -> Applied:
        """Apply a table whose `.hit`, `.miss` or `.action_run` is used."""
        assert isinstance(e, syntax.Call)
        assert isinstance(e.declaration, syntax.Table)
        return self.table_apply(e.declaration, s)

    # ------------------------------------------------------------ calls

    def call(self, e: syntax.Call, s: State) -> State | None:
        if e.kind is CallKind.TABLE_APPLY:
            applied = self.applied(e, s)
            return join(applied.hit, applied.miss)
        if isinstance(e.declaration, syntax.Action):
            return self.action_call(e.declaration, e.arguments, s)
        if e.kind is CallKind.BUILTIN:
            return self.builtin(e, s)
        after: State | None = s
        for p, a in zip(e.parameters, e.arguments, strict=True):
            if a is not None and p.direction != "out":
                is_whole = p.direction == "inout" and isinstance(
                    a.type, (types.StructLike, types.Stack)
                )
                after = self.inside(a, after) if is_whole else self.expression(a, after)
        for p, a in zip(e.parameters, e.arguments, strict=True):
            if a is not None and p.direction in ("out", "inout"):
                after = self.write(a, after)
        return after

    def builtin(self, e: syntax.Call, s: State) -> State | None:
        after: State | None = s
        for a in e.arguments:
            after = after if a is None else self.expression(a, after)
        if e.object is None:
            return after
        after = self.inside(e.object, after)
        place = place_of(e.object)
        if after is None or place is None:
            return after
        if e.method in ("push_front", "pop_front"):
            after.assign(place.path, e.object.type)
        if e.method == "setValid":
            self.only_one(e.object, after)
            after.set_validity(place.path, is_valid=True)
        if e.method == "setInvalid" and not place.is_part:
            after.set_validity(place.path, is_valid=False)
        return after

    def only_one(self, e: syntax.Expression, s: State) -> None:
        """Make one member of a union valid and all other members invalid (8.20)."""
        place = place_of(e)
        if isinstance(e, syntax.Member) and isinstance(e.base.type, types.HeaderUnion) and place:
            for header in headers_in(place.path[:-1], e.base.type):
                if header != place.path and not place.is_part:
                    s.set_validity(header, is_valid=False)


def _is_logical(e: syntax.Expression) -> bool:
    return isinstance(e, syntax.Binary) and e.operator in ("&&", "||")


def _root_type(e: syntax.Expression) -> Type:
    """Return the type of the storage of an lvalue.

    A slice is part of its value, and an element is part of its stack.
    """
    while isinstance(e, (syntax.Slice, syntax.PartSelect)):
        e = e.base
    return e.type
