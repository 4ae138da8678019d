"""Generation of the C code of a program. It is compiled with the engine's core."""

from __future__ import annotations

from minip4.engine import limits
from minip4.engine import model as m
from minip4.engine.codegen.expressions import Expressions
from minip4.engine.codegen.hashes import HashCode
from minip4.engine.codegen.headers import HeaderCode
from minip4.engine.codegen.layout import VARIABLES, Layout
from minip4.engine.codegen.parser import ParserCode
from minip4.engine.codegen.statements import Lines, Statements
from minip4.engine.codegen.tables import TableCode
from minip4.engine.codegen.variables import STANDARD, Variables
from minip4.engine.errors import NotSupported
from minip4.engine.shared import DIGEST_WORDS
from minip4.engine.words import KeyLayout, data_words, limbs

PRELUDE = """/* Generated from BMv2 JSON. */
#define UNUSED __attribute__((unused))
#include "program.h"
"""


class Generator:
    """Generates the C code (`text`) and the layouts of table entries (`tables`).

    Raises NotSupported and TooLarge. With `trace`, the C code also records trace events for each
    packet (trace.h), and all metadata are in the parsed packet. Nothing else differs.
    """

    prelude = PRELUDE
    standard: tuple[str, ...] = STANDARD
    statements_type: type[Statements] = Statements
    tables_type: type[TableCode] = TableCode
    functions: tuple[str, ...] = (
        "start", "parse", "ingress", "egress", "deparse", "clear_metadata", "copy_list",
        "set_instance", "set_length", "set_replica", "set_enqueued", "digest",
    )  # fmt: skip

    def __init__(self, program: m.Program, *, trace: bool = False) -> None:
        self.trace = trace
        self.program = program
        self.layout = Layout(program, None if trace else Variables(program, self.standard))
        self.expressions = Expressions(self.layout)
        self.statements = self.statements_type(program, self.layout, self.expressions, trace=trace)
        self.tables = self.tables_type(program, self.layout, self.expressions, self.statements)
        self.parser = ParserCode(program, self.layout, self.expressions, self.statements)
        self.hashes = HashCode(self.layout, self.expressions)
        self.trace_fields: list[tuple[m.Header, m.Field]] = []
        self.text = self._text()
        limits.check_parsed(self.layout.parsed_bytes())
        self.is_large = limits.code_lines(self.text) > limits.LARGE_CODE_LINES

    def _text(self) -> str:
        body = [
            *self._calculations(),
            *(self.statements.action(a) for a in self._used_actions()),
            *self._path(),
            self._metadata(),
            self._copy_list(),
            self._digest(),
            self._setters(),
        ]
        deparsers = self._deparsers()
        specs = self._specs()
        headers = HeaderCode(self.layout)
        types = {h.type.name: h.type for h in self.program.headers.values() if not h.metadata}
        wide = []
        if self.expressions.wide_bits:
            wide = [f"#define WIDE_LIMBS {limbs(self.expressions.wide_bits + 1)}",
                    '#include "wide.h"']  # fmt: skip
        return "\n".join(
            [
                self.prelude,
                *wide,
                self.layout.structures(),
                "#define ARGUMENTS struct context *c UNUSED, struct phv *h UNUSED\n",
                *(headers.functions(t) for t in types.values()),
                *body,
                *deparsers,
                *self._trace_fields(),
                specs,
            ]
        )

    def _path(self) -> Lines:
        """Return the functions that run for a packet, in their order, except the deparser."""
        return [
            self._start(),
            self.parser.function(self._after_parser()),
            self._pipeline("ingress", "ingress", [], self._after_ingress()),
            self._pipeline("egress", "egress", self._before_egress(), self._after_egress()),
        ]

    def _deparsers(self) -> Lines:
        order = self.program.deparsers[0].order
        return [HeaderCode(self.layout).deparser(order, self._before_deparser())]

    def _used_actions(self) -> list[m.Action]:
        used: dict[int, m.Action] = {}
        for pipeline in self.program.pipelines.values():
            for node in pipeline.nodes.values():
                if isinstance(node, m.ActionCall):
                    used[node.action.id] = node.action
                elif isinstance(node, m.Table):
                    used.update((a.id, a) for a in node.actions)
                    if node.default_action:
                        used[node.default_action.id] = node.default_action
        return list(used.values())

    def _calculations(self) -> Lines:
        parts = [
            self.hashes.function(f"calculation_{c.index}", c.algorithm, c.inputs)
            for c in self._used_calculations()
        ]
        for p in self.program.profiles.values():
            if p.algorithm:
                inputs = tuple(m.CalculationInput("field", e, 0) for e in p.selector)
                parts.append(self.hashes.function(f"selector_{p.index}", p.algorithm, inputs))
        return parts

    def _used_calculations(self) -> list[m.Calculation]:
        """Return the calculations in checksums and actions; others would be unused functions."""
        used = {c.calculation.name for c in self.program.checksums}
        primitives = [p for a in self._used_actions() for p in a.primitives]
        states = [s for p in self.program.parsers for s in p.states.values()]
        primitives += [o.primitive for s in states for o in s.ops if o.primitive]
        primitives += [p for d in self.program.deparsers for p in d.primitives]
        for p in primitives:
            used |= {a.name for a in p.args if isinstance(a, m.Named)}
        return [c for c in self.program.calculations.values() if c.name in used]

    # --- around the pipelines --------------------------------------------------------------

    def _set(self, name: str, code: str) -> Lines:
        """Set a field of the standard metadata, if the program has it."""
        target = self.statements.find_standard(name)
        if target is None:
            return []
        lvalue, field = self.expressions.lvalue(target)
        return [self.expressions.store_code(lvalue, field.width, code, 64)]

    def _get(self, name: str) -> str:
        target = self.statements.find_standard(name)
        return "0" if target is None else self.expressions.word(target)

    def _function(self, head: str, lines: Lines) -> str:
        body = "\n".join(f"    {line}" for line in lines)
        return f"static {head}\n{{\n{body}\n}}\n"

    def _start(self) -> str:
        return self._function(
            "void program_start(struct context *c, uint16_t port UNUSED)",
            [
                "struct phv *h = (struct phv *)c->packet->phv;",
                *self.layout.clear(),
                "h->start.packet_length = h->start.ingress_length = c->packet->length;",
                "h->start.truncate_to = UINT32_MAX;",
                *self._set("ingress_port", "port"),
                *self._set("packet_length", "c->packet->length"),
                *self._set("ingress_global_timestamp", "arrived_us(c)"),
            ],
        )

    def _after_parser(self) -> Lines:
        lines = self._set("parser_error", "error")
        target = self.statements.find_standard("checksum_error")
        checks = [c for c in self.program.checksums if c.verify]
        if target is None or not checks:
            return lines
        lines.append("bool is_wrong = false;")
        for c in checks:
            conditions = []
            if not c.target.header.metadata:
                conditions.append(f"h->valid[{self.layout.place(c.target.header).number}]")
            if c.condition is not None:
                conditions.append(self.expressions.boolean(c.condition))
            value = self.expressions.word(c.target)
            lines.append(f"if ({' && '.join(conditions) or '1'})")
            lines.append(f"    is_wrong |= calculation_{c.calculation.index}(c, h) != {value};")
        return [*lines, *self._set("checksum_error", "is_wrong")]

    def _before_deparser(self) -> Lines:
        lines: Lines = []
        for c in self.program.checksums:
            if not c.update:
                continue
            lvalue, field = self.expressions.lvalue(c.target)
            code = f"calculation_{c.calculation.index}(c, h)"
            store = self.expressions.store_code(lvalue, field.width, code, 64)
            if c.condition is None:
                lines.append(store)
            else:
                lines.append(f"if ({self.expressions.boolean(c.condition)}) {{ {store} }}")
        lines += self.statements.body(self.program.deparsers[0].primitives)
        return self._traced_pipeline(2, lines)

    def _pipeline(
        self, gress: str, name: str, before: Lines, after: Lines, suffix: str = ""
    ) -> str:
        pipeline = self.program.pipelines.get(name)
        body = self.tables.pipeline(pipeline) if pipeline else []
        head = f"void program_{gress}{suffix}(struct context *c)"
        phv = "struct phv *h UNUSED = (struct phv *)c->packet->phv;"
        number = 0 if gress == "ingress" else 1
        return self._function(
            head, [phv, VARIABLES, *before, *self._traced_pipeline(number, [*body, *after])]
        )

    def _traced_pipeline(self, number: int, lines: Lines) -> Lines:
        traced = self.statements.traced
        return [*traced(f"TRACE_PIPELINE({number})"), *lines, *traced("TRACE_CHANGES")]

    def _after_ingress(self) -> Lines:
        return [
            f"c->request.egress_spec = (uint32_t)({self._get('egress_spec')});",
            f"c->request.mcast_grp = (uint32_t)({self._get('mcast_grp')});",
            f"const uint64_t priority = {self._get('priority')};",
            "c->request.priority = (uint8_t)(priority < 255 ? priority : 255);",
        ]

    def _before_egress(self) -> Lines:
        return [
            *self._set("egress_global_timestamp", "c->now_us"),
            *self._set("deq_timedelta", "(c->now_us - h->start.enqueued_us)"),
            *self._set("deq_qdepth", "c->queue_depth"),
            *self._set("qid", "h->start.priority"),
            *self._set("egress_port", "h->start.egress_port"),
            *self._set("egress_spec", "(ENGINE_DROP_PORT + 1)"),
            *self._set("packet_length", "h->start.packet_length"),
        ]

    def _after_egress(self) -> Lines:
        return [f"c->request.egress_spec = (uint32_t)({self._get('egress_spec')});"]

    # --- metadata --------------------------------------------------------------------------

    def _metadata(self) -> str:
        return self._function(
            "void program_clear_metadata(uint8_t *phv)",
            ["struct phv *h = (struct phv *)phv;", "memset(&h->m, 0, sizeof h->m);"],
        )

    def _copy_list(self) -> str:
        lines = ["struct phv *a UNUSED = (struct phv *)to;",
                 "const struct phv *b UNUSED = (const struct phv *)from;",
                 "switch (list) {"]  # fmt: skip
        for fields in self.program.field_lists.values():
            lines.append(f"case {fields.id}:")
            for e in fields.elements:
                with self.layout.within("a"):
                    to, field = self.expressions.lvalue(e)
                with self.layout.within("b"):
                    source, _ = self.expressions.readable(e)
                if field.width > 64:
                    lines.append(f"    memcpy({to}, {source}, sizeof {to});")
                else:
                    lines.append(f"    {to} = {source};")
            lines.append("    break;")
        lines.append("}")
        head = "void program_copy_list(uint32_t list, uint8_t *to, const uint8_t *from)"
        return self._function(head, lines)

    def _digest(self) -> str:
        lines = ["const struct phv *h UNUSED = (const struct phv *)phv;",
                 "uint32_t n = 0;", "switch (id) {"]  # fmt: skip
        for digest in self.program.digests.values():
            count = sum(limbs(width) for width in digest.widths)
            if count > DIGEST_WORDS:
                raise NotSupported(
                    f"digest {digest.name}: {count} words of 64 bits; at most {DIGEST_WORDS} are"
                )
            lines.append(f"case {digest.id}:")
            for e, width in zip(digest.elements, digest.widths, strict=True):
                if isinstance(e, m.Valid) or width <= 64:
                    lines.append(f"    out->word[n++] = {self.expressions.word(e)};")
                    continue
                name = self.expressions.readable(e)[0]
                lines += [f"    out->word[n++] = {name}[{i}];" for i in range(limbs(width))]
            lines.append("    break;")
        lines += ["default:", "    return false;", "}", "out->digest = (uint16_t)id;",
                  "out->words = (uint16_t)n;", "return true;"]  # fmt: skip
        head = "bool program_digest(uint32_t id, const uint8_t *phv, struct digest_sample *out)"
        return self._function(head, lines)

    def _setters(self) -> str:
        def setter(head: str, lines: Lines) -> str:
            phv = "struct phv *h UNUSED = (struct phv *)phv;"
            return self._function(f"void {head}", [phv, *lines])

        return "\n".join(
            [
                setter(
                    "program_set_instance(uint8_t *phv, enum instance_type type UNUSED)",
                    self._set("instance_type", "type"),
                ),
                setter(
                    "program_set_length(uint8_t *phv, uint32_t length)",
                    [
                        "h->start.packet_length = h->start.ingress_length = length;",
                        *self._set("packet_length", "length"),
                    ],
                ),
                setter(
                    "program_set_replica(uint8_t *phv, uint16_t rid UNUSED)",
                    self._set("egress_rid", "rid"),
                ),
                setter(
                    "program_set_enqueued(uint8_t *phv, uint64_t now_us UNUSED, "
                    "uint32_t depth UNUSED)",
                    [*self._set("enq_timestamp", "now_us"), *self._set("enq_qdepth", "depth")],
                ),
            ]
        )

    def _trace_fields(self) -> Lines:
        """Return the location of each field in a build with trace, followed by the validity flags.

        The order is that of trace_fields.
        """
        if not self.trace:
            return []
        lines = ["TRACE_FIELDS"]
        for header in self.program.headers.values():
            place = self.layout.place(header)
            for field in header.type.fields:
                if field.varbit or not self.layout.is_kept(header.type, field):
                    continue
                self.trace_fields.append((header, field))
                name = f"{place.path}.{self.layout.member(header.type, field)}"
                lines.append(f"TRACE_FIELD({name}, {place.number})")
        lines.append(f"TRACE_FIELDS_END(valid, {self.layout.header_count})")
        return lines

    # --- descriptors -----------------------------------------------------------------------

    def _specs(self) -> str:
        program = self.program

        def array(type_: str, name: str, rows: Lines) -> str:
            return f"static const {type_} {name}[] = {{{', '.join(rows) or '{0}'}}};"

        registers = [f"{{{r.size}, {r.limbs}}}" for r in program.registers.values()]
        counters = [f"{{{c.size}, 1}}" for c in program.counters.values()]
        meters = [f"{{{x.size}, 1}}" for x in program.meters.values()]
        profiles = [f"{{{p.max_size}, {self.profile_words(p)}}}"
                    for p in program.profiles.values()]  # fmt: skip
        widths = self.parser.value_set_widths
        sets = [str(max(1, self._set_words(v, widths))) for v in program.value_sets.values()]
        entries = ",\n".join(f"    .{f} = program_{f}" for f in self.functions)
        return f"""
{self.tables.specs()}
{array("struct array_spec", "registers", registers)}
{array("struct array_spec", "counters", counters)}
{array("struct array_spec", "meters", meters)}
{array("struct profile_spec", "profiles", profiles)}
static const uint32_t value_sets[] = {{{", ".join(sets) or "0"}}};

const struct program program = {{
    .phv_size = sizeof(struct phv),
    .tables = {len(program.tables)}, .table = tables,
    .registers = {len(program.registers)}, .reg = registers,
    .counters = {len(program.counters)}, .counter = counters,
    .meters = {len(program.meters)}, .meter = meters,
    .profiles = {len(program.profiles)}, .profile = profiles,
    .value_sets = {len(program.value_sets)}, .value_set_words = value_sets,
{entries}
}};
"""

    def profile_words(self, profile: m.Profile) -> int:
        """Return the maximum number of data words of a member of the profile."""
        tables = [t for t in self.program.tables.values() if t.profile == profile.name]
        return max((data_words(a) for t in tables for a in t.actions), default=0)

    def _set_words(self, value_set: m.ValueSet, widths: dict[str, list[int]]) -> int:
        return KeyLayout.pack(widths.get(value_set.name, [value_set.width])).count
