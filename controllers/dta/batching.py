"""Stores for which a translator collects reports in batches and then writes them.

P4: p4src/dta/gather.p4.

    lists = ListStore(entries_each=8, batches=1024, lists=16, session=1)
    ...                                      # like other stores: see translator
    await flush_lists(switch, 1, lists)      # write incomplete batches

All stores of a translator use the same registers. Each store has a range of these registers, which
starts at `first`. The ranges must not overlap.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import finsy as fy

from controllers.dta.stores import check_slots, spread_over, too_small
from controllers.readout import Readouts
from controllers.roce.queue_pair import QueuePair

ENTRIES = (1, 2, 4, 8, 16)  # allowed numbers of entries per batch
LISTS, ROWS, COLUMNS = 4096, 32768, 16384  # capacity of a translator's registers
NEIGHBOURS = 8  # number of columns per write
MOST_REPORTERS = 255  # maximum number of tracked reporters per translator
CHUNK_BYTES, COLUMN_BYTES = 32, 16

_AT_ONCE, _PAUSE_S = 16, 0.001  # number of packet-outs in a group, and pause between groups

_FLUSH_LIST, _FLUSH_ROW, _FLUSH_COLUMN = 2, 3, 4  # records of p4src/dta/gather.p4
_LIST_STATE = 8  # readout record of p4src/dta/append.p4


@dataclass(frozen=True)
class ListStore:
    """Store for Appends. Its lists have the numbers 0 to `lists` - 1.

    A batch contains `entries_each` entries. The ring of a list contains `batches` batches.

    Raises ValueError for invalid parameters.
    """

    entries_each: int
    batches: int
    lists: int = 1
    session: int = 1
    first: int = 0

    def __post_init__(self) -> None:
        where = f"store of {self.lists} lists"
        if self.entries_each not in ENTRIES:
            raise ValueError(f"{where}: batches of {self.entries_each}: expected one of {ENTRIES}")
        if not 2 <= self.batches < 1 << 26:
            raise ValueError(f"{where}: rings of {self.batches} batches: expected 2 to 2^26 - 1")
        _check_registers(where, self.first, self.lists, LISTS)

    @property
    def sessions(self) -> range:
        """See Store."""
        return range(self.session, self.session + 1)

    @property
    def registers(self) -> tuple[str, range]:
        """See Store."""
        return "lists", range(self.first, self.first + self.lists)

    @property
    def batch_bytes(self) -> int:
        """Length of a batch in bytes: entries and tail."""
        return 4 * self.entries_each + 4

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        action = fy.Action("append", session=self.session, first=self.first, count=self.lists,
                           batches=self.batches, size=self.entries_each)  # fmt: skip
        return [_entry("list_stores", service, action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        return _written(session, self.lists * self.batches * self.batch_bytes)


@dataclass(frozen=True)
class PostcardStore:
    """Store for Postcards. Each session has `slots` chunks; `slots` is a power of two.

    Paths that are still incomplete use `rows` rows of the translator's cache; `rows` is a power of
    two. Raises ValueError for invalid parameters.
    """

    slots: int
    rows: int = ROWS
    sessions: range = range(1, 2)
    first: int = 0

    def __post_init__(self) -> None:
        where = "Postcarding store"
        check_slots(where, self.slots, self.sessions)
        if self.rows.bit_count() != 1:
            raise ValueError(f"{where}: {self.rows} rows: expected a power of 2")
        _check_registers(where, self.first, self.rows, ROWS)

    @property
    def registers(self) -> tuple[str, range]:
        """See Store."""
        return "rows of paths", range(self.first, self.first + self.rows)

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        action = fy.Action("collect", **spread_over(self.sessions), slot_mask=self.slots - 1,
                           first_row=self.first, row_mask=self.rows - 1)  # fmt: skip
        return [_entry("postcard_stores", service, action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        return _written(session, self.slots * CHUNK_BYTES)


@dataclass(frozen=True)
class SketchStore:
    """Store for columns of sketches. The sketches have the numbers 0 to `sketches` - 1.

    A column in the store is the sum of the columns from `reporters` reporters.

    `columns` is a multiple of 8. The translator must track the reporters. Raises ValueError for
    invalid parameters.
    """

    columns: int
    reporters: int
    sketches: int = 1
    session: int = 1
    first: int = 0

    def __post_init__(self) -> None:
        where = f"store of {self.sketches} sketches"
        if self.columns < 1 or self.columns % NEIGHBOURS or self.first % NEIGHBOURS:
            raise ValueError(f"{where}: {self.columns} columns from {self.first} on: expected "
                             f"multiples of {NEIGHBOURS}")  # fmt: skip
        if not 1 <= self.reporters <= MOST_REPORTERS:
            raise ValueError(f"{where}: {self.reporters} reporters: expected 1 to {MOST_REPORTERS}")
        _check_registers(where, self.first, self.sketches * self.columns, COLUMNS)

    @property
    def sessions(self) -> range:
        """See Store."""
        return range(self.session, self.session + 1)

    @property
    def registers(self) -> tuple[str, range]:
        """See Store."""
        return "columns", range(self.first, self.first + self.sketches * self.columns)

    def entries(self, service: int) -> list[fy.P4TableEntry]:
        """See Store."""
        action = fy.Action("merge", session=self.session, first=self.first, count=self.sketches,
                           columns=self.columns, reporters_of_all=self.reporters)  # fmt: skip
        return [_entry("sketch_stores", service, action)]

    def problem_of(self, session: QueuePair) -> str:
        """See Store."""
        return _written(session, self.sketches * self.columns * COLUMN_BYTES)


async def flush_lists(switch: fy.Switch, service: int, store: ListStore) -> None:
    """Make the translator write incomplete batches.

    `service` is the number of the service that has the store; numbers start at 1.
    """
    await _ask(switch, _FLUSH_LIST, service, range(store.lists))


async def flush_rows(switch: fy.Switch, service: int, store: PostcardStore) -> None:
    """Make the translator write incomplete paths."""
    await _ask(switch, _FLUSH_ROW, service, range(store.rows))


async def flush_columns(switch: fy.Switch, service: int, store: SketchStore, sketch: int) -> None:
    """Make the translator write incomplete columns of a sketch.

    Incomplete columns are columns that some reporters have not sent yet.
    """
    await _ask(
        switch, _FLUSH_COLUMN, service,
        (sketch << 12 | eight for eight in range(store.columns // NEIGHBOURS)),
    )  # fmt: skip


async def restart_list(
    switch: fy.Switch, store: ListStore, number: int, *, batch_number: int, slot: int
) -> None:
    """Resume a list at the position that collectors.dta.append.head() returned.

    Call this after the switch has restarted. Otherwise, the switch starts with the first batch,
    which readers do not expect.
    """
    async with Readouts(switch) as readouts:
        await readouts.write(_LIST_STATE, store.first + number, batch_number - 1, slot)


async def _ask(switch: fy.Switch, record: int, service: int, whose: Iterable[int]) -> None:
    """Send packet-outs in small groups, with pauses between the groups.

    Nothing acknowledges packet-outs, so the collector must be able to keep up with their writes.
    """
    for count, number in enumerate(whose, 1):
        index = service << 24 | number
        await switch.write([fy.P4PacketOut(b"", record=record, index=index)])
        if count % _AT_ONCE == 0:
            await asyncio.sleep(_PAUSE_S)


def _entry(table: str, service: int, action: fy.Action) -> fy.P4TableEntry:
    return fy.P4TableEntry(table, match=fy.Match({"service": service}), action=action)


def _written(session: QueuePair, needed: int) -> str:
    if session.has_atomics:
        return "it is a CounterSession: expected a WriteSession"
    return too_small(session, needed)


def _check_registers(where: str, first: int, count: int, most: int) -> None:
    if first < 0 or count < 1 or first + count > most:
        raise ValueError(f"{where}: registers {first} to {first + count - 1}: expected numbers "
                         f"from 0 to {most - 1}")  # fmt: skip
