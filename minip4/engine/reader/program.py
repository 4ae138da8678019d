"""Reads BMv2 JSON into the typed model of a program.

Errors name the constructs that are not supported.

The reader follows the BMv2 JSON format, version 2.24 (JSON_format.md of bmv2), and the actual
output of p4c.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minip4.engine import model as m
from minip4.engine.errors import InvalidArgument, NotSupported
from minip4.engine.limits import WideWords, check_state
from minip4.engine.reader.check import MAX_WIDTH, check_document, is_number
from minip4.engine.reader.tables import PipelineReader, where
from minip4.engine.reader.tna import read_tna

Json = dict[str, Any]

CORE_ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort",
               "ParserTimeout", "ParserInvalidArgument")  # fmt: skip


def read_program(document: Json) -> m.Program:
    """Return the model of a BMv2 JSON document.

    Raises NotSupported (with the name of the construct), InvalidArgument (not BMv2 JSON) and
    TooLarge.
    """
    with only_good_json():
        check_document(document)
        program = _Reader(document).program()
    check_state(program)
    return program


@contextmanager
def only_good_json() -> Iterator[None]:
    """Convert exceptions caused by malformed JSON to InvalidArgument."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError,
            RecursionError) as error:  # fmt: skip
        what = f"{error.args[0]!r}" if isinstance(error, KeyError) else "some member"
        raise InvalidArgument(
            f"not BMv2 JSON as p4c writes it: {what} is missing or invalid"
        ) from error


def hexstr(text: str) -> int:
    """Parse a JSON hexstr.

    A hexstr may be negative or without 0x, and p4c writes some hexstrs in decimal.
    """
    sign = -1 if text.startswith("-") else 1
    return sign * int(text.lstrip("-").removeprefix("0x"), 16)


class _Reader:
    def __init__(self, document: Json) -> None:
        self.document = document
        self.types: dict[str, m.HeaderType] = {}
        self.headers: dict[str, m.Header] = {}
        self.by_id: dict[int, m.Header] = {}
        self.arrays: list[m.HeaderArray] = []
        self.stacks: dict[str, m.HeaderStack] = {}
        self.unions: dict[str, m.HeaderUnion] = {}
        self.union_stacks: dict[str, m.UnionStack] = {}
        self.registers: dict[str, m.Register] = {}
        self._wide = WideWords()

    def program(self) -> m.Program:
        document = self.document
        self._headers()
        self.registers = {
            r["name"]: m.Register(
                r["name"], i, r["size"] or 0, r["bitwidth"], _initial_value(r), r.get("binding")
            )
            for i, r in enumerate(document.get("register_arrays", []))
        }
        actions = {a["id"]: self._action(a) for a in document["actions"]}
        calculations = {
            c["name"]: self._calculation(i, c) for i, c in enumerate(document["calculations"])
        }
        pipelines = PipelineReader(self.expr, actions, self.width)
        read = {p["name"]: pipelines.pipeline(p) for p in document["pipelines"]}
        architecture = _architecture(document)
        tna = read_tna(document) if architecture == "tna" else None
        parsers = document["parsers"] if tna else document["parsers"][:1]
        return m.Program(
            architecture=architecture,
            headers=self.headers,
            arrays=self.arrays,
            stacks=self.stacks,
            unions=self.unions,
            union_stacks=self.union_stacks,
            tna=tna,
            parsers=tuple(map(self._parser, parsers)) or (m.Parser(None, {}),),
            deparsers=tuple(map(self._deparser, document["deparsers"][: None if tna else 1])),
            actions=actions,
            pipelines=read,
            tables=pipelines.tables,
            profiles=pipelines.profiles,
            calculations=calculations,
            checksums=tuple(self._checksum(c, calculations) for c in document.get("checksums", [])),
            counters=self._counters(),
            meters=self._meters(),
            registers=self.registers,
            digests=self._digests(),
            field_lists={
                f["id"]: m.FieldList(f["id"], tuple(self.expr(e) for e in f["elements"]))
                for f in document.get("field_lists", [])
            },
            value_sets={
                v["name"]: m.ValueSet(v["name"], i, v["compressed_bitwidth"])
                for i, v in enumerate(document.get("parse_vsets", []))
            },
            errors=self._errors(),
            aliases={name: (t[0], t[1]) for name, t in document.get("field_aliases", [])},
        )

    # --- headers ---------------------------------------------------------------------------

    def _headers(self) -> None:
        for t in self.document["header_types"]:
            self.types[t["name"]] = self._header_type(t)
        for h in self.document["headers"]:
            header = m.Header(h["name"], self.types[h["header_type"]], bool(h["metadata"]))
            self.headers[header.name] = self.by_id[h["id"]] = header
        for s in self.document.get("header_stacks", []):
            members = [self.by_id[i] for i in s["header_ids"]]
            if not members or not members[0].metadata:
                array = self._array(s["name"], self.types[s["header_type"]], members)
                self.stacks[s["name"]] = m.HeaderStack(s["name"], array)
        self._unions()

    def _header_type(self, t: Json) -> m.HeaderType:
        fixed = sum(f[1] for f in t["fields"] if f[1] != "*")
        fields = []
        for name, width, *rest in t["fields"]:
            if width == "*":
                limit = rest[1] if len(rest) > 1 else t["max_length"] * 8 - fixed
                if not is_number(limit, MAX_WIDTH):
                    raise InvalidArgument(
                        f"varbit {t['name']}.{name}: at most {MAX_WIDTH} bits are supported"
                    )
                fields.append(m.Field(name, limit, varbit=True))
            else:
                fields.append(m.Field(name, width, bool(rest and rest[0])))
        return m.HeaderType(t["name"], tuple(fields))

    def _array(self, name: str, type_: m.HeaderType, members: list[m.Header]) -> m.HeaderArray:
        array = m.HeaderArray(name, type_, members)
        for position, header in enumerate(members):
            header.array, header.position = array, position
        self.arrays.append(array)
        return array

    def _unions(self) -> None:
        types = {t["name"]: t["headers"] for t in self.document.get("header_union_types", [])}
        by_id: dict[int, m.HeaderUnion] = {}
        for u in self.document.get("header_unions", []):
            names = [name for name, _ in types[u["union_type"]]]
            members = [self.by_id[i] for i in u["header_ids"]]
            union = m.HeaderUnion(u["name"], list(zip(names, members, strict=True)))
            for header in members:
                header.union = union
            self.unions[union.name] = by_id[u["id"]] = union
        for s in self.document.get("header_union_stacks", []):
            unions = [by_id[i] for i in s["header_union_ids"]]
            columns = {}
            for i, (name, _) in enumerate(types[s["union_type"]]):
                members = [u.members[i][1] for u in unions]
                columns[name] = self._array(f"{s['name']}.{name}", members[0].type, members)
            self.union_stacks[s["name"]] = m.UnionStack(s["name"], unions, columns)

    # --- expressions -----------------------------------------------------------------------

    def expr(self, node: Any, params: tuple[m.ActionParam, ...] = ()) -> m.Expr:
        """Read a type-value object (JSON_format.md, "The type value object")."""
        made = self._expr(node, params)
        if isinstance(made, m.FieldRef | m.StackField | m.UnionStackField):
            self._wide.spend(made.field.width)
        elif isinstance(made, m.HeaderRef):
            fields = made.header.type.fields
            self._wide.spend(sum(f.width for f in fields if f.width > 64 and not f.varbit))
        elif isinstance(made, m.Param | m.Lookahead):
            self._wide.spend(made.width)
        elif isinstance(made, m.RegisterRef):
            self._wide.spend(made.register.width)
        return made

    def _expr(self, node: Any, params: tuple[m.ActionParam, ...]) -> m.Expr:
        if isinstance(node, int):  # the position in access_field
            return m.Const(node)
        kind, value = node["type"], node["value"]
        if kind == "expression":
            return self._operation(value, params)
        if kind == "field":
            return self._field(value[0], value[1])
        if kind == "hexstr":
            return m.Const(hexstr(value))
        if kind == "bool":
            return m.BoolConst(bool(value))
        if kind in ("runtime_data", "local"):
            return m.Param(value, params[value].width)
        if kind in ("header", "regular"):
            return m.HeaderRef(self.headers[value])
        if kind in ("header_stack", "stack"):
            return m.StackRef(self.stacks[value])
        if kind == "header_union":
            return m.UnionRef(self.unions[value])
        if kind == "header_union_stack":
            return m.UnionStackRef(self.union_stacks[value])
        if kind == "lookahead":
            offset, width = value
            if not is_number(offset, MAX_WIDTH) or not is_number(width, MAX_WIDTH):
                raise InvalidArgument(
                    f"lookahead of {width} bits at {offset}: at most {MAX_WIDTH} bits are supported"
                )
            return m.Lookahead(offset, width)
        if kind == "stack_field":
            stack = self.stacks[value[0]]
            return m.StackField(stack, _member(stack.array.type, value[1]))
        if kind == "union_stack_field":
            union_stack = self.union_stacks[value[0]]
            field = _member(union_stack.columns[value[1]].type, value[2])
            return m.UnionStackField(union_stack, value[1], field)
        if kind == "register":
            return m.RegisterRef(self.registers[value[0]], self.expr(value[1], params))
        if kind == "parameters_vector":
            return m.Vector(tuple(self.expr(v, params) for v in value))
        if kind in ("calculation", "counter_array", "meter_array", "register_array", "string"):
            return m.Named(kind, value)
        raise NotSupported(f"value of type {kind!r} ({value}) is not supported {where(node)}")

    def _operation(self, value: Json, params: tuple[m.ActionParam, ...]) -> m.Expr:
        if "op" not in value:
            return self.expr(value, params)
        operands = [value.get(side) for side in ("cond", "left", "right")]
        return m.Op(
            value["op"],
            tuple(self.expr(o, params) for o in operands if o is not None),
            where(value),
        )

    def _field(self, header: str, field: str) -> m.Expr:
        instance = self.headers[header]
        if field == "$valid$":
            return m.Valid(instance)
        return m.FieldRef(instance, _member(instance.type, field))

    def width(self, expr: m.Expr) -> int:
        """Return the width in bits of an expression in a key or a digest."""
        if isinstance(expr, m.FieldRef | m.StackField | m.UnionStackField):
            return expr.field.width
        if isinstance(expr, m.Lookahead):
            return expr.width
        if isinstance(expr, m.Valid):
            return 1
        raise NotSupported(f"a key or digest of {type(expr).__name__} is not supported")

    # --- parser, actions -------------------------------------------------------------------

    def _parser(self, parser: Json) -> m.Parser:
        states = {s["name"]: self._state(s) for s in parser["parse_states"]}
        return m.Parser(parser["init_state"], states)

    def _deparser(self, deparser: Json) -> m.Deparser:
        return m.Deparser(
            tuple(self.headers[name] for name in deparser["order"]),
            tuple(self._primitive(p, ()) for p in deparser.get("primitives", [])),
        )

    def _state(self, state: Json) -> m.ParserState:
        transitions = tuple(self._transition(t) for t in state["transitions"])
        key = tuple(self.expr(k) for k in state["transition_key"])
        for k in key:
            self._wide.spend(self.width(k), len(transitions))
        return m.ParserState(
            state["name"], tuple(self._parser_op(o) for o in state["parser_ops"]), key, transitions
        )

    def _transition(self, t: Json) -> m.Transition:
        kind = t.get("type", "default" if t["value"] == "default" else "hexstr")
        mask = None if t.get("mask") is None else hexstr(t["mask"])
        next_state = t["next_state"]
        if kind == "default":
            return m.Transition(None, None, None, next_state)
        if kind == "parse_vset":
            return m.Transition(None, mask, t["value"], next_state)
        return m.Transition(hexstr(t["value"]), mask, None, next_state)

    def _parser_op(self, op: Json) -> m.ParserOp:
        parameters = op["parameters"]
        if op["op"] == "primitive":
            primitive = self._primitive(parameters[0], ())
            return m.ParserOp("primitive", (), primitive=primitive, where=where(op))
        if op["op"] == "shift":
            return m.ParserOp("advance", (m.Const(parameters[0] * 8),), where=where(op))
        member = ""
        args: list[m.Expr] = []
        for parameter in parameters:
            if parameter["type"] == "union_stack":
                stack, member = parameter["value"]
                args.append(m.UnionStackRef(self.union_stacks[stack]))
            else:
                args.append(self.expr(parameter))
        return m.ParserOp(op["op"], tuple(args), member, where=where(op))

    def _action(self, action: Json) -> m.Action:
        params = tuple(m.ActionParam(p["name"], p["bitwidth"]) for p in action["runtime_data"])
        for param in params:
            self._wide.spend(param.width)
        primitives = tuple(self._primitive(p, params) for p in action["primitives"])
        return m.Action(action["name"], action["id"], params, primitives)

    def _primitive(self, p: Json, params: tuple[m.ActionParam, ...]) -> m.Primitive:
        args = tuple(self.expr(a, params) for a in p["parameters"])
        return m.Primitive(p["op"], args, where(p))

    # --- calculations, state ---------------------------------------------------------------

    def _calculation(self, index: int, c: Json) -> m.Calculation:
        inputs = []
        for item in c["input"]:
            expr = None if item["type"] == "payload" else self.expr(item)
            self._wide.spend(item.get("bitwidth", 0))
            inputs.append(m.CalculationInput(item["type"], expr, item.get("bitwidth", 0)))
        return m.Calculation(c["name"], index, c["algo"], tuple(inputs))

    def _checksum(self, c: Json, calculations: dict[str, m.Calculation]) -> m.Checksum:
        target = self._field(*c["target"])
        assert isinstance(target, m.FieldRef)
        condition = c.get("if_cond")
        return m.Checksum(
            c["name"],
            target,
            calculations[c["calculation"]],
            None if condition is None else self.expr(condition),
            c.get("verify", True),
            c.get("update", True),
        )

    def _counters(self) -> dict[str, m.Counter]:
        return {
            c["name"]: m.Counter(
                c["name"], i, c.get("size") or 0, c.get("binding") if c["is_direct"] else None
            )
            for i, c in enumerate(self.document.get("counter_arrays", []))
        }

    def _meters(self) -> dict[str, m.Meter]:
        meters = {}
        for i, a in enumerate(self.document.get("meter_arrays", [])):
            if a["rate_count"] != 2:
                raise NotSupported(f"meter {a['name']}: {a['rate_count']} rates; only 2 rates are")
            result = None
            if "result_target" in a:
                target = self._field(*a["result_target"])
                assert isinstance(target, m.FieldRef)
                result = target
            binding = a.get("binding") if a["is_direct"] else None
            meters[a["name"]] = m.Meter(
                a["name"], i, a["size"] or 0, a["type"] == "packets", binding, result
            )
        return meters

    def _digests(self) -> dict[str, m.Digest]:
        digests = {}
        for d in self.document.get("learn_lists", []):
            elements = tuple(self.expr(e) for e in d["elements"])
            widths = tuple(self.width(e) for e in elements)
            digests[d["name"]] = m.Digest(d["name"], d["id"], elements, widths)
        return digests

    def _errors(self) -> dict[str, int]:
        errors: dict[str, int] = dict(self.document.get("errors", []))
        free = max(errors.values(), default=-1) + 1
        for name in CORE_ERRORS:
            if name not in errors:
                errors[name] = free
                free += 1
        return errors


def _architecture(document: Json) -> str:
    architecture = document.get("__meta__", {}).get("architecture", "v1model")
    if architecture not in ("v1model", "tna"):
        raise NotSupported(f"architecture {architecture!r}; only v1model and tna are supported")
    return str(architecture)


def _initial_value(register: Json) -> int:
    value = hexstr(register.get("initial_value", "0x0"))
    if not 0 <= value < 1 << register["bitwidth"]:
        raise InvalidArgument(
            f"register {register['name']}: initial value {value:#x} does not fit in "
            f"{register['bitwidth']} bits"
        )
    return value


def _member(type_: m.HeaderType, name: str) -> m.Field:
    return type_.fields[type_.by_name[name]]
