"""Lists of Append: a reader gets each entry once and in order, and counts missed entries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from collectors.dta.append import BATCHES, FIRST, NUMBERS, Place, Reader, batch, head, tail
from collectors.roce.region import Region
from telemark.errors import TestbedError


class Translator:
    """Writes ascending numbers into a ring, batch by batch."""

    def __init__(self, entries: int = 4, size: int = 8, place: Place = FIRST) -> None:
        self.ring: NDArray[Any] = np.zeros(size, batch(entries))
        self.place, self.written = place, 0

    def write(self, batches: int = 1, count: int | None = None, *, arrives: bool = True) -> None:
        for _ in range(batches):
            record = np.zeros((), self.ring.dtype)
            size = record["entries"].size if count is None else count
            record["entries"][:size] = np.arange(self.written, self.written + size)
            record["tail"] = tail(size, self.place.number)
            self.written += size
            if arrives:
                self.ring[self.place.slot] = record
            self.place = self.place.ahead(1, len(self.ring))


def pulled(reader: Reader) -> list[int]:
    found: list[int] = reader.pull().tolist()
    return found


@pytest.mark.parametrize("entries", BATCHES)
def test_each_entry_comes_once_and_in_order_over_laps(entries: int) -> None:
    translator = Translator(entries, size=8)
    reader, found = Reader(translator.ring), []
    for batches in (1, 0, 3, 7, 2, 7, 7, 5):
        translator.write(batches)
        assert reader.waiting == batches
        found += pulled(reader)
    assert found == list(range(32 * entries))
    assert (reader.lost, reader.overrun, reader.waiting) == (0, 0, 0)


def test_an_unwritten_list_is_empty() -> None:
    """A reader of an unwritten list returns nothing.

    The published collector would continue to read unwritten memory.
    """
    reader = Reader(Translator().ring)
    assert [pulled(reader) for _ in range(20)] == [[]] * 20
    assert reader.place == FIRST


def test_zeros_are_entries_like_others() -> None:
    ring = np.zeros(4, batch(2))
    ring["tail"][0] = tail(2, 1)
    assert pulled(Reader(ring)) == [0, 0]


def test_a_partial_batch_has_as_many_entries_as_it_says() -> None:
    translator = Translator(4)
    reader = Reader(translator.ring)
    for count in (4, 1, 3, 4):
        translator.write(count=count)
    assert pulled(reader) == list(range(12))


def test_several_readers_each_get_all() -> None:
    translator = Translator()
    readers = [Reader(translator.ring) for _ in range(3)]
    translator.write(3)
    first = pulled(readers[0])
    translator.write(3)
    assert first + pulled(readers[0]) == pulled(readers[1]) == list(range(24))


def test_what_was_overwritten_is_counted_and_not_read() -> None:
    """Overwritten batches are counted, but not read.

    At most one batch less than the size of the ring can be read, because a batch may be half
    written.
    """
    translator = Translator(4, size=8)
    reader = Reader(translator.ring)
    translator.write(2)
    pulled(reader)
    translator.write(27)
    assert reader.waiting == 27
    assert pulled(reader) == list(range(4 * 22, 4 * 29))
    assert (reader.overrun, reader.lost) == (20, 0)


def test_what_was_lost_on_the_way_is_counted_and_not_waited_for() -> None:
    translator = Translator(2, size=8)
    reader = Reader(translator.ring)
    for arrives in (True, False, True, False, False):
        translator.write(arrives=arrives)
    assert pulled(reader) == [0, 1, 4, 5]
    assert reader.lost == 1  # the reader does not know yet whether the last two are lost
    translator.write()
    assert pulled(reader) == [10, 11]
    assert (reader.lost, reader.overrun) == (3, 0)


def test_a_lap_that_was_lost_as_a_whole_is_not_read_again() -> None:
    translator = Translator(1, size=4)
    reader = Reader(translator.ring)
    translator.write(4)
    pulled(reader)
    translator.write(4, arrives=False)
    assert pulled(reader) == []
    translator.write(1)
    assert pulled(reader) == [8]
    assert reader.lost + reader.overrun == 5  # 9 batches were sent, and 4 were read


class Overtaken:
    """A ring into which a translator writes while a reader copies a batch."""

    def __init__(self, ring: NDArray[Any], goes_on: Callable[[], None]) -> None:
        self._ring, self._goes_on = ring, goes_on

    def __len__(self) -> int:
        return len(self._ring)

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, str):
            self._goes_on()
        return self._ring[at]


def test_what_is_overwritten_while_it_is_read_is_not_given_out() -> None:
    """Entries that are overwritten while they are read are not returned.

    While the reader copies, the translator completes two batches. It also writes the entries of a
    third batch, but not yet the tail.
    """
    translator = Translator(4, size=8)
    translator.write(8)

    def goes_on() -> None:
        translator.write(2)
        translator.ring["entries"][translator.place.slot] = 999

    reader = Reader(Overtaken(translator.ring, goes_on), FIRST)  # type: ignore[arg-type]
    assert pulled(reader) == list(range(12, 32))
    assert (reader.overrun, reader.lost) == (3, 0)
    assert reader.waiting == 2


@pytest.mark.parametrize("size", [2, 3, 8])
def test_numbers_wrap_after_the_last(size: int) -> None:
    """Batch numbers wrap after the last one, and slots stay consecutive.

    This also holds if the number of batch numbers is no multiple of the ring size.
    """
    first = Place(NUMBERS - 4, 1)
    translator = Translator(2, size, first)
    reader, found = Reader(translator.ring, first), []
    for _ in range(9):
        translator.write()
        found += pulled(reader)
        assert head(translator.ring) == translator.place
    assert found == list(range(18))
    assert translator.place == Place(5, 10 % size)


@pytest.mark.parametrize("written", [0, 1, 5, 8, 9, 21])
def test_a_restarted_translator_finds_where_to_go_on(written: int) -> None:
    translator = Translator(size=8)
    translator.write(written)
    assert head(translator.ring) == translator.place


@pytest.mark.parametrize(("written", "readable"), [(0, 0), (1, 1), (7, 7), (8, 7), (21, 7)])
def test_a_restarted_reader_begins_with_the_oldest(
    tmp_path: Path, written: int, readable: int
) -> None:
    path, kind = tmp_path / "list", batch(4)
    translator = Translator(4, size=8)
    translator.write(written)
    Region(kind, 8, path).records[:] = translator.ring
    reader = Reader(Region(kind, 8, path).records)
    assert pulled(reader) == list(range(4 * (written - readable), 4 * written))
    assert (reader.lost, reader.overrun) == (0, 0)


def test_a_reader_goes_on_where_another_one_was() -> None:
    translator = Translator()
    translator.write(3)
    reader = Reader(translator.ring)
    pulled(reader)
    translator.write(2)
    assert pulled(Reader(translator.ring, reader.place)) == list(range(12, 20))


def test_a_ring_that_restarts_is_not_read_backwards() -> None:
    """A reader returns nothing from a ring whose batch numbers have restarted at a lower number.

    The head of this ring was not restored after the restart.
    """
    old, new = Translator(size=8), Translator(size=8)
    old.write(100)
    reader = Reader(old.ring)
    reader.pull()
    place, new.ring = reader.place, old.ring
    new.write(8)
    assert (pulled(reader), reader.place, reader.waiting) == ([], place, 0)


def test_numbers_lie_in_network_byte_order() -> None:
    ring = np.zeros(2, batch(2))
    ring.view(np.uint8)[:12] = [1, 2, 3, 4, 5, 6, 7, 8, 2 << 3, 0, 0, 1]
    assert pulled(Reader(ring)) == [0x01020304, 0x05060708]


@pytest.mark.parametrize("entries", [0, 3, 32])
def test_other_sizes_of_batches_are_refused(entries: int) -> None:
    with pytest.raises(TestbedError, match=rf"batches of {entries} entries: expected one of"):
        batch(entries)


def test_a_ring_of_one_batch_is_refused() -> None:
    with pytest.raises(TestbedError, match="1 batches: expected at least 2"):
        Reader(np.zeros(1, batch(4)))
