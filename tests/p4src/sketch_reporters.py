"""Reporters that send their sketches to a translator in this process."""

import numpy as np
from dta_gathering import Gatherer
from dta_path import ours
from numpy.typing import NDArray

from collectors.dta.packets import SketchMerge
from collectors.dta.sketch_merge import ROWS

K = 3


class Reporters:
    """`count` reporters. Each of them has its own sequence numbers."""

    def __init__(self, translator: Gatherer, count: int = K) -> None:
        self._translator, self._sequences = translator, [0] * count
        for number in range(count):
            translator.track(number + 1, reporter=number)

    def send(
        self, reporter: int, column: int, counters: NDArray[np.uint32], sketch: int = 0, **base: int
    ) -> int:
        report = SketchMerge(sketch=sketch, column=column, counters=counters.tolist())
        sequence = self._sequences[reporter]
        self._sequences[reporter] += 1
        return self._translator.report(ours(report, reporter=reporter, sequence=sequence, **base))

    def send_all(self, sketches: NDArray[np.uint32], sketch: int = 0) -> int:
        """Send the sketches, (reporters, rows, columns), of all reporters.

        Return the number of requests.
        """
        return sum(
            self.send(reporter, column, of_one[:, column], sketch)
            for column in range(sketches.shape[2])
            for reporter, of_one in enumerate(sketches)
        )


def some(columns: int = 16, reporters: int = K, seed: int = 1) -> NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(
        1000, size=(reporters, ROWS, columns), dtype=np.uint32
    )
