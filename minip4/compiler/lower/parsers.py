"""Lowering of parsers (spec 13).

Sub-parsers are inlined, and branches within states become states.
"""

from __future__ import annotations

from itertools import product

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.instances.objects import Environment, Instance, evaluate
from minip4.compiler.lower.constants import number_of
from minip4.compiler.lower.context import Context, Frame
from minip4.compiler.lower.expressions import read_scalar
from minip4.compiler.lower.states import StateBuilder, SubParser
from minip4.compiler.lower.storage import ENUM

_MAX_CASES = 4096


class Parsers:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._state_names: set[str] = set()
        self._no_match: str | None = None  # name of the state that raises NoMatch

    def top_parser(self, instance: Instance, name: str) -> None:
        """Lower a parser of the program, which starts in the state `start`."""
        self.context.program.parsers.append(ir.Parser(name, []))
        self._state_names = {"start"}
        self._no_match = None
        self._parser(instance, "start", None)

    def apply_parser(self, instance: Instance, call: syntax.Call) -> None:
        environment = Environment(instance.environment)
        frame = Frame(self.context.new_label())
        parameters = instance.declaration.parameters
        self.context.calls.bind_arguments(
            call, environment, frame, by_reference=True, parameters=parameters
        )
        end = self.new_state(f"{instance.name}_end")
        outer, self.context.instance = self.context.instance, instance
        with self.context.within(environment):
            start = self.new_state(f"{instance.name}_start")
            self._parser(instance, start, end)
        self.context.instance = outer
        self.context.emit(SubParser(call.source, start, end))
        for copy in frame.copy_out:
            copy()

    def new_state(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._state_names:
            name, number = f"{wanted}_{number}", number + 1
        self._state_names.add(name)
        return name

    def _parser(self, instance: Instance, entry: str, end: str | None) -> None:
        """Add the states of a parser.

        `entry` is the name of the first state; accept continues in the state `end`.
        """
        declaration = instance.declaration
        assert isinstance(declaration, syntax.ParserDeclaration)
        self._value_sets(declaration, instance)
        with self.context.collecting() as initial:
            self.context.calls.declare_locals(declaration.locals, instance)
        prefix = "" if end is None else f"{instance.name}_"
        start = next(s for s in declaration.states if s.name == "start")
        names: dict[syntax.State, str] = {}
        if initial:
            first = StateBuilder(self.context, entry)
            first.code(initial)
            names[start] = self.new_state(f"{prefix}start")
            first.end(names[start])
        else:
            names[start] = entry
        for state in declaration.states:
            if state not in names:
                names[state] = self.new_state(prefix + state.name)
        for state in declaration.states:
            self._state(state, names, end)

    def _value_sets(self, declaration: syntax.ParserDeclaration, instance: Instance) -> None:
        for local in declaration.locals:
            if not isinstance(local, syntax.ValueSet):
                continue
            of = local.type
            width = types.width_in_bits(of.element if isinstance(of, types.Set) else of)
            size = evaluate(local.size, self.context.environment)
            if width is None or not isinstance(size, int):
                raise P4Error("a value set holds numbers", local.source)
            name = control_plane_name(local, instance.name)
            value_sets = self.context.program.value_sets
            if name not in (known.name for known in value_sets):
                value_sets.append(ir.ValueSet(name, width, size))

    def _state(self, state: syntax.State, names: dict[syntax.State, str], end: str | None) -> None:
        with self.context.collecting() as code:
            for statement in state.statements:
                self.context.statements.statement(statement)
            for finish in self.context.at_end_of_state:
                finish()
            self.context.at_end_of_state = []
            keys: list[ir.Expression] = []
            if isinstance(state.transition, syntax.Select):
                keys = self._select_keys(state.transition.expressions)
        builder = StateBuilder(self.context, names[state])
        builder.code(code)
        if isinstance(state.transition, syntax.Select):
            self._select(builder, state.transition, keys, names, end)
        elif state.transition is None:
            builder.end(None)
        else:
            builder.end(self._target(state.transition, names, end))

    def _select_keys(self, expressions: list[syntax.Expression]) -> list[ir.Expression]:
        keys: list[ir.Expression] = []
        for expression, value in zip(
            expressions, self.context.expressions.values(expressions), strict=True
        ):
            key = read_scalar(value, expression.source)
            if not isinstance(key, ir.Field | ir.LastField | ir.LastUnionField):
                key = self.context.saved_field(key, expression.source)
            keys.append(key)
        return keys

    def _target(
        self, goto: syntax.Goto, names: dict[syntax.State, str], end: str | None
    ) -> str | None:
        """Return the next state.

        After reject, v1model continues with ingress, and TNA drops the packet.
        """
        if goto.state is not None:
            return names[goto.state]
        if goto.name == "accept":
            return end
        is_v1model = self.context.program.architecture == "v1model"
        return None if is_v1model else self._no_match_state(goto.source)

    # -- select (13.6)

    def _select(
        self,
        builder: StateBuilder,
        select: syntax.Select,
        keys: list[ir.Expression],
        names: dict[syntax.State, str],
        end: str | None,
    ) -> None:
        state = builder.state()
        widths = [ir.width_of(key) for key in keys]
        state.keys = keys
        for case in select.cases:
            target = self._target(case.target, names, end)
            value_set = self._value_set(case)
            if value_set is not None:
                state.cases.append(ir.ValueSetCase(value_set, target))
                continue
            if all(isinstance(key, syntax.DontCare) for key in case.keys):
                state.default = target
                return
            state.cases += self._cases(case, widths, target)
            if len(state.cases) > _MAX_CASES:
                raise P4Error("the ranges of this select need too many cases", select.source)
        state.default = self._no_match_state(select.source)

    def _no_match_state(self, source: syntax.Source) -> str:
        """Return the state that rejects a packet if no case of a select matches (13.6)."""
        if self._no_match is None:
            errors = dict(self.context.program.errors)
            if "NoMatch" not in errors:
                raise P4Error(
                    "this select requires error.NoMatch",
                    source,
                    "include core.p4, which declares it",
                )
            self._no_match = self.new_state("no_match")
            code = ir.Constant(ENUM, errors["NoMatch"])
            body: list[ir.Statement] = [ir.Verify(source, ir.FALSE, code)]
            self.context.program.parsers[-1].states.append(
                ir.State(self._no_match, body, [], [], None)
            )
        return self._no_match

    def _value_set(self, case: syntax.SelectCase) -> str | None:
        for key in case.keys:
            if isinstance(key, syntax.Name) and isinstance(key.declaration, syntax.ValueSet):
                if len(case.keys) > 1:
                    raise P4Error("a value set must match the whole select key", key.source)
                owner = self.context.environment.lookup(key.declaration)
                assert isinstance(owner, Instance)
                return control_plane_name(key.declaration, owner.name)
        return None

    def _cases(
        self, case: syntax.SelectCase, widths: list[int], target: str | None
    ) -> list[ir.Case]:
        """Return one case per combination of matches. A keyset may need several matches."""
        if len(case.keys) != len(widths):
            raise P4Error("this keyset does not match the type of the select key", case.source)
        choices = [self._matches(k, w) for k, w in zip(case.keys, widths, strict=True)]
        return [ir.Case(list(matches), target) for matches in product(*choices)]

    def _matches(self, key: syntax.Expression, width: int) -> list[ir.Match]:
        """Return the matches of a keyset; a range needs several matches."""
        ones = (1 << width) - 1

        def number(expression: syntax.Expression) -> int:
            return number_of(expression, self.context.environment) & ones

        if isinstance(key, syntax.DontCare):
            return [ir.Match(0, 0, width)]
        if isinstance(key, syntax.Mask):
            mask = number(key.mask)
            return [ir.Match(number(key.value) & mask, mask, width)]
        if isinstance(key, syntax.Range):
            return _prefixes(number(key.low), number(key.high), width)
        return [ir.Match(number(key), ones, width)]


def _prefixes(low: int, high: int, width: int) -> list[ir.Match]:
    """Return prefixes that together match the range low..high."""
    result = []
    ones = (1 << width) - 1
    while low <= high:
        bits = (low & -low).bit_length() - 1 if low else width
        while (1 << bits) - 1 > high - low:
            bits -= 1
        result.append(ir.Match(low, ones & ~((1 << bits) - 1), width))
        low += 1 << bits
    return result
