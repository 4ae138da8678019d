"""C code of pipelines: tables, conditions and transitions."""

from __future__ import annotations

from dataclasses import dataclass

from minip4.engine import model as m
from minip4.engine.codegen.expressions import Expressions
from minip4.engine.codegen.graphs import looping
from minip4.engine.codegen.layout import Layout, comment, identifier, literal
from minip4.engine.codegen.ranges import range_of
from minip4.engine.codegen.state import BYTES, Lines, amount
from minip4.engine.codegen.statements import DROPPING, Statements
from minip4.engine.errors import NotSupported
from minip4.engine.words import KeyLayout, data_words, limbs, param_words

EXACT, LPM, TERNARY = "TABLE_EXACT", "TABLE_LPM", "TABLE_TERNARY"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The layout of a table's entries in their slots. Python and C share this layout."""

    kind: str
    key: KeyLayout
    data_words: int

    @classmethod
    def of(cls, table: m.Table) -> TableLayout:
        kinds = {k.match_type for k in table.key}
        if table.match_type in ("ternary", "range") or kinds & {"ternary", "range", "optional"}:
            kind = TERNARY
        else:
            kind = LPM if "lpm" in kinds else EXACT
        widths = [k.width for k in table.key]
        key = KeyLayout.pack(widths, byte_aligned=kind == TERNARY)
        return cls(kind, key, max((data_words(a) for a in table.actions), default=0))


def action_words(action: m.Action, params: tuple[int, ...]) -> list[int]:
    """Return the data of an action as words."""
    words = [0] * data_words(action)
    starts = param_words(action)
    for value, param, start in zip(params, action.params, starts, strict=True):
        value &= (1 << param.width) - 1
        for i in range(limbs(param.width)):
            words[start + i] = value >> 64 * i & (2**64 - 1)
    return words


class TableCode:
    def __init__(
        self, program: m.Program, layout: Layout, expressions: Expressions, statements: Statements
    ) -> None:
        self.program, self.layout = program, layout
        self.expressions, self.statements = expressions, statements
        self.layouts = {t.name: TableLayout.of(t) for t in program.tables.values()}
        self.conditions = [
            node
            for pipeline in program.pipelines.values()
            for node in pipeline.nodes.values()
            if isinstance(node, m.Conditional)
        ]
        self.numbers = {node.name: i for i, node in enumerate(self.conditions)}

    # --- pipelines -------------------------------------------------------------------------

    def pipeline(self, pipeline: m.Pipeline) -> Lines:
        """Return statements that run the pipeline and end at the label `done`."""
        labels = {name: f"n{i}_{identifier(name)}" for i, name in enumerate(pipeline.nodes)}
        if pipeline.init is None:
            return []
        order = self._reachable(pipeline)
        # A `for` loop becomes a loop of nodes; packets may determine the number of iterations.
        loops = looping({name: set(self._successors(pipeline.nodes[name])) for name in order})
        lines = ["c->loop_steps = 0;"] if loops or self.statements.has_loops else []
        lines.append(self._go(pipeline.init, labels))
        for name in order:
            node = pipeline.nodes[name]
            lines.append(f"{labels[name]}: {{")
            if name in loops:
                lines.append("    if (++c->loop_steps > MAX_LOOP_STEPS) goto done;")
            if isinstance(node, m.Conditional):
                condition = self.expressions.boolean(node.expr)
                traced = f"    TRACE_CONDITION({self.numbers[node.name]}, !!({condition}))"
                lines += [
                    *self.statements.traced(traced),
                    f"    if ({condition})",
                    f"        {self._go(node.true_next, labels)}",
                    f"    {self._go(node.false_next, labels)}",
                ]
            elif isinstance(node, m.ActionCall):
                lines += [f"    {line}" for line in _call(node.action, "NULL")]
                lines.append(f"    {self._go(node.next_node, labels)}")
            else:
                lines += [f"    {line}" for line in self._table(node, labels)]
            lines.append("}")
        return [*lines, "done:;"]

    def _reachable(self, pipeline: m.Pipeline) -> list[str]:
        order: dict[str, None] = {}  # used as an ordered set
        todo = [pipeline.init] if pipeline.init is not None else []
        while todo:
            name = todo.pop()
            if name in order:
                continue
            order[name] = None
            todo += self._successors(pipeline.nodes[name])
        return [*order]

    def _successors(self, node: m.Table | m.Conditional | m.ActionCall) -> list[str]:
        after: list[str | None]
        if isinstance(node, m.Conditional):
            after = [node.false_next, node.true_next]
        elif isinstance(node, m.ActionCall):
            after = [node.next_node]
        else:
            after = [node.base_default_next, node.next_miss, node.next_hit]
            after += node.next_by_action.values()
        return [name for name in after if name is not None]

    def _go(self, name: str | None, labels: dict[str, str]) -> str:
        return f"goto {labels[name] if name is not None else 'done'};"

    # --- tables ----------------------------------------------------------------------------

    def _table(self, table: m.Table, labels: dict[str, str]) -> Lines:
        if table.default_action and self._is_statement(table):
            action = table.default_action
            words = ", ".join(map(literal, action_words(action, table.default_params)))
            data = f"(const uint64_t[]){{{words}}}" if words else "NULL"
            following = table.next_by_action.get(action.id, table.base_default_next)
            if table.is_hit_miss:
                following = table.next_miss
            return [*_call(action, data), self._go(following, labels)]
        return [
            comment(table.name),
            f"struct table *t = &c->tables[{table.index}];",
            *self._lookup(table),
            *self._trace(table),
            *self._hit(table),
            *self._act(table, labels),
        ]

    def _lookup(self, table: m.Table) -> Lines:
        layout = self.layouts[table.name]
        count, data = layout.key.count, layout.data_words
        if not table.key:
            return ["uint64_t *slot = NULL;"]
        limb_codes: list[str] = []
        codes = [self._key_field(k) for k in table.key]
        for field_codes in codes:
            limb_codes += field_codes
        lines = [f"const uint64_t key[{count}] = {{{layout.key.c_words(limb_codes)}}};"]
        if layout.kind == EXACT:
            lines.append(f"uint64_t *slot = table_find_exact(t, key, {count}, {data});")
        elif layout.kind == LPM:
            position = next(i for i, k in enumerate(table.key) if k.match_type == "lpm")
            top = _top_bits(codes[position], table.key[position].width)
            lines.append(f"uint64_t *slot = table_find_lpm(t, key, {count}, {data}, {top});")
        else:
            lines.append("uint64_t *slot = table_find_ternary(t, key);")
        return lines

    def _key_field(self, k: m.KeyField) -> list[str]:
        """Return C code of the field's limbs, masked to its width."""
        if k.width <= 64:
            code = self.expressions.word(k.expr)
            low, high = range_of(k.expr)
            mask = (1 << k.width) - 1 if k.mask is None else k.mask
            is_plain = low >= 0 and high < 1 << k.width and k.mask is None
            return [code if is_plain else f"(({code}) & {literal(mask)})"]
        name, _ = self.expressions.readable(k.expr)
        mask = -1 if k.mask is None else k.mask
        return [f"({name}[{i}] & {literal(mask >> 64 * i)})" for i in range(limbs(k.width))]

    def _is_statement(self, table: m.Table) -> bool:
        """Return whether the table is only a call of its default action."""
        return table.is_hidden

    def statistics_offset(self, table: m.Table) -> int:
        """Return the word of an entry's slot after the key, as stats_offset() in table.h."""
        layout = self.layouts[table.name]
        return 1 + layout.data_words + layout.key.count * (2 if layout.kind == TERNARY else 1)

    def _hit(self, table: m.Table) -> Lines:
        lines = self._statistics(table, self.statistics_offset(table))
        lines = ["if (slot) {", *(f"    {line}" for line in lines), "}"] if lines else []
        entry = "hit ? table_entry(t, slot) : t->default_slot"
        return [
            "const bool hit UNUSED = slot != NULL;",
            *lines,
            f"const uint64_t *entry = {entry};",
        ]

    def _statistics(self, table: m.Table, at: int) -> Lines:
        """Return code for an entry that was hit: counts, the time of the hit, its meter."""
        lines: Lines = []
        if table.has_counters:
            lines += [f"slot[{at}]++;", f"slot[{at + 1}] += {BYTES};"]
            for counter in self.program.counters.values():
                if counter.table == table.name:
                    call = f"TRACE_COUNT_DIRECT({counter.index}, slot + {at})"
                    lines += self.statements.traced(call)
            at += 2
        if table.support_timeout:
            lines.append(f"slot[{at}] = c->now_ns;")
        if table.meter:
            meter = self.program.meters[table.meter]
            if meter.result:
                name, field = self.expressions.lvalue(meter.result)
                which = "&t->meters[(uint64_t)(slot - t->slots) / t->stride]"
                code = f"meter_colour({which}, c->now_us, {amount(meter)}, {BYTES})"
                lines += [
                    f"const uint64_t colour = {code};",
                    *self.statements.traced(f"TRACE_METER({meter.index}, TRACE_DIRECT, colour)"),
                    self.expressions.store_code(name, field.width, "colour", 64),
                ]
        return lines

    def _trace(self, table: m.Table) -> Lines:
        words, slot = self.layouts[table.name].key.count, self.statistics_offset(table)
        key = "key" if table.key else "NULL"
        size = words if table.key else 0
        return self.statements.traced(f"TRACE_TABLE({table.index}, {key}, {size}, slot, {slot})")

    def _act(self, table: m.Table, labels: dict[str, str]) -> Lines:
        lines: Lines = []
        miss = f"        {self._go(table.base_default_next, labels)}"
        if table.profile:
            profile = self.program.profiles[table.profile]
            hash_ = f"selector_{profile.index}(c, h)" if profile.algorithm else "0"
            lines += [
                "if ((entry[0] >> 32 & 3) != ENTRY_ACTION) {",
                "    const bool is_group = (entry[0] >> 32 & 3) == ENTRY_GROUP;",
                f"    const uint64_t group_hash = is_group ? {hash_} : 0;",
                f"    entry = profile_resolve(c->profiles[{profile.index}], entry, group_hash);",
                "    if (!entry)",
                miss,
                "}",
            ]
        lines.append("switch ((uint32_t)entry[0]) {")
        actions = {a.id: a for a in table.actions}
        if table.default_action:
            actions.setdefault(table.default_action.id, table.default_action)
        for action in actions.values():
            lines += [
                f"case {action.id}:",
                *(f"    {line}" for line in _call(action, "entry + 1", is_miss="!hit")),
                "    " + ("break;" if table.is_hit_miss
                          else self._go(table.next_by_action.get(
                              action.id, table.base_default_next), labels)),
            ]  # fmt: skip
        lines += ["default:", "    break;" if table.is_hit_miss else miss[4:], "}"]
        if table.is_hit_miss:
            lines.append(f"if (hit) {self._go(table.next_hit, labels)}")
            lines.append(self._go(table.next_miss, labels))
        return lines

    # --- descriptors -----------------------------------------------------------------------

    def specs(self) -> str:
        """Return the C array of struct table_spec."""
        parts, rows = [], []
        for table in self.program.tables.values():
            parts.append(self._default_data(table))
            rows.append(self._spec(table, parts))
        body = ",\n".join(rows) or "    {0}"
        return "\n".join(parts) + f"\nstatic const struct table_spec tables[] = {{\n{body}\n}};\n"

    def _default_data(self, table: m.Table) -> str:
        words: list[int] = []
        if table.default_action:
            words = action_words(table.default_action, table.default_params)
        words += [0] * (self.layouts[table.name].data_words + 1 - len(words))
        text = ", ".join(map(literal, words))
        return f"static const uint64_t default_{table.index}[] = {{{text}}};"

    def _spec(self, table: m.Table, parts: list[str]) -> str:
        layout = self.layouts[table.name]
        items = [
            f".kind = {layout.kind}",
            f".key_words = {layout.key.count}",
            f".data_words = {layout.data_words}",
            f".max_size = {max(1, table.max_size)}",
            f".has_counters = {int(table.has_counters)}",
            f".has_timeout = {int(table.support_timeout)}",
            f".has_meter = {int(bool(table.meter))}",
            f".default_data = default_{table.index}",
            f".default_head = {table.default_action.id if table.default_action else 2**32 - 1}u",
        ]
        ranges = []
        for k, (word, shift) in zip(table.key, layout.key.places, strict=True):
            if k.match_type == "lpm" and layout.kind == LPM:
                items.append(f".lpm_word = {word}, .lpm_shift = {shift}, .lpm_width = {k.width}")
            if k.match_type == "range":
                if k.width > 64:
                    raise NotSupported(f"table {table.name}: range field of {k.width} bits (> 64)")
                ranges.append(f"{{{word}, {shift}, {k.width}}}")
        items += self._cells(table, parts)
        if ranges:
            parts.append(f"static const struct range_field ranges_{table.index}[] = "
                         f"{{{', '.join(ranges)}}};")  # fmt: skip
            items.append(f".ranges = {len(ranges)}, .range = ranges_{table.index}")
        return f"    {{{', '.join(items)}}} {comment(table.name)}"

    def _cells(self, _table: m.Table, _parts: list[str]) -> list[str]:
        """Return the members of table_spec for cells of registers in entries, which TNA has."""
        return []


def _call(action: m.Action, data: str, *, is_miss: str = "false") -> Lines:
    """Return statements that run an action and jump to `done` if the action ends the pipeline."""
    drops = any(primitive.op in DROPPING for primitive in action.primitives)
    why = [f"c->is_miss = {is_miss};"] if drops else []  # other actions need no assignment
    return [*why, f"if (action_{action.id}(c, h, v, {data})) goto done;"]


def _top_bits(codes: list[str], width: int) -> str:
    """Return C code of the field's first 64 bits, left-aligned."""
    used = (width - 1) % 64 + 1
    if used == 64:
        return codes[-1]
    top = f"(uint64_t){codes[-1]} << {64 - used}"
    return top if len(codes) == 1 else f"({top} | {codes[-2]} >> {used})"
