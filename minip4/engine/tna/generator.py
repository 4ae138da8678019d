"""C code of a TNA program: two parsers, two deparsers, and the metadata around them."""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.codegen.generator import PRELUDE, Generator
from minip4.engine.codegen.headers import HeaderCode, bit_offsets, store_lines
from minip4.engine.codegen.parser import ParserCode
from minip4.engine.codegen.state import Lines
from minip4.engine.codegen.variables import fields_of
from minip4.engine.errors import NotSupported
from minip4.engine.tna.check import check_program, primitives
from minip4.engine.tna.primitives import TnaStatements
from minip4.engine.tna.tables import TnaTables

# names of TNA's intrinsic metadata in a program's JSON
TO_DEPARSER, TO_TM = "ig_intr_md_for_dprsr", "ig_intr_md_for_tm"
FROM_PARSER, FROM_EGRESS_PARSER = "ig_intr_md_from_prsr", "eg_intr_md_from_prsr"
TO_EGRESS_DEPARSER, TO_PORT = "eg_intr_md_for_dprsr", "eg_intr_md_for_oport"
TNA_METADATA = (TO_DEPARSER, TO_TM, FROM_PARSER, FROM_EGRESS_PARSER, TO_EGRESS_DEPARSER, TO_PORT)
# headers that the engine writes before a frame
INGRESS_HEADER, EGRESS_HEADER = "ig_intr_md", "eg_intr_md"

LONGEST_PREFIX = 64  # bytes of intrinsic metadata in front of a frame; less than TNA_ROOM in tna.h
RECIRCULATION_PORTS = (68, 196, 324, 452)  # one per pipe, as in pipeline.c
NO_PORT = 511  # ucast_egress_port of a packet without a unicast copy

# bits of parser_err
_PARSER_ERRORS = {
    "NoMatch": 0x1,
    "PacketTooShort": 0x2,
    "StackOutOfBounds": 0x4,
    "ParserTimeout": 0x10,
}
_OTHER_ERROR = 0x1

# values of the metadata before a frame of egress
_OF_EGRESS = {
    "egress_port": "h->start.egress_port",
    "enq_qdepth": "h->tna.enqueued_depth",
    "enq_tstamp": "h->tna.enqueued_ns",
    "deq_qdepth": "c->queue_depth",
    "deq_timedelta": "(now_ns - h->tna.enqueued_ns)",
    "egress_rid": "h->tna.rid",
    "egress_rid_first": "h->tna.is_first",
    "egress_qid": "h->tna.qid",
    "egress_cos": "h->tna.cos",
    "pkt_length": "length",
}


# functions that each pipeline has, and what they do for a port of a pipe without a pipeline
_DISPATCHED = {
    "parse": "((struct phv *)c->packet->phv)->tna.is_rejected = true;",
    "ingress": "break;",
    "parse_egress": "break;",
    "egress": "((struct phv *)c->packet->phv)->tna.drop_ctl = TNA_DROPS;",
}
_DISPATCHED_DEPARSERS = {"deparse_ingress": "return false;", "deparse": "return false;"}


class TnaGenerator(Generator):
    prelude = PRELUDE + '#include "tna.h"\n'
    standard = TNA_METADATA
    statements_type = TnaStatements
    tables_type = TnaTables
    functions = (*Generator.functions, "enter_egress", "parse_egress", "deparse_ingress")

    def __init__(self, program: m.Program, *, trace: bool = False) -> None:
        check_program(program)
        self._left_out: list[tuple[m.HeaderType, m.Field]] = []
        super().__init__(program, trace=trace)

    def _text(self) -> str:
        text = super()._text()
        assert not any(self.layout.is_kept(*each) for each in self._left_out)
        return text

    def _path(self) -> Lines:
        lines: Lines = []
        for i, pipeline in enumerate(self._tna.pipelines):
            ingress, egress = pipeline.names
            after = self._after_ingress_parser(ingress)
            lines += self._parsers("parse", i, pipeline.parsers[0], after)
            suffix = self._suffix(i)
            lines.append(self._pipeline("ingress", ingress, [], self._after_ingress_of(i), suffix))
        for i, pipeline in enumerate(self._tna.pipelines):
            after = self._parser_error(FROM_EGRESS_PARSER)
            lines += self._parsers("parse_egress", i, pipeline.parsers[1], after)
            egress, suffix = pipeline.names[1], self._suffix(i)
            lines.append(self._pipeline("egress", egress, [], self._after_egress_of(i), suffix))
        return [*lines, *self._dispatchers(_DISPATCHED)]

    def _parsers(
        self, name: str, number: int, parsers: tuple[m.TnaParser, ...], after: Lines
    ) -> Lines:
        """Return the functions of the parsers of a pipeline, and the one that selects them."""
        suffix, lines = self._suffix(number), []
        for i, parser in enumerate(parsers):
            code = ParserCode(
                self.program, self.layout, self.expressions, self.statements, parser.number
            )
            code.value_set_widths = self.parser.value_set_widths
            own = suffix + (f"_{i}" if len(parsers) > 1 else "")
            lines.append(code.function(after, f"{name}{own}"))
        if len(parsers) > 1:
            cases = [(parser.of, f"{suffix}_{i}") for i, parser in enumerate(parsers)]
            chosen = "(port & TNA_PORT_OF_PIPE) / TNA_PORTS_OF_PARSER"
            default = f"program_{name}{suffix}_0(c);"
            lines.append(_dispatcher(name, suffix, chosen, cases[1:], default))
        return lines

    def _deparsers(self) -> Lines:
        code = HeaderCode(self.layout)
        lines = []
        for i in range(len(self._tna.pipelines)):
            ingress, egress = self.program.deparsers[2 * i : 2 * i + 2]
            suffix = self._suffix(i)
            lines += [
                code.deparser(ingress.order, [], f"deparse_ingress{suffix}", self._ingress_bytes()),
                code.deparser(
                    egress.order, [], f"deparse{suffix}", self._prefix_bytes(EGRESS_HEADER)
                ),
            ]
        # last, because they leave out the fields that no other code reads
        last = [self._start(), self._enter_egress()]
        return [*lines, *self._dispatchers(_DISPATCHED_DEPARSERS), *last]

    @property
    def _tna(self) -> m.TnaProgram:
        assert self.program.tna is not None
        return self.program.tna

    def _suffix(self, pipeline: int) -> str:
        """Return the end of the names of a pipeline's functions, which select a parser."""
        return f"_{pipeline}" if len(self._tna.pipelines) > 1 else ""

    def _dispatchers(self, otherwise: dict[str, str]) -> Lines:
        """Return the functions that select the pipeline of a packet by the pipe of its port."""
        if len(self._tna.pipelines) == 1:
            return []
        cases = [(p.pipes, self._suffix(i)) for i, p in enumerate(self._tna.pipelines)]
        return [
            _dispatcher(name, "", "port / TNA_PORTS_OF_PIPE", cases, default)
            for name, default in otherwise.items()
        ]

    # --- metadata --------------------------------------------------------------------------

    def _field(self, header: str, name: str) -> m.FieldRef | None:
        instance = self.program.headers.get(header)
        if instance is None or name not in instance.type.by_name:
            return None
        return m.FieldRef(instance, instance.type.fields[instance.type.by_name[name]])

    def _set_field(self, header: str, name: str, code: str) -> Lines:
        target = self._field(header, name)
        if target is None:
            return []
        lvalue, field = self.expressions.lvalue(target)
        return [self.expressions.store_code(lvalue, field.width, code, 64)]

    def _request(self, name: str, header: str, field: str, without: str = "0") -> str:
        """Return code that copies a field to struct tna, where the traffic manager reads it.

        `without` is the value if the program has no such field.
        """
        target = self._field(header, field)
        code = without if target is None else self.expressions.word(target)
        return f"h->tna.{name} = (__typeof__(h->tna.{name}))({code});"

    def _prefix(self, header: str, values: dict[str, str]) -> Lines:
        """Return code that writes a header of intrinsic metadata to `at`, which is zero."""
        instance = self.program.headers.get(header)
        if instance is None:
            return []
        offsets = bit_offsets(instance.type)
        widths = {f.name: f.width for f in instance.type.fields}
        needed = [name for name in values if name in offsets]
        if self._is_only_extracted(instance, egress=header == EGRESS_HEADER):
            fields = {f.name: f for f in instance.type.fields}
            unread = [n for n in needed if not self.layout.is_kept(instance.type, fields[n])]
            self._left_out += [(instance.type, fields[name]) for name in unread]
            needed = [name for name in needed if name not in unread]
        spans = {n: range(offsets[n] // 8, (offsets[n] + widths[n] + 7) // 8) for n in needed}
        lines: Lines = []
        for name, span in spans.items():
            is_alone = not any(set(span) & set(spans[other]) for other in spans if other != name)
            if is_alone and len(span) <= 8:
                # the other bits of these bytes are zero, so they need not be read
                after = 8 * span.stop - offsets[name] - widths[name]
                code = f"low_bits({values[name]}, {widths[name]}) << {after}"
                lines.append(f"store_be(at + {span.start}, {code}, {len(span)});")
            else:
                lines += store_lines(values[name], "at", offsets[name], widths[name])
        return lines

    def _is_only_extracted(self, header: m.Header, *, egress: bool) -> bool:
        """Return whether nothing but fields of the header can depend on its bytes.

        Then each parser extracts it first, no deparser writes it, and nothing copies it.
        """
        if any(m.HeaderRef(header) in p.args for _, p in primitives(self.program)):
            return False
        if any(header in deparser.order for deparser in self.program.deparsers):
            return False
        parsers = [
            self.program.parsers[parser.number]
            for pipeline in self._tna.pipelines
            for parser in pipeline.parsers[egress]
        ]
        return not self.trace and all(_extracts_first(parser, header) for parser in parsers)

    def _prefix_bytes(self, header: str) -> int:
        instance = self.program.headers.get(header)
        size = 0 if instance is None else instance.type.fixed_bytes
        if size > LONGEST_PREFIX:
            raise NotSupported(f"{header}: {size} bytes; at most {LONGEST_PREFIX} are")
        return size

    def _ingress_bytes(self) -> int:
        """Return the number of metadata bytes in front of a received frame."""
        return self._prefix_bytes(INGRESS_HEADER) + self._tna.port_metadata_bytes

    # --- ingress ---------------------------------------------------------------------------

    def _start(self) -> str:
        size = self._ingress_bytes()
        values = {"ingress_port": "port", "ingress_mac_tstamp": "tna_arrived_ns(c)"}
        return self._function(
            "void program_start(struct context *c, uint16_t port UNUSED)",
            [
                "struct phv *h = (struct phv *)c->packet->phv;",
                *self.layout.clear(),
                '_Static_assert(offsetof(struct phv, tna) == sizeof(struct phv_start), "");',
                "h->start.packet_length = h->start.ingress_length = c->packet->length;",
                "h->start.truncate_to = UINT32_MAX;",
                *self._set_field(TO_TM, "ucast_egress_port", str(NO_PORT)),
                *self._set_field(FROM_PARSER, "global_tstamp", "tna_now_ns(c)"),
                f"uint8_t *at = tna_prepend(c->packet, {size});",
                *self._prefix(INGRESS_HEADER, values),
                f"h->tna.prefix_bytes = {size};",
                f"h->tna.metadata_bytes = {self._tna.port_metadata_bytes};",
            ],
        )

    def _parser_error(self, header: str) -> Lines:
        errors = self.program.errors
        code = str(_OTHER_ERROR)
        for name, bits in _PARSER_ERRORS.items():
            code = f"error == {errors[name]} ? {bits} : {code}"
        code = f"error == {errors['NoError']} ? 0 : {code}"
        return self._set_field(header, "parser_err", f"({code})")

    def _after_ingress_parser(self, ingress: str) -> Lines:
        """Reject a packet with a parser error. If ingress reads the error, only NoMatch rejects."""
        errors = self.program.errors
        rejects = f"error != {errors['NoError']}"
        if self._reads_parser_error(ingress):
            rejects = f"error == {errors['NoMatch']}"
        return [*self._parser_error(FROM_PARSER), f"h->tna.is_rejected = {rejects};"]

    def _reads_parser_error(self, ingress: str) -> bool:
        found = [
            ref
            for node in self.program.pipelines[ingress].nodes.values()
            for ref in fields_of(node)
        ]
        return any(
            ref.header.name == FROM_PARSER and ref.field.name == "parser_err" for ref in found
        )

    def _after_ingress_of(self, pipeline: int) -> Lines:
        tm = {
            "ucast_port": "ucast_egress_port",
            "mcast_a": "mcast_grp_a",
            "mcast_b": "mcast_grp_b",
            "qid": "qid",
            "cos": "ingress_cos",
            "rid": "rid",
            "bypasses_egress": "bypass_egress",
            "goes_to_cpu": "copy_to_cpu",
        }
        return [
            *self.statements.body(self.program.deparsers[2 * pipeline].primitives),
            *(self._request(name, TO_TM, field) for name, field in tm.items()),
            self._request("drop_ctl", TO_DEPARSER, "drop_ctl"),
            self._request("mirrors_outgoing", TO_DEPARSER, "mirror_io_select"),
        ]

    # --- egress ----------------------------------------------------------------------------

    def _enter_egress(self) -> str:
        size = self._prefix_bytes(EGRESS_HEADER)
        return self._function(
            "void program_enter_egress(struct context *c)",
            [
                "struct phv *h = (struct phv *)c->packet->phv;",
                "memset((uint8_t *)h + sizeof(struct phv_start) + sizeof(struct tna), 0,"
                " sizeof *h - sizeof(struct phv_start) - sizeof(struct tna));",
                "uint64_t now_ns UNUSED = tna_now_ns(c), length UNUSED = c->packet->length;",
                "h->start.packet_length = h->start.ingress_length = c->packet->length;",
                *self._set_field(FROM_EGRESS_PARSER, "global_tstamp", "now_ns"),
                *self._set_field(TO_EGRESS_DEPARSER, "mirror_io_select", "1"),
                f"h->tna.prefix_bytes = {size};",
                f"uint8_t *at UNUSED = tna_prepend(c->packet, {size});",
                *self._prefix(EGRESS_HEADER, _OF_EGRESS),
            ],
        )

    def _after_egress_of(self, pipeline: int) -> Lines:
        return [
            *self.statements.body(self.program.deparsers[2 * pipeline + 1].primitives),
            self._request("drop_ctl", TO_EGRESS_DEPARSER, "drop_ctl"),
            self._request("mirrors_outgoing", TO_EGRESS_DEPARSER, "mirror_io_select", "1"),
        ]

    def _setters(self) -> str:
        def setter(head: str, lines: Lines) -> str:
            phv = "struct phv *h UNUSED = (struct phv *)phv;"
            return self._function(f"void {head}", [phv, *lines])

        return "\n".join(
            [
                setter("program_set_instance(uint8_t *phv, enum instance_type type UNUSED)", []),
                setter(
                    "program_set_length(uint8_t *phv, uint32_t length)",
                    ["h->start.packet_length = h->start.ingress_length = length;"],
                ),
                setter(
                    "program_set_replica(uint8_t *phv, uint16_t rid)",
                    ["h->tna.rid = rid;"],
                ),
                setter(
                    "program_set_enqueued(uint8_t *phv, uint64_t now_us UNUSED, uint32_t depth)",
                    ["h->tna.enqueued_depth = depth;"],
                ),
            ]
        )


def _dispatcher(
    name: str, suffix: str, chosen: str, cases: list[tuple[frozenset[int], str]], default: str
) -> str:
    """Return a function that calls program_`name` with the suffix of a case."""
    result, call = ("bool ", "return ") if name.startswith("deparse") else ("void ", "")
    port = "egress_port" if name in ("parse_egress", "egress", "deparse") else "ingress_port"
    lines = [
        f"static {result}program_{name}{suffix}(struct context *c)",
        "{",
        f"    const uint32_t port = ((const struct phv_start *)(void *)c->packet->phv)->{port};",
        f"    switch ({chosen}) {{",
    ]
    for numbers, own in cases:
        if not numbers:
            continue
        lines += [f"    case {number}:" for number in sorted(numbers)]
        lines += [f"        {call}program_{name}{own}(c);", *([] if call else ["        break;"])]
    lines += ["    default:", f"        {default}", "    }", "}"]
    return "\n".join(lines) + "\n"


def _extracts_first(parser: m.Parser, header: m.Header) -> bool:
    """Return whether a parser begins with the extraction of a header."""
    name = parser.init_state
    for _ in parser.states:
        if name is None:
            return False
        state = parser.states[name]
        if state.ops:
            op = state.ops[0]
            return op.op == "extract" and op.args[0] == m.HeaderRef(header)
        if len(state.transitions) != 1 or state.key:
            return False
        name = state.transitions[0].next_state
    return False
