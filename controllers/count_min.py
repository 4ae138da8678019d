"""Count-min sketch of p4src/count_min: hash functions, readout of counters, and estimates."""

import asyncio

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.hash_functions import HashFunctions, flow_hash
from controllers.readout import Readouts

ROWS = 4
COUNTERS = 1  # readout record of count_min.p4


class CountMin:
    """A sketch with ROWS rows of `width` counters. The `seed` determines the hash functions."""

    def __init__(self, width: int, seed: int) -> None:
        self.width = width
        self._functions = HashFunctions(ROWS, seed)

    def entries(self) -> list[fy.P4TableEntry]:
        """Return the entries that set the hash function of each row."""
        return self._functions.entries([f"row_{number}.hash_function" for number in range(ROWS)])

    async def read(self, switch: fy.Switch) -> NDArray[np.int64]:
        """Return the counters of a switch; shape (ROWS, width).

        The counters of several switches may be added up. Raises ReadoutTimeoutError.
        """
        async with Readouts(switch) as readouts:
            answers = await asyncio.gather(
                *(readouts.read(COUNTERS, index) for index in range(self.width))
            )
        return np.array([answer.arrival for answer in answers]).T

    def places(
        self, src_addr: str, dst_addr: str, protocol: int, src_port: int, dst_port: int
    ) -> list[int]:
        """Return the index of the flow's counter in each row."""
        flow = flow_hash(src_addr, dst_addr, protocol, src_port, dst_port)
        return self._functions.positions(np.array([flow], np.uint32), self.width)[:, 0].tolist()

    def estimate(self, counters: NDArray[np.int64], places: list[int]) -> int:
        """Return an upper bound of a flow's packet count.

        `places` are the indices of the flow's counters.
        """
        return int(counters[range(ROWS), places].min())
