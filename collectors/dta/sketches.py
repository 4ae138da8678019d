"""Sketch-Merge: one sketch of what many reporters counted, as the translator merged it.

    region = Region(COLUMN, sketches * columns, Path("sketches"))
    counters = read(region.records.reshape(sketches, columns)[epoch % sketches])
    estimates = estimate(counters, keys)

Each reporter sends the columns of its sketch, in order; the translator adds up those of one number,
and writes columns that all reporters have sent, several at a time. A column's rows lie together.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import Words, slots

ROWS = 4  # of a column as it is sent
COLUMN = np.dtype([("rows", ">u4", (ROWS,))])
"""What lies in memory of a column: unused rows are 0."""


def read(columns: NDArray[Any]) -> NDArray[np.uint32]:
    """The counters of a sketch of COLUMN records, (columns,): (ROWS, columns)."""
    return columns["rows"].T.astype(np.uint32)


def estimate(counters: NDArray[np.uint32], keys: Words) -> NDArray[np.uint32]:
    """What a count-min sketch (Cormode and Muthukrishnan 2005) says of keys (n, 4): (n,).

    `counters`: as read() gives them, (ROWS, a power of two), of which a key has one in each row.
    """
    places = slots(keys, ROWS, counters.shape[1])
    least: NDArray[np.uint32] = np.take_along_axis(counters, places, axis=1).min(axis=0)
    return least
