"""DTA Sketch-Merge: in memory is one sketch, the sum of the sketches of many reporters.

    region = Region(COLUMN, sketches * columns, Path("sketches"))
    counters = read(region.records.reshape(sketches, columns)[epoch % sketches])
    estimates = estimate(counters, keys)

Each reporter sends the columns of its sketch in order. The translator adds up columns that have the
same number. When all reporters have sent the same group of neighbouring columns, the translator
writes this group. In memory, the rows of a column are next to each other.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.dta.hashes import Words, slots

ROWS = 4  # number of rows of a column in a report
COLUMN = np.dtype([("rows", ">u4", (ROWS,))])
"""Memory layout of a column; unused rows are 0."""


def read(columns: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the counters of a sketch; shape (ROWS, columns).

    The argument is the sketch's COLUMN records, shape (columns,).
    """
    return columns["rows"].T.astype(np.uint32)


def estimate(counters: NDArray[np.uint32], keys: Words) -> NDArray[np.uint32]:
    """Return the count-min estimates (Cormode and Muthukrishnan 2005) for keys; shape (n,).

    `keys` has shape (n, 4). `counters` come from read(), and their number of columns is a power of
    two. A key has one counter in each row.
    """
    places = slots(keys, ROWS, counters.shape[1])
    least: NDArray[np.uint32] = np.take_along_axis(counters, places, axis=1).min(axis=0)
    return least
