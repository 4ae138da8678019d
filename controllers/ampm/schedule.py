"""When blocks begin, which colour they have, and when their counters stand still (RFC 9341)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Schedule:
    """Blocks of equal length on the common clock of all switches, alternately coloured 0 and 1.

    `block_us` is a power of two, so that a switch finds the block by a shift: block number =
    time >> block_shift. Times are microseconds of the common clock. Raises ValueError.
    """

    block_us: int

    def __post_init__(self) -> None:
        if self.block_us < 1 or self.block_us & (self.block_us - 1):
            raise ValueError(f"block length must be a power of two, got {self.block_us} us")

    @property
    def block_shift(self) -> int:
        """log2 of the block length in microseconds."""
        return self.block_us.bit_length() - 1

    def block_at(self, time_us: int) -> int:
        """Number of the block that `time_us` lies in."""
        return time_us >> self.block_shift

    def start_us(self, block: int) -> int:
        """When a block begins."""
        return block << self.block_shift

    def reading_us(self, block: int) -> int:
        """When to read a block's counters: half a block after the switch to the other colour.

        That is as far as can be from the block's own late packets and from the early packets of
        the next block of this colour (RFC 9341 section 3.1).
        """
        return self.start_us(block + 1) + self.block_us // 2

    def attribute(
        self, time_us: NDArray[np.int64], colour: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Block of each packet seen at `time_us` with `colour`: the nearest one of that colour.

        Delay carries a packet past the end of its block, a clock that is ahead to before its
        start (RFC 8321 section 4.3). Shapes: both (n,), result (n,).
        """
        block = time_us >> self.block_shift
        late = (time_us & (self.block_us - 1)) < self.block_us // 2
        neighbour = np.where(late, block - 1, block + 1)
        return np.where(block & 1 == colour, block, neighbour)


def colour_of(block: int) -> int:
    """Colour of a block: its number modulo 2."""
    return block & 1


def guard_us(clock_error_us: float, delay_mean_us: float, delay_sd_us: float) -> float:
    """Guard time d = A + D_avg + 3 D_stddev (RFC 9341 section 5): must be under half a block.

    A counter is exact when it is read at least d after its block's end, and at least d before
    the next block of its colour begins.
    """
    return clock_error_us + delay_mean_us + 3 * delay_sd_us
