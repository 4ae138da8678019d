"""The collector or the translator restarts while reports arrive. The loss is bounded and known.

Earlier writes remain, each report is counted at most once, and no query result is wrong.
"""

from collections.abc import Callable, Collection

import numpy as np
import pytest
from dta_gathering import COLUMNS, LIST, ROW, Gatherer
from dta_path import ours
from scapy.packet import Packet

from collectors.dta.append import Reader, head
from collectors.dta.hashes import key_words
from collectors.dta.key_increment import COUNTER, Counters
from collectors.dta.key_write import Store, slot
from collectors.dta.packets import Append, KeyIncrement, KeyWrite, Postcard, SketchMerge
from collectors.dta.postcarding import Postcards
from collectors.roce.region import Region

REPORTS, REPORTER = 96, 7
DOWN = range(40, 56)  # numbers of the reports during the collector's downtime
# Number of the first report after the translator's restart. At the restart, reports 40 and 41 wait
# for the rest of their batch, path or columns.
RESTART = 42
SLOTS, ROWS, BATCH, HOPS, EIGHT = 1 << 12, 64, 4, 5, 8
KEYS = [0x9E3779B97F4A7C15F39CC0605CEDC835 * n % (1 << 128) for n in range(1, REPORTS + 1)]


class System(Gatherer):
    """A translator with stores of all kinds. It tracks one reporter."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = {
            "list": self.lists(BATCH, 32, count=1)[0],
            "paths": self.cache(SLOTS, ROWS)[0],
            "columns": self.sketches(1, count=6, columns=16).reshape(-1),
            "values": self.session(4, slot(1), SLOTS).records,
            "counters": self.session(5, COUNTER, 2 * SLOTS, fetch_add=True).records,
        }
        self.key_write(1, SLOTS, first=4)
        self.counters(SLOTS, first=5)
        self.track(1, REPORTER)

    def take(self, report: Callable[[int], Packet], numbers: Collection[int]) -> None:
        """Process reports with these sequence numbers."""
        for number in numbers:
            self.report(ours(report(number), reporter=REPORTER, sequence=number, retransmittable=1))

    def flush_all(self) -> None:
        """Flush all reports that wait in the translator."""
        self.flush(LIST, 0)
        for row in range(ROWS):
            self.flush(ROW, row)
        for eight in range(REPORTS // EIGHT):
            self.flush(COLUMNS, eight // 2 << 12 | eight % 2)


def write(number: int) -> Packet:
    return KeyWrite(redundancy=2, key=KEYS[number], data=[number + 1])


def add(number: int) -> Packet:
    return KeyIncrement(redundancy=2, key=KEYS[number % 10], addend=number + 1)


def append(number: int) -> Packet:
    return Append(list=0, data=number)


def postcard(number: int) -> Packet:
    return Postcard(redundancy=2, key=KEYS[number // HOPS], hop=number % HOPS, value=number)


def column(number: int) -> Packet:
    return SketchMerge(sketch=number // 16, column=number % 16, counters=[number + 1, 0, 0, 0])


def check_values(made: System, kept: Collection[int]) -> None:
    """Check that memory equals a store to which only the reports in `kept` were written."""
    region = Region(slot(1), SLOTS)
    data = np.array([[n + 1] for n in kept], np.uint32)
    Store(region.records).write(key_words([KEYS[n] for n in kept]), data, 2)
    assert made.memory["values"].tobytes() == region.bytes.tobytes()


def check_counters(made: System, kept: Collection[int]) -> None:
    region = Region(COUNTER, 2 * SLOTS)
    addends = np.array([n + 1 for n in kept], np.uint64)
    Counters(region.records, 2).add(key_words([KEYS[n % 10] for n in kept]), addends, 2)
    assert made.memory["counters"].tobytes() == region.bytes.tobytes()


def check_list(made: System, kept: Collection[int]) -> None:
    assert Reader(made.memory["list"]).pull().tolist() == [*kept]


def check_paths(made: System, kept: Collection[int]) -> None:
    """Check that memory has exactly the hops of paths whose reports are in `kept`."""
    found = Postcards(made.memory["paths"], range(REPORTS), 2).query(key_words(KEYS))
    for number in range(REPORTS - 1):  # the first 95 reports are 19 whole paths
        path, hop = divmod(number, HOPS)
        assert found.is_known[path, hop] == (number in kept)
        assert found.values[path, hop] == (number if number in kept else 0)


def check_columns(made: System, kept: Collection[int]) -> None:
    sums = made.memory["columns"]["rows"][:, 0]
    assert sums.tolist() == [n + 1 if n in kept else 0 for n in range(REPORTS)]


PRIMITIVES = [(write, check_values), (add, check_counters), (append, check_list),
              (postcard, check_paths), (column, check_columns)]  # fmt: skip


@pytest.mark.parametrize(("report", "check"), PRIMITIVES)
def test_a_restart_of_the_collector_loses_only_reports_during_its_downtime(
    report: Callable[[int], Packet], check: Callable[[System, Collection[int]], None]
) -> None:
    """A restart of the collector loses only what the translator would write during the downtime.

    Reports that wait in the translator are written later.
    """
    made = System()
    made.take(report, range(DOWN.start))
    made.lost = {*range(len(made.sent), len(made.sent) + 2 * len(DOWN))}
    made.take(report, DOWN)
    made.lost = set()
    made.restart_collector()
    made.take(report, range(DOWN.stop, REPORTS))
    lost = range(40, 55) if report is postcard else DOWN  # 55 to 59 are a path, written later
    check(made, [n for n in range(REPORTS) if n not in lost])
    assert made.nic.counts().refused.total() == 0
    assert made.events(1) == {"translated": REPORTS}


@pytest.mark.parametrize(("report", "check"), PRIMITIVES)
def test_a_restart_of_the_translator_loses_only_batched_reports(
    report: Callable[[int], Packet], check: Callable[[System, Collection[int]], None]
) -> None:
    """A restart of the translator loses only the reports that wait in the translator.

    The lost reports are at most a batch per list, the paths in the cache, and columns that are not
    yet complete.
    """
    before = System()
    before.take(report, range(RESTART))
    made = System()  # a new translator with empty registers
    for name, memory in made.memory.items():
        memory[:] = before.memory[name]
    place = head(made.memory["list"])
    made.engine.register_write("append_number", 0, place.number - 1)
    made.engine.register_write("append_slot", 0, place.slot)
    made.engine.register_write("dta_expected", 1, RESTART)
    made.take(report, range(RESTART, REPORTS))
    counted = made.events(1)
    made.flush_all()
    lost = range(40, RESTART) if report in (append, postcard, column) else ()
    check(made, [n for n in range(REPORTS) if n not in lost])
    assert made.nacks == []
    assert counted == {"translated": REPORTS - RESTART}
