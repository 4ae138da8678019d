"""Key-Write store with ten million random keys: is every query result correct or empty?

The store is filled as by a translator (Store.write, which experiments/dta_keywrite.py compares with
the P4 translator). Then all keys and the same number of keys that were not written are queried.
With 31-bit checksums, theory predicts about one wrong result. The benchmark also reports the
rate of queries per core.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from collectors.dta.hashes import Words
from collectors.dta.key_write import Policy, Store, slot
from collectors.dta.theory import mean_outcome, outcome_of_absent
from collectors.roce.region import Region
from telemark.results.goodness_of_fit import agreement_check, binomial_p_value
from telemark.results.report import Report, table
from telemark.session import cli
from telemark.session.run import Run

KEYS, QUICK_KEYS = 10_000_000, 1_000_000
LOAD = 0.6  # load of the store, approximately: the number of slots is a power of two
BITS = 31
COPIES = (1, 2, 4)
SHARE = 100_000  # number of keys per query


class Asked(NamedTuple):
    """Numbers of queries and of their results, for one kind of keys."""

    copies: int
    keys: str  # kind of keys: written or absent
    queries: int
    right: int
    wrong: int
    per_s: float


class Filled(NamedTuple):
    """Store, entries written to it, and keys that were not written."""

    store: Store
    keys: Words
    data: Words
    others: Words
    copies: int


def slots_for(count: int) -> int:
    """Return the number of slots of a store for `count` keys with a load of about LOAD."""
    return 1 << round(np.log2(count / LOAD))


def fill_store(count: int, copies: int, rng: np.random.Generator) -> Filled:
    """Fill a store with `count` random keys, up to a load of about LOAD."""
    words = rng.integers(1 << 32, size=(count, 9), dtype=np.uint32)
    keys, others, data = (np.ascontiguousarray(words[:, a:b]) for a, b in ((0, 4), (4, 8), (8, 9)))
    store = Store(Region(slot(1), slots_for(count)).records, BITS)
    store.write(keys, data, copies)
    return Filled(store, keys, data, others, copies)


def count_answers(made: Filled, which: str, first: int) -> tuple[int, int]:
    """Return the numbers of correct and wrong results for one batch of keys."""
    part = slice(first, first + SHARE)
    keys = (made.keys if which == "written" else made.others)[part]
    found, data = made.store.query(keys, made.copies, Policy.PLURALITY)
    is_right = found & (data == made.data[part]).all(axis=1) & (which == "written")
    return int(is_right.sum()), int((found & ~is_right).sum())


def query_all(made: Filled, which: str) -> Asked:
    """Query all keys, one batch at a time."""
    begun = time.perf_counter()
    answers = [count_answers(made, which, first) for first in range(0, len(made.keys), SHARE)]
    taken_s = time.perf_counter() - begun
    right, wrong = (sum(each) for each in zip(*answers, strict=True))
    return Asked(made.copies, which, len(made.keys), right, wrong, len(made.keys) / taken_s)


def experiment(options: argparse.Namespace, run: Run) -> Report:
    count = QUICK_KEYS if options.quick else KEYS
    rng = np.random.default_rng(run.seed)
    rows = []
    for copies in COPIES:
        made = fill_store(count, copies, rng)
        rows += [query_all(made, which) for which in ("written", "absent")]
    return report(rows)


def report(rows: Sequence[Asked]) -> Report:
    """Compare the counts of all query results with theory."""
    chances = []
    for row in rows:
        load = row.queries / slots_for(row.queries)
        theory = outcome_of_absent(load, row.copies, BITS, Policy.PLURALITY)
        if row.keys == "written":
            theory = mean_outcome(load, row.copies, BITS, Policy.PLURALITY)
        for count, chance in ((row.right, theory.right), (row.wrong, theory.wrong)):
            chances.append(binomial_p_value(count, row.queries, float(chance)))
    shown = [(row.copies, row.keys, row.right / row.queries, row.wrong, row.per_s / 1e6)
             for row in rows]  # fmt: skip
    columns = ("copies", "keys", "right", "wrong", "million queries/s")
    return Report(
        samples=[row._asdict() for row in rows],
        checks=[agreement_check("right and wrong answers", chances)],
        tables=[table(f"{rows[0].queries:,} keys", columns, shown)],
        machine_columns=("per_s",),
    )


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
