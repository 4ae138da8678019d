"""Trace of packets as text.

Each packet becomes one block, built from the events of trace.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from minip4.engine import model as m
from minip4.engine.codegen.headers import bit_offsets
from minip4.engine.codegen.tables import TERNARY
from minip4.engine.control.core import Core
from minip4.engine.control.tables import decoded_key
from minip4.engine.errors import InvalidArgument
from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary
from minip4.engine.words import limbs, param_words

BUFFER_WORDS = 1 << 16  # as in trace.c
MAX_OPEN = 4096
"""Limit of unfinished packets.

Above this limit, the trace of the oldest packet is written, although this packet is unfinished.
"""

INSTANCES = {1: "ingress clone", 2: "egress clone", 4: "recirculated", 5: "multicast",
             6: "resubmitted"}  # fmt: skip
PIPELINES = ("ingress", "egress", "deparser")
DROPS = (
    "ingress: the program dropped it",
    "miss: a table's default action dropped it",
    "no_group: its multicast group has no ports",
    "egress: the program dropped it",
    "no_port: the switch has no such port, or it is down",
    "no_queue: its priority is above those of the switch",
    "queue: the queue was full",
    "again: too many packets wait to be parsed again",
    "memory: no buffer for a copy",
    "headers: no room for its headers",
)  # in the order of enum drop_reason
COLOURS = ("green", "yellow", "red")
DIRECT = 2**64 - 1  # TRACE_DIRECT in trace.h, used as an index
OUT_OF_BOUNDS = "out of bounds"
ENTRY_KINDS = ("", "member", "group")


@dataclass(slots=True)
class _Event:
    packet: int
    number: int
    port: int
    time_ns: int
    words: Sequence[int]


@dataclass(slots=True)
class _Block:
    title: str
    lines: list[str] = field(default_factory=list)

    def text(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in self.lines)])


class Trace:
    """Reader of the trace of an engine with trace=True. Raises InvalidArgument."""

    def __init__(self, engine: Core) -> None:
        if not engine.generator.trace:
            raise InvalidArgument("the engine was built without trace")
        self._engine = engine
        self._program = engine.program
        self._generator = engine.generator
        self._open: dict[int, _Block] = {}
        self._words = (ctypes.c_uint64 * BUFFER_WORDS)()
        self._left_out = (ctypes.c_uint64 * 2)()
        self._told_left_out = (0, 0)
        self._states = [state for p in self._program.parsers for state in p.states.values()]
        self._extracts: dict[int, Iterator[m.ParserOp]] = {}  # of the current state, per packet
        self._tables = list(self._program.tables.values())
        self._registers = list(self._program.registers.values())
        self._counters = list(self._program.counters.values())
        self._meters = list(self._program.meters.values())
        self._errors = {number: name for name, number in self._program.errors.items()}
        self._digests = {d.id: d.name for d in self._program.digests.values()}
        layout = self._generator.layout
        self._headers = {layout.numbers[id(h)]: h for h in self._program.headers.values()
                         if not h.metadata}  # fmt: skip

    def blocks(self) -> Iterator[str]:
        """Yield a block for each packet finished since the last call, and for omitted events."""
        with self._engine.locked():
            count = self._engine.library.engine_trace_read(
                self._engine.handle, self._words, BUFFER_WORDS, self._left_out
            )
        data = self._words[:count]
        at = 0
        while at < count:
            size = data[at] >> 32 & 0xFFFFFF
            event = _Event(data[at] & 0xFFFFFFFF, data[at + 1] >> 32, data[at + 1] & 0xFFFF,
                           data[at + 2], data[at + 3 : at + 3 + size])  # fmt: skip
            yield from self._take(data[at] >> 56, event)
            at += 3 + size
        packets, events = (int(n) for n in self._left_out)
        new = packets - self._told_left_out[0], events - self._told_left_out[1]
        self._told_left_out = packets, events
        if any(new):
            yield f"too fast to trace all: {new[0]} packets and {new[1]} events omitted"

    def unfinished(self) -> Iterator[str]:
        """Yield blocks of the packets that are still in the switch."""
        blocks, self._open = self._open, {}
        for block in blocks.values():
            block.lines.append("... still in the switch")
            yield block.text()

    def _take(self, kind: int, event: _Event) -> Iterator[str]:
        describe, is_end = _KINDS[kind]
        lines = describe(self, event)
        block = self._open.get(event.packet)
        if block is None:
            self._open[event.packet] = block = _Block(lines[0])
            lines = lines[1:]
        block.lines += lines
        if is_end:
            yield self._open.pop(event.packet).text()
        elif len(self._open) > MAX_OPEN:
            oldest = self._open.pop(next(iter(self._open)))
            oldest.lines.append("... truncated")
            yield oldest.text()

    # --- events: each becomes lines; the first line may become the title of the block -------------

    def _in(self, e: _Event) -> list[str]:
        return [f"packet {e.packet}: in at port {e.port}, {e.number} bytes, {_time(e.time_ns)}"]

    def _copy(self, e: _Event) -> list[str]:
        kind = INSTANCES[e.words[0]]
        return [f"packet {e.packet}: copy of packet {e.number} ({kind}) to port {e.port}, "
                f"replica {e.words[1]}, {_time(e.time_ns)}"]  # fmt: skip

    def _state(self, e: _Event) -> list[str]:
        state = self._states[e.number]
        self._extracts[e.packet] = (op for op in state.ops if op.op.startswith("extract"))
        return [f"parser state {state.name}{_at(_place(state.ops[0].where)) if state.ops else ''}"]

    def _extract(self, e: _Event) -> list[str]:
        offset, size, *words = e.words
        data = b"".join(word.to_bytes(8, "little") for word in words)[:size]
        header = self._headers.get(e.number)
        name = header.name if header else f"header {e.number}"
        values = _fields(header.type, data) if header else data.hex()
        op = next(self._extracts.get(e.packet, iter(())), None)
        at = _at(_place(op.where)) if op else ""
        return [f"  extract {name}, {size} bytes at {offset}: {values}{at}"]

    def _parsed(self, e: _Event) -> list[str]:
        self._extracts.pop(e.packet, None)
        error = self._errors.get(e.number, str(e.number))
        return [] if error == "NoError" else [f"  parser error {error}"]

    def _pipeline(self, e: _Event) -> list[str]:
        return [PIPELINES[e.number]]

    def _condition(self, e: _Event) -> list[str]:
        node = self._generator.tables.conditions[e.number]
        place, _, text = node.where.rpartition(": ")
        result = "true" if e.words[0] else "false"
        return [f"  if {text or node.name}: {result}{_at(place)}"]

    def _table(self, e: _Event) -> list[str]:
        table = self._tables[e.number]
        is_hit, count, handle, priority, *words = e.words
        layout = self._generator.tables.layouts[table.name]
        key = ", ".join(
            f"{k.name}={_value(v, k.width)}"
            for k, v in zip(table.key, layout.key.values(words[:count]), strict=True)
        ) if table.key else ""  # fmt: skip
        place = table.where.rpartition(": ")[0]
        line = f"  table {table.name} ({key}): {'hit' if is_hit else 'miss'}"
        if is_hit:
            line += self._entry(table, words[count:], handle, _signed(priority))
        return [line + _at(place)]

    def _entry(self, table: m.Table, slot: Sequence[int], handle: int, priority: int) -> str:
        match = ", ".join(
            _match(k, field) for k, field in zip(
                decoded_key(table, self._generator.tables.layouts[table.name], slot),
                table.key, strict=True)
        )  # fmt: skip
        kind = ENTRY_KINDS[slot[0] >> 32 & 3]
        layout = self._generator.tables.layouts[table.name]
        place = f"handle {handle}" + (f", priority {priority}" if layout.kind == TERNARY else "")
        return f" {match} [{place}]" + (f" -> {kind} {slot[0] & 0xFFFFFFFF}" if kind else "")

    def _action(self, e: _Event) -> list[str]:
        action = self._program.actions[e.number]
        where = action.primitives[0].where if action.primitives else ""
        place, _, text = where.rpartition(": ")
        if action.id in self._statements:
            return [f"  {text or action.name}{_at(place)}"]
        params = ", ".join(
            f"{p.name}={_value(_joined(e.words[at : at + limbs(p.width)]), p.width)}"
            for p, at in zip(action.params, param_words(action), strict=True)
        )
        return [f"  action {action.name}({params}){_at(place)}"]

    @property
    def _statements(self) -> set[int]:
        """Return the actions of hidden tables. They are statements in the body of a control."""
        return {t.default_action.id for t in self._tables if t.is_hidden and t.default_action}

    def _read(self, e: _Event) -> list[str]:
        return self._register(e, "read")

    def _write(self, e: _Event) -> list[str]:
        return self._register(e, "written")

    def _register(self, e: _Event, what: str) -> list[str]:
        register = self._registers[e.number]
        value = e.words[1:]
        text = _value(_joined(value), register.width) if value else OUT_OF_BOUNDS
        return [f"    register {register.name}{_index(e)} {what}: {text}"]

    def _count(self, e: _Event) -> list[str]:
        text = f"{e.words[1]} packets, {e.words[2]} bytes" if e.words[1:] else OUT_OF_BOUNDS
        return [f"    counter {self._counters[e.number].name}{_index(e)}: {text}"]

    def _meter(self, e: _Event) -> list[str]:
        text = COLOURS[e.words[1]] if e.words[1:] else OUT_OF_BOUNDS
        return [f"    meter {self._meters[e.number].name}{_index(e)}: {text}"]

    def _field(self, e: _Event) -> list[str]:
        header, field = self._generator.trace_fields[e.number]
        half = len(e.words) // 2
        old, new = (_value(_joined(w), field.width) for w in (e.words[:half], e.words[half:]))
        return [f"    {_name(header, field)}: {old} -> {new}"]

    def _valid(self, e: _Event) -> list[str]:
        header = self._headers.get(e.number)
        if header is None:  # the spare element of a stack
            return []
        return [f"    {header.name}: {'valid' if e.words[1] else 'invalid'}"]

    def _digest(self, e: _Event) -> list[str]:
        return [f"digest {self._digests.get(e.number, e.number)}"]

    def _clone(self, e: _Event) -> list[str]:
        return [f"cloned to session {e.number}: {e.words[0]} copies"]

    def _multicast(self, e: _Event) -> list[str]:
        return [f"multicast to group {e.number}: {e.words[0]} copies"]

    def _enqueue(self, e: _Event) -> list[str]:
        return [f"queue {e.number} of port {e.port}: {e.words[0]} packets, {e.words[1]} bytes "
                f"before it, {_time(e.time_ns)}"]  # fmt: skip

    def _dequeue(self, e: _Event) -> list[str]:
        return [
f"to port {e.port} after {e.words[1]} us in queue {e.number}, {e.words[0]} "
f"packets left in the queue, {_time(e.time_ns)}"]  # fmt: skip

    def _deflect(self, e: _Event) -> list[str]:
        return [f"deflected: queue {e.number} of port {e.port} has {e.words[0]} packets, "
                f"{e.words[1]} bytes, {_time(e.time_ns)}"]  # fmt: skip

    def _again(self, e: _Event) -> list[str]:
        return [f"{INSTANCES[e.number]}, {_time(e.time_ns)}"]

    def _out(self, e: _Event) -> list[str]:
        lost = ", and lost by the link" if e.words[0] else ""
        return [f"out at port {e.port}, {e.number} bytes, {_time(e.time_ns)}{lost}"]

    def _drop(self, e: _Event) -> list[str]:
        return [f"dropped, {DROPS[e.number]} (port {e.port}), {_time(e.time_ns)}"]


_KINDS: tuple[tuple[Callable[[Trace, _Event], list[str]], bool], ...] = (
    (Trace._in, False),
    (Trace._copy, False),
    (Trace._state, False),
    (Trace._extract, False),
    (Trace._parsed, False),
    (Trace._pipeline, False),
    (Trace._condition, False),
    (Trace._table, False),
    (Trace._action, False),
    (Trace._read, False),
    (Trace._write, False),
    (Trace._count, False),
    (Trace._meter, False),
    (Trace._field, False),
    (Trace._valid, False),
    (Trace._digest, False),
    (Trace._clone, False),
    (Trace._multicast, True),
    (Trace._enqueue, False),
    (Trace._dequeue, False),
    (Trace._deflect, False),
    (Trace._again, False),
    (Trace._out, True),
    (Trace._drop, True),
)
"""Handlers in the order of enum trace_kind, and whether the event ends the packet's trace."""


def _time(time_ns: int) -> str:
    return f"at {time_ns // 10**9}.{time_ns % 10**9:09} s"


def _place(where: str) -> str:
    """Return `file:line` of a source location that may end with `: code`."""
    return where.partition(": ")[0]


def _at(place: str) -> str:
    """Return ` (file:line)`, with the file name only, for the end of a line."""
    return f"  ({place.rpartition('/')[2]})" if place else ""


def _value(value: int, width: int) -> str:
    return str(value) if width < 16 else hex(value)


def _index(access: _Event) -> str:
    """Return the index as text, if there is one.

    Objects of a table entry have no index, because the line of the table names the entry.
    """
    return "" if access.words[0] == DIRECT else f"[{access.words[0]}]"


def _signed(word: int) -> int:
    return word - 2**64 if word >> 63 else word


def _joined(words: Sequence[int]) -> int:
    return sum(word << 64 * i for i, word in enumerate(words))


def _name(header: m.Header, field: m.Field) -> str:
    """Return the name of a field in the P4 program: HEADER.FIELD.

    A variable is a field of `scalars`, and has the name of this field alone.
    """
    return field.name if header.name.startswith("scalars") else f"{header.name}.{field.name}"


def _fields(type_: m.HeaderType, data: bytes) -> str:
    """Return all fields of a header with the values on the wire."""
    total = int.from_bytes(data, "big")
    bits = 8 * len(data)
    varbit = max(0, bits - 8 * type_.fixed_bytes)
    parts, extra = [], 0
    for f, offset in zip(type_.fields, bit_offsets(type_).values(), strict=True):
        width = varbit if f.varbit else f.width
        end = bits - offset - extra - width
        if end < 0:  # the event has only the start of the header
            parts.append("...")
            break
        parts.append(f"{f.name}={_value(total >> end & ((1 << width) - 1), width)}")
        extra += varbit if f.varbit else 0
    return " ".join(parts)


def _match(match: MatchKey, field: m.KeyField) -> str:
    if isinstance(match, Exact):
        return _value(match.value, field.width)
    if isinstance(match, Lpm):
        return f"{_value(match.value, field.width)}/{match.prefix_length}"
    if isinstance(match, Range):
        return f"{_value(match.low, field.width)}..{_value(match.high, field.width)}"
    assert isinstance(match, Ternary)
    return f"{_value(match.value, field.width)} &&& {match.mask:#x}"
