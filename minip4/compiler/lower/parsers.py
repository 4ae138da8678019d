"""Lowers parsers (spec 13): states of sub-parsers in line, branches inside states as states."""

from __future__ import annotations

from itertools import product

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.instances.objects import Environment, Instance, evaluate
from minip4.compiler.lower import ir, places
from minip4.compiler.lower.assignments import is_compound
from minip4.compiler.lower.base import Frame, Shared
from minip4.compiler.lower.expressions import read_scalar
from minip4.compiler.lower.externs import Externs
from minip4.compiler.lower.states import StateBuilder, SubParser
from minip4.compiler.lower.storage import ENUM, field_types, scalar_type

_MAX_CASES = 4096


class Parsers(Externs):
    def __init__(self, path: str, shared: Shared) -> None:
        super().__init__(path, shared)
        self._state_names: set[str] = set()
        self._no_match: str | None = None  # the state that rejects with NoMatch

    def top_parser(self, instance: Instance) -> None:
        """The program's parser; it starts in the state `start`."""
        self._state_names.add("start")
        self._parser(instance, "start", None)

    def apply_parser(self, instance: Instance, call: syntax.Call) -> None:
        environment = Environment(instance.environment)
        frame = Frame(self.new_label())
        parameters = instance.declaration.parameters
        self.bind_arguments(call, environment, frame, by_reference=True, parameters=parameters)
        end = self.new_state(f"{instance.name}_end")
        outer, self.instance = self.instance, instance
        with self.within(environment):
            start = self.new_state(f"{instance.name}_start")
            self._parser(instance, start, end)
        self.instance = outer
        self.emit(SubParser(call.source, start, end))
        for copy in frame.copy_out:
            copy()

    def new_state(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._state_names:
            name, number = f"{wanted}_{number}", number + 1
        self._state_names.add(name)
        return name

    def _parser(self, instance: Instance, entry: str, end: str | None) -> None:
        """Adds the states: `entry` begins, accept leads to `end`."""
        declaration = instance.declaration
        assert isinstance(declaration, syntax.ParserDeclaration)
        self._value_sets(declaration, instance)
        with self.collecting() as initial:
            self.declare_locals(declaration.locals, instance)
        prefix = "" if end is None else f"{instance.name}_"
        start = next(s for s in declaration.states if s.name == "start")
        names: dict[syntax.State, str] = {}
        if initial:
            first = StateBuilder(self, entry)
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
            size = evaluate(local.size, self.environment)
            if width is None or not isinstance(size, int):
                raise P4Error("a value set holds numbers", local.source)
            name = control_plane_name(local, instance.name)
            if name not in (known for known, *_ in self.program.value_sets):
                self.program.value_sets.append((name, width, size))

    def _state(self, state: syntax.State, names: dict[syntax.State, str], end: str | None) -> None:
        with self.collecting() as code:
            for statement in state.statements:
                self.statement(statement)
            keys: list[ir.Expression] = []
            if isinstance(state.transition, syntax.Select):
                keys = self._select_keys(state.transition.expressions)
        builder = StateBuilder(self, names[state])
        builder.code(code)
        if isinstance(state.transition, syntax.Select):
            self._select(builder, state.transition, keys, names, end)
        elif state.transition is None:
            builder.end(None)
        else:
            builder.end(_target(state.transition, names, end))

    def _select_keys(self, expressions: list[syntax.Expression]) -> list[ir.Expression]:
        keys: list[ir.Expression] = []
        for expression, value in zip(expressions, self.values(expressions), strict=True):
            key = read_scalar(value, expression.source)
            if not isinstance(key, ir.Field | ir.LastField | ir.LastUnionField):
                key = self.saved_field(key, expression.source)
            keys.append(key)
        return keys

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
            target = _target(case.target, names, end)
            value_set = self._value_set(case, keys)
            if value_set is not None:
                state.cases.append(ir.Case(0, None, 0, target, value_set))
                continue
            if all(isinstance(key, syntax.DontCare) for key in case.keys):
                state.default = target
                return
            state.cases += self._cases(case, widths, target)
            if len(state.cases) > _MAX_CASES:
                raise P4Error("the ranges of this select need too many cases", select.source)
        state.default = self._no_match_state(select.source)

    def _no_match_state(self, source: syntax.Source) -> str:
        """Where a select without a matching case leads to; without it BMv2 accepts the packet."""
        if self._no_match is None:
            errors = dict(self.program.errors)
            if "NoMatch" not in errors:
                raise P4Error("this select needs error.NoMatch", source, "core.p4, which has it")
            self._no_match = self.new_state("no_match")
            code = ir.Constant(ENUM, errors["NoMatch"])
            body: list[ir.Statement] = [ir.Verify(source, ir.FALSE, code)]
            self.program.states.append(ir.State(self._no_match, body, [], [], None))
        return self._no_match

    def _value_set(self, case: syntax.SelectCase, keys: list[ir.Expression]) -> str | None:
        for key in case.keys:
            if isinstance(key, syntax.Name) and isinstance(key.declaration, syntax.ValueSet):
                if len(case.keys) > 1:
                    raise P4Error("a value set must match the whole select key", key.source)
                owner = self.environment.lookup(key.declaration)
                assert isinstance(owner, Instance)
                return control_plane_name(key.declaration, owner.name)
        return None

    def _cases(
        self, case: syntax.SelectCase, widths: list[int], target: str | None
    ) -> list[ir.Case]:
        """One for each combination of what the ranges expand to."""
        if len(case.keys) != len(widths):
            raise P4Error("this keyset does not fit the select key", case.source)
        choices = [self._masked(k, w) for k, w in zip(case.keys, widths, strict=True)]
        result = []
        for combination in product(*choices):
            value = mask = size = 0
            is_exact = True
            for (v, m), width in zip(combination, widths, strict=True):
                byte_count = (width + 7) // 8
                value = value << 8 * byte_count | v
                mask = mask << 8 * byte_count | m
                size += byte_count
                is_exact = is_exact and m == (1 << width) - 1
            result.append(ir.Case(value, None if is_exact else mask, size, target))
        return result

    def _masked(self, key: syntax.Expression, width: int) -> list[tuple[int, int]]:
        ones = (1 << width) - 1
        if isinstance(key, syntax.DontCare):
            return [(0, 0)]
        if isinstance(key, syntax.Mask):
            mask = self.number(key.mask) & ones
            return [(self.number(key.value) & mask, mask)]
        if isinstance(key, syntax.Range):
            return _prefixes(self.number(key.low) & ones, self.number(key.high) & ones, width)
        return [(self.number(key) & ones, ones)]

    # -- packet_in

    def packet_in(self, call: syntax.Call) -> places.Value | None:
        if self.block != "parser":
            raise P4Error(f"{call.method}() can be called in a parser only", call.source)
        arguments = self.extern_arguments(call)
        if call.method == "lookahead":
            of = self.environment.resolve(
                call.type_arguments[0] if call.type_arguments else call.type
            )
            return self._lookahead(of, call.source, [0])
        if call.method == "advance":
            self.emit(ir.Advance(call.source, self.scalar_of(arguments[0])))
            return None
        if call.method == "extract":
            length = self.scalar_of(arguments[1]) if len(arguments) > 1 else None
            self._extract(arguments[0].place, length, call.source)
            return None
        raise P4Error(f"packet_in.{call.method}() is not supported on this target", call.source)

    def _extract(
        self, target: places.Place, length: ir.Expression | None, source: syntax.Source
    ) -> None:
        if isinstance(target, places.Header):
            self.emit(ir.Extract(source, "regular", target.name, length))
        elif isinstance(target, places.Next) and target.member is None:
            self.emit(ir.Extract(source, "stack", target.stack.name, length))
        elif isinstance(target, places.Next) and target.member is not None:
            where = (target.stack.name, target.member)
            self.emit(ir.Extract(source, "union_stack", where, length))
        elif isinstance(target, places.Indexed):
            for i, place in enumerate(target.places):
                with self.collecting() as body:
                    self._extract(place, length, source)
                number = ir.Constant(target.index.type, i)
                here = ir.Binary(types.BOOL, "==", target.index, number)
                self.emit(ir.If(source, here, body, []))
        else:
            raise P4Error("a header was expected here", source)

    def _lookahead(self, of: types.Type, source: syntax.Source, offset: list[int]) -> places.Value:
        """Bits of the packet in a temporary; `offset[0]` advances over what was read."""
        of = types.strip_newtypes(of)
        scalar = scalar_type(of)
        if scalar is not None:
            field = self.temporary_field(scalar, source)
            expression = ir.Lookahead(scalar, offset[0])
            offset[0] += ir.width_of(expression)
            self.emit(ir.Assign(source, field, expression))
            return field
        members = field_types(of)
        if isinstance(of, types.Stack):
            members = {str(i): of.element for i in range(of.size)}
        if members is None:
            raise P4Error(f"lookahead of {of} is not supported", source)
        values = {n: self._lookahead(t, source, offset) for n, t in members.items()}
        return places.Compound(values, isinstance(of, types.Header))

    def emit_header(self, call: syntax.Call) -> None:
        """`packet_out.emit`: a mark in the code that the deparser's lowering reads."""
        if self.block != "deparser":
            raise P4Error("emit() can be called in the deparser only", call.source)
        argument = call.arguments[0]
        assert argument is not None
        for header in _headers(self.value(argument), argument.source):
            self.primitive("emit", [ir.Reference("header", header)], call.source)


def _headers(value: places.Value, source: syntax.Source) -> list[str]:
    if isinstance(value, places.Header):
        return [value.name]
    if isinstance(value, places.Stack):
        return [name for element in value.elements for name in _headers(element, source)]
    if isinstance(value, places.Group | places.Union | places.Compound) and is_compound(value):
        members = places.members_of(value).values()
        return [name for member in members for name in _headers(member, source)]
    raise P4Error("only headers can be emitted", source)


def _target(goto: syntax.Goto, names: dict[syntax.State, str], end: str | None) -> str | None:
    """BMv2 goes on with ingress after reject, too: parser_error says what happened."""
    if goto.state is not None:
        return names[goto.state]
    return end if goto.name == "accept" else None


def _prefixes(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """(value, mask) pairs that together match low..high."""
    result = []
    ones = (1 << width) - 1
    while low <= high:
        bits = (low & -low).bit_length() - 1 if low else width
        while (1 << bits) - 1 > high - low:
            bits -= 1
        result.append((low, ones & ~((1 << bits) - 1)))
        low += 1 << bits
    return result
