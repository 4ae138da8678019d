"""When blocks begin, which colour they have, and when their counters stand still (RFC 9341)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controllers.readout import CLOCK_BITS

PULSE_WINDOW_SHIFT = 5
"""log2 of a block's length over that of the window in which a multiplexed pulse is sent."""


class ClockRange(NamedTuple):
    """Times of the clock whose bits under `mask` are those of `value`: a ternary table key."""

    value: int
    mask: int


@dataclass(frozen=True)
class Schedule:
    """Blocks of equal length on the common clock of all switches, alternately coloured 0 and 1.

    `block_us` is a power of two, so that a switch finds the block by a shift: block number =
    time >> block_shift. It has parts down to 1/32, so 32 is the least. Times are microseconds of
    the common clock. Raises ValueError.
    """

    block_us: int

    def __post_init__(self) -> None:
        if self.block_us < 1 or self.block_us & (self.block_us - 1):
            raise ValueError(f"block length must be a power of two, got {self.block_us} us")
        if self.block_shift < PULSE_WINDOW_SHIFT:
            raise ValueError(f"blocks must have 32 us or more, got {self.block_us} us")

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

    def block_of_start(self, start_us: int, near: int) -> int:
        """Number of the block that a switch knows by its beginning, modulo the switches' clock.

        Of the blocks that begin at `start_us`, 2^48 us apart, it is the one nearest to `near`.
        """
        turn = 1 << (CLOCK_BITS - self.block_shift)
        ahead = (self.block_at(start_us) - near + turn // 2) % turn - turn // 2
        return near + ahead

    def middle_half(self) -> list[ClockRange]:
        """The middle half of every block: the counting interval of double marking, in which pulses
        are sent, and the pulse slot of multiplexed marking, in which they are received."""
        shift = self.block_shift - 2
        return [ClockRange(quarter << shift, 3 << shift) for quarter in (1, 2)]

    def multiplexed_window(self) -> ClockRange:
        """When multiplexed marking sends its pulse: the first 1/32 of every block's second half."""
        low_bits = self.block_us >> PULSE_WINDOW_SHIFT
        return ClockRange(self.block_us // 2, self.block_us - low_bits)

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
