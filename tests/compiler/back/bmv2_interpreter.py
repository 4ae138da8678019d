"""A plain interpreter of BMv2 JSON, to see what compiled programs do to packets.

Written from docs/JSON_format.md, for tests only: one packet in, at most one out. Values are
Python ints of unlimited size and bools, as BMv2 has them; mixing them up is an AssertionError.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
DROP_PORT = 511


class ParserError(Exception):
    """Carries the name or the number of the error."""


def number(text: str) -> int:
    return -int(text[1:], 16) if text.startswith("-") else int(text, 16)


def fold_checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Interpreter:
    def __init__(self, program: Json) -> None:
        self.program = program
        types = {t["name"]: t["fields"] for t in program["header_types"]}
        self.headers = {h["name"]: h for h in program["headers"]}
        self.fields = {name: types[h["header_type"]] for name, h in self.headers.items()}
        self.widths = {(h, f[0]): f[1] for h, fs in self.fields.items() for f in fs}
        self.signed = {(h, f[0]) for h, fs in self.fields.items() for f in fs if f[2:] == [True]}
        by_id = {h["id"]: h["name"] for h in program["headers"]}
        self.stacks = {
            s["name"]: [by_id[i] for i in s["header_ids"]] for s in program["header_stacks"]
        }
        self.unions = [[by_id[i] for i in u["header_ids"]] for u in program["header_unions"]]
        self.actions = {a["id"]: a for a in program["actions"]}
        self.nodes = {
            node["name"]: node
            for pipeline in program["pipelines"]
            for node in pipeline["tables"] + pipeline["conditionals"]
        }
        self.entries: dict[str, list[tuple[list[int], int, list[int]]]] = {}
        self.registers = {r["name"]: [0] * r["size"] for r in program["register_arrays"]}
        self.log: list[tuple[str, list[Any]]] = []  # primitives that leave the data plane

    def add(self, table: str, keys: list[int], action: str, *data: int) -> None:
        """An exact entry."""
        ids = dict(zip(*(self.nodes[table][k] for k in ("actions", "action_ids")), strict=True))
        self.entries.setdefault(table, []).append((keys, ids[action], list(data)))

    def run(self, packet: bytes, port: int = 1) -> tuple[int, bytes] | None:
        """(port, packet) that comes out; None if it was dropped."""
        self.values = dict.fromkeys(self.widths, 0)
        self.varbits: dict[tuple[str, str], int] = {}
        self.valid = dict.fromkeys(self.headers, False)
        self.next_index = dict.fromkeys(self.stacks, 0)
        self.exited = False
        self.values["standard_metadata", "ingress_port"] = port
        self.parse(packet)
        for check in self.program["checksums"]:
            if check["verify"] and self.evaluate(check["if_cond"]):
                wrong = self.calculate(check["calculation"]) != self.read(*check["target"])
                self.write("standard_metadata", "checksum_error", int(wrong))
        self.pipeline(self.program["pipelines"][0])
        egress_port = self.read("standard_metadata", "egress_spec")
        if egress_port == DROP_PORT:
            return None
        self.exited = False
        self.pipeline(self.program["pipelines"][1])
        for check in self.program["checksums"]:
            if check["update"] and self.evaluate(check["if_cond"]):
                self.write(*check["target"], self.calculate(check["calculation"]))
        return egress_port, self.deparse()

    # -- storage

    def read(self, header: str, name: str) -> int:
        return int(self.valid[header]) if name == "$valid$" else self.values[header, name]

    def write(self, header: str, name: str, value: int) -> None:
        width = self.widths[header, name]
        value &= (1 << width) - 1
        if (header, name) in self.signed and value >> (width - 1):
            value -= 1 << width
        self.values[header, name] = value

    def set_valid(self, header: str, valid: bool) -> None:
        for members in self.unions:
            if valid and header in members:
                self.valid.update(dict.fromkeys(members, False))
        self.valid[header] = valid

    def copy_header(self, target: str, source: str) -> None:
        self.set_valid(target, self.valid[source])
        for name, *_ in self.fields[target]:
            self.values[target, name] = self.values[source, name]
            self.varbits[target, name] = self.varbits.get((source, name), 0)

    def width(self, header: str, name: str) -> int:
        width = self.widths[header, name]
        return self.varbits.get((header, name), 0) if width == "*" else width

    # -- expressions

    def evaluate(self, e: Json, data: list[int] | None = None) -> Any:
        kind, value = e["type"], e["value"]
        if kind == "hexstr":
            return number(value)
        if kind in ("bool", "string"):
            return value
        if kind == "field":
            return self.read(*value)
        if kind in ("local", "runtime_data"):
            assert data is not None
            return data[value]
        if kind == "stack_field":
            last = self.stacks[value[0]][self.next_index[value[0]] - 1]
            return self.read(last, value[1])
        if kind == "lookahead":
            return self.bits(*value)
        if kind == "parameters_vector":
            return [self.evaluate(item, data) for item in value]
        if kind != "expression":
            return value
        if "op" not in value:
            return self.evaluate(value, data)
        return self.operation(value, data)

    def operation(self, e: Json, data: list[int] | None) -> Any:
        op = e["op"]
        if op == "?":
            chosen = self.evaluate(e["cond"], data)
            assert isinstance(chosen, bool)
            return self.evaluate(e["left"] if chosen else e["right"], data)
        if op == "last_stack_index":
            return self.next_index[e["right"]["value"]] - 1
        right = self.evaluate(e["right"], data)
        if op in ("d2b", "~"):
            assert not isinstance(right, bool)
            return right != 0 if op == "d2b" else ~right
        if op in ("b2d", "not"):
            assert isinstance(right, bool)
            return int(right) if op == "b2d" else not right
        left = self.evaluate(e["left"], data)
        assert isinstance(left, bool) == isinstance(right, bool), e
        if op in ("and", "or"):
            return left and right if op == "and" else left or right
        if op in ("==", "!="):
            return (left == right) == (op == "==")
        assert not isinstance(left, bool)
        if op == "usat_cast":
            return max(0, min(left, (1 << right) - 1))
        if op == "sat_cast":
            return max(-1 << (right - 1), min(left, (1 << (right - 1)) - 1))
        if op == "two_comp_mod":
            low = left & ((1 << right) - 1)
            return low - (1 << right) if low >> (right - 1) else low
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "&": lambda: left & right,
            "|": lambda: left | right,
            "^": lambda: left ^ right,
            "<<": lambda: left << right,
            ">>": lambda: left >> right,
            "<": lambda: left < right,
            "<=": lambda: left <= right,
            ">": lambda: left > right,
            ">=": lambda: left >= right,
        }[op]()

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
            self.write(*names[0], value)
        elif op == "assign_VL":
            self.values[tuple(names[0])] = self.values[tuple(names[1])]
            self.varbits[tuple(names[0])] = self.varbits.get(tuple(names[1]), 0)
        elif op == "assign_header":
            self.copy_header(*names)
        elif op == "assign_header_stack":
            for target, source in zip(*(self.stacks[n] for n in names), strict=True):
                self.copy_header(target, source)
        elif op in ("add_header", "remove_header"):
            self.set_valid(names[0], op == "add_header")
        elif op in ("push", "pop"):
            self.shift_stack(
                self.stacks[names[0]], self.evaluate(a[1]) * (1 if op == "push" else -1)
            )
        elif op == "exit":
            self.exited = True
        elif op == "mark_to_drop":
            self.write("standard_metadata", "egress_spec", DROP_PORT)
        elif op == "register_read":
            self.write(*names[0], self.registers[names[1]][self.evaluate(a[2], data)])
        elif op == "register_write":
            self.registers[names[0]][self.evaluate(a[1], data)] = self.evaluate(a[2], data)
        elif op == "modify_field_with_hash_based_offset":
            base, size = self.evaluate(a[1], data), self.evaluate(a[3], data)
            self.write(*names[0], base + self.calculate(names[2]) % size)
        else:
            self.log.append((op, [self.evaluate(x, data) for x in a]))

    def shift_stack(self, stack: list[str], count: int) -> None:
        indexes = range(len(stack))
        for i in reversed(indexes) if count > 0 else indexes:
            if i - count in indexes:
                self.copy_header(stack[i], stack[i - count])
            else:
                self.valid[stack[i]] = False

    # -- pipelines

    def pipeline(self, pipeline: Json) -> None:
        name = pipeline["init_table"]
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
        """Applies the table; the name of the next node."""
        keys = [self.read(*key["target"]) for key in table["key"]]
        found = next((e for e in self.entries.get(table["name"], []) if e[0] == keys), None)
        if found is None:
            default = table["default_entry"]
            action_id, data = default["action_id"], [number(v) for v in default["action_data"]]
        else:
            _, action_id, data = found
        self.action(action_id, data)
        following = table["next_tables"]
        if "__HIT__" in following or "__MISS__" in following:
            return following["__MISS__" if found is None else "__HIT__"]
        return following[self.actions[action_id]["name"]]

    # -- packets

    def bits(self, offset: int, width: int) -> int:
        if self.position + offset + width > len(self.packet):
            raise ParserError("PacketTooShort")
        return int(self.packet[self.position + offset :][:width] or "0", 2)

    def parse(self, packet: bytes) -> None:
        self.packet = "".join(f"{byte:08b}" for byte in packet)
        self.position = 0
        states = {s["name"]: s for s in self.program["parsers"][0]["parse_states"]}
        name = "start"
        try:
            while name is not None:
                for operation in states[name]["parser_ops"]:
                    self.parser_operation(operation["op"], operation["parameters"])
                name = self.transition(states[name])
        except ParserError as error:
            code = dict(self.program["errors"]).get(error.args[0], error.args[0])
            self.write("standard_metadata", "parser_error", code)
        self.payload = packet[self.position // 8 :]

    def parser_operation(self, op: str, a: list[Json]) -> None:
        if op in ("extract", "extract_VL"):
            self.extract(a[0]["type"], a[0]["value"], self.evaluate(a[1]) if a[1:] else 0)
        elif op == "advance":
            self.bits(0, self.evaluate(a[0]))
            self.position += self.evaluate(a[0])
        elif op == "verify":
            if not self.evaluate(a[0]):
                raise ParserError(self.evaluate(a[1]))
        elif op == "primitive":
            self.primitive(a[0]["op"], a[0]["parameters"], [])
        else:
            self.primitive(op, a, [])

    def extract(self, kind: str, header: str, varbit_width: int) -> None:
        if kind == "stack":
            stack = header
            if self.next_index[stack] == len(self.stacks[stack]):
                raise ParserError("StackOutOfBounds")
            header = self.stacks[stack][self.next_index[stack]]
            self.next_index[stack] += 1
        for name, width, *_ in self.fields[header]:
            if width == "*":
                self.values[header, name] = self.bits(0, varbit_width)
                self.varbits[header, name] = width = varbit_width
            else:
                self.write(header, name, self.bits(0, width))
            self.position += width
        self.set_valid(header, True)

    def transition(self, state: Json) -> str | None:
        key = 0
        for item in state["transition_key"]:
            header, name = item["value"]
            header = self.stacks[header][0] if item["type"] == "stack_field" else header
            size = (self.widths[header, name] + 7) // 8
            key = key << 8 * size | self.evaluate(item) & ((1 << 8 * size) - 1)
        for t in state["transitions"]:
            if t["type"] == "default":
                return t["next_state"]
            mask = -1 if t["mask"] is None else number(t["mask"])
            if t["type"] == "hexstr" and (key ^ number(t["value"])) & mask == 0:
                return t["next_state"]
        return None  # BMv2 accepts

    def field_bits(self, header: str, name: str) -> str:
        width = self.width(header, name)
        value = self.values[header, name] & ((1 << width) - 1)
        return f"{value:0{width}b}" if width else ""

    def deparse(self) -> bytes:
        order = [h for h in self.program["deparsers"][0]["order"] if self.valid[h]]
        text = "".join(self.field_bits(h, f[0]) for h in order for f in self.fields[h])
        return int("0" + text, 2).to_bytes(len(text) // 8, "big") + self.payload

    def calculate(self, name: str) -> int:
        calculation = next(c for c in self.program["calculations"] if c["name"] == name)
        text = ""
        for item in calculation["input"]:
            if item["type"] == "hexstr":
                text += f"{number(item['value']):0{item['bitwidth']}b}"
            else:
                text += self.field_bits(*item["value"])
        data = int("0" + text, 2).to_bytes((len(text) + 7) // 8, "big")
        if calculation["algo"] == "csum16":
            return fold_checksum(data)
        assert calculation["algo"] == "identity"
        return int.from_bytes(data[:8], "big")
