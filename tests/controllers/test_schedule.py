"""The schedule of blocks: numbers, colours, reading times, and packets near an edge."""

import numpy as np
import pytest

from controllers.ampm.schedule import Schedule, guard_us


def test_block_numbers_follow_the_clock() -> None:
    schedule = Schedule(1 << 20)
    assert schedule.block_shift == 20
    assert schedule.block_at(schedule.start_us(7)) == 7
    assert schedule.block_at(schedule.start_us(7) - 1) == 6


def test_counters_are_read_half_a_block_after_the_switch() -> None:
    assert Schedule(1 << 4).reading_us(3) == 64 + 8


@pytest.mark.parametrize("block_us", [0, -4, 3, 1000])
def test_a_block_length_must_be_a_power_of_two(block_us: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Schedule(block_us)


@pytest.mark.parametrize(
    ("time_us", "colour", "block"),
    [
        (16, 1, 1),  # first instant of block 1, in its colour
        (16, 0, 0),  # late packet of block 0
        (23, 0, 0),  # still nearer to block 0 than to block 2
        (24, 0, 2),  # a clock that is ahead: nearer to block 2
        (31, 0, 2),
        (31, 1, 1),
    ],
)
def test_a_packet_belongs_to_the_nearest_block_of_its_colour(
    time_us: int, colour: int, block: int
) -> None:
    found = Schedule(16).attribute(np.array([time_us]), np.array([colour]))
    assert found.tolist() == [block]


def test_guard_time_is_rfc_9341s() -> None:
    assert guard_us(clock_error_us=100, delay_mean_us=2000, delay_sd_us=50) == 2250
