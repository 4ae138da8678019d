"""Schedule of blocks: start times, colours and reading times (RFC 9341)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controllers.readout import CLOCK_BITS

PULSE_WINDOW_SHIFT = 5
"""The window for sending a multiplexed pulse is the block length >> PULSE_WINDOW_SHIFT."""


class ClockRange(NamedTuple):
    """Ternary match on a time: under `mask`, the bits of the time equal the bits of `value`."""

    value: int
    mask: int


@dataclass(frozen=True)
class Schedule:
    """Blocks of equal length on the common clock of all switches. Their colours alternate: 0 and 1.

    `block_us` is a power of two, at least 32. So a switch can compute the block number as time >>
    block_shift, and can divide a block into 32 parts. Times are in microseconds of the common
    clock. Raises ValueError.
    """

    block_us: int

    def __post_init__(self) -> None:
        if self.block_us < 1 or self.block_us & (self.block_us - 1):
            raise ValueError(f"block length must be a power of two, got {self.block_us} us")
        if self.block_shift < PULSE_WINDOW_SHIFT:
            raise ValueError(f"block length must be at least 32 us, got {self.block_us} us")

    @property
    def block_shift(self) -> int:
        """Logarithm (base 2) of the block length in microseconds."""
        return self.block_us.bit_length() - 1

    def block_at(self, time_us: int) -> int:
        """Return the number of the block that contains `time_us`."""
        return time_us >> self.block_shift

    def start_us(self, block: int) -> int:
        """Return the start time of a block."""
        return block << self.block_shift

    def reading_us(self, block: int) -> int:
        """Return when to read the counters of a block: half a block after its end.

        The time to read is in the middle between the block and the next block of its colour (RFC
        9341 section 3.1).
        """
        return self.start_us(block + 1) + self.block_us // 2

    def block_of_start(self, start_us: int, near: int) -> int:
        """Return the number of the block that begins at `start_us`.

        `start_us` is a time of a switch, modulo 2^48 us.

        A block with this start time recurs every 2^48 us. The result is the one that is nearest to
        block `near`.
        """
        turn = 1 << (CLOCK_BITS - self.block_shift)
        ahead = (self.block_at(start_us) - near + turn // 2) % turn - turn // 2
        return near + ahead

    def middle_half(self) -> list[ClockRange]:
        """Return a match on the middle half of every block.

        In double marking, this half is the counting interval, in which pulses are sent. In
        multiplexed marking, it is the pulse slot, in which pulses are received.
        """
        shift = self.block_shift - 2
        return [ClockRange(quarter << shift, 3 << shift) for quarter in (1, 2)]

    def multiplexed_window(self) -> ClockRange:
        """Return a match on the times at which the pulse of multiplexed marking may be sent.

        The match begins in the middle of each block, and covers 1/32 of the block.
        """
        low_bits = self.block_us >> PULSE_WINDOW_SHIFT
        return ClockRange(self.block_us // 2, self.block_us - low_bits)

    def attribute(
        self, time_us: NDArray[np.int64], colour: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Return the block of each packet that was observed at `time_us` with `colour`.

        The result is the nearest block of this colour. Because of its delay, a packet may be
        observed after the end of its block. Because of a clock error, it may be observed before the
        start of its block (RFC 8321 section 4.3). Both arguments and the result have shape (n,).
        """
        block = time_us >> self.block_shift
        late = (time_us & (self.block_us - 1)) < self.block_us // 2
        neighbour = np.where(late, block - 1, block + 1)
        return np.where(block & 1 == colour, block, neighbour)


def colour_of(block: int) -> int:
    """Return the colour of a block: its number modulo 2."""
    return block & 1


def guard_us(clock_error_us: float, delay_mean_us: float, delay_sd_us: float) -> float:
    """Return the guard time d = A + D_avg + 3 D_stddev (RFC 9341 section 5).

    The guard time must be less than half a block. A counter is exact if two conditions are met: it
    is read at least d after the end of its block, and at least d before the next block of its
    colour begins.
    """
    return clock_error_us + delay_mean_us + 3 * delay_sd_us
