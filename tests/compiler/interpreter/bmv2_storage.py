"""State of a packet in BMv2: headers, metadata, stacks and unions, as in the JSON."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Name = tuple[str, str]  # header, field


@dataclass
class Parsed:
    """Values of one packet.

    `varbits` are the lengths of varbit fields in bits. `length` is the packet length as BMv2 counts
    it.
    """

    values: dict[Name, int]
    valid: dict[str, bool]
    next_index: dict[str, int]
    varbits: dict[Name, int] = field(default_factory=dict)
    length: int = 0
    truncate_to: int | None = None


class Storage:
    """The layout of a program's packets, and the current packet."""

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
        self.unions = {u["name"]: [by_id[i] for i in u["header_ids"]]
                       for u in program["header_unions"]}  # fmt: skip
        unions = {u["id"]: u["name"] for u in program["header_unions"]}
        self.union_stacks = {s["name"]: [unions[i] for i in s["header_union_ids"]]
                             for s in program["header_union_stacks"]}  # fmt: skip
        self.clear()

    def clear(self) -> None:
        """Reset all values for a new packet."""
        self.parsed = Parsed(
            dict.fromkeys(self.widths, 0),
            dict.fromkeys(self.headers, False),
            dict.fromkeys([*self.stacks, *self.union_stacks], 0),
        )

    def clear_metadata(self, kept: list[Name]) -> None:
        """Set all metadata fields to zero, except the given fields."""
        for name in self.widths:
            if self.headers[name[0]]["metadata"] and name not in kept:
                self.parsed.values[name] = 0

    def copied(self) -> Parsed:
        return copy.deepcopy(self.parsed)

    # -- fields

    def read(self, header: str, name: str) -> int:
        if name == "$valid$":
            return int(self.parsed.valid[header])
        return self.parsed.values[header, name]

    def write(self, header: str, name: str, value: int) -> None:
        width = self.widths[header, name]
        value &= (1 << width) - 1
        if (header, name) in self.signed and value >> (width - 1):
            value -= 1 << width
        self.parsed.values[header, name] = value

    def set_metadata(self, name: str, value: int) -> None:
        """Set a field of standard_metadata, if the program has it."""
        if ("standard_metadata", name) in self.widths:
            self.write("standard_metadata", name, value)

    def assign_varbit(self, target: Name, source: Name) -> None:
        self.parsed.values[target] = self.parsed.values[source]
        self.parsed.varbits[target] = self.parsed.varbits.get(source, 0)

    def width(self, header: str, name: str) -> int:
        width = self.widths[header, name]
        return self.parsed.varbits.get((header, name), 0) if width == "*" else int(width)

    def field_bits(self, header: str, name: str) -> str:
        width = self.width(header, name)
        value = self.parsed.values[header, name] & ((1 << width) - 1)
        return f"{value:0{width}b}" if width else ""

    # -- headers

    def bytes_of(self, header: str) -> int:
        return sum(self.width(header, f[0]) for f in self.fields[header]) // 8

    def set_valid(self, header: str, valid: bool) -> None:
        for members in self.unions.values():
            if valid and header in members:
                self.parsed.valid.update(dict.fromkeys(members, False))
        self.parsed.valid[header] = valid

    def add_header(self, header: str) -> None:
        """Make a header valid. If it was invalid before, set its fields to zero."""
        if self.parsed.valid[header]:
            return
        for name, *_ in self.fields[header]:
            self.parsed.values[header, name] = self.parsed.varbits[header, name] = 0
        self.parsed.length += self.bytes_of(header)
        self.set_valid(header, True)

    def remove_header(self, header: str) -> None:
        if self.parsed.valid[header]:
            self.parsed.length -= self.bytes_of(header)
            self.parsed.valid[header] = False

    def copy_header(self, target: str, source: str) -> None:
        if not self.parsed.valid[source]:
            self.parsed.valid[target] = False
            return
        self.set_valid(target, True)
        for name, *_ in self.fields[target]:
            self.assign_varbit((target, name), (source, name))

    def same_headers(self, a: str, b: str) -> bool:
        """Compare headers as BMv2 does: both must be valid, and all fields must be equal."""
        return self.parsed.valid[a] and self.parsed.valid[b] and all(
            self.field_bits(a, name) == self.field_bits(b, name) for name, *_ in self.fields[a]
        )  # fmt: skip

    def copy_union(self, target: str, source: str) -> None:
        for a, b in zip(self.unions[target], self.unions[source], strict=True):
            if not self.parsed.valid[b]:
                self.parsed.valid[a] = False
        for a, b in zip(self.unions[target], self.unions[source], strict=True):
            if self.parsed.valid[b]:
                self.copy_header(a, b)

    # -- stacks

    def columns(self, stack: str) -> list[list[str]]:
        """Return a list of the headers of a stack.

        For a stack of unions, return one such list per member of the union.
        """
        if stack in self.stacks:
            return [self.stacks[stack]]
        members = [self.unions[u] for u in self.union_stacks[stack]]
        return [list(column) for column in zip(*members, strict=True)]

    def shift_stack(self, stack: str, count: int) -> None:
        """Execute push_front, or pop_front if the count is negative (P4-16, 8.18)."""
        size = len(self.columns(stack)[0])
        self.parsed.next_index[stack] = max(0, min(size, self.parsed.next_index[stack] + count))
        before = self.copied()
        for column in self.columns(stack):
            for i, header in enumerate(column):
                self.parsed.valid[header] = False
                if 0 <= i - count < size:
                    self._restore(header, column[i - count], before)

    def _restore(self, header: str, source: str, before: Parsed) -> None:
        self.parsed.valid[header] = before.valid[source]
        for name, *_ in self.fields[header]:
            self.parsed.values[header, name] = before.values[source, name]
            self.parsed.varbits[header, name] = before.varbits.get((source, name), 0)

    def copy_stack(self, target: str, source: str) -> None:
        self.parsed.next_index[target] = self.parsed.next_index[source]
        if target in self.stacks:
            for a, b in zip(self.stacks[target], self.stacks[source], strict=True):
                self.copy_header(a, b)
        else:
            for a, b in zip(self.union_stacks[target], self.union_stacks[source], strict=True):
                self.copy_union(a, b)

    def last(self, stack: str, member: str = "") -> str:
        """Return the header that was extracted last."""
        return self.element(stack, self.parsed.next_index[stack] - 1, member)

    def element(self, stack: str, index: int, member: str = "") -> str:
        if stack in self.stacks:
            return self.stacks[stack][index]
        union = self.union_stacks[stack][index]
        type_of = {u["name"]: u["union_type"] for u in self.program["header_unions"]}
        types = {t["name"]: t["headers"] for t in self.program["header_union_types"]}
        names = [name for name, _ in types[type_of[union]]]
        return self.unions[union][names.index(member)]
