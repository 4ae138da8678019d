"""A simple interpreter of BMv2 JSON. Tests compare its results with those of minip4's engine.

The interpreter was written from docs/JSON_format.md, for tests only. Values are Python ints of
unlimited size and bools, as in BMv2. An int where a bool is expected, or the reverse, is an
AssertionError. bmv2_switch.py implements the path of a packet through the switch.
"""

from __future__ import annotations

from bmv2_expressions import Expressions, ParserError
from bmv2_hashes import ALGORITHMS
from bmv2_storage import Json
from bmv2_tables import Entry, entries, exact, find, number

DROP_PORT = 511


class Interpreter(Expressions):
    def __init__(self, program: Json) -> None:
        super().__init__(program)
        self.actions = {a["id"]: a for a in program["actions"]}
        self.nodes = {
            node["name"]: node
            for pipeline in program["pipelines"]
            for node in pipeline["tables"] + pipeline["conditionals"]
        }
        self.entries: dict[str, list[Entry]] = {
            name: entries(node, [self.widths[tuple(k["target"])] for k in node["key"]])
            for name, node in self.nodes.items()
            if "key" in node
        }
        self.registers = {r["name"]: [0] * r["size"] for r in program["register_arrays"]}
        self.register_widths = {r["name"]: r["bitwidth"] for r in program["register_arrays"]}
        self.counters = {
            c["name"]: [(0, 0)] * c["size"] for c in program["counter_arrays"] if "size" in c
        }
        # requests that simple_switch executes after a pipeline
        self.requests: dict[str, list[int]] = {}
        # executed primitives that do not affect the packet
        self.log: list[tuple[str, list[object]]] = []
        self.exited = False
        self.ingress_length = 0  # number of bytes that a counter adds for this packet

    def add(self, table: str, keys: list[int], action: str, *data: int) -> None:
        """Add an exact entry."""
        ids = dict(zip(*(self.nodes[table][k] for k in ("actions", "action_ids")), strict=True))
        self.entries[table].append(exact(keys, ids[action], list(data)))

    def run(self, packet: bytes, port: int = 1) -> tuple[int, bytes] | None:
        """Return (port, packet) after ingress and egress; None if the packet was dropped."""
        self.clear()
        self.write("standard_metadata", "ingress_port", port)
        self.parse(packet)
        self.pipeline(0)
        egress_port = self.read("standard_metadata", "egress_spec")
        if egress_port == DROP_PORT:
            return None
        self.pipeline(1)
        return egress_port, self.deparse()

    # -- actions

    def action(self, action_id: int, data: list[int]) -> None:
        code = self.actions[action_id]["primitives"]
        position = 0
        for _ in range(10_000):
            if position >= len(code):
                return
            op, arguments = code[position]["op"], code[position]["parameters"]
            position += 1
            if op == "_jump":
                position = number(arguments[0]["value"])
            elif op == "_jump_if_zero":
                if self.evaluate(arguments[0], data) == 0:
                    position = number(arguments[1]["value"])
            else:
                self.primitive(op, arguments, data)
        raise AssertionError("endless action")

    def primitive(self, op: str, a: list[Json], data: list[int]) -> None:
        names = [x["value"] for x in a]
        if op in ("assign", "set"):
            value = self.evaluate(a[1], data)
            assert not isinstance(value, bool)
            self.write(*self.field(a[0]), value)
        elif op == "assign_VL":
            self.assign_varbit(self.field(a[0]), self.field(a[1]))
        elif op == "exit":
            self.exited = True
        elif op == "mark_to_drop":
            self.write("standard_metadata", "egress_spec", DROP_PORT)
            self.set_metadata("mcast_grp", 0)
        elif op in ("push", "pop"):
            count = self.evaluate(a[1])
            self.shift_stack(names[0], count if op == "push" else -count)
        elif op in HEADER_PRIMITIVES:
            HEADER_PRIMITIVES[op](self, *names)
        else:
            self.extern(op, names, [self.evaluate(x, data) for x in a])

    def extern(self, op: str, names: list[object], values: list[object]) -> None:
        """Execute a method of an extern.

        `names[i]` and `values[i]` are the name and the value of argument i. An index out of bounds
        has no effect.
        """
        if op == "register_read":
            target, register, index = names[0], str(names[1]), values[2]
            if index < len(self.registers[register]):
                self.write(*target, self.registers[register][index])
        elif op == "register_write":
            register, index = str(names[0]), values[1]
            if index < len(self.registers[register]):
                mask = (1 << self.register_widths[register]) - 1
                self.registers[register][index] = values[2] & mask
        elif op == "count":
            counter, index = self.counters[str(names[0])], values[1]
            if index < len(counter):
                packets, octets = counter[index]
                counter[index] = (packets + 1, octets + self.ingress_length)
        elif op == "modify_field_with_hash_based_offset":
            self.write(*names[0], values[1] + self.calculate(str(names[2])) % (values[3] or 1))
        elif op == "truncate":
            limit = self.parsed.truncate_to
            self.parsed.truncate_to = values[0] if limit is None else min(limit, values[0])
        else:
            self.requests[op] = values
            self.log.append((op, values))

    # -- pipelines

    def pipeline(self, position: int) -> None:
        self.exited = False
        self.requests = {}
        name = self.program["pipelines"][position]["init_table"]
        for _ in range(10_000):
            if name is None or self.exited:
                return
            node = self.nodes[name]
            if "expression" in node:
                taken = self.evaluate(node["expression"])
                assert isinstance(taken, bool)
                name = node["true_next" if taken else "false_next"]
            else:
                name = self.lookup(node)
        raise AssertionError("endless pipeline")

    def lookup(self, table: Json) -> str | None:
        """Apply the table; return the name of the next node."""
        keys = [self.key(k) for k in table["key"]]
        found = find(table, self.entries[table["name"]], keys)
        if found is None:
            default = table["default_entry"]
            action_id, data = default["action_id"], [number(v) for v in default["action_data"]]
        else:
            action_id, data = found.action_id, found.data
            found.packets += 1
            found.bytes += self.ingress_length
        self.action(action_id, data)
        following = table["next_tables"]
        if "__HIT__" in following or "__MISS__" in following:
            return following["__MISS__" if found is None else "__HIT__"]
        return following[self.actions[action_id]["name"]]

    def key(self, key: Json) -> int:
        header, name = key["target"]
        width = 1 if name == "$valid$" else self.widths[header, name]
        mask = number(key["mask"]) if key.get("mask") else (1 << width) - 1
        return self.read(header, name) & mask

    # -- packets

    def parse(self, packet: bytes) -> None:
        self.frame = packet
        self.packet = "".join(f"{byte:08b}" for byte in packet)
        self.position = 0
        self.ingress_length = self.parsed.length = len(packet)
        parser = self.program["parsers"][0]
        states = {s["name"]: s for s in parser["parse_states"]}
        name = parser["init_state"]
        error: str | int = "NoError"
        try:
            while name is not None:
                for operation in states[name]["parser_ops"]:
                    self.parser_operation(operation["op"], operation["parameters"])
                name = self.transition(states[name])
        except ParserError as problem:
            error = problem.args[0]
        self.set_metadata("parser_error", dict(self.program["errors"]).get(error, error))
        self.payload = packet[self.position // 8 :]
        self.verify_checksums()

    def parser_operation(self, op: str, a: list[Json]) -> None:
        if op in ("extract", "extract_VL"):
            self.extract(a[0]["type"], a[0]["value"], self.evaluate(a[1]) if a[1:] else 0)
        elif op == "advance":
            self.whole_bytes(self.evaluate(a[0]))
            self.bits(0, self.evaluate(a[0]))
            self.position += self.evaluate(a[0])
        elif op == "verify":
            if not self.evaluate(a[0]):
                raise ParserError(self.evaluate(a[1]))
        elif op == "primitive":
            self.primitive(a[0]["op"], a[0]["parameters"], [])
        else:
            self.primitive(op, a, [])

    def whole_bytes(self, bits: int) -> None:
        if bits % 8:
            raise ParserError("ParserInvalidArgument")

    def extract(self, kind: str, target: object, varbits: int) -> None:
        """Extract a header completely. If this is not possible, raise ParserError."""
        stack, member = "", ""
        if kind == "union_stack":
            stack, member = target
        elif kind == "stack":
            stack = str(target)
        header = str(target)
        if stack:
            index = self.parsed.next_index[stack]
            if index == len(self.columns(stack)[0]):
                raise ParserError("StackOutOfBounds")
            header = self.element(stack, index, member)
        self.whole_bytes(varbits)
        fixed = sum(f[1] for f in self.fields[header] if f[1] != "*")
        self.bits(0, fixed + varbits)
        if varbits and fixed + varbits > 8 * self.max_length(header):
            raise ParserError("HeaderTooShort")
        for name, width, *_ in self.fields[header]:
            if width == "*":
                self.parsed.values[header, name] = self.bits(0, varbits)
                self.parsed.varbits[header, name] = width = varbits
            else:
                self.write(header, name, self.bits(0, width))
            self.position += width
        self.set_valid(header, True)
        if stack:
            self.parsed.next_index[stack] += 1

    def max_length(self, header: str) -> int:
        types = {t["name"]: t for t in self.program["header_types"]}
        return int(types[self.headers[header]["header_type"]]["max_length"])

    def transition(self, state: Json) -> str | None:
        key = 0
        for item in state["transition_key"]:
            size = (self.key_width(item) + 7) // 8
            key = key << 8 * size | self.evaluate(item) & ((1 << 8 * size) - 1)
        for t in state["transitions"]:
            if t["type"] == "default":
                return t["next_state"]
            mask = -1 if t["mask"] is None else number(t["mask"])
            if t["type"] == "hexstr" and (key ^ number(t["value"])) & mask == 0:
                return t["next_state"]
        return None  # BMv2 accepts the packet

    def key_width(self, item: Json) -> int:
        if item["type"] == "lookahead":
            return int(item["value"][1])
        value = item["value"]
        if item["type"] == "field":
            return 1 if value[1] == "$valid$" else self.widths[tuple(value)]
        member = value[1] if item["type"] == "union_stack_field" else ""
        return self.widths[self.element(value[0], 0, member), value[-1]]

    def deparse(self) -> bytes:
        for check in self.program["checksums"]:
            if check["update"] and self.evaluate(check["if_cond"]):
                self.write(*check["target"], self.calculate(check["calculation"]))
        order = [h for h in self.program["deparsers"][0]["order"] if self.parsed.valid[h]]
        text = "".join(self.field_bits(h, f[0]) for h in order for f in self.fields[h])
        frame = int("0" + text, 2).to_bytes(len(text) // 8, "big") + self.payload
        return frame[: self.parsed.truncate_to]

    # -- calculations

    def verify_checksums(self) -> None:
        wrong = [
            self.calculate(check["calculation"]) != self.read(*check["target"])
            for check in self.program["checksums"]
            if check["verify"] and self.is_there(check["target"][0])
            and self.evaluate(check["if_cond"])
        ]  # fmt: skip
        self.set_metadata("checksum_error", int(any(wrong)))

    def is_there(self, header: str) -> bool:
        return self.headers[header]["metadata"] or self.parsed.valid[header]

    def calculate(self, name: str) -> int:
        """Return the result of a calculation over its fields; omit fields of invalid headers.

        If the bits do not fill the last byte, zeros pad it.
        """
        calculation = next(c for c in self.program["calculations"] if c["name"] == name)
        text = ""
        for item in calculation["input"]:
            if item["type"] == "hexstr":
                text += f"{number(item['value']):0{item['bitwidth']}b}"
            elif item["type"] == "payload":
                text += "0" * (-len(text) % 8) + "".join(f"{b:08b}" for b in self.payload)
            elif self.is_there(item["value"][0]):
                text += self.field_bits(*item["value"])
        text += "0" * (-len(text) % 8)
        return ALGORITHMS[calculation["algo"]](int("0" + text, 2).to_bytes(len(text) // 8, "big"))


HEADER_PRIMITIVES = {
    "assign_header": Interpreter.copy_header,
    "assign_header_stack": Interpreter.copy_stack,
    "assign_union": Interpreter.copy_union,
    "assign_union_stack": Interpreter.copy_stack,
    "add_header": Interpreter.add_header,
    "remove_header": Interpreter.remove_header,
}
