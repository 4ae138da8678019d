"""DTA reports in great numbers, from a description: what is sent is known.

load = Load(count=100_000, mix={Op.KEY_WRITE: 3, Op.APPEND: 1}, redundancy=2, lists=range(16))
reports = load.reports()        # their payloads, and what they say, in arrays

Keys are random unless it is said otherwise: keys that count up fall side by side into slots, where
random ones collide, and are no load.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import HOPS, MAX_COPIES
from collectors.dta.key_write import DATA_WORDS
from collectors.dta.packets import PORT, PROTOTYPE_PORT, VERSION, Op
from collectors.dta.paths import WORDS as PATH_WORDS
from collectors.dta.paths import encode
from collectors.dta.sketches import ROWS

Dice = np.random.Generator
KEY_WORDS = 4


class Format(enum.Enum):
    """Base headers: ours, and the prototype's with and without the tracking of losses."""

    OURS = np.dtype([("flags", "u1"), ("opcode", "u1"), ("reporter", ">u2"), ("sequence", ">u4")])
    TRACKED = np.dtype([("opcode", "u1"), ("sequence", "u1"), ("flags", "u1")])
    PLAIN = np.dtype([("opcode", "u1"), ("flags", "u1")])

    @property
    def port(self) -> int:
        """UDP's, where reports go to."""
        return PORT if self is Format.OURS else PROTOTYPE_PORT

    @property
    def flags(self) -> tuple[int, int, int]:
        """What the byte of flags has always, with `immediate` and with `retransmittable`."""
        return {Format.OURS: (VERSION << 4, 8, 4), Format.TRACKED: (0, 0x80, 0x40),
                Format.PLAIN: (0, 0x80, 0)}[self]  # fmt: skip


class Keys(enum.Enum):
    """Where keys come from."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"  # 0, 1, 2, ...: as the published generator's; no load


@dataclass(frozen=True)
class Load:
    """Reports of one reporter. Raises ValueError for what cannot be sent.

    `mix` says how many of each opcode, in proportion; a postcard counts as the whole path of
    `hops` reports. Keys are of 128 bits (the prototype's: of 32); with `distinct` so many of them
    come again and again, drawn evenly. Of a Key-Write's data the first word counts the reports,
    and so do an Append's data; addends are `addend`, and other words random.
    """

    count: int
    mix: Mapping[Op, float] = field(default_factory=lambda: {Op.KEY_WRITE: 1.0})
    format: Format = Format.OURS
    keys: Keys | NDArray[np.uint32] = Keys.RANDOM  # or those of each report: (count, 4)
    distinct: int | None = None
    redundancy: int = 2
    words: int = 1
    lists: range = range(1)
    addend: int = 1
    hops: int = HOPS
    values: int = 1 << 12  # of a postcard: 0 to values - 1
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
        """The same ones each time."""
        rng = np.random.default_rng(self.seed)
        chances = np.array([*self.mix.values()], float)
        units = rng.choice([int(op) for op in self.mix], self.count, p=chances / chances.sum())
        lengths = np.where(units == Op.POSTCARDING, self.hops, 1)
        unit = np.repeat(np.arange(self.count), lengths)[: self.count]
        hop = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        number = np.arange(self.count)
        said = Said(
            units[unit].astype(np.uint8),
            self._keys(rng)[unit],
            hop[: self.count].astype(np.uint8),
            (number % len(self.lists) * self.lists.step + self.lists[0]).astype(np.uint32),
            np.column_stack(
                [number.astype(np.uint32), rng.integers(0, 1 << 32, (self.count, 6), np.uint32)]
            ),
        )
        rows = partial(_rows, self, said)
        payloads: list[bytes] = [b""] * self.count
        for op in self.mix:
            chosen = np.flatnonzero(said.opcode == op)
            for index, row in zip(chosen, rows(op, chosen), strict=True):
                payloads[index] = row.tobytes()
        return Reports(payloads, [self.format.port] * self.count, said)

    def _keys(self, rng: Dice) -> NDArray[np.uint32]:
        """Of each unit: (count, 4)."""
        if not isinstance(self.keys, Keys):
            return self.keys
        size = self.distinct or self.count
        if self.keys is Keys.SEQUENTIAL:
            pool = np.zeros((size, KEY_WORDS), np.uint32)
            pool[:, 3] = np.arange(size)
        else:
            pool = rng.integers(0, 1 << 32, (size, KEY_WORDS), np.uint32)
            if self.format is not Format.OURS:
                pool[:, :3] = 0
        if self.distinct is None:
            return pool
        if self.keys is Keys.SEQUENTIAL:
            return pool[np.arange(self.count) % size]
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
        if not isinstance(self.keys, Keys) and self.keys.shape != (self.count, KEY_WORDS):
            return f"keys of shape {self.keys.shape}: expected ({self.count}, {KEY_WORDS})"
        if self.words not in DATA_WORDS:
            return f"words {self.words}: expected one of {DATA_WORDS}"
        if not self.lists or not all(0 <= end < 1 << 32 for end in (self.lists[0], self.lists[-1])):
            return f"lists {self.lists}: expected some of 0 to 2^32 - 1"
        if not self.mix or min(self.mix.values()) < 0 or not sum(self.mix.values()):
            return f"mix {dict(self.mix)}: expected shares of 0 or more, and one above 0"
        if unknown := {*self.mix} - _KINDS[self.format].keys():
            names = ", ".join(sorted(op.name for op in unknown))
            return f"{names}: {self.format.name.lower()} reports have no such opcode"
        return ""


def of_paths(load: Load, keys: NDArray[np.uint32], paths: Sequence[Sequence[int]]) -> list[bytes]:
    """Reports of flows' paths as `load` describes them: of each path one of each opcode in its mix.

    `keys`: (n, 4); `paths`: of each the switches, from the source on. A Key-Write has the path
    (paths.py), postcards one switch each, up to HOPS of them, an Append 32 bits of a hash of the
    key. Payloads, in this order; `load.count` and its keys say nothing. Raises ValueError.
    """
    if Op.SKETCH_MERGE in load.mix:
        raise ValueError("SKETCH_MERGE: paths have no columns of sketches")
    units = [
        (flow, op, hop)
        for flow, path in enumerate(paths) for op in load.mix
        if op is not Op.POSTCARDING or len(path) <= HOPS
        for hop in range(len(path) if op is Op.POSTCARDING else 1)
    ]  # fmt: skip
    flow = np.array([flow for flow, _, _ in units])
    words = np.stack([_path_words(op, keys[flow], paths[flow], hop) for flow, op, hop in units])
    number = (np.arange(len(units)) + load.first_sequence) % len(load.lists)
    said = Said(
        np.array([op for _, op, _ in units], np.uint8), named(load, keys)[flow],
        np.array([hop for _, _, hop in units], np.uint8),
        (number * load.lists.step + load.lists[0]).astype(np.uint32), words,
    )  # fmt: skip
    hops = np.array([len(path) for path in paths])[flow]
    payloads: list[bytes] = [b""] * len(units)
    for op, length in {(op, len(paths[flow])) for flow, op, _ in units}:
        chosen = np.flatnonzero((said.opcode == op) & (hops == length))
        alike = replace(load, words=PATH_WORDS, hops=min(length, HOPS), values=1 << 32)
        for index, row in zip(chosen, _rows(alike, said, op, chosen), strict=True):
            payloads[index] = row.tobytes()
    return payloads


def _path_words(
    op: Op, key: NDArray[np.uint32], path: Sequence[int], hop: int
) -> NDArray[np.uint32]:
    """What is said of a path, where reports of the opcode have it: (7,)."""
    if op is Op.KEY_WRITE:
        return encode(path)
    words = np.zeros(PATH_WORDS, np.uint32)
    words[0] = crc32(key.astype(">u4").tobytes())  # of Append, as reporters name a flow
    words[1] = path[hop]  # of a postcard
    return words


def named(load: Load, keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Keys of flows as reporters of the format name them: the prototype's by their sources."""
    if load.format is Format.OURS:
        return keys
    return np.column_stack([np.zeros((len(keys), 3), np.uint32), keys[:, 0]])


@dataclass(frozen=True)
class Said:
    """What reports say, where their opcodes have such a thing: arrays of one length."""

    opcode: NDArray[np.uint8]
    key: NDArray[np.uint32]  # (n, 4)
    hop: NDArray[np.uint8]
    list: NDArray[np.uint32]
    words: NDArray[np.uint32]  # (n, 7): a Key-Write's data, the first of them an Append's

    def __getitem__(self, chosen: NDArray[np.intp]) -> "Said":
        return Said(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True)
class Reports:
    """UDP payloads to send one after the other, the ports that they go to, and what they say."""

    payloads: list[bytes]
    ports: list[int]
    said: Said | None = None  # None: nobody knows
    offsets_ns: NDArray[np.int64] | None = None  # when, behind the first; None: at a rate


def _rows(load: Load, said: Said, op: Op, chosen: NDArray[np.intp]) -> NDArray[np.void]:
    """The chosen reports, all of one opcode, as they are sent."""
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
        "key": said.key[chosen], "short_key": said.key[chosen, 3], "list": said.list[chosen],
        "hop": said.hop[chosen], "short_hop": said.hop[chosen] + 1, "hops": load.hops,
        "value": said.words[chosen, 1].astype(np.int64) % load.values, "addend": load.addend,
        "data": said.words[chosen, : load.words], "appended": said.words[chosen, 0],
        "sketch": load.sketch, "column": said.words[chosen, 0] % load.columns,
        "counters": said.words[chosen, 1 : 1 + ROWS],
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
"""What follows the base header, by opcode: fields of a row."""
