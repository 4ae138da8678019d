"""Whole paths with random traffic, loss, reordering and clock errors. All records must be exact.

Records are exact if clock error A plus path delay D is within the limit of a method for block
length L, also if the clock wraps. Well beyond this limit, some records must be wrong. Otherwise,
the limit would be too low.
"""

import heapq
import random
from dataclasses import dataclass
from itertools import pairwise

import pytest
from ampm_path import BLOCK, FIRST, LAST, MIDDLE, PULSE, SAMPLE, L, Record, Switch, frame, marks

from controllers.ampm.watch import Method

WRAP = 1 << 48
SPACING_US = L // 64
BLOCKS = 4


@dataclass(frozen=True)
class Setting:
    method: Method
    error_us: int = 0  # maximum difference of two clocks
    delay_us: int = 0  # maximum delay of the path; each of its two links has half of it at most
    loss: float = 0.0
    first_block: int = 8
    seed: int = 1


@dataclass
class Outcome:
    """Ground truth, and records of the switches. The first indexes are the switch and the block."""

    arrivals_us: list[list[list[int]]]
    pulses_us: list[list[list[int]]]
    records: list[list[tuple[Record, Record]]]  # (block, pulse) of arrivals
    samples: list[list[dict[int, Record]]]


def run(setting: Setting) -> Outcome:
    """Send packets over three switches.

    Read the records of each block half a block after its end.
    """
    rng = random.Random(setting.seed)
    half_us = setting.error_us // 2
    ahead_us = rng.choice([(0, half_us, -half_us), (half_us, -half_us, 0), (-half_us, 0, half_us)])
    switches = [
        Switch(role, setting.method, ahead_us=ahead)
        for role, ahead in zip((FIRST, MIDDLE, LAST), ahead_us, strict=True)
    ]
    for switch in switches:
        switch.set_sampling(0xF)
    arrivals: list[list[list[int]]] = [[[] for _ in range(BLOCKS)] for _ in switches]
    pulses: list[list[list[int]]] = [[[] for _ in range(BLOCKS)] for _ in switches]
    records: list[list[tuple[Record, Record]]] = [[] for _ in switches]
    samples: list[list[dict[int, Record]]] = [[] for _ in switches]
    start_us = setting.first_block * L - ahead_us[0]
    end_us = start_us + BLOCKS * L
    # An event is the arrival of a packet, or a reading of records, whose block is -1: time, order,
    # switch (for a reading: the block to read), block, whether it is the pulse, frame.
    events: list[tuple[int, int, int, int, bool, bytes]] = []
    for number, at_us in enumerate(range(start_us, end_us, SPACING_US)):
        block = (at_us - start_us) // L
        sent_us = at_us + rng.randrange(SPACING_US)
        heapq.heappush(events, (sent_us, number, 0, block, False, frame(number=number)))
    for block in range(BLOCKS):
        reading_us = (setting.first_block + block + 1) * L + L // 2
        heapq.heappush(events, (reading_us, -1, block, -1, False, b""))
    while events:
        time_us, number, place, block, is_pulse, data = heapq.heappop(events)
        if block < 0:
            colour = (setting.first_block + place) & 1
            for index, switch in enumerate(switches):
                (packets, _), (pulse, _) = (switch.read(r, colour) for r in (BLOCK, PULSE))
                records[index].append((packets, pulse))
                found = {i: switch.read(SAMPLE, 8 * colour + i)[0] for i in range(8)}
                samples[index].append(found)
            continue
        switch = switches[place]
        out = switch.pass_on(data, time_us)
        if place == 0:
            colour, d_bit = marks(out)
            inverted = colour != (setting.first_block + block) & 1
            is_pulse = bool(d_bit or (setting.method & Method.MULTIPLEXED and inverted))
        seen_us = (time_us + ahead_us[place]) % WRAP
        arrivals[place][block].append(seen_us)
        if is_pulse:
            pulses[place][block].append(seen_us)
        if place < 2 and rng.random() >= setting.loss:
            later_us = time_us + rng.randint(0, setting.delay_us // 2)
            heapq.heappush(events, (later_us, number, place + 1, block, is_pulse, out))
    return Outcome(arrivals, pulses, records, samples)


def errors(setting: Setting) -> list[str]:
    """Return a line of text for each record that differs from ground truth."""
    outcome = run(setting)
    wrong = []
    for place in range(3):
        for block in range(BLOCKS):
            block_us = (setting.first_block + block) * L % WRAP
            times = outcome.arrivals_us[place][block]
            since = sum((t - block_us + L) % WRAP - L for t in times) % 2**64
            packets, pulse = outcome.records[place][block]
            if packets != Record(block_us, (len(times), since, times[0])):
                wrong.append(f"s{place + 1} block {block}: {packets}, {len(times)} packets")
            true_pulses = outcome.pulses_us[place][block]
            if true_pulses and pulse[:2] != (block_us, (1, true_pulses[0], pulse[1][2])):
                wrong.append(f"s{place + 1} block {block}: {pulse}, pulses {true_pulses}")
            if not true_pulses and pulse != Record(0, (0, 0, 0)) and pulse.block_us == block_us:
                wrong.append(f"s{place + 1} block {block}: {pulse}, no pulse")
    return wrong


STEP, DOUBLE, MULTIPLEXED = Method.STEP, Method.DOUBLE, Method.MULTIPLEXED
LAWS = [  # method, and the limit of A + D for it
    (STEP, L // 2),
    (DOUBLE, L // 2),
    (MULTIPLEXED, L // 4 - L // 32),
]


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("first_block", [8, 2**28 - 2], ids=["even", "over the wrap"])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0], ids=lambda s: f"A is {s} of the law")
@pytest.mark.parametrize(("method", "law_us"), LAWS)
def test_within_its_law_a_method_is_exact(
    method: Method, law_us: int, share: float, first_block: int, loss: float
) -> None:
    spare_us = SPACING_US
    error_us = int(share * (law_us - spare_us))
    delay_us = law_us - spare_us - error_us
    setting = Setting(method, error_us, delay_us, loss, first_block)
    assert errors(setting) == []


@pytest.mark.parametrize(("method", "law_us"), LAWS)
def test_beyond_its_law_a_method_is_wrong(method: Method, law_us: int) -> None:
    """If the delay is up to four times the limit of a method, some records are wrong."""
    outcomes = [errors(Setting(method, 0, 4 * law_us, seed=seed)) for seed in range(3)]
    assert any(outcomes)


@pytest.mark.parametrize("first_block", [8, 2**28 - 2])
def test_samples_pair_to_true_delays(first_block: int) -> None:
    setting = Setting(STEP | Method.HASHED, 0, L // 4, 0.1, first_block)
    outcome = run(setting)
    pairs = 0
    for block in range(BLOCKS):
        near, far = outcome.samples[0][block], outcome.samples[2][block]
        start_us = (first_block + block) * L % WRAP
        of_block = {i: r for i, r in near.items() if r.values[0] and r.block_us == start_us}
        for place, (block_us, (_, sent_us, digest)) in of_block.items():
            other_us, (_, received_us, other) = far[place]
            if (block_us, digest) == (other_us, other):
                pairs += 1
                assert sent_us in outcome.arrivals_us[0][block]
                assert received_us in outcome.arrivals_us[2][block]
                assert 0 <= (received_us - sent_us) % WRAP <= L // 4
    assert pairs > BLOCKS


def test_loss_by_pulses_is_exact_without_reordering() -> None:
    """Without loss, the counts at both ends of the path grow equally between two pulses.

    With reordering, they do not.
    """
    for delay_us, is_exact in ((0, True), (L // 8, False)):
        outcome = run(Setting(Method.PULSE, 0, delay_us, seed=4))
        growth = []
        for place in (0, 2):
            snapshots = [pulse.values[2] for _, pulse in outcome.records[place]]
            growth.append([b - a for a, b in pairwise(snapshots)])
        assert (growth[0] == growth[1]) == is_exact
