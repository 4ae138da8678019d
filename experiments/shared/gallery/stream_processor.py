"""Stream processor of Sonata: reads the switch's reports, and runs the rest of a query on them.

exact() runs a whole query over packets, for comparison.
"""

import asyncio
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import finsy as fy
import numpy as np

from collectors.int.store import load_duckdb
from controllers.hash_functions import HashFunctions
from controllers.readout import Readouts
from experiments.shared.gallery.sonata import FIELDS, LEVELS, Query, mask
from experiments.shared.xdp.streams import Stream
from telemark.topology.links import ETHERNET_BYTES

ARRAYS = ("distinct_1", "distinct_2", "reduce_1", "reduce_2")  # arrays of a query in the program
LOG_RECORD = 1
DISTINCT_OVERFLOW, REDUCE_OVERFLOW = 2, 3  # values of `result` in a report


def addresses(query: Query, counts: Iterable[int]) -> set[int]:
    """Return the addresses in keys: the values of the field to refine."""
    return {key >> FIELDS[query.reduce[0]][0] & 0xFFFFFFFF for key in counts}


@dataclass
class StreamProcessor:
    """Runs queries on the reports of a switch, window by window."""

    functions: HashFunctions  # hash functions of all arrays, ordered by query
    cells: int  # number of cells in an array
    log_size: int
    reports: int = 0  # number of reports that the switch has made so far
    window: int = 0

    async def finish_window(
        self, switch: fy.Switch, queries: Sequence[Query]
    ) -> list[tuple[dict[int, int], int]]:
        """Run queries on the reports of a window. Raises ReadoutTimeoutError.

        Return for each query the counts of the keys that reach the threshold, and how many tuples
        the query needed.
        """
        self.window += 1
        async with Readouts(switch) as readouts:
            log = await self._read_log(readouts)
            return [
                await self._answer(readouts, number, query, log)
                for number, query in enumerate(queries)
            ]

    async def _read_log(self, readouts: Readouts) -> list[tuple[int, int]]:
        """Return packets (as tuples) and results of the reports of this window."""
        start, self.reports = self.reports, (await readouts.read(LOG_RECORD)).arrival[3]
        numbers = range(start, min(self.reports, self.log_size))
        rows = await asyncio.gather(*(readouts.read(LOG_RECORD, number) for number in numbers))
        return [(row.arrival[1] << 64 | row.arrival[0], row.arrival[2]) for row in rows]

    async def _answer(
        self, readouts: Readouts, number: int, query: Query, log: Sequence[tuple[int, int]]
    ) -> tuple[dict[int, int], int]:
        level, refined = LEVELS[self.window - 1], query.reduce[0]
        key, distinct = (mask(names, refined, level) for names in (query.reduce, query.distinct))
        own = [(packet, results >> 2 * number & 3) for packet, results in log]
        reports = [
            (f"{packet & key:x}", f"{packet & distinct:x}", result)
            for packet, result in own
            if result
        ]
        counts = await self._read_counts(readouts, number, sorted({each[0] for each in reports}))
        return complete(reports, counts, query.threshold), len(reports) + len(counts)

    async def _read_counts(
        self, readouts: Readouts, number: int, keys: Sequence[str]
    ) -> dict[str, int]:
        """Return the counts of keys in the switch, in this window."""
        hashes = [zlib.crc32(int(key, 16).to_bytes(16, "big")) for key in keys]
        first = len(ARRAYS) * number + ARRAYS.index("reduce_1")
        places = self.functions.positions(np.array(hashes, np.uint32), self.cells)
        counts = {}
        for array in (0, 1):
            record, row = 2 * number + 2 + array, places[first + array].tolist()
            cells = await asyncio.gather(*(readouts.read(record, place) for place in row))
            for key, cell in zip(keys, cells, strict=True):
                low, high, window, count = cell.arrival
                if (high << 64 | low, window) == (int(key, 16), self.window):
                    counts[key] = count
        return counts


def complete(reports: Sequence[tuple[str, str, int]], counts: Mapping[str, int],
             threshold: int) -> dict[int, int]:  # fmt: skip
    """Run the rest of a query: return the count of each key that reaches the threshold.

    A report has a key, a distinct tuple (both as hexadecimal text) and a result. `counts` are the
    counts in the switch of all reported keys.
    """
    with load_duckdb().connect() as database:
        database.execute("CREATE TABLE reports (key VARCHAR, distinct_tuple VARCHAR, result INT)")
        database.execute("CREATE TABLE counts (key VARCHAR, number BIGINT)")
        if reports:
            database.executemany("INSERT INTO reports VALUES (?, ?, ?)", reports)
        if counts:
            database.executemany("INSERT INTO counts VALUES (?, ?)", [*counts.items()])
        rows = database.execute(
            """
            SELECT key, SUM(number)::BIGINT FROM (
                SELECT * FROM counts
                UNION ALL SELECT key, COUNT(DISTINCT distinct_tuple) FROM reports
                          WHERE result = $distinct_overflow GROUP BY key
                UNION ALL SELECT key, COUNT(*) FROM reports
                          WHERE result = $reduce_overflow GROUP BY key)
            GROUP BY key HAVING SUM(number) >= $threshold
            """,
            {"distinct_overflow": DISTINCT_OVERFLOW, "reduce_overflow": REDUCE_OVERFLOW,
             "threshold": threshold},
        ).fetchall()  # fmt: skip
    return {int(key, 16): count for key, count in rows}


def exact(
    stream: Stream, query: Query, level: int, prefixes: Collection[int] | None, prefix_length: int
) -> tuple[dict[int, int], int]:
    """Run a query over the packets of a window. Return the counts, and how many packets match.

    The keys are tuples. If `prefixes` is given, other addresses of the refined field are left out.
    """
    refined, rows = query.reduce[0], stream.rows
    columns = {name: rows[name].astype(np.int64) for name in FIELDS}
    columns["length"] -= ETHERNET_BYTES
    conditions = " AND ".join(["true", *(f"{name} = {v}" for name, v in query.filter.items())])
    within = "true"
    if prefixes is not None:
        listed = ", ".join(map(str, prefixes)) or "NULL"
        within = f"({refined} & {mask_of(prefix_length)}) IN ({listed})"
    cut = {name: name for name in FIELDS} | {refined: f"{refined} & {mask_of(level)} AS {refined}"}
    inner = ", ".join(cut[name] for name in query.distinct or query.reduce)
    distinct = "DISTINCT" if query.distinct else ""
    key = ", ".join(query.reduce)
    with load_duckdb().connect() as database:
        database.register("packets", columns)
        (matching,) = database.execute(
            f"SELECT COUNT(*) FROM packets WHERE {conditions}"
        ).fetchone() or (0,)
        found = database.execute(
            f"""
            SELECT {key}, COUNT(*) FROM
                (SELECT {distinct} {inner} FROM packets WHERE {conditions} AND {within})
            GROUP BY {key} HAVING COUNT(*) >= {query.threshold}
            """
        ).fetchall()
    return {
        sum(value << FIELDS[name][0] for name, value in zip(query.reduce, row, strict=False)):
        row[-1] for row in found
    }, matching  # fmt: skip


def compare(
    query: Query, traces: Sequence[Stream], found: Sequence[Mapping[int, int]]
) -> tuple[int, int, int, int]:
    """Compare the keys and counts of all windows, and the answers, with those of exact().

    Return how many packets match the filter, how many keys have a different count, how many answers
    are missing or wrong, and how many answers there are.
    """
    matching, different, prefixes, previous = 0, 0, None, 0
    for trace, level, counts in zip(traces, LEVELS, found, strict=True):
        expected, matches = exact(trace, query, level, prefixes, previous)
        matching += matches
        different += len(dict(expected.items() ^ counts.items()))
        prefixes, previous = addresses(query, expected), level
    answers = addresses(query, found[-1])
    direct, _ = exact(traces[-1], query, LEVELS[-1], None, 0)
    return matching, different, len(answers ^ addresses(query, direct)), len(answers)


def mask_of(length: int) -> int:
    """Return the mask of an IPv4 prefix."""
    return (1 << 32) - (1 << 32 - length)
