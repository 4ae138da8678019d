"""Records of points, and results from pairs of them."""

import pytest

from controllers.ampm import records
from controllers.ampm.records import (
    Delay,
    OverwrittenError,
    PointRecord,
    Record,
    Values,
    places_of,
    point_records,
)
from controllers.ampm.schedule import Schedule
from controllers.readout import Readout

SCHEDULE = Schedule(1 << 20)
L = 1 << 20
WRAP = 1 << 48
NOTHING = (0, 0, 0, 0)


def recorded(block: int, *answers: Values) -> PointRecord:
    """Return the departure record of flow 3 from the registers for block, pulse and samples."""
    places = [place for record in (Record.BLOCK, Record.PULSE, Record.SAMPLE)
              for place in places_of(record, 3, block)]  # fmt: skip
    registers = {
        place: Readout(0, NOTHING, values) for place, values in zip(places, answers, strict=False)
    }
    return point_records(SCHEDULE, 3, block, registers)[1]


def test_a_record_has_what_is_of_its_block_and_nothing_else() -> None:
    answers = [(8 * L, 5, 2**64 - 9, 8 * L + 1), (6 * L, 1, 6 * L, 3), NOTHING]
    answers += [(8 * L, 2, 8 * L + 7, 0xABC), (4 * L, 1, 4 * L, 0xDEF)]
    assert recorded(8, *answers) == PointRecord(
        8, packets=5, sum_us=-9, first_us=8 * L + 1, samples={0xABC: 8 * L + 7}
    )


@pytest.mark.parametrize("block", [0, 2, (1 << 28) - 2, (1 << 28), (1 << 28) + 2, 5 << 28])
def test_registers_never_written_are_of_no_block(block: int) -> None:
    """Registers that were never written give an empty record for any block.

    The test includes blocks that begin when the clock is 0, and blocks just before them.
    """
    assert recorded(block, *10 * [NOTHING]) == PointRecord(block)


@pytest.mark.parametrize("later", [1, 2, 3])
def test_registers_of_any_later_block_are_refused(later: int) -> None:
    with pytest.raises(OverwrittenError, match=f"block 8 was read too late: block {8 + later} has"):
        recorded(8, ((8 + later) * L, 1, 0, (8 + later) * L))


def test_blocks_are_known_over_the_wrap_of_the_switches_clock() -> None:
    block = (3 << 28) + 2
    answers = [(2 * L, 1, 5, 2 * L + 5), (0, 1, 0, 1)]  # the pulse is two blocks old
    assert recorded(block, *answers) == PointRecord(block, 1, 5, 2 * L + 5)
    with pytest.raises(
        OverwrittenError, match=f"block {block - 2} was read too late: block {block}"
    ):
        recorded(block - 2, *answers)


def pulsed(time_us: int, pulses: int = 1, count: int = 0) -> PointRecord:
    return PointRecord(8, 5, pulses=pulses, pulse_us=time_us, pulse_count=count)


@pytest.mark.parametrize(
    ("first", "second", "delay"),
    [
        (pulsed(100), pulsed(130), Delay(8, 30)),
        (pulsed(130), pulsed(100), Delay(8, -30)),  # the second clock is behind
        (pulsed(WRAP - 10), pulsed(20), Delay(8, 30)),
        (pulsed(100), pulsed(130, 0), Delay(8, None, "no pulse at the second point")),
        (pulsed(100, 0), pulsed(130, 0), Delay(8, None, "no pulse at the first point")),
        (pulsed(100), pulsed(130, 2), Delay(8, None, "2 pulses at the second point")),
    ],
)
def test_a_pulse_gives_a_delay_or_a_reason(
    first: PointRecord, second: PointRecord, delay: Delay
) -> None:
    assert records.pulse_delay(first, second) == delay


def counted(packets: int, sum_us: int, first_us: int) -> PointRecord:
    return PointRecord(8, packets, sum_us, first_us)


@pytest.mark.parametrize(
    ("first", "second", "mean", "first_packet"),
    [
        (counted(4, 400, 10), counted(4, 520, 35), Delay(8, 30), Delay(8, 25)),
        (counted(4, -4, 10), counted(4, 8, 35), Delay(8, 3), Delay(8, 25)),
        (
            counted(4, 400, 10),
            counted(2, 260, 35),
            Delay(8, 30, "4 packets at the first point, 2 at the second"),
            Delay(8, None, "4 packets at the first point, 2 at the second"),
        ),
        (
            counted(4, 400, 10),
            counted(0, 0, 0),
            Delay(8, None, "4 packets at the first point, 0 at the second"),
            Delay(8, None, "4 packets at the first point, 0 at the second"),
        ),
        (
            counted(0, 0, 0),
            counted(0, 0, 0),
            Delay(8, None, "0 packets at the first point, 0 at the second"),
            Delay(8, None, "0 packets at the first point, 0 at the second"),
        ),
    ],
)
def test_mean_and_first_packet_delay(
    first: PointRecord, second: PointRecord, mean: Delay, first_packet: Delay
) -> None:
    assert records.mean_delay(first, second) == mean
    assert records.first_packet_delay(first, second) == first_packet


def test_samples_are_paired_by_their_hash() -> None:
    first = PointRecord(8, samples={1: 100, 2: 200, 3: WRAP - 1})
    second = PointRecord(8, samples={2: 250, 3: 9, 4: 400})
    assert records.sample_delays(first, second) == ({200: 50, WRAP - 1: 10}, 2)


def test_loss_between_pulses_is_the_difference_of_the_counts_growth() -> None:
    earlier = (pulsed(0, count=100), pulsed(0, count=90))
    later = (pulsed(0, count=300), pulsed(0, count=285))
    assert records.pulse_loss(earlier, later) == 5
    assert records.pulse_loss(earlier, (pulsed(0, count=300), pulsed(0, 0))) is None
    assert records.pulse_loss((pulsed(0, 2, 100), earlier[1]), later) is None
