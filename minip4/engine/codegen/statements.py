"""C code for actions: the primitives of bmv2's core and of simple_switch.

Each primitive is a function from its arguments to C statements. PRIMITIVES at the end lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from minip4.engine import model as m
from minip4.engine.codegen.expressions import Expressions
from minip4.engine.codegen.layout import Layout, Place, comment
from minip4.engine.codegen.state import Lines, StateStatements
from minip4.engine.errors import NotSupported
from minip4.engine.words import data_words, param_words

# primitives that drop a packet; old compilers write the second name
DROPPING = ("mark_to_drop", "drop")


class Statements(StateStatements):
    primitives: ClassVar[Mapping[str, _Generator]]
    """The primitives of an architecture, by name."""

    def __init__(
        self, program: m.Program, layout: Layout, expressions: Expressions, *, trace: bool
    ) -> None:
        super().__init__(program, expressions, trace=trace)
        self.layout = layout
        self.has_loops = False
        """True if some action has a loop; valid only after all actions were generated."""

    def action(self, action: m.Action) -> str:
        """Return the C function of an action. The function returns true if the packet exits."""
        self.expressions.params = param_words(action)
        call = self.traced(f"TRACE_ACTION({action.id}, d, {data_words(action)})")
        body = [*call, *self.body(action.primitives)]
        # An action that uses local variables gets their address. So it must be inlined. Otherwise,
        # the variables would have to be in memory.
        head = "ALWAYS_INLINE" if action.id in self.layout.inlined else "static inline"
        return (
            f"{comment(action.name)}\n"
            f"{head} bool action_{action.id}(ARGUMENTS, struct variables *v UNUSED, "
            "const uint64_t *d UNUSED)\n{\n"
            + "".join(f"    {line}\n" for line in body)
            + "    return false;\n}\n"
        )

    def body(self, primitives: tuple[m.Primitive, ...]) -> Lines:
        targets = {t for p in primitives for t in self._jump_target(p)}
        lines: Lines = []
        for i, primitive in enumerate(primitives):
            if i in targets:
                lines.append(f"p{i}:;")
            if any(t <= i for t in self._jump_target(primitive)):
                self.has_loops = True
                lines.append("if (++c->loop_steps > MAX_LOOP_STEPS) return true;")
            lines += self.primitive(primitive)
        if len(primitives) in targets:
            lines.append(f"p{len(primitives)}:;")
        return lines

    def _jump_target(self, p: m.Primitive) -> list[int]:
        if p.op not in ("_jump", "_jump_if_zero"):
            return []
        offset = p.args[-1]
        if not isinstance(offset, m.Const):
            raise NotSupported(f"{p.op} to an offset that is not constant {p.where}")
        return [offset.value]

    def primitive(self, p: m.Primitive) -> Lines:
        generate = self.primitives.get(p.op)
        if generate is None:
            raise NotSupported(f"primitive {p.op!r} is not supported {p.where}".strip())
        try:
            return generate(self, p)
        except NotSupported as error:
            if p.where and p.where not in str(error):
                raise NotSupported(f"{p.where}: {error}") from error
            raise

    # --- assignments -----------------------------------------------------------------------

    def assign(self, p: m.Primitive) -> Lines:
        return [self.expressions.store(p.args[0], p.args[1])]

    def arithmetic(self, op: str, *, in_place: bool = False) -> Callable[[m.Primitive], Lines]:
        def generate(p: m.Primitive) -> Lines:
            operands = p.args if in_place else p.args[1:]
            return [self.expressions.store(p.args[0], m.Op(op, operands, p.where))]

        return generate

    def assign_varbit(self, p: m.Primitive) -> Lines:
        """Assign a varbit.

        The size of the header may change, so the whole header is stored.
        """
        target, place, field = self.expressions.varbit(p.args[0], written=True)
        source, _, source_field = self.expressions.varbit(p.args[1])
        if field.width != source_field.width:
            raise NotSupported("assign_VL between varbit fields of different sizes")
        is_metadata = place.number == "-1"
        return [
            f"memmove({target}, {source}, {source}_bits / 8);",
            f"{target}_bits = {source}_bits;",
            *([] if is_metadata else [f"h->raw[{place.number}] = 0;"]),
        ]

    def assign_header(self, p: m.Primitive) -> Lines:
        header = self.expressions.header
        return self._copy(header(p.args[0]), header(p.args[1]))

    def _copy(self, to: Place, source: Place) -> Lines:
        if to.number == "-1" or source.number == "-1":
            return [f"*{to.pointer} = *{source.pointer};"]
        return [
            f"if (h->valid[{source.number}]) {{",
            f"    {self._copy_fields(to, source)}",
            f"    h->raw[{to.number}] = h->raw[{source.number}];",
            *(f"    {line}" for line in self.set_valid(to)),
            "} else {",
            f"    h->valid[{to.number}] = 0;",
            "}",
        ]

    def _copy_fields(self, to: Place, source: Place) -> str:
        """Return code that copies fields; only the used bytes of a varbit are copied."""
        varbit = source.type.varbit
        if varbit is None:
            return f"*{to.pointer} = *{source.pointer};"
        bits = f"{source.pointer}->{self.layout.member(source.type, varbit)}_bits"
        size = f"{self.layout.fixed_size(source.type)} + {bits} / 8"
        return f"memmove({to.pointer}, {source.pointer}, {size});"

    def assign_union(self, p: m.Primitive) -> Lines:
        pairs = zip(
            self.expressions.union(p.args[0]), self.expressions.union(p.args[1]), strict=True
        )
        lines: Lines = []
        for to, source in pairs:
            # Copy the members one by one; a valid member must not make its siblings invalid.
            lines += self._copy(replace(to, siblings=()), source)
        return lines

    def assign_stack(self, p: m.Primitive) -> Lines:
        to, source = p.args
        assert isinstance(to, m.StackRef)
        assert isinstance(source, m.StackRef)
        lines = [f"{self.layout.counter(to.stack)} = {self.layout.counter(source.stack)};"]
        pairs = zip(to.stack.array.headers, source.stack.array.headers, strict=True)
        for a, b in pairs:
            lines += self._copy(self.layout.place(a), self.layout.place(b))
        return lines

    def assign_union_stack(self, p: m.Primitive) -> Lines:
        to, source = p.args
        assert isinstance(to, m.UnionStackRef)
        assert isinstance(source, m.UnionStackRef)
        lines = [f"{self.layout.counter(to.stack)} = {self.layout.counter(source.stack)};"]
        for a, b in zip(to.stack.unions, source.stack.unions, strict=True):
            lines += self.assign_union(m.Primitive(p.op, (m.UnionRef(a), m.UnionRef(b)), p.where))
        return lines

    # --- headers ---------------------------------------------------------------------------

    def set_valid(self, place: Place) -> Lines:
        return [
            f"h->valid[{place.number}] = 1;",
            *(f"h->valid[{sibling}] = 0;" for sibling in place.siblings),
        ]

    def add_header(self, p: m.Primitive) -> Lines:
        place = self.expressions.header(p.args[0])
        return [
            f"if (!h->valid[{place.number}]) {{",
            f"    memset({place.pointer}, 0, sizeof *{place.pointer});",
            f"    h->raw[{place.number}] = 0;",
            *(f"    {line}" for line in self.set_valid(place)),
            f"    h->start.packet_length += {place.type.fixed_bytes};",
            "}",
        ]

    def remove_header(self, p: m.Primitive) -> Lines:
        place = self.expressions.header(p.args[0])
        return [
            f"if (h->valid[{place.number}]) {{",
            f"    h->start.packet_length -= {self.size(place)};",
            f"    h->valid[{place.number}] = 0;",
            "}",
        ]

    def size(self, place: Place) -> str:
        """Return C code for the size of a header in bytes, including its varbit."""
        varbit = place.type.varbit
        if varbit is None:
            return str(place.type.fixed_bytes)
        name = self.layout.member(place.type, varbit)
        return f"({place.type.fixed_bytes} + {place.pointer}->{name}_bits / 8)"

    def _columns(self, e: m.Expr) -> tuple[str, list[m.HeaderArray]]:
        if isinstance(e, m.StackRef):
            return self.layout.counter(e.stack), [e.stack.array]
        if isinstance(e, m.UnionStackRef):
            return self.layout.counter(e.stack), list(e.stack.columns.values())
        raise NotSupported("push or pop of a value that is not a stack")

    def shift(self, p: m.Primitive, *, is_push: bool) -> Lines:
        """Return code for push_front and pop_front, as P4-16 defines them."""
        counter, columns = self._columns(p.args[0])
        amount = p.args[1]
        if not isinstance(amount, m.Const) or amount.value < 0:
            raise NotSupported("push or pop by an amount that is not constant, or below 0")
        size = len(columns[0].headers)
        n = min(amount.value, size)
        if is_push:
            lines = [f"{counter} = {counter} + {n} < {size} ? {counter} + {n} : {size};"]
            to, source, emptied = n, 0, 0
        else:
            lines = [f"{counter} = {counter} > {n} ? {counter} - {n} : 0;"]
            to, source, emptied = 0, n, size - n
        for array in columns:
            name, base = self.layout.names[id(array)], self.layout.base(array)
            for what in (f"h->{name}", f"h->valid + {base}", f"h->raw + {base}"):
                element = f"sizeof *({what})"
                lines.append(f"memmove({what} + {to}, {what} + {source}, {size - n} * {element});")
            lines.append(f"memset(h->valid + {base + emptied}, 0, {n});")
        return lines

    # --- state -----------------------------------------------------------------------------

    def random(self, p: m.Primitive) -> Lines:
        name, field = self.expressions.lvalue(p.args[0])
        low, high = self.expressions.word(p.args[1]), self.expressions.word(p.args[2])
        store = self.expressions.store_code(
            name, field.width, "random_between(c->random, low, high)", 64
        )
        return [f"{{ uint64_t low = {low}, high = {high}; if (low <= high) {{ {store} }} }}"]

    def hash(self, p: m.Primitive) -> Lines:
        target, base, calculation, size = p.args
        assert isinstance(calculation, m.Named)
        number = self.program.calculations[calculation.name].index
        name, field = self.expressions.lvalue(target)
        code = f"{self.expressions.word(base)} + calculation_{number}(c, h) % (size ? size : 1)"
        store = self.expressions.store_code(name, field.width, code, 64)
        return [f"{{ uint64_t size = {self.expressions.word(size)}; {store} }}"]

    # --- the packet's path ------------------------------------------------------------------

    def drop(self, p: m.Primitive) -> Lines:
        lines = [self.expressions.store(self.standard("egress_spec"), m.Const(511))]
        lines.append("c->request.is_miss = c->is_miss;")
        if self.has_standard("mcast_grp"):
            lines.append(self.expressions.store(self.standard("mcast_grp"), m.Const(0)))
        return lines

    def has_standard(self, name: str) -> bool:
        return self.find_standard(name) is not None

    def standard(self, name: str) -> m.FieldRef:
        found = self.find_standard(name)
        if found is None:
            raise NotSupported(f"the program has no standard_metadata.{name}")
        return found

    def find_standard(self, name: str) -> m.FieldRef | None:
        """Return a field of the intrinsic metadata, wherever the program stores it."""
        for header in ("standard_metadata", "intrinsic_metadata", "queueing_metadata"):
            place = self.program.aliases.get(f"{header}.{name}", (header, name))
            instance = self.program.headers.get(place[0])
            if instance and place[1] in instance.type.by_name:
                return m.FieldRef(instance, instance.type.fields[instance.type.by_name[place[1]]])
        return None

    def clone(self, p: m.Primitive) -> Lines:
        session, fields = (self.expressions.word(a) for a in p.args)
        return [
            f"c->request.clone_session = ((uint32_t)({session}) & 0x7fff) | SESSION_SET;",
            f"c->request.clone_list = (uint16_t)({fields});",
        ]

    def request(self, name: str, position: int = 0) -> Callable[[m.Primitive], Lines]:
        return lambda p: [
            f"c->request.{name} = (uint16_t)({self.expressions.word(p.args[position])});"
        ]

    def truncate(self, p: m.Primitive) -> Lines:
        """Truncate a packet; the shortest of several lengths wins (bmv2: Packet::truncate)."""
        return [
            "{",
            f"    uint32_t length = (uint32_t)({self.expressions.word(p.args[0])});",
            "    if (length < h->start.truncate_to)",
            "        h->start.truncate_to = length;",
            "}",
        ]

    def log(self, p: m.Primitive) -> Lines:
        text, values = p.args
        assert isinstance(text, m.Named)
        items = values.items if isinstance(values, m.Vector) else ()
        words = "".join(f"{self.expressions.word(i)}, " for i in items)
        return [f'program_log("{c_string(text.name)}", {len(items)}, (uint64_t[]){{{words}0}});']

    def check(self, p: m.Primitive) -> Lines:
        text = c_string(f"{p.op} failed {p.where}".replace("{", "(").replace("}", ")"))
        condition = self.expressions.boolean(p.args[0])
        return [f'if (!{condition}) program_log("{text}", 0, (uint64_t[]){{0}});']

    def jump(self, p: m.Primitive) -> Lines:
        target = self._jump_target(p)[0]
        if p.op == "_jump":
            return [f"goto p{target};"]
        return [f"if (!{self.expressions.boolean(p.args[0])}) goto p{target};"]


def c_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return escaped.replace("??", "?\\?")


_Generator = Callable[[Statements, m.Primitive], Lines]


def _binary(op: str, *, in_place: bool = False) -> _Generator:
    return lambda s, p: s.arithmetic(op, in_place=in_place)(p)


PRIMITIVES: dict[str, _Generator] = {
    "assign": Statements.assign,
    "modify_field": Statements.assign,
    "assign_VL": Statements.assign_varbit,
    "assign_header": Statements.assign_header,
    "copy_header": Statements.assign_header,
    "assign_union": Statements.assign_union,
    "assign_header_stack": Statements.assign_stack,
    "assign_union_stack": Statements.assign_union_stack,
    "add_to_field": _binary("+", in_place=True),
    "subtract_from_field": _binary("-", in_place=True),
    "add": _binary("+"),
    "subtract": _binary("-"),
    "bit_and": _binary("&"),
    "bit_or": _binary("|"),
    "bit_xor": _binary("^"),
    "shift_left": _binary("<<"),
    "shift_right": _binary(">>"),
    "add_header": Statements.add_header,
    "remove_header": Statements.remove_header,
    "push": lambda s, p: s.shift(p, is_push=True),
    "pop": lambda s, p: s.shift(p, is_push=False),
    "register_read": Statements.register_read,
    "register_write": Statements.register_write,
    "count": Statements.count,
    "execute_meter": Statements.execute_meter,
    "modify_field_rng_uniform": Statements.random,
    "modify_field_with_hash_based_offset": Statements.hash,
    **dict.fromkeys(DROPPING, Statements.drop),
    "clone_ingress_pkt_to_egress": Statements.clone,
    "clone_egress_pkt_to_egress": Statements.clone,
    "generate_digest": lambda s, p: s.request("digest", 1)(p),
    "resubmit": lambda s, p: s.request("resubmit_list")(p),
    "recirculate": lambda s, p: s.request("recirculate_list")(p),
    "truncate": Statements.truncate,
    "no_op": lambda s, p: [],
    "exit": lambda s, p: ["return true;"],
    "assert": Statements.check,
    "assume": Statements.check,
    "log_msg": Statements.log,
    "_jump": Statements.jump,
    "_jump_if_zero": Statements.jump,
}

Statements.primitives = PRIMITIVES
