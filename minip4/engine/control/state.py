"""Counters, registers, meters, replication, digests, value sets and hashes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from minip4.engine import model as m
from minip4.engine.control.core import Core, named
from minip4.engine.errors import InvalidArgument, NotFound
from minip4.engine.keys import ColourCounts, Digest, Rates, check_width
from minip4.engine.library import array, check
from minip4.engine.shared import COUNTER, REGISTER, DigestSample, MeterRates
from minip4.engine.words import KeyLayout, limbs

MAX_DIGESTS = 4096  # number of digests that an engine stores, see engine_internal.h
DIGEST_ROOM = 64  # number of digests fetched per call


class StateControl(Core):
    # --- counters --------------------------------------------------------------------------

    def counter_size(self, name: str) -> int:
        return named(self.program.counters, name, "counter").size

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """Return the packet count and the byte count of one cell."""
        counter = self._counter(name, index)
        words = self._read_words(COUNTER, counter.index, 2 * index, 2)
        return words[0], words[1]

    def counter_write(self, name: str, index: int, packets: int, size: int, *,
                      count: int = 1) -> None:  # fmt: skip
        """Write `count` cells, starting with cell `index`."""
        counter = self._counter(name, index + count - 1)
        self._write_words(COUNTER, counter.index, 2 * index, count, [packets, size])

    def counter_read_all(self, name: str) -> list[tuple[int, int]]:
        """Return the packets and bytes of all cells at one point in time."""
        size = self.counter_size(name)
        if not size:
            return []
        words = self._read_words(COUNTER, self._counter(name, 0).index, 0, 2 * size)
        return list(zip(words[::2], words[1::2], strict=True))

    def _counter(self, name: str, index: int) -> m.Counter:
        counter = named(self.program.counters, name, "counter")
        if counter.table is not None:
            raise InvalidArgument(
                f"counter {name} is direct; read it with the entries of its table"
            )
        _check_index(index, counter.size, f"counter {name}")
        return counter

    def _read_words(self, kind: int, number: int, first: int, count: int) -> list[int]:
        words = (ctypes.c_uint64 * count)()
        with self.locked():
            self.library.engine_array_read(self.handle, kind, number, first, count, words)
        return words[:]

    def _write_words(self, kind: int, number: int, first: int, count: int, cell: list[int]) -> None:
        with self.locked():
            result = self.library.engine_array_write(
                self.handle, kind, number, first, len(cell), count, array(cell)
            )
        check(result, "a counter's or register's cells")

    # --- registers -------------------------------------------------------------------------

    def register_read(self, name: str, index: int) -> int:
        register = self._register(name)
        _check_index(index, register.size, f"register {name}")
        return self._read_registers(register, index, 1)[0]

    def register_read_all(self, name: str) -> list[int]:
        """Return the values of all cells at one point in time."""
        register = self._register(name)
        return self._read_registers(register, 0, register.size)

    def _register(self, name: str) -> m.Register:
        register = named(self.program.registers, name, "register")
        if register.table is not None:
            raise InvalidArgument(f"register {name} is direct; only the program can use its cells")
        return register

    def _read_registers(self, register: m.Register, first: int, count: int) -> list[int]:
        n = register.limbs
        part = self._read_words(REGISTER, register.index, first * n, count * n)
        if n == 1:
            return part
        return [sum(part[i + k] << 64 * k for k in range(n)) for i in range(0, len(part), n)]

    def register_write(self, name: str, index: int, value: int, *, count: int = 1) -> None:
        """Write `count` cells, starting with cell `index`."""
        register = self._register(name)
        _check_index(index, register.size, f"register {name}")
        _check_index(index + count - 1, register.size, f"register {name}")
        check_width(value, register.width, f"register {name}")
        n = register.limbs
        cell = [value >> 64 * k & (2**64 - 1) for k in range(n)]
        self._write_words(REGISTER, register.index, index * n, count, cell)

    # --- meters ----------------------------------------------------------------------------

    def meter_set_rates(self, name: str, index: int, rates: Rates | None) -> None:
        """Set the rates of one cell; None makes all packets green."""
        self._meter_set(*self._meter_cell(name, index), rates, f"meter {name}")

    def meter_get_rates(self, name: str, index: int) -> Rates | None:
        return self._meter_get(*self._meter_cell(name, index), f"meter {name}")

    def meter_counts(self, name: str, index: int) -> ColourCounts:
        """Return the packets per colour since the cell was created or last written."""
        return self._counts_get(*self._meter_cell(name, index))

    def meter_set_counts(self, name: str, index: int, counts: ColourCounts) -> None:
        self._counts_set(*self._meter_cell(name, index), counts)

    def direct_meter_counts(self, table: str, handle: int) -> ColourCounts:
        return self._counts_get(True, self._metered(table), handle)

    def direct_meter_set_counts(self, table: str, handle: int, counts: ColourCounts) -> None:
        self._counts_set(True, self._metered(table), handle, counts)

    def direct_meter_set(self, table: str, handle: int, rates: Rates | None) -> None:
        self._meter_set(True, self._metered(table), handle, rates, f"direct meter of {table}")

    def direct_meter_get(self, table: str, handle: int) -> Rates | None:
        return self._meter_get(True, self._metered(table), handle, f"direct meter of {table}")

    def _meter_cell(self, name: str, index: int) -> tuple[bool, int, int]:
        meter = named(self.program.meters, name, "meter")
        _check_index(index, meter.size, f"meter {name}")
        return False, meter.index, index

    def _metered(self, table: str) -> int:
        t = named(self.program.tables, table, "table")
        if t.meter is None:
            raise NotFound(f"table {table}: it has no direct meter")
        return t.index

    def _meter_set(self, direct: bool, number: int, index: int, rates: Rates | None,
                   what: str) -> None:  # fmt: skip
        config = None
        if rates is not None:
            if min(rates) < 0 or rates[0] > rates[2]:
                raise InvalidArgument(f"{what}: rates {rates}; expected 0 <= committed <= peak")
            config = ctypes.byref(MeterRates(*(int(r) for r in rates)))
        with self.locked():
            result = self.library.engine_meter_set(self.handle, direct, number, index, config)
        check(result, what)

    def _meter_get(self, direct: bool, number: int, index: int, what: str) -> Rates | None:
        return self._meter(direct, number, index, what)[0]

    def _counts_get(self, direct: bool, number: int, index: int) -> ColourCounts:
        return self._meter(direct, number, index, "meter")[1]

    def _meter(
        self, direct: bool, number: int, index: int, what: str
    ) -> tuple[Rates | None, ColourCounts]:
        rates, words = MeterRates(), (ctypes.c_uint64 * 6)()
        with self.locked():
            result = self.library.engine_meter_get(
                self.handle, direct, number, index, ctypes.byref(rates), words
            )
        is_configured = check(result, what)
        counts = ((words[0], words[1]), (words[2], words[3]), (words[4], words[5]))
        if not is_configured:
            return None, counts
        return (rates.committed_rate, rates.committed_burst, rates.peak_rate,
                rates.peak_burst), counts  # fmt: skip

    def _counts_set(self, direct: bool, number: int, index: int, counts: ColourCounts) -> None:
        flat = [value for count in counts for value in count]
        with self.locked():
            result = self.library.engine_meter_set_counts(
                self.handle, direct, number, index, array(flat)
            )
        check(result, "meter")

    # --- replication -----------------------------------------------------------------------

    def multicast_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set the replicas (port, replica id) of a multicast group."""
        self._replicas_set(False, group, replicas, 0)

    def multicast_delete(self, group: int) -> None:
        self._replicas_delete(False, group, f"multicast group {group}")

    def mirror_set(self, session: int, replicas: Sequence[tuple[int, int]],
                   truncate_bytes: int = 0) -> None:  # fmt: skip
        """Set the replicas (port, replica id) of a clone session.

        Clones are truncated to the given length; 0 means that they are not truncated.
        """
        if not 0 <= session < 1 << 15:
            raise InvalidArgument(f"mirroring session {session}; expected 0 to {(1 << 15) - 1}")
        self._replicas_set(True, session, replicas, truncate_bytes)

    def mirror_delete(self, session: int) -> None:
        self._replicas_delete(True, session, f"mirroring session {session}")

    def _replicas_set(self, is_session: bool, number: int, replicas: Sequence[tuple[int, int]],
                      truncate_bytes: int) -> None:  # fmt: skip
        if not 0 <= number < 1 << 16:
            raise InvalidArgument(f"multicast group {number}; expected 1 to {(1 << 16) - 1}")
        for port, rid in replicas:
            check_width(port, 9, f"port {port} of a replica")
            check_width(rid, 16, f"replica id {rid}")
        flat = [value for replica in replicas for value in replica]
        numbers = (ctypes.c_uint16 * max(1, len(flat)))(*flat)
        with self.locked():
            result = self.library.engine_replicas_set(
                self.handle, is_session, number, numbers, len(replicas), truncate_bytes
            )
        check(result, f"replicas of {number}")

    def _replicas_delete(self, is_session: bool, number: int, what: str) -> None:
        with self.locked():
            result = self.library.engine_replicas_delete(self.handle, is_session, number)
        check(result, what)

    # --- digests, value sets, hashes -------------------------------------------------------

    def digests(self) -> list[Digest]:
        """Return and remove the digests generated since the last call, oldest first."""
        samples = (DigestSample * DIGEST_ROOM)()
        lists = {d.id: d for d in self.program.digests.values()}
        taken: list[Digest] = []
        # limited, because more digests may arrive in the meantime
        for _ in range(MAX_DIGESTS // DIGEST_ROOM):
            with self.locked():
                count = self.library.engine_digests_take(self.handle, DIGEST_ROOM, samples)
            taken += [_digest(lists[s.digest], s) for s in samples[:count]]
            if count < DIGEST_ROOM:
                break
        return taken

    def value_set_set(self, name: str, values: Sequence[int]) -> None:
        """Replace the values of a parser value set; each is a concatenation of fields."""
        value_set = named(self.program.value_sets, name, "value set")
        widths = self.generator.parser.value_set_widths.get(name, [value_set.width])
        layout = KeyLayout.pack(widths)
        flat: list[int] = []
        for value in values:
            check_width(value, sum(widths), f"value set {name}")
            fields, at = [], sum(widths)
            for width in widths:
                at -= width
                fields.append(value >> at & ((1 << width) - 1))
            flat += layout.words(fields)
        with self.locked():
            result = self.library.engine_value_set(
                self.handle, value_set.index, array(flat), len(values)
            )
        check(result, f"value set {name}")


def _digest(digest: m.Digest, sample: DigestSample) -> Digest:
    at, values = 0, []
    for width in digest.widths:
        words = sample.word[at : at + limbs(width)]
        values.append(sum(word << 64 * i for i, word in enumerate(words)))
        at += limbs(width)
    return Digest(digest.name, tuple(values))


def _check_index(index: int, size: int, what: str) -> None:
    if not 0 <= index < size:
        raise NotFound(f"{what}: index {index}; expected 0 to {size - 1}")
