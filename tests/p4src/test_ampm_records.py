"""Records at a measurement point after some packets: counts, times, pulses and samples."""

import pytest
from ampm_path import BLOCK, FIRST, LAST, MIDDLE, PULSE, SAMPLE, L, Record, Switch, frame, marks

from controllers.ampm.watch import Method

WRAP = 1 << 48
NOTHING = Record(0, (0, 0, 0))


def coloured(colour: int, pulse: int = 0, *, flow: int = 0, number: int = 0) -> bytes:
    """Return a frame with this colour and pulse bit, as switches of the domain send it."""
    return frame(flow, number, tos=colour << 2 | pulse << 3)


def both(record: Record) -> tuple[Record, Record]:
    return record, record  # arrival and departure are at the same time


# --- step ------------------------------------------------------------------------------------


def test_a_block_s_record_has_its_packets_the_sum_of_their_times_and_the_first_one() -> None:
    switch = Switch(MIDDLE, Method.STEP)
    for since_us in (10, 20, 50):
        switch.pass_on(coloured(0), 4 * L + since_us)
    assert switch.read(BLOCK, 0) == both(Record(4 * L, (3, 80, 4 * L + 10)))
    assert switch.read(BLOCK, 1) == both(NOTHING)
    switch.pass_on(coloured(1), 5 * L + 7)
    switch.pass_on(coloured(0), 6 * L + 9)  # block 6 is the next one with colour 0
    assert switch.read(BLOCK, 0) == both(Record(6 * L, (1, 9, 6 * L + 9)))
    assert switch.read(BLOCK, 1) == both(Record(5 * L, (1, 7, 5 * L + 7)))
    assert (switch.packets(0, 0), switch.packets(0, 1)) == ((4, 4), (1, 1))


@pytest.mark.parametrize(
    ("time_us", "colour", "block_us", "since_us"),
    [
        (5 * L, 1, 5 * L, 0),
        (5 * L, 0, 4 * L, L),  # late: a packet of block 4
        (5 * L + L // 2 - 1, 0, 4 * L, L + L // 2 - 1),  # as late as possible
        (5 * L + L // 2, 0, 6 * L, -L // 2),  # as early as possible: the switch's clock is behind
        (6 * L - 1, 0, 6 * L, -1),
        (6 * L - 1, 1, 5 * L, L - 1),
        (WRAP, 1, WRAP - L, L),  # late, just after the clock wraps
        (WRAP - 1, 0, 0, -1),  # early, just before the clock wraps
        (WRAP + 3, 0, 0, 3),
        (WRAP + L - 1, 1, L, -1),
    ],
)
def test_a_packet_belongs_to_the_nearest_block_of_its_colour(
    time_us: int, colour: int, block_us: int, since_us: int
) -> None:
    for role in (MIDDLE, LAST):
        switch = Switch(role, Method.STEP)
        switch.pass_on(coloured(colour), time_us)
        record = Record(block_us, (1, since_us % 2**64, time_us % WRAP))
        assert switch.read(BLOCK, colour) == both(record)


def test_flows_are_recorded_apart() -> None:
    switch = Switch(MIDDLE, Method.DOUBLE, flows=3)
    for flow in range(3):
        for number in range(flow + 1):
            switch.pass_on(coloured(1, int(number == 0), flow=flow), 3 * L + flow)
    for flow in range(3):
        at_us = 3 * L + flow
        packets = flow + 1
        block = Record(3 * L, (packets, packets * flow, at_us))
        assert switch.read(BLOCK, 2 * flow + 1) == both(block)
        assert switch.read(PULSE, 2 * flow + 1) == both(Record(3 * L, (1, at_us, 1)))
        assert switch.packets(flow, 1) == (packets, packets)


def test_a_readout_packet_has_the_clock_and_changes_nothing() -> None:
    switch = Switch(MIDDLE, Method.DOUBLE | Method.HASHED, ahead_us=5)
    switch.pass_on(coloured(0, 1), 4 * L)
    first = [switch.read(record, 0) for record in (BLOCK, PULSE)]
    assert switch.ask(0, 0, 7 * L) == (7 * L + 5, *[0] * 8)
    assert switch.ask(PULSE, 1, WRAP + 7)[0] == 12
    assert [switch.read(record, 0) for record in (BLOCK, PULSE)] == first
    assert switch.packets(0, 0) == (1, 1)


# --- pulse and double marking ----------------------------------------------------------------


@pytest.mark.parametrize("first_block", [4, 5, 2**28 - 2, 2**28])
@pytest.mark.parametrize("method", [Method.PULSE, Method.DOUBLE])
def test_exactly_one_pulse_a_block_the_first_packet_in_its_middle_half(
    method: Method, first_block: int
) -> None:
    switch = Switch(FIRST, method)
    for block in range(first_block, first_block + 4):
        start_us = block * L
        times_us = [start_us + at for at in range(0, L, L // 16)]
        pulses = [t for t in times_us if marks(switch.pass_on(frame(), t))[1]]
        assert pulses == [start_us + L // 4]


@pytest.mark.parametrize(
    ("at", "is_pulse"),
    [(0, 0), (L // 4 - 1, 0), (L // 4, 1), (L // 2, 1), (3 * L // 4 - 1, 1), (3 * L // 4, 0)],
)
def test_a_block_with_no_packet_in_the_counting_interval_has_no_pulse(
    at: int, is_pulse: int
) -> None:
    for start_us in (0, L, WRAP - L, WRAP):
        switch = Switch(FIRST, Method.DOUBLE)
        assert marks(switch.pass_on(frame(), start_us + at))[1] == is_pulse


def test_each_flow_has_pulses_of_its_own() -> None:
    switch = Switch(FIRST, Method.DOUBLE, flows=3)
    for flow in (0, 1, 2, 0, 1, 2):
        at_us = 4 * L + L // 2 + flow
        fresh = switch.read(PULSE, 2 * flow) == both(NOTHING)
        assert marks(switch.pass_on(frame(flow), at_us)) == (0, int(fresh))
        assert switch.read(PULSE, 2 * flow) == both(Record(4 * L, (1, at_us, 1)))


def test_a_pulse_snapshots_the_count_of_all_the_flow_s_packets() -> None:
    switch = Switch(MIDDLE, Method.PULSE)
    middle_us = 4 * L + L // 2
    for number in range(9):
        switch.pass_on(coloured(0, int(number == 5)), middle_us + number)
    assert switch.read(PULSE, 0) == both(Record(4 * L, (1, middle_us + 5, 6)))
    switch.pass_on(coloured(0, 1), middle_us + L)
    assert switch.read(PULSE, 1) == both(Record(5 * L, (1, middle_us + L, 10)))


def test_a_lost_pulse_leaves_the_record_of_an_earlier_block() -> None:
    switch = Switch(MIDDLE, Method.DOUBLE)
    switch.pass_on(coloured(0, 1), 4 * L + L // 2)
    switch.pass_on(coloured(0), 6 * L + L // 2)
    assert switch.read(PULSE, 0) == both(Record(4 * L, (1, 4 * L + L // 2, 1)))


def test_a_doubled_pulse_is_counted_and_the_first_one_s_time_kept() -> None:
    switch = Switch(MIDDLE, Method.DOUBLE)
    for at in (5, 6, 7):
        switch.pass_on(coloured(0, 1), 4 * L + L // 2 + at)
    assert switch.read(PULSE, 0) == both(Record(4 * L, (3, 4 * L + L // 2 + 5, 1)))


@pytest.mark.parametrize(
    ("method", "block"),
    [
        (Method.DOUBLE, 4),  # the colour decides
        (Method.PULSE, 5),  # the time decides; the packet is later than this method permits
    ],
)
def test_a_pulse_that_comes_in_the_next_block(method: Method, block: int) -> None:
    switch = Switch(MIDDLE, method)
    at_us = 5 * L + L // 4
    switch.pass_on(coloured(0, 1), at_us)
    assert switch.read(PULSE, block & 1) == both(Record(block * L, (1, at_us, 1)))
    # After a late pulse, another pulse of the same block looks like a duplicate.
    switch.pass_on(coloured(block & 1 if method is Method.DOUBLE else 0, 1), at_us + 1)
    assert switch.read(PULSE, block & 1) == both(Record(block * L, (2, at_us, 1)))


# --- multiplexed -----------------------------------------------------------------------------


def test_a_multiplexed_pulse_is_one_inverted_bit_after_the_middle_of_the_block() -> None:
    switch = Switch(FIRST, Method.MULTIPLEXED)
    for block in (4, 5, 2**28 - 1, 2**28):
        start_us = block * L
        for at in (0, L // 4, L // 2 - 1, L // 2, L // 2 + 1, 3 * L // 4):
            inverted = int(at == L // 2)
            sent = marks(switch.pass_on(frame(), start_us + at))
            assert sent == (block & 1 ^ inverted, 0)


@pytest.mark.parametrize(("at", "is_pulse"), [(L // 2 + L // 32 - 1, 1), (L // 2 + L // 32, 0)])
def test_the_window_of_a_multiplexed_pulse_is_one_part_in_32(at: int, is_pulse: int) -> None:
    switch = Switch(FIRST, Method.MULTIPLEXED)
    assert marks(switch.pass_on(frame(), 4 * L + at)) == (is_pulse, 0)


@pytest.mark.parametrize(
    ("at", "bit", "block", "pulses"),
    [
        (0, 1, 5, 0),
        (0, 0, 4, 0),  # a packet of the previous block
        (L // 4 - 1, 0, 4, 0),
        (L // 4, 0, 5, 1),  # the pulse slot: the inverted bit is the pulse
        (L // 2, 0, 5, 1),
        (3 * L // 4 - 1, 0, 5, 1),
        (3 * L // 4, 0, 6, 0),  # a packet of the next block, with a clock that is behind
        (L // 2, 1, 5, 0),
        (L - 1, 1, 5, 0),
    ],
)
@pytest.mark.parametrize("turn", [0, WRAP - 4 * L, WRAP - 6 * L])
def test_the_slot_decides_the_meaning_of_a_multiplexed_bit(
    turn: int, at: int, bit: int, block: int, pulses: int
) -> None:
    switch = Switch(MIDDLE, Method.MULTIPLEXED)
    at_us = turn + 5 * L + at
    switch.pass_on(coloured(bit), at_us)
    block_us = turn + block * L
    record = Record(block_us % WRAP, (1, (at_us - block_us) % 2**64, at_us % WRAP))
    assert switch.read(BLOCK, block & 1) == both(record)
    assert switch.packets(0, block & 1) == (1, 1)
    pulse = Record(block_us % WRAP, (1, at_us % WRAP, 1)) if pulses else NOTHING
    assert switch.read(PULSE, block & 1) == both(pulse)


# --- hashed ----------------------------------------------------------------------------------


def samples(switch: Switch, colour: int) -> dict[int, Record]:
    """Return the record of each place that has a sample, for arrivals and departures alike."""
    places = {place: switch.read(SAMPLE, 8 * colour + place) for place in range(8)}
    assert all(arrival == departure for arrival, departure in places.values())
    return {place: arrival for place, (arrival, _) in places.items() if arrival != NOTHING}


def test_two_points_choose_the_same_packets_whatever_changes_on_the_way() -> None:
    method = Method.STEP | Method.HASHED
    near, far = Switch(FIRST, method), Switch(LAST, method)
    for switch in (near, far):
        switch.set_sampling(0x7)
    for number in range(100):
        sent = near.pass_on(frame(number=number, ttl=64), 4 * L + 100 * number)
        hopped = frame(number=number, ttl=63, tos=sent[15])
        far.pass_on(hopped, 4 * L + 100 * number + 33)
    first, second = samples(near, 0), samples(far, 0)
    assert 3 <= len(first) <= 8
    assert first.keys() == second.keys()
    assert sum(count for _, (count, _, _) in first.values()) in range(5, 25)
    for place, (block_us, (count, at_us, digest)) in first.items():
        assert second[place] == Record(block_us, (count, at_us + 33, digest))
        assert digest & 0x7 == 0
        assert digest >> 29 == place


def test_a_sample_keeps_its_place_until_the_next_block_of_the_colour() -> None:
    switch = Switch(MIDDLE, Method.STEP | Method.HASHED)
    for at_us in (4 * L, 4 * L + 1, 5 * L):
        switch.pass_on(coloured((at_us >> 20) & 1, number=1), at_us)
    ((_, (block_us, (count, time_us, digest))),) = samples(switch, 0).items()
    assert (block_us, count, time_us) == (4 * L, 2, 4 * L)
    switch.pass_on(coloured(0, number=1), 6 * L + 9)
    assert list(samples(switch, 0).values()) == [Record(6 * L, (1, 6 * L + 9, digest))]
    assert list(samples(switch, 1).values()) == [Record(5 * L, (1, 5 * L, digest))]


def test_a_place_keeps_the_first_sample_s_time_together_with_its_hash() -> None:
    method = Method.STEP | Method.HASHED
    alone = []  # place and hash of each packet, sent alone
    for number in range(30):
        switch = Switch(MIDDLE, method)
        switch.pass_on(coloured(0, number=number), 4 * L)
        ((place, record),) = samples(switch, 0).items()
        alone.append((place, record.values[2]))
    assert len({digest for _, digest in alone}) == 30
    switch = Switch(MIDDLE, method)
    expected: dict[int, Record] = {}
    for number, (place, digest) in enumerate(alone):
        switch.pass_on(coloured(0, number=number), 4 * L + number)
        block_us, (count, at_us, first) = expected.get(
            place, Record(4 * L, (0, 4 * L + number, digest))
        )
        expected[place] = Record(block_us, (count + 1, at_us, first))
    assert samples(switch, 0) == expected
    assert max(record.values[0] for record in expected.values()) > 2


def test_a_flow_without_hashed_marking_has_no_samples() -> None:
    middle = Switch(MIDDLE, Method.DOUBLE)
    for number in range(20):
        middle.pass_on(frame(0, number), 4 * L + number)
    assert samples(middle, 0) == {}


def test_only_packets_whose_hash_has_the_mask_s_bits_0_are_samples() -> None:
    counts = []
    for shift in (0, 2, 4):
        switch = Switch(MIDDLE, Method.STEP | Method.HASHED)
        switch.set_sampling((1 << shift) - 1)
        for number in range(512):
            switch.pass_on(coloured(0, number=number), 4 * L + number)
        counts.append(sum(r.values[0] for r in samples(switch, 0).values()))
    assert counts[0] == 512
    assert 96 <= counts[1] <= 160
    assert 16 <= counts[2] <= 48
