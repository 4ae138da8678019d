"""Count-min sketch of p4src/count_min: hash functions, counter readout and estimates."""

import asyncio
import random
import struct
import zlib
from ipaddress import IPv4Address

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from controllers.readout import Readouts

ROWS = 4
COUNTERS = 1  # readout record of count_min.p4


class CountMin:
    """A sketch of ROWS rows of `width` counters; `seed` determines the hash functions."""

    def __init__(self, width: int, seed: int) -> None:
        rng = random.Random(seed)
        self.width = width
        self._hashes = [(rng.getrandbits(64), rng.getrandbits(64)) for _ in range(ROWS)]

    def entries(self) -> list[fy.P4TableEntry]:
        """Return the entries that configure the hash function of each row."""
        return [
            fy.P4TableEntry(
                f"row_{number}.hash_function",
                action=fy.Action(f"row_{number}.choose", a=a, b=b),
                is_default_action=True,
            )
            for number, (a, b) in enumerate(self._hashes)
        ]

    async def read(self, switch: fy.Switch) -> NDArray[np.int64]:
        """Return a switch's counters, shape (ROWS, width).

        Counters of several switches may be added. Raises ReadoutTimeoutError.
        """
        async with Readouts(switch) as readouts:
            answers = await asyncio.gather(
                *(readouts.read(COUNTERS, index) for index in range(self.width))
            )
        return np.array([answer.arrival for answer in answers]).T

    def places(
        self, src_addr: str, dst_addr: str, protocol: int, src_port: int, dst_port: int
    ) -> list[int]:
        """Return the counter index of a flow in each row."""
        addresses = (int(IPv4Address(address)) for address in (src_addr, dst_addr))
        flow = zlib.crc32(struct.pack("!IIBHH", *addresses, protocol, src_port, dst_port))
        return [((a * flow + b) % 2**64 >> 32) * self.width >> 32 for a, b in self._hashes]

    def estimate(self, counters: NDArray[np.int64], places: list[int]) -> int:
        """Return an upper bound of the packet count of the flow with these counter indices."""
        return int(counters[range(ROWS), places].min())
