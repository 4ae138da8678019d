"""The schedule of blocks: numbers, colours, reading times, and packets near the edge of a block."""

import numpy as np
import pytest

from controllers.ampm.schedule import ClockRange, Schedule, guard_us


def test_block_numbers_follow_the_clock() -> None:
    schedule = Schedule(1 << 20)
    assert schedule.block_shift == 20
    assert schedule.block_at(schedule.start_us(7)) == 7
    assert schedule.block_at(schedule.start_us(7) - 1) == 6


def test_counters_are_read_half_a_block_after_the_switch() -> None:
    assert Schedule(1 << 6).reading_us(3) == 256 + 32


@pytest.mark.parametrize("block_us", [0, -4, 3, 1000])
def test_a_block_length_must_be_a_power_of_two(block_us: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Schedule(block_us)


def test_a_block_must_have_all_its_parts() -> None:
    assert Schedule(32).multiplexed_window() == ClockRange(16, 31)
    with pytest.raises(ValueError, match="at least 32 us"):
        Schedule(16)


def matching(ranges: list[ClockRange], block_us: int) -> list[int]:
    times = range(3 * block_us, 4 * block_us)
    return [t - 3 * block_us for t in times if any(t & r.mask == r.value for r in ranges)]


def test_parts_of_a_block_are_ternary_ranges_of_the_clock() -> None:
    schedule = Schedule(128)
    assert matching(schedule.middle_half(), 128) == list(range(32, 96))
    assert matching([schedule.multiplexed_window()], 128) == list(range(64, 68))


@pytest.mark.parametrize("near", [5, 6, (1 << 28) - 1, (1 << 28) + 2, 7 << 28])
@pytest.mark.parametrize("ahead", [-2, 0, 3])
def test_a_block_known_by_its_beginning_has_one_number_whatever_the_clock_s_turn(
    near: int, ahead: int
) -> None:
    schedule = Schedule(1 << 20)
    start_us = schedule.start_us(near + ahead) % (1 << 48)
    assert schedule.block_of_start(start_us, near) == near + ahead


@pytest.mark.parametrize(
    ("time_us", "colour", "block"),
    [
        (32, 1, 1),  # first microsecond of block 1, in its colour
        (32, 0, 0),  # a late packet of block 0
        (47, 0, 0),  # still nearer to block 0 than to block 2
        (48, 0, 2),  # a clock that is ahead: nearer to block 2
        (63, 0, 2),
        (63, 1, 1),
    ],
)
def test_a_packet_belongs_to_the_nearest_block_of_its_colour(
    time_us: int, colour: int, block: int
) -> None:
    found = Schedule(32).attribute(np.array([time_us]), np.array([colour]))
    assert found.tolist() == [block]


def test_guard_time_is_rfc_9341s() -> None:
    assert guard_us(clock_error_us=100, delay_mean_us=2000, delay_sd_us=50) == 2250
