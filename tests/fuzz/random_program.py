"""A random v1model program. It may use all features of minip4 except clocks and random numbers."""

from __future__ import annotations

import random

from random_expressions import WIDTHS, Function, Scope, Variable
from random_statements import Lines, Statements
from random_types import declarations, random_layout

IN_ACTION = ("assign", "assign", "assign", "assign", "flag", "register", "count", "hash",
             "validity", "copy", "varbit", "shift_stack", "branch", "local", "leave",
             "loop")  # fmt: skip
IN_CONTROL = (*IN_ACTION, "assign", "assign", "varbit", "branch", "branch", "choose", "filled",
              "compared", "table", "table", "act", "change", "way")  # fmt: skip
IN_PARSER = ("assign", "flag", "local", "varbit", "validity", "copy")
KINDS = ("exact", "exact", "lpm", "ternary", "range", "optional")
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort",
          "ParserInvalidArgument", "Odd", "Even")  # fmt: skip
CHECKSUMS = ("csum16", "crc16", "xor16")
HEAD = """#include <core.p4>
#include <v1model.p4>"""


def random_program(seed: int) -> str:
    return "\n".join(Program(random.Random(seed)).lines()) + "\n"


class Program(Statements):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, random_layout(rng))
        standard = [("ingress_port", 9), ("packet_length", 32), ("instance_type", 32),
                    ("egress_port", 9), ("egress_spec", 9), ("checksum_error", 1)]  # fmt: skip
        variables = [*self.writable, Variable("meta.rounds", 8)]
        variables += [Variable(f"std.{name}", width) for name, width in standard]
        self.scope = Scope(variables, self.layout.headers, flags=["meta.flag"])
        self.tables: list[str] = []
        self.actions: list[tuple[str, list[Variable]]] = []

    def lines(self) -> Lines:
        functions = self.functions()
        return [
            HEAD,
            *declarations(self.layout),
            *functions,
            *self.parser(),
            *self.checksums("MyVerify", "verify_checksum"),
            *self.control("Ingress"),
            *self.control("Egress"),
            *self.checksums("MyCompute", "update_checksum"),
            *self.deparser(),
            "V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(),",
            "         MyDeparser()) main;",
        ]

    # -- functions

    def functions(self) -> Lines:
        """Return two functions that have a return value, and one that changes its arguments."""
        lines: Lines = []
        for name in ("f", "g"):
            widths = tuple(self.rng.choices(WIDTHS, k=self.rng.randrange(1, 3)))
            parameters = [Variable(f"p{i}", w) for i, w in enumerate(widths)]
            scope = Scope(parameters, functions=list(self.scope.functions))
            f = Function(name, self.rng.choice(WIDTHS), widths)
            head = ", ".join(f"in {p.type} {p.name}" for p in parameters)
            early = self.braces(f"if ({self.condition(scope)})",
                                [f"return {self.bits(scope, f.width)};"])  # fmt: skip
            body = [*early, f"return {self.bits(scope, f.width)};"]
            lines += self.braces(f"bit<{f.width}> {name}({head})", body)
            self.scope.functions.append(f)
        self.changed = self.rng.choice([v for v in self.writable if not v.signed]).width
        both = Scope([Variable("x", self.changed), Variable("z", 8)])
        body = [f"y = {self.bits(both, self.changed)};", f"x = {self.bits(both, self.changed)};"]
        head = f"void change(inout bit<{self.changed}> x, out bit<{self.changed}> y, in bit<8> z)"
        return lines + self.braces(head, body)

    def change(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        found = [v for v in self.writable if v.width == self.changed and not v.signed]
        x, y = self.rng.choices(found, k=2)
        return [f"change({x.name}, {y.name}, {self.bits(scope, 8)});"]

    # -- parser

    def parser(self) -> Lines:
        states = ["a", "b", "c", "v", "w", "s", "t", "u", "us", "skip", "check", "ahead"]
        self.rng.shuffle(states)
        # The compiler rejects a parser that cannot end. Therefore one state ends without a choice.
        first, *others = self.next_state("hdr.first", states)
        keys = first.count(",") + 1
        end = "(" + ", ".join(["77"] * keys) + "): accept;" if keys > 1 else "77: accept;"
        lines = self.braces("state start", ["packet.extract(hdr.first);", first, end, *others])
        for i, state in enumerate(states):
            body = self.state(state, states[i + 1 :])
            lines += self.braces(f"state {state}", body)
        head = ("parser MyParser(packet_in packet, out headers hdr, inout metadata meta, "
                "inout standard_metadata_t std)")  # fmt: skip
        return self.braces(head, lines)

    def state(self, name: str, later: list[str]) -> Lines:
        lines: Lines = []
        if self.chance(30):
            lines += self.block(self.scope, 0, IN_PARSER)
        length = f"(bit<32>) ({self.bits(self.scope, 3, 1)}) * {self.rng.choice([8, 8, 8, 4])}"
        ahead = self.rng.choice([4, 8, 12, 33, 70])
        error = self.rng.choice(["Odd", "Even"])
        lines += {
            "a": ["packet.extract(hdr.a);"], "b": ["packet.extract(hdr.b);"],
            "c": ["packet.extract(hdr.c);"],
            "v": [f"packet.extract(hdr.v, {length});"], "w": [f"packet.extract(hdr.w, {length});"],
            "s": ["packet.extract(hdr.s.next);"], "t": ["packet.extract(hdr.t.next);"],
            "u": [self.rng.choice(["packet.extract(hdr.u.one);",
                                    f"packet.extract(hdr.u.large, {length});"])],
            "us": [self.rng.choice(["packet.extract(hdr.us.next.one);",
                                     "packet.extract(hdr.us.next.two);"])],
            "skip": [f"packet.advance({length});"],
            "check": [f"verify({self.condition(self.scope)}, error.{error});"],
            "ahead": [f"meta.m0 = (bit<{self.layout.metadata[0].width}>) "
                      f"packet.lookahead<bit<{ahead}>>();"],
        }[name]  # fmt: skip
        again = [name] if name in ("s", "t", "us") else []
        last = {"a": "hdr.a", "b": "hdr.b", "s": "hdr.s.last", "t": "hdr.t.last", "v": "hdr.v"}
        return lines + self.next_state(last.get(name, "hdr.first"), [*again, *later])

    def next_state(self, header: str, states: list[str]) -> Lines:
        """Return a select statement whose keys are fields of a header, or a lookahead."""
        if not states:
            return ["transition accept;"]
        type_ = next((t for t, names in self.layout.instances.items() if header in names), "s_t")
        fields = self.layout.types[type_].fields
        keys = [
            (f"{header}.{f.name}", f.width)
            for f in self.rng.choices(fields, k=self.rng.randrange(1, 3))
            if not f.signed
        ]
        if self.chance(25) or not keys:
            keys.append((f"packet.lookahead<bit<{(w := self.rng.choice([4, 8, 65]))}>>()", w))
        cases = []
        for _ in range(self.rng.randrange(1, 5)):
            sets = [self.key_set(width) for _, width in keys]
            state = self.rng.choice([*states[:3], *states[:2], "accept"])
            cases.append(f"{sets[0] if len(sets) == 1 else '(' + ', '.join(sets) + ')'}: {state};")
        if self.chance(85):
            usual = [*states[:3], *states[:2], *states[:2], states[0]]
            cases.append(f"default: {self.rng.choice([*usual, 'reject', 'accept'])};")
        return self.braces(f"transition select({', '.join(k for k, _ in keys)})", cases)

    def key_set(self, width: int) -> str:
        low, high = sorted((self.number(width), self.number(width)))
        kinds = [f"{low}", f"{low}", f"{high} &&& {self.number(width)}", "_"]
        if high - low < 16:
            kinds.append(f"{low} .. {high}")
        return self.rng.choice(kinds)

    # -- controls

    def control(self, name: str) -> Lines:
        self.actions, self.tables, self.registers = [], [], []
        self.is_ingress = name == "Ingress"
        state = ["counter(6, CounterType.packets_and_bytes) counted;"]
        for i in range(2):
            width = self.rng.choice(WIDTHS)
            self.registers.append(Variable(f"kept{i}", width))
            state.append(f"register<bit<{width}>>(6) kept{i};")
        lines = [*state, *self.all_actions(), *self.all_tables()]
        body = ["std.egress_spec = 1;"] if name == "Ingress" else []
        for _ in range(8 if name == "Ingress" else 4):
            body += self.block(self.scope, 2, IN_CONTROL)
        if name == "Egress":
            body += self.shown()
        lines += self.braces("apply", body)
        head = (f"control My{name}(inout headers hdr, inout metadata meta, "
                "inout standard_metadata_t std)")  # fmt: skip
        return self.braces(head, lines)

    def shown(self) -> Lines:
        """Return statements that copy metadata, and the error of the parser, into a header."""
        values = ["(bit<8>) meta.at", "(bit<8>) (bit<1>) meta.flag", "0"]
        values += [f"(bit<{v.width}>) {v.name}" for v in self.layout.metadata]
        lines = [f"hdr.seen = {{ {', '.join([*values, '0'])} }};"]
        for i, name in enumerate(ERRORS):
            lines += self.braces(f"if (std.parser_error == error.{name})",
                                 [f"hdr.seen.problem = {i + 1};"])  # fmt: skip
        return lines

    def all_actions(self) -> Lines:
        lines: Lines = []
        for i in range(3):
            widths = self.rng.choices(WIDTHS, k=self.rng.randrange(3))
            parameters = [Variable(f"p{n}", w) for n, w in enumerate(widths)]
            body = self.block(self.scope.with_variables(parameters), 1, IN_ACTION)
            head = ", ".join(f"{p.type} {p.name}" for p in parameters)
            lines += self.braces(f"action act{i}({head})", body)
            self.actions.append((f"act{i}", parameters))
        return lines

    def all_tables(self) -> Lines:
        lines: Lines = []
        for i in range(3):
            lines += self.braces(f"table t{i}", self.table_body())
            self.tables.append(f"t{i}")
        return lines

    def table_body(self) -> Lines:
        kinds = self.rng.choices(KINDS, k=self.rng.randrange(1, 4))
        kinds = [k for i, k in enumerate(kinds) if k != "lpm" or "lpm" not in kinds[:i]]
        most = 64 if "range" in kinds else 129
        fields = [v for v in self.writable if not v.signed and v.width <= most]
        keys = self.rng.sample(fields, len(kinds))
        lines = [f"{v.name}: {k};" for v, k in zip(keys, kinds, strict=True)]
        is_ranked = any(k not in ("exact", "lpm") for k in kinds)
        entries = []
        for _ in range(self.rng.randrange(5)):
            sets = [self.match(v.width, k) for v, k in zip(keys, kinds, strict=True)]
            entries.append((sets, f"({', '.join(sets)}) : {self.call_of_action(constant=True)};"))
        if not is_ranked:  # without priorities, equal keys are an error
            entries = [e for i, e in enumerate(entries) if e[0] not in [o[0] for o in entries[:i]]]
        names = [name for name, _ in self.actions]
        return [
            *self.braces("key =", lines),
            f"actions = {{ {' '.join(f'{n};' for n in names)} NoAction; }}",
            *(self.braces("const entries =", [line for _, line in entries]) if entries else []),
            f"const default_action = {self.call_of_action(constant=True)};",
        ]

    def match(self, width: int, kind: str) -> str:
        value = self.number(width)
        if kind == "lpm":
            rest = self.rng.choice([0, 0, width // 2, width])
            mask = (1 << width) - (1 << rest)
            return f"{width}w{value & mask} &&& {width}w{mask}"
        if kind == "ternary":
            mask = self.number(width)
            return self.rng.choice(["_", f"{value & mask} &&& {mask}", f"{value}"])
        if kind == "range":
            low, high = sorted((value, self.number(width)))
            return self.rng.choice(["_", f"{low} .. {high}"])
        return self.rng.choice(["_", f"{value}"]) if kind == "optional" else f"{value}"

    def call_of_action(self, *, constant: bool = False, scope: Scope | None = None) -> str:
        name, parameters = self.rng.choice(self.actions)
        values = [self.constant(p.width) if constant or scope is None
                  else self.bits(scope, p.width, 2) for p in parameters]  # fmt: skip
        return f"{name}({', '.join(values)})"

    def act(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        return [f"{self.call_of_action(scope=scope)};"]

    def table(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        """Return statements that apply a table. Each table is applied only once."""
        if not self.tables or depth <= 0:
            return self.assign(scope, depth, kinds)
        applied = f"{self.tables.pop()}.apply()"
        way = self.rng.randrange(3)
        if way == 0:
            return [f"{applied};"]
        if way == 1:
            head = f"if ({applied}.{self.rng.choice(['hit', 'miss'])})"
            return self.braces(head, self.block(scope, depth - 1, kinds))
        names = self.rng.sample(self.actions, 2)
        cases = [
            line
            for name, _ in names
            for line in self.braces(f"{name}:", self.block(scope, depth - 1, kinds))
        ]
        return self.braces(f"switch ({applied}.action_run)", cases)

    def way(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        """Return statements that drop, send, resubmit, recirculate, clone or truncate the packet.

        A packet makes at most two additional passes.
        """
        once = f"if (meta.rounds < 2 && {self.condition(scope, 1)})"
        kept = self.rng.randrange(1, 3)
        number = self.rng.randrange(4)
        again, kind = ("resubmit", "I2E") if self.is_ingress else ("recirculate", "E2E")
        clone = f"clone_preserving_field_list(CloneType.{kind}, {number}, {kept});"
        ways = [
            [f"std.egress_spec = (bit<9>) ({self.bits(scope, 3, 1)});"],
            self.braces(f"if ({self.rare()})", ["mark_to_drop(std);"]),
            self.braces(once, ["meta.rounds = meta.rounds + 1;",
                               f"{again}_preserving_field_list({kept});"]),
            self.braces(once, ["meta.rounds = meta.rounds + 1;", clone]),
            self.braces(once, [f"truncate((bit<32>) ({self.bits(scope, 7, 1)}));"]),
        ]  # fmt: skip
        if self.is_ingress:
            ways.append(self.braces(once, [f"std.mcast_grp = {number};"]))
        return self.rng.choice(ways)

    # -- checksums, deparser

    def checksums(self, name: str, call: str) -> Lines:
        body = []
        for target in ("hdr.first.number", "meta.m1"):
            width = 16 if target.startswith("hdr") else self.layout.metadata[1].width
            if width > 64 or self.chance(50):
                continue
            payload = "_with_payload" if self.chance(30) else ""
            names = [v.name for v in self.rng.choices(self.layout.fields(), k=4)]
            if self.chance(30):
                names.append("hdr.v.data")
            condition = f"{self.rng.choice(self.layout.headers)}.isValid()"
            body.append(f"{call}{payload}({condition}, {{ {', '.join(names)} }}, {target}, "
                        f"HashAlgorithm.{self.rng.choice(CHECKSUMS)});")  # fmt: skip
        head = f"control {name}(inout headers hdr, inout metadata meta)"
        return self.braces(head, self.braces("apply", body))

    def deparser(self) -> Lines:
        names = ["seen", "first", "a", "b", "c", "v", "w", "s", "t", "u", "x", "us"]
        if self.chance(50):
            self.rng.shuffle(names)
        body = [f"packet.emit(hdr.{name});" for name in names]
        return self.braces("control MyDeparser(packet_out packet, in headers hdr)",
                           self.braces("apply", body))  # fmt: skip
