"""C code that loads headers from a frame, writes them back, and packs fields for hashes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from minip4.engine import model as m
from minip4.engine.codegen.layout import Layout
from minip4.engine.words import limbs
from minip4.wire.shared import FRAME_ROOM

Lines = list[str]


def bit_offsets(type_: m.HeaderType) -> dict[str, int]:
    """Return the bit offset of each field; preceding varbits count as empty."""
    offsets, at = {}, 0
    for field in type_.fields:
        offsets[field.name] = at
        at += 0 if field.varbit else field.width
    return offsets


def load_lines(name: str, at: str, offset: int, width: int) -> Lines:
    """Return statements that load the field `name` from `offset` bits (a constant) after `at`."""
    if width <= 64:
        return [f"{name} = load_bits({at}, {offset}, {width});"]
    lines = []
    for i in range(limbs(width)):
        end = offset + width - 64 * i
        start = max(offset, end - 64)
        lines.append(f"{name}[{i}] = load_bits({at}, {start}, {end - start});")
    return lines


def store_lines(value: str, at: str, offset: int, width: int) -> Lines:
    """Return statements that store a field, as the inverse of load_lines().

    Adjacent bits do not change.
    """
    if width <= 64:
        return [f"store_bits({at}, {offset}, {width}, {value});"]
    lines = []
    for i in range(limbs(width)):
        end = offset + width - 64 * i
        start = max(offset, end - 64)
        lines.append(f"store_bits({at}, {start}, {end - start}, {value}[{i}]);")
    return lines


def _indented(lines: Lines, depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines)


class HeaderCode:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def functions(self, type_: m.HeaderType) -> str:
        """Return the C functions load_, write_back_ and put_ of a header type."""
        name = self.layout.type_of(type_)
        head = f"struct {name} *x UNUSED, "
        return "\n".join(
            [
                self._function(f"void load_{name}({head}const uint8_t *at UNUSED, "
                               "uint32_t varbits UNUSED)", self._load(type_)),
                self._function(f"void write_back_{name}(const {head}uint8_t *at UNUSED)",
                               self._store(type_, only_written=True)),
                self._function(f"void put_{name}(const {head}uint8_t *at UNUSED)",
                               [f"memset(at, 0, {type_.fixed_bytes}{self._varbit_bytes(type_)});",
                                *self._store(type_, only_written=False)]),
            ]
        )  # fmt: skip

    def _function(self, head: str, lines: Lines) -> str:
        body = "\n".join(f"    {line}" for line in lines)
        return f"ALWAYS_INLINE {head}\n{{\n{body}\n}}\n"

    def _varbit_bytes(self, type_: m.HeaderType) -> str:
        varbit = type_.varbit
        return f" + x->{self.layout.member(type_, varbit)}_bits / 8" if varbit else ""

    def _load(self, type_: m.HeaderType) -> Lines:
        lines: Lines = []
        offsets = bit_offsets(type_)
        at = "at"
        for field in type_.fields:
            name = f"x->{self.layout.member(type_, field)}"
            if field.varbit:
                first = offsets[field.name] // 8
                lines.append(f"{name}_bits = varbits;")
                lines.append(f"memcpy({name}, at + {first}, varbits / 8);")
                at = "(at + varbits / 8)"
            elif self.layout.is_kept(type_, field):
                lines += load_lines(name, at, offsets[field.name], field.width)
        return lines

    def _store(self, type_: m.HeaderType, *, only_written: bool) -> Lines:
        lines: Lines = []
        offsets = bit_offsets(type_)
        at = "at"
        for field in type_.fields:
            name = f"x->{self.layout.member(type_, field)}"
            wanted = self.layout.is_written if only_written else self.layout.is_kept
            if field.varbit:
                first = offsets[field.name] // 8
                # the bytes of an assigned varbit are not in the packet, see assign_varbit
                if not only_written:
                    lines.append(f"memcpy(at + {first}, {name}, {name}_bits / 8);")
                at = f"(at + {name}_bits / 8)"
            elif wanted(type_, field):
                lines += store_lines(name, at, offsets[field.name], field.width)
        return lines

    # --- deparser --------------------------------------------------------------------------

    def _size(self, header: m.Header) -> str:
        size, varbit = f"{header.type.fixed_bytes}u", header.type.varbit
        if varbit is None:
            return size
        name = f"{self.layout.place(header).pointer}->{self.layout.member(header.type, varbit)}"
        return f"({size} + {name}_bits / 8)"

    def _add_size(self, header: m.Header) -> Lines:
        raw = f"h->raw[{self.layout.place(header).number}]"
        return [f"in_place &= {raw} == start + size; size += {self._size(header)};"]

    def _write_back(self, header: m.Header) -> Lines:
        place, type_ = self.layout.place(header), self.layout.type_of(header.type)
        return [f"write_back_{type_}({place.pointer}, buffer + h->raw[{place.number}]);"]

    def _put(self, header: m.Header) -> Lines:
        if header.type.fixed_bytes > FRAME_ROOM:
            return []  # a packet with this header is dropped earlier
        place, type_ = self.layout.place(header), self.layout.type_of(header.type)
        return [
            f"if (h->raw[{place.number}]) {{",
            f"    memcpy(out, buffer + h->raw[{place.number}], {self._size(header)});",
            f"    write_back_{type_}({place.pointer}, out);",
            f"}} else put_{type_}({place.pointer}, out);",
            f"out += {self._size(header)};",
        ]

    def _of_valid(self, order: tuple[m.Header, ...], code: Callable[[m.Header], Lines]) -> Lines:
        """Return C code that runs for each valid header."""
        lines: Lines = []
        numbered = [(self.layout.place(header).number, header) for header in order]
        for eight, group in groupby(numbered, lambda each: int(each[0]) // 8):
            asked: Lines = []
            for number, header in group:
                asked += [f"if (h->valid[{number}]) {{",
                          *(f"    {line}" for line in code(header)), "}"]  # fmt: skip
            if not self.layout.asks_eight:
                return asked
            lines += [
                f"if (any_valid(h->valid + {8 * eight})) {{",
                *(f"    {line}" for line in asked),
                "}",
            ]
        return lines

    def deparser(
        self, order: tuple[m.Header, ...], before: Lines, name: str = "deparse", skip: int = 0
    ) -> str:
        """Return the deparser.

        If all headers are at their original positions, only the changed fields are written. The
        original positions begin `skip` bytes after the start of the frame.
        """
        plus = f" + {skip}u" if skip else ""
        removed = (
            f"""
        c->packet->data += {skip};
        c->packet->length -= {skip};"""
            if skip
            else ""
        )
        sizes = self._of_valid(order, self._add_size)
        back = self._of_valid(order, self._write_back)
        put = self._of_valid(order, self._put)
        checks = "".join(f"    {line}\n" for line in before)
        return f"""
static bool program_{name}(struct context *c)
{{
    struct phv *h = (struct phv *)c->packet->phv;
    uint8_t *buffer = c->packet->buffer;
    uint32_t start = (uint32_t)(c->packet->data - buffer){plus}, size = 0;
    bool in_place = true;
{checks}{_indented(sizes, 1)}
    if (in_place && size{plus} == h->start.payload) {{
{_indented(back, 2)}{removed}
        return true;
    }}
    if (size{plus} >= start + h->start.payload)
        return false;
    uint8_t scratch[PACKET_ROOM + PACKET_MAX_FRAME], *out = scratch; /* start + payload at most */
{_indented(put, 1)}
    c->packet->data += (int64_t)h->start.payload - size;
    c->packet->length += size - h->start.payload;
    memcpy(c->packet->data, scratch, (size_t)(out - scratch));
    return true;
}}
"""
