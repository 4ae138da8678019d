"""C code of the parser: each state is a label; each read of the frame is bounds-checked."""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.codegen.expressions import Expressions
from minip4.engine.codegen.graphs import looping
from minip4.engine.codegen.layout import VARIABLES, Layout, Place, identifier, literal
from minip4.engine.codegen.statements import Lines, Statements
from minip4.engine.errors import InvalidArgument, NotSupported
from minip4.engine.words import KeyLayout, limbs


class ParserCode:
    def __init__(
        self, program: m.Program, layout: Layout, expressions: Expressions, statements: Statements,
        number: int = 0,
    ) -> None:  # fmt: skip
        self.program, self.layout = program, layout
        self.expressions, self.statements = expressions, statements
        self.parser = program.parsers[number]
        first = sum(len(p.states) for p in program.parsers[:number])
        self.numbers = {name: first + i for i, name in enumerate(self.parser.states)}
        self.labels = {
            name: f"s{i}_{identifier(name)}" for i, name in enumerate(self.parser.states)
        }
        self.value_set_widths: dict[str, list[int]] = {}
        self.looping = looping(
            {
                state.name: {t.next_state for t in state.transitions if t.next_state}
                for state in self.parser.states.values()
            }
        )

    def function(self, after: Lines, name: str = "parse") -> str:
        parser = self.parser
        lines = [
            f"static void program_{name}(struct context *c)",
            "{",
            "    struct phv *h = (struct phv *)c->packet->phv;",
            f"    {VARIABLES}",
            "    const uint8_t *at = c->packet->data, *end = at + c->packet->length;",
            f"    uint32_t steps UNUSED = 0, error = {self.program.errors['NoError']};",
        ]
        if parser.init_state:
            lines.append(f"    goto {self.labels[parser.init_state]};")
            for state in _reachable(parser):
                lines += [f"{self.labels[state.name]}: {{", *self._indent(self._state(state)), "}"]
            lines.append("done:")
        lines += [
            "    h->start.payload = (uint16_t)(at - c->packet->data);",
            "    (void)end, (void)error;",
            *self._indent(after),
            *self._indent(self.statements.traced("TRACE_PARSED")),
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _indent(self, lines: Lines) -> Lines:
        return [f"    {line}" for line in lines]

    def _state(self, state: m.ParserState) -> Lines:
        lines = self.statements.traced(f"TRACE_STATE({self.numbers[state.name]})")
        if state.name in self.looping:
            lines.append(f"if (++steps > MAX_PARSER_STEPS) {self._error('ParserTimeout')}")
        for op in state.ops:
            lines += self._operation(op)
        return lines + self._select(state)

    def _error(self, name: str) -> str:
        return f"{{ error = {self.program.errors[name]}; goto done; }}"

    def _need(self, amount: str) -> str:
        return f"if ((size_t)(end - at) < {amount}) {self._error('PacketTooShort')}"

    # --- operations ------------------------------------------------------------------------

    def _operation(self, op: m.ParserOp) -> Lines:
        if op.op in ("extract", "extract_VL"):
            return self._extract(op)
        if op.op == "set":
            return self._set(op)
        if op.op == "verify":
            condition, error = op.args
            code = f"{{ error = (uint32_t)({self.expressions.word(error)}); goto done; }}"
            return [f"if (!{self.expressions.boolean(condition)}) {code}"]
        if op.op == "advance":
            return self._advance(op.args[0])
        if op.op == "primitive" and op.primitive:
            return self.statements.primitive(op.primitive)
        raise NotSupported(f"parser operation {op.op!r} is not supported {op.where}")

    def _extract(self, op: m.ParserOp) -> Lines:
        target = op.args[0]
        if isinstance(target, m.HeaderRef):
            if target.header.metadata:
                raise InvalidArgument(
                    f"extract to {target.header.name}, expected a header without `metadata` "
                    f"{op.where}".rstrip()
                )
            return ["{", *self._indent(self._extract_to(self.layout.place(target.header), op)), "}"]
        if isinstance(target, m.StackRef):
            size = len(target.stack.array.headers)
            place = self.layout.element(target.stack.array, "next")
            counter = self.layout.counter(target.stack)
        elif isinstance(target, m.UnionStackRef):
            size = len(target.stack.unions)
            place = self.layout.column_element(target.stack, op.member, "next")
            counter = self.layout.counter(target.stack)
        else:
            raise NotSupported(f"extract to a {type(target).__name__} {op.where}")
        return [
            "{",
            f"    uint32_t next = {counter};",
            f"    if (next >= {size}) {self._error('StackOutOfBounds')}",
            *self._indent(self._extract_to(place, op)),
            f"    {counter}++;",
            "}",
        ]

    def _extract_to(self, place: Place, op: m.ParserOp) -> Lines:
        """Return code that reads the bytes of a header and records its location."""
        type_ = place.type
        lines: Lines = []
        bits, size = "0", str(type_.fixed_bytes)
        if type_.varbit:
            if len(op.args) < 2:
                raise NotSupported(f"extract of {type_.name}, which has a varbit field, without "
                                   f"its length {op.where}")  # fmt: skip
            lines += [
                f"uint64_t bits = {self.expressions.word(op.args[1])};",
                f"if (bits % 8) {self._error('ParserInvalidArgument')}",
            ]
            size = f"({type_.fixed_bytes} + bits / 8)"
            bits = "(uint32_t)bits"
        lines.append(self._need(size))
        if type_.varbit:
            lines.append(f"if ({size} > {type_.longest_bytes}) {self._error('HeaderTooShort')}")
        return [
            *lines,
            *self.statements.traced("TRACE_BEFORE_EXTRACT"),
            f"load_{self.layout.type_of(type_)}({place.pointer}, at, {bits});",
            f"h->raw[{place.number}] = (uint16_t)(at - c->packet->buffer);",
            *self.statements.set_valid(place),
            *self.statements.traced(f"TRACE_EXTRACT({place.number}, at, {size})"),
            f"at += {size};",
        ]

    def _set(self, op: m.ParserOp) -> Lines:
        target, value = op.args
        if not isinstance(value, m.Lookahead):
            return [self.expressions.store(target, value)]
        name, field = self.expressions.lvalue(target)
        lines = [self._need(str((value.offset + value.width + 7) // 8))]
        width = min(field.width, value.width)
        offset = value.offset + value.width - width
        if field.width <= 64:
            return [*lines, f"{name} = load_bits(at, {offset}, {width});"]
        for i in range(limbs(field.width)):
            end = offset + width - 64 * i
            start = max(offset, end - 64)
            piece = f"load_bits(at, {start}, {end - start})" if end > start else "0"
            lines.append(f"{name}[{i}] = {piece};")
        return lines

    def _advance(self, amount: m.Expr) -> Lines:
        if isinstance(amount, m.Const):
            if amount.value % 8:
                return [self._error("ParserInvalidArgument")]
            return [self._need(str(amount.value // 8)), f"at += {amount.value // 8};"]
        return [
            "{",
            f"    uint64_t bits = {self.expressions.word(amount)};",
            f"    if (bits % 8) {self._error('ParserInvalidArgument')}",
            f"    {self._need('bits / 8')}",
            "    at += bits / 8;",
            "}",
        ]

    # --- transitions -----------------------------------------------------------------------

    def _go(self, state: str | None) -> str:
        return f"goto {self.labels[state] if state else 'done'};"

    def _select(self, state: m.ParserState) -> Lines:
        widths = [self._key_width(k) for k in state.key]
        lines: Lines = []
        ahead = [k for k in state.key if isinstance(k, m.Lookahead)]
        if ahead:
            lines.append(self._need(str(max((k.offset + k.width + 7) // 8 for k in ahead))))
        for i, (key, width) in enumerate(zip(state.key, widths, strict=True)):
            lines += self._key_value(f"k{i}", key, width)
        for transition in state.transitions:
            if transition.value_set is not None:
                lines.append(self._value_set(transition, widths))
            elif transition.value is None:
                return [*lines, self._go(transition.next_state)]
            else:
                condition = self._matches(transition, widths)
                lines.append(f"if ({condition}) {self._go(transition.next_state)}")
        return [*lines, "goto done;"]

    def _key_width(self, key: m.Expr) -> int:
        if isinstance(key, m.Lookahead):
            return key.width
        if isinstance(key, m.Valid):
            return 1
        return self.expressions.readable(key)[1].width

    def _key_value(self, name: str, key: m.Expr, width: int) -> Lines:
        if isinstance(key, m.Lookahead):
            if width <= 64:
                return [f"const uint64_t {name} UNUSED = load_bits(at, {key.offset}, {width});"]
            pieces = []
            for i in range(limbs(width)):
                end = key.offset + width - 64 * i
                start = max(key.offset, end - 64)
                pieces.append(f"load_bits(at, {start}, {end - start})")
            return [f"const uint64_t {name}[] UNUSED = {{{', '.join(pieces)}}};"]
        if width <= 64:
            code = self.expressions.word(key)
            mask = (1 << width) - 1
            return [f"const uint64_t {name} UNUSED = ({code}) & {literal(mask)};"]
        return [f"const uint64_t *{name} UNUSED = {self.expressions.readable(key)[0]};"]

    def _matches(self, t: m.Transition, widths: list[int]) -> str:
        """Compare the concatenated fields, each padded to bytes, with a value under a mask."""
        assert t.value is not None
        terms = []
        at = sum((w + 7) // 8 * 8 for w in widths)
        for i, width in enumerate(widths):
            at -= (width + 7) // 8 * 8
            ones = (1 << width) - 1
            mask = ones if t.mask is None else t.mask >> at & ones
            value = t.value >> at & mask
            if width <= 64:
                terms += _compare(f"k{i}", value, mask, ones)
            else:
                for n in range(limbs(width)):
                    word = 2**64 - 1
                    part = (v >> 64 * n & word for v in (value, mask, ones))
                    terms += _compare(f"k{i}[{n}]", *part)
        return " && ".join(terms) or "1"

    def _value_set(self, t: m.Transition, widths: list[int]) -> str:
        assert t.value_set is not None
        self.value_set_widths.setdefault(t.value_set, widths)
        layout = KeyLayout.pack(widths)
        key = [
            f"k{i}[{n}]" if width > 64 else f"k{i}"
            for i, width in enumerate(widths)
            for n in range(limbs(width))
        ]
        words = layout.c_words(key)
        mask = "NULL"
        if t.mask is not None:
            values, at = [], sum((w + 7) // 8 * 8 for w in widths)
            for width in widths:
                at -= (width + 7) // 8 * 8
                values.append(t.mask >> at & ((1 << width) - 1))
            words_of_mask = ", ".join(map(literal, layout.words(values)))
            mask = f"(const uint64_t[]){{{words_of_mask}}}"
        number = self.program.value_sets[t.value_set].index
        code = f"value_set_contains(c->value_sets[{number}], (const uint64_t[]){{{words}}}, {mask})"
        return f"if ({code}) {self._go(t.next_state)}"


def _compare(name: str, value: int, mask: int, ones: int) -> list[str]:
    if not mask:
        return []
    if mask == ones:
        return [f"{name} == {literal(value)}"]
    return [f"({name} & {literal(mask)}) == {literal(value)}"]


def _reachable(parser: m.Parser) -> list[m.ParserState]:
    """Return the parser states that a packet can reach."""
    found: dict[str, m.ParserState] = {}
    todo = [parser.init_state]
    while todo:
        name = todo.pop()
        if name is not None and name not in found:
            found[name] = parser.states[name]
            todo += [t.next_state for t in found[name].transitions]
    return [*found.values()]
