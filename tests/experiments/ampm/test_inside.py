"""On bmv2, the true time of a packet is known only as an interval: a timestamp outside it fails."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripts import module

from controllers.ampm.records import Point, PointRecord
from controllers.ampm.watch import Method
from telemark.traffic.flows import Flow

delays, sync, truth_module = (
    module("experiments.shared.ampm.delays"),
    module("experiments.shared.ampm.sync"),
    module("experiments.shared.ampm.truth"),
)
PATH = ("s1", "s2")
ARRIVED, DONE = Point("s1", "arrivals"), Point("s2", "departures")
FLOW = Flow(1, "h1", "h2", 1000, 3)
SENT_US = np.array([1000, 2000, 3000])
# A packet enters s1 10 us after the send call, and leaves it 300 us later. It enters s2 1500 us
# after the send call.
INTO_US, WITHIN_US, FURTHER_US = 10, 300, 1500


def times(us: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return 1000 * us.astype(np.int64)


def outcome(first_us: int, delay_us: int) -> Any:
    """Return three packets of block 0. Both switches report a time of the first packet."""
    points = {Point(s, n): times(SENT_US) for s in PATH for n in ("arrivals", "departures")}
    none = np.zeros(3, np.int64)
    truth = truth_module.Truth(
        PATH, none, np.array([True, False, False]), points, times(SENT_US), times(SENT_US),
        times(SENT_US + 2000),
    )  # fmt: skip
    inside = {
        "s1": (times(SENT_US + INTO_US), times(SENT_US + INTO_US + WITHIN_US)),
        "s2": (times(SENT_US + FURTHER_US), times(SENT_US + FURTHER_US + WITHIN_US)),
    }
    records = {
        ARRIVED: PointRecord(0, packets=3, first_us=first_us),
        DONE: PointRecord(0, packets=3, first_us=first_us + delay_us),
    }
    return SimpleNamespace(
        truths={1: truth}, inside={1: inside}, handling={}, blocks=range(1),
        record=lambda _flow, point, _block: records[point],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first_us", "delay_us", "outside_us"),
    [
        (1010, 1500, 0),
        (1310, 1190, 0),  # the shortest possible delay: 1,500 - 310
        (1310, 1180, 10),
        (1010, 1790, 0),
        (1010, 1797, 7),
        (1311, 1500, None),  # at this time, no packet was in s1
        (1009, 1500, None),
        (2200, 1500, 0),  # the second packet was in s1
    ],
)
def test_a_delay_is_of_a_packet_that_was_inside_when_it_was_stamped(
    first_us: int, delay_us: int, outside_us: float | None
) -> None:
    found = delays.measure_delays(outcome(first_us, delay_us), FLOW, Method.STEP, (ARRIVED, DONE))
    (first,) = [sample for sample in found if sample.estimator == "first packet"]
    assert first.outside_us == outside_us


@pytest.mark.parametrize(
    ("measured_us", "error_us"), [(1190, 0), (1600, 0), (1790, 0), (1800, 10), (1150, -40)]
)
@pytest.mark.parametrize("ahead_us", [0, 7000])
def test_a_pulse_s_delay_is_wrong_by_what_lies_outside(
    measured_us: int, error_us: float, ahead_us: int
) -> None:
    """The delay of a pulse counts as wrong only by the part outside its bounds.

    In ampm_sync.py, the clocks of s2 and s3 are ahead. This does not count as an error.
    """
    setting = sync.Setting(ahead_us / 2**20, 2**20, 1)
    decoder = sync.Decoder("double", 1, DONE, 1, 1 / 2, 1 / 2)
    sent = {sync.SENT: PointRecord(0, packets=3, pulses=1, pulse_us=1100)}
    came = {DONE: PointRecord(0, packets=3, pulses=1, pulse_us=1100 + measured_us + ahead_us)}
    reports = [SimpleNamespace(block=0, records={1: records}) for records in (sent, came)]
    scene = outcome(0, 0)
    passed = {point: scene.inside[1][point.switch] for point in (sync.SENT, DONE)}
    found = sync.result(setting, decoder, reports, scene.truths[1], passed)
    assert found.delay_error_us == error_us
