"""Expressions of BMv2 JSON. Their values are ints of unlimited size, or bools; never a mixture."""

from __future__ import annotations

from typing import Any

from bmv2_storage import Json, Storage
from bmv2_tables import number

Variables = list[int] | None


class ParserError(Exception):
    """An error of the parser. Its text is the name or the number of the error."""


def is_access(e: Json) -> bool:
    """Return whether an expression selects a field of a header."""
    while e["type"] == "expression" and "op" not in e["value"]:
        e = e["value"]
    return e["type"] == "expression" and e["value"]["op"] == "access_field"


class Expressions(Storage):
    packet = ""  # bits
    position = 0

    def evaluate(self, e: Json, data: Variables = None) -> Any:
        kind, value = e["type"], e["value"]
        if kind == "hexstr":
            return number(value)
        if kind in ("bool", "string"):
            return value
        if kind in ("field", "stack_field", "union_stack_field") or is_access(e):
            return self.read(*self.field(e))
        if kind in ("local", "runtime_data"):
            assert data is not None
            return data[value]
        if kind == "lookahead":
            return self.bits(*value)
        if kind == "parameters_vector":
            return [self.evaluate(item, data) for item in value]
        if kind != "expression":
            return value
        if "op" not in value:
            return self.evaluate(value, data)
        return self.operation(value, data)

    def field(self, e: Json) -> tuple[str, str]:
        """Return the header and the field of a reference."""
        if e["type"] == "stack_field":
            return self.last(e["value"][0]), e["value"][1]
        if e["type"] == "union_stack_field":
            stack, member, name = e["value"]
            return self.last(stack, member), name
        if e["type"] == "expression":
            while "op" not in e["value"]:
                e = e["value"]
            header = self.header(e["value"]["left"])
            return header, self.fields[header][e["value"]["right"]][0]
        header, name = e["value"]
        return header, name

    def header(self, e: Json) -> str:
        """Return the header that an expression refers to.

        If the index of a stack is known only at run time, p4c writes an expression for it.
        """
        if e["type"] == "header":
            return str(e["value"])
        operation = e["value"]
        if "op" not in operation:
            return self.header(operation)
        assert operation["op"] == "dereference_header_stack"
        return self.stacks[operation["left"]["value"]][self.evaluate(operation["right"])]

    def bits(self, offset: int, width: int) -> int:
        """Return `width` bits of the packet, `offset` bits after its extracted part."""
        if self.position + offset + width > len(self.packet):
            raise ParserError("PacketTooShort")
        return int(self.packet[self.position + offset :][:width] or "0", 2)

    def operation(self, e: Json, data: Variables) -> Any:
        op = e["op"]
        if op == "?":
            chosen = self.evaluate(e["cond"], data)
            assert isinstance(chosen, bool)
            return self.evaluate(e["left"] if chosen else e["right"], data)
        if op == "last_stack_index":
            return self.parsed.next_index[e["right"]["value"]] - 1
        if op in ("==", "!=") and self.is_whole(e["left"]):
            return self.compare_whole(e["left"], e["right"]) == (op == "==")
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
        return self.arithmetic(op, left, right)

    def is_whole(self, e: Json) -> bool:
        """Return whether an expression is a header or a varbit field.

        Two headers, or two varbit fields, are compared by their bits.
        """
        return e["type"] == "header" or (
            e["type"] == "field" and self.widths.get(tuple(e["value"])) == "*"
        )

    def compare_whole(self, left: Json, right: Json) -> bool:
        if left["type"] == "header":
            return self.same_headers(left["value"], right["value"])
        return self.field_bits(*left["value"]) == self.field_bits(*right["value"])

    def arithmetic(self, op: str, left: int, right: int) -> Any:
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
