"""Tables: entries, idle timeouts, default actions and direct counters."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from minip4.engine import model as m
from minip4.engine.codegen.tables import LPM, TERNARY, TableLayout
from minip4.engine.control.core import Core, named
from minip4.engine.errors import InvalidArgument, NotFound
from minip4.engine.keys import Entry, Exact, Lpm, MatchKey, Range, Ternary, check_width
from minip4.engine.library import array, check
from minip4.engine.shared import COPY_HEAD, GROUP, MEMBER
from minip4.engine.words import data_words, limbs, param_words

MAX_PRIORITY = (1 << 24) - 1
IDLE_ROOM = 256  # number of idle entries fetched per call


def prefix_mask(width: int, length: int) -> int:
    return ((1 << length) - 1) << (width - length)


class TableControl(Core):
    # --- entries ---------------------------------------------------------------------------

    def table_add(self, table: str, key: Sequence[MatchKey], action: str, params: Sequence[int],
                  priority: int = 0, *, time_ns: int | None = None) -> int:  # fmt: skip
        """Add an entry and return its handle. Raises AlreadyExists, TableFull, InvalidArgument.

        `time_ns` is the time of the entry's last use, by the driver's clock; the default is now.
        """
        t = self._changeable(table)
        return self._add(t, key, self._action_head(t, action, params), priority, time_ns)

    def table_add_member(self, table: str, key: Sequence[MatchKey], member: int,
                         priority: int = 0, *, time_ns: int | None = None) -> int:  # fmt: skip
        """Add an entry with a member of the table's action profile."""
        t = self._indirect(table)
        return self._add(t, key, self._head(t, MEMBER | member), priority, time_ns)

    def table_add_group(self, table: str, key: Sequence[MatchKey], group: int,
                        priority: int = 0, *, time_ns: int | None = None) -> int:  # fmt: skip
        """Add an entry with a group of the table's action selector."""
        t = self._indirect(table)
        return self._add(t, key, self._head(t, GROUP | group), priority, time_ns)

    def table_find(self, table: str, key: Sequence[MatchKey], priority: int = 0) -> int | None:
        """Return the handle of the entry with this key and priority."""
        t = named(self.program.tables, table, "table")
        values, masks, prefix = self._words(t, key)
        with self.locked():
            handle: int = self.library.engine_table_find(
                self.handle, t.index, values, masks, prefix, self._priority(t, priority)
            )
        return handle if handle >= 0 else None

    def table_modify(self, table: str, handle: int, action: str, params: Sequence[int]) -> None:
        t = self._changeable(table)
        self._modify(t, handle, self._action_head(t, action, params))

    def table_modify_member(self, table: str, handle: int, member: int) -> None:
        t = self._indirect(table)
        self._modify(t, handle, self._head(t, MEMBER | member))

    def table_modify_group(self, table: str, handle: int, group: int) -> None:
        t = self._indirect(table)
        self._modify(t, handle, self._head(t, GROUP | group))

    def table_delete(self, table: str, handle: int) -> None:
        t = self._changeable(table)
        with self.locked():
            result = self.library.engine_table_delete(self.handle, t.index, handle)
        check(result, f"table {table}, handle {handle}")

    def table_entry(self, table: str, handle: int, *, time_ns: int = 0) -> Entry:
        t = named(self.program.tables, table, "table")
        return self._entry(t, self._copied(t, handle), time_ns)

    def table_entries(self, table: str, *, time_ns: int = 0) -> list[Entry]:
        """Return all entries.

        `time_ns` is the driver's current time, for Entry.idle_ns.

        No entry is written during the call. But packets are processed meanwhile, so the counters of
        the entries are from different points in time.
        """
        t = named(self.program.tables, table, "table")
        size, start = self._copy_words(t), ctypes.c_uint32()
        with self.locked():
            room = self.library.engine_table_used(self.handle, t.index)
            words = (ctypes.c_uint64 * (room * size))()
            count = self.library.engine_table_copy(
                self.handle, t.index, ctypes.byref(start), room, words
            )
        view = memoryview(words).cast("B").cast("Q")
        return [self._entry(t, view[i * size : (i + 1) * size].tolist(), time_ns)
                for i in range(count)]  # fmt: skip

    # --- idle entries ----------------------------------------------------------------------

    def table_set_timeout(self, table: str, handle: int, timeout_ns: int) -> None:
        """Set the idle timeout of an entry (0: none). table_idle() reports expired timeouts."""
        t = named(self.program.tables, table, "table")
        with self.locked():
            result = self.library.engine_table_set_timeout(self.handle, t.index, handle, timeout_ns)
        check(result, f"table {table}, handle {handle}, idle timeout")

    def table_has_timeouts(self, table: str) -> bool:
        """Return whether any entry has an idle timeout."""
        t = named(self.program.tables, table, "table")
        return self.library.engine_table_watched(self.handle, t.index) > 0

    def table_idle(self, table: str, time_ns: int) -> Iterator[tuple[Entry, int]]:
        """Yield each entry whose timeout expired since the last report, and how often.

        `time_ns` is the driver's current time.
        """
        t = named(self.program.tables, table, "table")
        start, words = ctypes.c_uint32(), (ctypes.c_uint64 * (2 * IDLE_ROOM))()
        while self.table_has_timeouts(table):
            with self.locked():
                count = self.library.engine_table_age(
                    self.handle, t.index, ctypes.byref(start), time_ns, IDLE_ROOM, words
                )
                found = [(self._copied(t, words[2 * i]), words[2 * i + 1]) for i in range(count)]
            for copied, passed in found:
                yield self._entry(t, copied, time_ns), passed
            if count < IDLE_ROOM:
                return

    # --- the default entry -----------------------------------------------------------------

    def table_set_default(self, table: str, action: str, params: Sequence[int]) -> None:
        t = named(self.program.tables, table, "table")
        if t.is_default_const:
            raise InvalidArgument(f"table {table}: its default action is const in the program")
        head = self._action_head(t, action, params, is_default=True)
        with self.locked():
            result = self.library.engine_table_set_default(self.handle, t.index, array(head))
        check(result, f"table {table}, default action")

    def table_reset_default(self, table: str) -> None:
        """Restore the default action of the program."""
        t = named(self.program.tables, table, "table")
        with self.locked():
            result = self.library.engine_table_reset_default(self.handle, t.index)
        check(result, f"table {table}, default action")

    def table_default(self, table: str) -> tuple[str | None, tuple[int, ...]]:
        """Return the default action and its parameters."""
        t = named(self.program.tables, table, "table")
        with self.locked():
            slot = self.library.engine_table_default(self.handle, t.index)
            return self._decode_action(slot[: 1 + self._layout(t).data_words])

    # --- direct counters -------------------------------------------------------------------

    def direct_counter_write(self, table: str, handle: int, packets: int, size: int) -> None:
        t = self._counted(table)
        with self.locked():
            result = self.library.engine_table_set_count(
                self.handle, t.index, handle, array([packets, size])
            )
        check(result, f"table {table}, handle {handle}")

    def _counted(self, table: str) -> m.Table:
        t = named(self.program.tables, table, "table")
        if not t.has_counters:
            raise NotFound(f"table {table}: it has no direct counter")
        return t

    # --- words -----------------------------------------------------------------------------

    def _layout(self, t: m.Table) -> TableLayout:
        return self.generator.tables.layouts[t.name]

    def _changeable(self, table: str) -> m.Table:
        t = named(self.program.tables, table, "table")
        if t.is_const:
            raise InvalidArgument(f"table {table}: its entries are const in the program")
        return t

    def _indirect(self, table: str) -> m.Table:
        t = self._changeable(table)
        if t.profile is None:
            raise InvalidArgument(f"table {table} has no action profile; use an action")
        return t

    def _head(self, t: m.Table, head: int) -> list[int]:
        return [head, *[0] * self._layout(t).data_words]

    def _action_head(self, t: m.Table, action: str, params: Sequence[int], *,
                     is_default: bool = False) -> list[int]:  # fmt: skip
        what = f"table {t.name}"
        if t.profile is not None and not is_default:
            raise InvalidArgument(
                f"{what}: an entry must refer to a member or a group, not to an action"
            )
        return self._call(t.actions, action, list(params), self._layout(t).data_words, what)

    def _priority(self, t: m.Table, priority: int) -> int:
        return priority if self._layout(t).kind == TERNARY else 0

    def _words(self, t: m.Table, key: Sequence[MatchKey]) -> tuple[
            ctypes.Array[ctypes.c_uint64], ctypes.Array[ctypes.c_uint64], int]:  # fmt: skip
        """Return the words of values, the words of masks (or upper ends), and the prefix length."""
        if len(key) != len(t.key):
            raise InvalidArgument(
                f"table {t.name}: {len(t.key)} key fields, but {len(key)} were given"
            )
        prefix, values, masks = 0, [], []
        for field, match in zip(t.key, key, strict=True):
            value, mask = _value_and_mask(t, field, match)
            if isinstance(match, Lpm) and self._layout(t).kind == LPM:
                prefix = match.prefix_length
            values.append(value)
            masks.append(mask)
        layout = self._layout(t).key
        return array(layout.words(values)), array(layout.words(masks)), prefix

    def _add(self, t: m.Table, key: Sequence[MatchKey], head: list[int], priority: int,
             time_ns: int | None = None) -> int:  # fmt: skip
        if not t.key:
            raise InvalidArgument(f"table {t.name} has no key, so it cannot have entries")
        values, masks, prefix = self._words(t, key)
        with self.locked():
            result = self.library.engine_table_add(
                self.handle, t.index, values, masks, prefix, self._priority(t, priority),
                array(head), self.clock() if time_ns is None else time_ns)  # fmt: skip
        return check(result, f"table {t.name}")

    def _modify(self, t: m.Table, handle: int, head: list[int]) -> None:
        with self.locked():
            result = self.library.engine_table_modify(self.handle, t.index, handle, array(head))
        check(result, f"table {t.name}, handle {handle}")

    def _copy_words(self, t: m.Table) -> int:
        return COPY_HEAD + int(self.library.engine_table_stride(self.handle, t.index))

    def _copied(self, t: m.Table, handle: int) -> list[int]:
        """Return a copy of an entry: handle, priority and slot."""
        words = (ctypes.c_uint64 * self._copy_words(t))()
        with self.locked():
            found = self.library.engine_table_copy_one(self.handle, t.index, handle, words)
        if not found:
            raise NotFound(f"table {t.name}: no entry has handle {handle}")
        return words[:]

    def _entry(self, t: m.Table, copied: list[int], time_ns: int) -> Entry:
        """Decode the words that _copied() returns."""
        handle, slot = copied[0], copied[COPY_HEAD:]
        priority = (copied[1] ^ 1 << 63) - (1 << 63)  # the priority is signed
        layout = self._layout(t)
        stats = 1 + layout.data_words + _key_words(layout)
        number, kind = slot[0] & 0xFFFFFFFF, slot[0] & (MEMBER | GROUP)
        action, params = self._decode_action(slot) if not kind else (None, ())
        return Entry(
            handle,
            decoded_key(t, layout, slot),
            action,
            params,
            priority,
            t.is_const,
            member=number if kind == MEMBER else None,
            group=number if kind == GROUP else None,
            idle_ns=max(0, time_ns - slot[-1]) if t.support_timeout else 0,
            count=(slot[stats], slot[stats + 1]) if t.has_counters else (0, 0),
        )

    def _decode_action(self, slot: list[int]) -> tuple[str | None, tuple[int, ...]]:
        action = self.program.actions.get(slot[0] & 0xFFFFFFFF)
        if action is None:
            return None, ()
        data = slot[1 : 1 + data_words(action)]
        params = []
        for param, start in zip(action.params, param_words(action), strict=True):
            limb = data[start : start + limbs(param.width)]
            params.append(sum(word << 64 * i for i, word in enumerate(limb)))
        return action.name, tuple(params)

    def _add_const_entries(self) -> None:
        for t in self.program.tables.values():
            for entry in t.entries:
                key = [_const_key(f, v) for f, v in zip(t.key, entry.key, strict=True)]
                action = self.program.actions[entry.action]
                size = self._layout(t).data_words
                head = self._call((action,), action.name, list(entry.params), size, t.name)
                self._add(t, key, head, MAX_PRIORITY - entry.priority)


def decoded_key(t: m.Table, layout: TableLayout, slot: Sequence[int]) -> tuple[MatchKey, ...]:
    """Decode the key of an entry from the words of its slot."""
    start, count = 1 + layout.data_words, layout.key.count
    values = layout.key.values(slot[start : start + count])
    masks = [0] * len(values)
    if layout.kind == TERNARY:
        masks = layout.key.values(slot[start + count : start + 2 * count])
    return tuple(_match(f, v, k, slot[0] >> 48, layout.kind)
                 for f, v, k in zip(t.key, values, masks, strict=True))  # fmt: skip


def _key_words(layout: TableLayout) -> int:
    return layout.key.count * (2 if layout.kind == TERNARY else 1)


def _value_and_mask(t: m.Table, field: m.KeyField, match: MatchKey) -> tuple[int, int]:
    """Return a field's value and mask (all ones for exact), or the ends of its range."""
    what, width = f"table {t.name}, key {field.name}", field.width
    expected = _MATCHES[field.match_type]
    if not isinstance(match, expected):
        raise InvalidArgument(f"{what}: {type(match).__name__}, expected {expected.__name__} "
                              f"(the field is matched as {field.match_type})")  # fmt: skip
    if isinstance(match, Range):
        check_width(match.low, width, what)
        check_width(match.high, width, what)
        if match.low > match.high:
            raise InvalidArgument(f"{what}: range from {match.low} to {match.high}")
        return match.low, match.high
    check_width(match.value, width, what)
    mask = (1 << width) - 1
    if isinstance(match, Lpm):
        if not 0 <= match.prefix_length <= width:
            raise InvalidArgument(
                f"{what}: prefix length {match.prefix_length}; expected 0 to {width}"
            )
        mask = prefix_mask(width, match.prefix_length)
    elif isinstance(match, Ternary):
        check_width(match.mask, width, what)
        mask = match.mask
    return match.value & mask, mask


def _match(field: m.KeyField, value: int, mask: int, prefix: int, kind: str) -> MatchKey:
    """Return the match of one field, decoded from the words of a slot."""
    if field.match_type == "exact":
        return Exact(value)
    if field.match_type == "lpm":
        length = prefix if kind == LPM else mask.bit_count()
        return Lpm(value, length)
    if field.match_type == "range":
        return Range(value, mask)
    return Ternary(value, mask)


def _const_key(field: m.KeyField, value: tuple[int, int]) -> MatchKey:
    first, second = value
    if field.match_type == "exact":
        return Exact(first)
    return _MATCHES[field.match_type](first, second)


_MATCHES: dict[str, type] = {
    "exact": Exact,
    "lpm": Lpm,
    "ternary": Ternary,
    "optional": Ternary,
    "range": Range,
}
