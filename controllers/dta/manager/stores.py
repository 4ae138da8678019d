"""Kinds of stores in a configuration file: memory, queries and answers of each kind."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.dta.append import Reader, batch
from collectors.dta.hashes import HOPS, Words, key_words
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.key_write import Store, slot
from collectors.dta.load import Load, ReportFields
from collectors.dta.packets import Op
from collectors.dta.postcarding import CHUNK, Postcards
from collectors.dta.sketch_merge import COLUMN, estimate, read
from controllers.dta.batching import ListStore, PostcardStore, SketchStore
from controllers.dta.manager.fabric import Area
from controllers.dta.stores import CounterStore, KeyWriteStore
from controllers.dta.translator import CounterSession
from controllers.dta.watch import NODES, flow_key
from telemark.errors import TestbedError

Memory = NDArray[Any]  # records of a memory area
# loads of the collector, each with the fields of its reports
Reported = Iterable[tuple[Load, ReportFields]]

_PROTOCOLS = {"tcp": 6, "udp": 17}
_FLOW = re.compile(r"([\d.]+):(\d+)-([\d.]+):(\d+)/(\w+)(?:@(\d+))?")
_KEY = "a number of up to 128 bits, or a flow such as 10.0.0.1:1000-10.0.0.2:5000/udp"
_SHOWN = 8  # number of list entries that are shown


class Answers(NamedTuple):
    """Results of the queries for all reports that the generators sent."""

    asked: int
    right: int
    other: int  # number of answers with a wrong value
    empty: int


class StoreKind(ABC):
    """A store for one primitive. Raises ValueError for invalid parameters."""

    registers = 0  # number of registers of the translator that only this store uses

    @abstractmethod
    def area(self, file: str, first: int) -> Area:
        """Return the memory area of the store. Its registers start at `first`."""

    @abstractmethod
    def judge(self, memory: Memory, reported: Reported) -> Answers | None:
        """Query all reported keys, and count right answers. Return None if these are unknown."""

    @abstractmethod
    def answer(self, memory: Memory, asked: str) -> str:
        """Return the answer for a key or a list, as text. Raises TestbedError."""


@dataclass(frozen=True)
class KeyWrites(StoreKind):
    """Key-Write. `copies` is the redundancy that queries assume."""

    slots: int
    words: int = 1
    checksum_bits: int = 31
    copies: int = 2

    def area(self, file: str, first: int) -> Area:
        """See StoreKind."""
        store = partial(KeyWriteStore, self.words, self.slots, self.checksum_bits)
        return Area(slot(self.words), self.slots, store, file=file)

    def judge(self, memory: Memory, reported: Reported) -> Answers:
        """See StoreKind. The right answer for a key is its last value."""
        counts = []
        for load, said in reported:
            if load.words == self.words:
                keys, last = _last(said, Op.KEY_WRITE)
                answers = self._store(memory).query(keys, load.redundancy)
                is_right = (answers.data == said.words[last, : self.words]).all(axis=1)
                counts.append(_counts(answers.found, is_right))
        return _sum(counts)

    def answer(self, memory: Memory, asked: str) -> str:
        """See StoreKind."""
        answers = self._store(memory).query(_key(asked), self.copies)
        if not answers.found[0]:
            return "nothing"
        return " ".join(f"{word} ({word:#x})" for word in answers.data[0].tolist())

    def _store(self, memory: Memory) -> Store:
        return Store(memory, self.checksum_bits)


@dataclass(frozen=True)
class KeyIncrements(StoreKind):
    """Key-Increment."""

    slots: int
    rows: int = 4
    copies: int = 2

    def area(self, file: str, first: int) -> Area:
        """See StoreKind."""
        store = partial(CounterStore, self.slots, self.rows)
        return Area(COUNTER, self.rows * self.slots, store, CounterSession, file)

    def judge(self, memory: Memory, reported: Reported) -> Answers:
        """See StoreKind. The right answer for a key is the sum of its reports."""
        counts = []
        for load, said in reported:
            sent = said.key[said.opcode == Op.KEY_INCREMENT]
            keys, times = np.unique(sent, axis=0, return_counts=True)
            sums = Counters(memory, self.rows).estimate(keys, load.redundancy)
            counts.append(_counts(sums > 0, sums == times.astype(np.uint64) * load.addend))
        return _sum(counts)

    def answer(self, memory: Memory, asked: str) -> str:
        """See StoreKind."""
        sums = Counters(memory, self.rows).estimate(_key(asked), self.copies)
        return f"at most {sums[0]}"


@dataclass(frozen=True)
class Appends(StoreKind):
    """Append to `lists` lists."""

    batches: int
    lists: int = 1
    entries: int = 4

    @property
    def registers(self) -> int:  # type: ignore[override]
        """See StoreKind."""
        return self.lists

    def area(self, file: str, first: int) -> Area:
        """See StoreKind."""
        return Area(batch(self.entries), self.lists * self.batches, partial(self._made, first),
                    file=file)  # fmt: skip

    def _made(self, first: int, sessions: range) -> ListStore:
        return ListStore(self.entries, self.batches, self.lists, sessions[0], first)

    def judge(self, memory: Memory, reported: Reported) -> Answers:
        """See StoreKind. It compares all entries in the rings with the reported entries."""
        sent: Counter[tuple[int, int]] = Counter()
        for _, said in reported:
            chosen = said.opcode == Op.APPEND
            sent.update(
                zip(said.list[chosen].tolist(), said.words[chosen, 0].tolist(), strict=True)
            )
        found: Counter[tuple[int, int]] = Counter()
        for number in range(self.lists):
            found.update((number, entry) for entry in self._entries(memory, number))
        right = (sent & found).total()
        return Answers(sent.total(), right, (found - sent).total(), sent.total() - right)

    def answer(self, memory: Memory, asked: str) -> str:
        """See StoreKind."""
        if not (asked.isdecimal() and len(asked) < 6 and int(asked) < self.lists):
            raise TestbedError(f"list {asked}: expected 0 to {self.lists - 1}")
        entries = self._entries(memory, int(asked))
        return f"{len(entries)} entries, the last ones {entries[-_SHOWN:]}"

    def _entries(self, memory: Memory, number: int) -> list[int]:
        ring = memory.reshape(self.lists, self.batches)[number]
        found: list[int] = Reader(ring).pull().tolist()
        return found


@dataclass(frozen=True)
class Postcarding(StoreKind):
    """Postcarding. Hops report values from 0 to `values` - 1."""

    slots: int
    rows: int = 4096
    values: int = 4096
    copies: int = 2

    @property
    def registers(self) -> int:  # type: ignore[override]
        """See StoreKind."""
        return self.rows

    def area(self, file: str, first: int) -> Area:
        """See StoreKind."""
        return Area(CHUNK, self.slots, partial(self._made, first), file=file)

    def _made(self, first: int, sessions: range) -> PostcardStore:
        return PostcardStore(self.slots, self.rows, sessions, first)

    def judge(self, memory: Memory, reported: Reported) -> Answers:
        """See StoreKind. The right answer for a key is its last path."""
        counts = []
        for load, said in reported:
            sent = said[np.flatnonzero(said.opcode == Op.POSTCARDING)]
            keys, of = np.unique(sent.key, axis=0, return_inverse=True)
            values = np.zeros((len(keys), HOPS), np.uint32)
            is_sent = np.zeros((len(keys), HOPS), np.bool_)
            values[of.ravel(), sent.hop] = sent.words[:, 1] % load.values
            is_sent[of.ravel(), sent.hop] = True
            paths = self._store(memory, load.redundancy).query(keys)
            is_right = ((paths.values == values) & (paths.is_known == is_sent)).all(axis=1)
            counts.append(_counts(paths.is_found, is_right))
        return _sum(counts)

    def answer(self, memory: Memory, asked: str) -> str:
        """See StoreKind."""
        paths = self._store(memory, self.copies).query(_key(asked))
        hops = zip(paths.values[0], paths.is_known[0], strict=True)
        shown = [str(value) if is_known else "?" for value, is_known in hops]
        return " -> ".join(shown[: paths.lengths[0]]) or "nothing"

    def _store(self, memory: Memory, copies: int) -> Postcards:
        return Postcards(memory, np.arange(self.values), copies)


@dataclass(frozen=True)
class SketchMerges(StoreKind):
    """Sketch-Merge. Each sketch is the sum of sketches from `reporters` reporters."""

    columns: int
    reporters: int
    sketches: int = 1

    @property
    def registers(self) -> int:  # type: ignore[override]
        """See StoreKind."""
        return self.sketches * self.columns

    def area(self, file: str, first: int) -> Area:
        """See StoreKind."""
        return Area(COLUMN, self.registers, partial(self._made, first), file=file)

    def _made(self, first: int, sessions: range) -> SketchStore:
        return SketchStore(self.columns, self.reporters, self.sketches, sessions[0], first)

    def judge(self, memory: Memory, reported: Reported) -> None:
        """See StoreKind. The right answers are unknown, because generators send random counters."""

    def answer(self, memory: Memory, asked: str) -> str:
        """See StoreKind. There is one answer per sketch."""
        if self.columns.bit_count() != 1:
            raise TestbedError(f"a sketch of {self.columns} columns: expected a power of two")
        sketches = memory.reshape(self.sketches, self.columns)
        sums = [str(estimate(read(columns), _key(asked))[0]) for columns in sketches]
        return f"at most {', '.join(sums)}"


KINDS: dict[str, tuple[Op, type[StoreKind]]] = {
    "key-write": (Op.KEY_WRITE, KeyWrites), "key-increment": (Op.KEY_INCREMENT, KeyIncrements),
    "append": (Op.APPEND, Appends), "postcarding": (Op.POSTCARDING, Postcarding),
    "sketch-merge": (Op.SKETCH_MERGE, SketchMerges),
}  # fmt: skip
"""Map from a primitive's name in the configuration file to its kind of store."""


def _last(said: ReportFields, op: Op) -> tuple[Words, NDArray[np.intp]]:
    """Return the keys of reports with an opcode, and for each key the index of its last report.

    The keys are distinct; their array has shape (n, 4).
    """
    chosen = np.flatnonzero(said.opcode == op)[::-1]
    keys, first = np.unique(said.key[chosen], axis=0, return_index=True)
    return keys, chosen[first]


def _counts(is_found: NDArray[np.bool_], is_right: NDArray[np.bool_]) -> Answers:
    found, right = int(is_found.sum()), int((is_found & is_right).sum())
    return Answers(len(is_found), right, found - right, len(is_found) - found)


def _sum(counts: Sequence[Answers]) -> Answers:
    return Answers(*(sum(column) for column in zip((0, 0, 0, 0), *counts, strict=True)))


def _key(text: str) -> Words:
    """Parse a key; return an array of shape (1, 4). Raises TestbedError."""
    flow = _FLOW.fullmatch(text)
    try:
        if flow is None:
            number = int(text, 0)
        else:
            src, src_port, dst, dst_port, protocol, node = flow.groups("0")
            ports = int(src_port), int(dst_port)
            kind = _PROTOCOLS.get(protocol) or int(protocol)
            is_well = max(ports) < 1 << 16 and kind < 1 << 8 and int(node) < NODES
            number = flow_key(src, dst, ports, kind, int(node)) if is_well else -1
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 128:
        raise TestbedError(f"key {text}: expected {_KEY}")
    return key_words([number])
