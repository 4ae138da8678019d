"""The memory of Sketch-Merge: counters by row and column, and estimates as in theory."""

import numpy as np

from collectors.dta.hashes import slots
from collectors.dta.sketch_merge import COLUMN, ROWS, estimate, read


def test_columns_come_back_as_rows() -> None:
    columns = np.zeros(3, COLUMN)
    columns[:] = np.frombuffer(bytes(range(48)), COLUMN)  # memory layout in bytes
    counters = read(columns)
    assert counters.shape == (ROWS, 3)
    assert counters[:, 1].tolist() == [0x10111213, 0x14151617, 0x18191A1B, 0x1C1D1E1F]
    assert counters.dtype == np.uint32


def test_estimates_are_never_too_low_and_few_too_high() -> None:
    """An estimate is never below the true count, and rarely much too high.

    With probability e^-rows, it exceeds the true count by more than e / w of the total (Cormode and
    Muthukrishnan 2005).
    """
    rng, width = np.random.default_rng(7), 64
    keys = rng.integers(1 << 32, size=(2000, 4), dtype=np.uint32)
    counts = rng.integers(1, 50, size=2000)
    counters = np.zeros((ROWS, width), np.uint32)
    for row, places in enumerate(slots(keys, ROWS, width)):
        np.add.at(counters[row], places, counts.astype(np.uint32))
    errors = estimate(counters, keys).astype(np.int64) - counts
    assert errors.min() >= 0
    assert errors.max() > 0
    assert np.mean(errors > np.e / width * counts.sum()) < np.exp(-ROWS)
