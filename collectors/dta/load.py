"""DTA reports that are generated from a description (Load).

All fields are also available as arrays, for a later comparison with the collector's memory.

    load = Load(count=100_000, mix={Op.KEY_WRITE: 3, Op.APPEND: 1}, redundancy=2, lists=range(16))
    reports = load.reports() # payloads, and fields as arrays

Keys are random by default. Consecutive keys would have different slots, so they would never
collide.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import HOPS, MAX_COPIES
from collectors.dta.key_write import DATA_WORDS
from collectors.dta.packets import PORT, PROTOTYPE_PORT, VERSION, Op
from collectors.dta.sketch_merge import ROWS

Rng = np.random.Generator
KEY_WORDS = 4


class Format(enum.Enum):
    """Format of base headers: Telemark's, or the prototype's with or without loss tracking."""

    OURS = np.dtype([("flags", "u1"), ("opcode", "u1"), ("reporter", ">u2"), ("sequence", ">u4")])
    TRACKED = np.dtype([("opcode", "u1"), ("sequence", "u1"), ("flags", "u1")])
    PLAIN = np.dtype([("opcode", "u1"), ("flags", "u1")])

    @property
    def port(self) -> int:
        """UDP destination port for reports."""
        return PORT if self is Format.OURS else PROTOTYPE_PORT

    @property
    def flags(self) -> tuple[int, int, int]:
        """Flag bits in three groups: always set, for `immediate`, and for `retransmittable`."""
        return {Format.OURS: (VERSION << 4, 8, 4), Format.TRACKED: (0, 0x80, 0x40),
                Format.PLAIN: (0, 0x80, 0)}[self]  # fmt: skip


@dataclass(frozen=True)
class Load:
    """Reports of one reporter. Raises ValueError for invalid parameters.

    `mix` gives the proportions of the opcodes. Here, all postcards of a path together (one for each
    of the `hops` hops) count as one report. Keys have 128 bits, or 32 in the prototype. If
    `distinct` is given, it is the number of different keys, from which keys are drawn uniformly.
    The first data word of Key-Writes and Appends is the index of the report. Increments add
    `addend`. All other words are random.
    """

    count: int
    mix: Mapping[Op, float] = field(default_factory=lambda: {Op.KEY_WRITE: 1.0})
    format: Format = Format.OURS
    keys: NDArray[np.uint32] | None = None  # shape (count, 4); None means random keys
    distinct: int | None = None
    redundancy: int = 2
    words: int = 1
    lists: range = range(1)
    addend: int = 1
    hops: int = HOPS
    values: int = 1 << 12  # number of different values in postcards; the values are 0 to values - 1
    sketch: int = 0
    columns: int = 1024
    immediate: bool = False
    retransmittable: bool = False
    reporter: int = 0
    first_sequence: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"load: {problem}")

    def reports(self) -> "Reports":
        """Return the reports. Each call returns the same reports."""
        rng = np.random.default_rng(self.seed)
        chances = np.array([*self.mix.values()], float)
        units = rng.choice([int(op) for op in self.mix], self.count, p=chances / chances.sum())
        lengths = np.where(units == Op.POSTCARDING, self.hops, 1)
        unit = np.repeat(np.arange(self.count), lengths)[: self.count]
        hop = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        number = np.arange(self.count)
        fields = ReportFields(
            units[unit].astype(np.uint8),
            self._keys(rng)[unit],
            hop[: self.count].astype(np.uint8),
            (number % len(self.lists) * self.lists.step + self.lists[0]).astype(np.uint32),
            np.column_stack(
                [number.astype(np.uint32), rng.integers(0, 1 << 32, (self.count, 6), np.uint32)]
            ),
        )
        rows = partial(_rows, self, fields)
        payloads: list[bytes] = [b""] * self.count
        for op in self.mix:
            chosen = np.flatnonzero(fields.opcode == op)
            for index, row in zip(chosen, rows(op, chosen), strict=True):
                payloads[index] = row.tobytes()
        return Reports(payloads, [self.format.port] * self.count, fields)

    def _keys(self, rng: Rng) -> NDArray[np.uint32]:
        """Return one key per unit (a report, or all postcards of a path); shape (count, 4)."""
        if self.keys is not None:
            return self.keys
        size = self.distinct or self.count
        pool = rng.integers(0, 1 << 32, (size, KEY_WORDS), np.uint32)
        if self.format is not Format.OURS:
            pool[:, :3] = 0
        if self.distinct is None:
            return pool
        return pool[rng.integers(0, size, self.count)]

    def _problem(self) -> str:
        limits = {
            "count": (self.count, 1, 1 << 32), "distinct": (self.distinct or 1, 1, 1 << 32),
            "hops": (self.hops, 1, HOPS), "values": (self.values, 1, 1 << 32),
            "columns": (self.columns, 1, 1 << 16), "sketch": (self.sketch, 0, 0xFFFF),
            "reporter": (self.reporter, 0, 0xFFFF), "addend": (self.addend, 0, (1 << 64) - 1),
            "redundancy": (self.redundancy, 1, MAX_COPIES),
            "first_sequence": (self.first_sequence, 0, (1 << 32) - 1),
        }  # fmt: skip
        for what, (value, low, high) in limits.items():
            if not low <= value <= high:
                return f"{what} {value}: expected {low} to {high}"
        if self.keys is not None and self.keys.shape != (self.count, KEY_WORDS):
            return f"keys of shape {self.keys.shape}: expected ({self.count}, {KEY_WORDS})"
        if self.words not in DATA_WORDS:
            return f"words {self.words}: expected one of {DATA_WORDS}"
        if not self.lists or not all(0 <= end < 1 << 32 for end in (self.lists[0], self.lists[-1])):
            return f"lists {self.lists}: expected numbers from 0 to 2^32 - 1"
        if not self.mix or min(self.mix.values()) < 0 or not sum(self.mix.values()):
            return f"mix {dict(self.mix)}: expected shares of at least 0, and at least one above 0"
        if unknown := {*self.mix} - _KINDS[self.format].keys():
            names = ", ".join(sorted(op.name for op in unknown))
            return f"{names}: {self.format.name.lower()} reports have no such opcode"
        return ""


def reporter_keys(load: Load, keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Convert flow keys to the format of the reporter.

    The key of the prototype is the source address.
    """
    if load.format is Format.OURS:
        return keys
    return np.column_stack([np.zeros((len(keys), 3), np.uint32), keys[:, 0]])


@dataclass(frozen=True)
class ReportFields:
    """Fields of reports, as arrays of equal length.

    A field is arbitrary if the opcode of the report does not use it.
    """

    opcode: NDArray[np.uint8]
    key: NDArray[np.uint32]  # (n, 4)
    hop: NDArray[np.uint8]
    list: NDArray[np.uint32]
    # shape (n, 7): data words of Key-Writes; Appends use only the first word
    words: NDArray[np.uint32]

    def __getitem__(self, chosen: NDArray[np.intp]) -> "ReportFields":
        return ReportFields(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True)
class Reports:
    """Reports in sending order: the UDP payloads, the UDP ports, and the fields."""

    payloads: list[bytes]
    ports: list[int]
    fields: ReportFields | None = None  # None means that the fields are unknown
    # send times relative to the first report; None means a constant rate
    offsets_ns: NDArray[np.int64] | None = None


def _rows(load: Load, fields: ReportFields, op: Op, chosen: NDArray[np.intp]) -> NDArray[np.void]:
    """Return the selected reports in wire format. They must have the same opcode."""
    body = _KINDS[load.format][op](load)
    rows = np.zeros(len(chosen), np.dtype([*_fields(load.format.value), *body]))
    base, immediate, retransmittable = load.format.flags
    rows["opcode"] = op
    rows["flags"] = base | load.immediate * immediate | load.retransmittable * retransmittable
    if load.format is not Format.PLAIN:
        modulus = np.iinfo(rows.dtype["sequence"]).max + 1
        rows["sequence"] = (chosen + load.first_sequence) % modulus
    values = {
        "reporter": load.reporter, "redundancy": load.redundancy, "words": load.words,
        "key": fields.key[chosen], "short_key": fields.key[chosen, 3], "list": fields.list[chosen],
        "hop": fields.hop[chosen], "short_hop": fields.hop[chosen] + 1, "hops": load.hops,
        "value": fields.words[chosen, 1].astype(np.int64) % load.values, "addend": load.addend,
        "data": fields.words[chosen, : load.words], "appended": fields.words[chosen, 0],
        "sketch": load.sketch, "column": fields.words[chosen, 0] % load.columns,
        "counters": fields.words[chosen, 1 : 1 + ROWS],
    }  # fmt: skip
    for name in rows.dtype.names or ():
        if name in values:
            value = values[name]
            rows[name] = np.reshape(value, rows[name].shape) if np.ndim(value) else value
    return rows


def _fields(dtype: np.dtype[Any]) -> list[Any]:
    return [(name, dtype[name]) for name in dtype.names or ()]


_KEY = ("key", ">u4", KEY_WORDS)
_APPEND = [("list", ">u4"), ("appended", ">u4")]
_OURS: dict[Op, Any] = {
    Op.KEY_WRITE: lambda load: [("redundancy", "u1"), ("words", "u1"), ("zero", ">u2"), _KEY,
                                ("data", ">u4", (load.words,))],
    Op.APPEND: lambda _: _APPEND,
    Op.KEY_INCREMENT: lambda _: [("redundancy", "u1"), ("zero", "u1", 3), _KEY, ("addend", ">u8")],
    Op.POSTCARDING: lambda _: [("redundancy", "u1"), ("hop", "u1"), ("hops", "u1"), ("zero", "u1"),
                               _KEY, ("value", ">u4")],
    Op.SKETCH_MERGE: lambda _: [("sketch", ">u2"), ("column", ">u2"),
                                ("counters", ">u4", ROWS)],
}  # fmt: skip
_PROTOTYPES: dict[Op, Any] = {
    Op.KEY_WRITE: lambda load: [("redundancy", "u1"), ("short_key", ">u4"),
                                ("data", ">u4", (load.words,))],
    Op.APPEND: lambda _: _APPEND,
    Op.KEY_INCREMENT: lambda _: [("redundancy", "u1"), ("short_key", ">u4"), ("addend", ">u8")],
    Op.POSTCARDING: lambda _: [("short_key", ">u4"), ("short_hop", "u1"), ("value", ">u4")],
}  # fmt: skip
_KINDS = {Format.OURS: _OURS, Format.TRACKED: _PROTOTYPES, Format.PLAIN: _PROTOTYPES}
"""For each format: the fields after the base header, by opcode."""
